//! The built-in functions, held against the original programs.
//!
//! Each function has a file here that says which originals it is compared with and on what. Inputs are
//! generated from a seed: odd resources, comments everywhere, wrong types, hostile configs. Compared are
//! exit code, standard error and the list. Lists are compared as text after one more reading and writing by
//! our YAML library on both sides, which evens out what go-yaml gets wrong when it writes comments; where the
//! original is known to lose comments and key order, which its host restores, both are taken away first.
//!
//! `make -C e2e/oracle/functions build` builds the originals. Without them the recorded answers in
//! `tests/fixtures/NAME/` speak. Schemas that a config names are in `tests/fixtures/schemas`. `LOGGIA_RECORD=1` records anew, `LOGGIA_CASES` and `LOGGIA_SEED` choose inputs.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

mod compare;
mod generator;
mod oracle;
mod random;
mod recorded;
mod schema_files;
mod tree;

mod apply_replacements;
mod apply_setters;
mod drop_comments;
mod format;
mod gatekeeper;
mod kubeconform;
mod list_setters;
mod no_op;
mod set_annotations;
mod set_enforcement_action;
mod set_image;
mod set_labels;
mod set_namespace;
mod setter_inputs;
mod starlark;
