//! Ways of running functions on this machine.
//!
//! - [`Builtin`] runs the functions of the catalog in this process; those that execute programs of their users run in a
//!   guarded child of the same program ([`guard`]). [`SchemaFolders`] is what built-in functions may read beside
//!   their input.
//! - [`ExecTable`] runs the programs that a file maps images to, as Porch's function runner does.
//! - [`ExecCommand`] runs the commands that a Kptfile names, as kpt does.

mod builtin;
mod exec_command;
mod exec_table;
pub mod guard;
mod schema_folders;
mod suggest;
mod words;

pub use builtin::Builtin;
pub use exec_command::ExecCommand;
pub use exec_table::{ConfigError, ExecTable, Settings as ExecSettings};
pub use schema_folders::{SchemaFolderError, SchemaFolders};
pub use words::{BadQuoting, split_words};
