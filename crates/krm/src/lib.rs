//! Kubernetes resources as people keep them: in packages of files, in lists on a pipe.
//!
//! - [`Resource`]: one object over its YAML tree, with [`annotation`] keys that record where it came from.
//! - [`ResourceList`]: what a function reads and writes; [`Results`] are its messages about resources.
//! - [`sdk`]: a list as functions built on the Go SDK read it.
//! - [`package`]: a folder, or a map of files in memory, read into resources and written back.
//! - [`kptfile`]: the file that makes a folder a package: types, strict reading, checks, edits.
//!
//! Bytes and messages are those of kyaml v0.21.1 and kpt, except where theirs do damage. Nothing here runs
//! anything.
//!
//! # Differences on purpose
//!
//! | Case | Original | Here |
//! |---|---|---|
//! | a file that is as it should be | rewritten | not touched |
//! | a write that fails half way | leaves half | leaves nothing |
//! | `annotations: *alias` | thrown away | replaced by a copy |
//! | comments around a bare sequence | lost | kept |
//! | an empty bare sequence, any in JSON | written in its wrapping | written as it was |
//! | `%YAML` header, `\/` in JSON | refused | read |
//! | `a.yaml` and `./a.yaml` as paths | one overwrites the other | one file |
//! | a path or link that leads out of the package | a link is followed | refused |
//! | the patterns of package `db` | also for its sibling `db2` | for `db` |
//! | the patterns `/` and `!` | a crash | no pattern |
//! | an alias from one item of a list to another | refers to nothing once written | becomes a copy |
//! | an alias for `items`, or for an item that the SDK reads | refused, or a crash | followed |
//! | a list with empty documents beside it | not unwrapped | unwrapped |
//! | an empty function config file | a crash | an error |
//!
//! With `Fidelity::Exact` bare sequences, `%YAML` and `\/` are treated as in the original.

pub mod annotation;
mod document;
pub mod kptfile;
pub mod mend;
pub mod package;
pub mod path;
mod resource;
mod resource_list;
mod results;
pub mod sdk;
mod unmarshal;

pub use document::{StreamError, StreamErrorKind};
pub use kptfile::Kptfile;
pub use package::{Changes, Files, Package};
pub use resource::{Entries, NotKrm, PlacementError, Resource, ResourceId, WrongKind, set_default_paths};
pub use resource_list::{ResourceList, StreamOptions, Wrapping};
pub use results::{
    FieldRef, FileRef, FunctionResult, FunctionResultList, ResourceRef, ResultItem, Results, ResultsError,
    Severity,
};
