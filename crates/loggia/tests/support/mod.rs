//! The program itself, on packages made for a test.

#![allow(dead_code, unreachable_pub, clippy::disallowed_methods, reason = "each test file uses its own part")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a run left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A folder `app` with files in it.
#[derive(Debug)]
pub struct Package {
    pub temporary: TempDir,
    pub path: PathBuf,
}

impl Package {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let temporary = TempDir::new().unwrap();
        let path = temporary.path().canonicalize().unwrap().join("app");
        fs::create_dir(&path).unwrap();
        let package = Self { temporary, path };
        for (file, content) in files {
            package.write(file, content);
        }
        package
    }

    /// A package of one ConfigMap with a pipeline of `exec` mutators.
    pub fn with_mutators(commands: &[&str]) -> Self {
        Self::new(&[("Kptfile", &kptfile(commands, &[])), ("cm.yaml", CM)])
    }

    pub fn write(&self, file: &str, content: &str) -> PathBuf {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Puts a program beside the package and gives its path.
    pub fn program(&self, name: &str, script: &str) -> String {
        let path = self.path.parent().unwrap().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    pub fn has(&self, file: &str) -> bool {
        self.path.join(file).exists()
    }

    /// Renders it, with exec functions allowed.
    pub fn render(&self, arguments: &[&str]) -> Ran {
        let path = self.path.display().to_string();
        let mut all = vec!["fn", "render", path.as_str(), "--allow-exec"];
        all.extend(arguments);
        loggia(&all, self.path.parent().unwrap(), "")
    }
}

pub const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\ndata:\n  colour: blue\n";

/// A Kptfile with `exec` functions.
pub fn kptfile(mutators: &[&str], validators: &[&str]) -> String {
    let mut text = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n".to_owned();
    if !(mutators.is_empty() && validators.is_empty()) {
        text.push_str("pipeline:\n");
    }
    for (list, commands) in [("mutators", mutators), ("validators", validators)] {
        if !commands.is_empty() {
            text.push_str(&format!("  {list}:\n"));
        }
        for command in commands {
            let command = match command.contains(": ") {
                true => format!("'{}'", command.replace('\'', "''")),
                false => (*command).to_owned(),
            };
            text.push_str(&format!("    - exec: {command}\n"));
        }
    }
    text
}

/// Runs the program.
pub fn loggia(arguments: &[&str], folder: &Path, stdin: &str) -> Ran {
    run(Command::new(env!("CARGO_BIN_EXE_loggia")).args(arguments).current_dir(folder), stdin)
}

pub fn run(command: &mut Command, stdin: &str) -> Ran {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["NO_COLOR", "KPT_IMAGE_PREFIX", "COBRA_STACK_TRACE_ON_ERRORS", "LOGGIA_SCHEMA_FOLDER"] {
        command.env_remove(variable);
    }
    let mut child = command.spawn().unwrap();
    // A program that reads nothing closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: without_durations(&String::from_utf8(output.stderr).unwrap()),
    }
}

/// `[PASS] "x" in 12ms` as `[PASS] "x" in 0s`.
fn without_durations(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(" in ") {
        Some((head, _)) if head.starts_with("[PASS]") || head.starts_with("[FAIL]") => {
            format!("{head} in 0s\n")
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
