//! Files with schemas, which the caller passes to a function.

use std::fmt::Debug;

/// The files that a function may read. The caller decides which these are; a list, and so a package, can only name
/// them.
///
/// Errors are sentences that go behind the name of what was asked for: what is wrong, and what to do.
pub trait SchemaFiles: Debug + Send + Sync {
    /// Whether files in a folder, or below it, may be read at all, and it is there.
    ///
    /// # Errors
    /// If not.
    fn check(&self, folder: &str) -> Result<(), String>;

    /// A file's content, if there is such a file.
    ///
    /// # Errors
    /// If it is out of reach, too large or cannot be read.
    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, String>;

    /// The paths of a folder's files, not of those in folders below it, by name.
    ///
    /// # Errors
    /// If the folder is out of reach or cannot be read.
    fn list(&self, folder: &str) -> Result<Vec<String>, String>;
}

/// No files: every path is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSchemaFiles;

const NONE: &str = "a built-in function reads only files that it is given, and here it is given none";

impl SchemaFiles for NoSchemaFiles {
    fn check(&self, _: &str) -> Result<(), String> {
        Err(NONE.to_owned())
    }

    fn read(&self, _: &str) -> Result<Option<Vec<u8>>, String> {
        Err(NONE.to_owned())
    }

    fn list(&self, _: &str) -> Result<Vec<String>, String> {
        Err(NONE.to_owned())
    }
}
