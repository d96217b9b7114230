//! Schemas for functions, from wherever a test keeps them.

use std::{fs, io};

use loggia_functions::SchemaFiles;

/// Any file; tests name only their own.
#[derive(Debug)]
pub(crate) struct AnyFile;

impl SchemaFiles for AnyFile {
    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, String> {
        match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|error| error.to_string()),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
        Ok(entries.map(|entry| entry.unwrap().path().display().to_string()).collect())
    }
}
