//! The built-in catalog: KRM functions that need no container.
//!
//! Each module of `catalog/` declares a [`Function`]: its name, its purpose, and what runs for which version.
//! [`find`] takes an image as it is written in a Kptfile. Nothing here reads a file, a clock or the network;
//! the files that a function may need besides its list are passed to it as [`SchemaFiles`].
//!
//! | Folder | What is in it |
//! |---|---|
//! | `catalog/` | the functions, one module each, with manual and tests |
//! | `sdk/` | what functions on the Go SDK share: its objects, lists, results, configs |
//! | `kyaml/` | what functions on kyaml share: its fields, setters, lookups, endings |
//! | `kustomize/` | what functions made of kustomize's transformers share: field specs, resource map |
//! | `schemas/` | the schemas of Kubernetes, and the check of resources against them |
//!
//! [`Framework`] says which of these libraries the original of a version is built on, and so how it reads,
//! writes and fails.

mod catalog;
mod failure;
mod framework;
mod function;
mod kustomize;
mod kyaml;
mod limits;
mod regexp;
mod schemas;
mod sdk;

pub use self::catalog::{CATALOG, find};
pub use self::failure::Failure;
pub use self::framework::Framework;
pub(crate) use self::function::Run;
pub use self::function::{Function, Output, Role, Version};
pub use self::limits::Limits;
pub use self::schemas::files::{NoSchemaFiles, SchemaFiles};
