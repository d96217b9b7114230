//! Ways of running functions on this machine.
//!
//! - [`Builtin`] runs the functions of the catalog: in a service in worker processes ([`workers`]), on the command line in
//!   this process, but for those that execute programs of their users. [`SchemaFolders`] is what they may read beside
//!   their input. [`death`] has a process that runs out of memory or stack say so.
//! - [`ExecTable`] runs the programs that a file maps images to, as Porch's function runner does.
//! - [`ExecCommand`] runs the commands that a Kptfile names, as kpt does.

mod builtin;
pub mod death;
mod exec_command;
mod exec_table;
mod schema_folders;
mod suggest;
mod words;
mod worker;
pub mod workers;

pub use builtin::Builtin;
pub use exec_command::ExecCommand;
pub use exec_table::{ConfigError, ExecTable, Settings as ExecSettings};
pub use schema_folders::{SchemaFolderError, SchemaFolders};
pub use words::{BadQuoting, split_words};
pub use workers::Workers;
