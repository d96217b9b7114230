//! The built-in catalog: KRM functions that need no container.
//!
//! One module a function. Each declares a [`Function`]: its name, what it is for, and what runs for which
//! version. [`find`] takes an image as people write it in a Kptfile. Nothing here reads a file, a clock or
//! the network, and nothing here knows who calls it. What a function wants of the world outside of its list is
//! handed in as [`SchemaFiles`].

mod catalog;
mod failure;
mod framework;
mod function;
mod kustomize;
mod kyaml;
mod regexp;
mod schemas;
mod sdk;

pub use self::catalog::{CATALOG, find};
pub use self::failure::Failure;
pub use self::framework::Framework;
pub(crate) use self::function::Run;
pub use self::function::{Function, Output, Role, Version};
pub use self::schemas::files::{NoSchemaFiles, SchemaFiles};
