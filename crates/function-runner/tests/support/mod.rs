//! Real servers and real functions for tests.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses its own part")]

pub mod receiver;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use loggia_grpc::wire::details::EvaluationError;
use loggia_grpc::{Answer, Client};
use tonic::Status;

pub use loggia_testing::*;

/// A server that is called by this project's own client.
pub trait Called {
    fn client(&self) -> Client;
}

impl Called for Server {
    fn client(&self) -> Client {
        Client::new(&self.address(), 6 << 20).unwrap()
    }
}

/// A folder with functions and the file that names them.
#[derive(Debug)]
pub struct Functions {
    folder: tempfile::TempDir,
    config: String,
}

impl Functions {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("functions")).unwrap();
        let functions = Self { folder, config: "functions:\n".to_owned() };
        fs::write(functions.config_file(), &functions.config).unwrap();
        functions
    }

    /// Adds a shell script under some images.
    #[must_use]
    pub fn with(self, name: &str, images: &[&str], script: &str) -> Self {
        self.write(name, script);
        self.with_entry(name, images)
    }

    /// Adds an entry without a program.
    #[must_use]
    pub fn with_entry(mut self, name: &str, images: &[&str]) -> Self {
        self.config.push_str(&format!("- function: {name}\n  images:\n"));
        for image in images {
            self.config.push_str(&format!("  - {image}\n"));
        }
        fs::write(self.config_file(), &self.config).unwrap();
        self
    }

    pub fn write(&self, name: &str, script: &str) {
        // Written beside and moved, since a program that runs cannot be written to.
        let path = self.path(name);
        let fresh = path.with_extension("new");
        fs::write(&fresh, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(fresh, path).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("functions").join(name)
    }

    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("config.yaml")
    }

    /// A file for a function to leave a note in.
    pub fn note(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Serves the functions.
    pub fn serve(&self, flags: &[&str]) -> Server {
        Server::start(&mut self.command(flags))
    }

    pub fn command(&self, flags: &[&str]) -> Command {
        let mut command = runner();
        command
            .arg("--port=0")
            .arg(format!("--config={}", self.config_file().display()))
            .arg(format!("--functions={}", self.folder.path().join("functions").display()))
            // Functions leave notes beside their programs.
            .arg(format!("--exec-writable={}", self.folder.path().display()))
            .args(flags);
        command
    }
}

/// Evaluates within the patience of a test.
pub async fn evaluate(client: &Client, image: &str, input: impl Into<Bytes>) -> Result<Answer, Status> {
    client.evaluate(image, input.into(), Some(PATIENCE)).await
}

pub fn details(status: &Status) -> EvaluationError {
    EvaluationError::of(status).unwrap_or_else(|| panic!("no details in {status:?}"))
}
