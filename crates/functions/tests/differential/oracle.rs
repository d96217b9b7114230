//! The original programs, as processes.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use loggia_testing::cache;

/// An original program, built.
#[derive(Debug)]
pub(crate) struct Oracle {
    program: PathBuf,
}

/// What a program leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit_code: i32,
}

impl Oracle {
    /// The program, if it was built; otherwise one line says so.
    pub(crate) fn find(function: &str, version: &str) -> Option<Self> {
        let program = cache().join("oracle/functions").join(format!("{function}-{version}"));
        if program.is_file() {
            return Some(Self { program });
        }
        let what = format!(
            "{function} {version} is not built (`make -C e2e/oracle/functions {function}-{version}`)"
        );
        // As large as Kubernetes itself, so `make tools` does not build it.
        if function == "gatekeeper" {
            loggia_testing::left_out(&what);
        } else {
            loggia_testing::missing("oracle", &what);
        }
        None
    }

    /// Runs it on an input.
    pub(crate) fn ask(&self, stdin: &str) -> Answer {
        let mut child = Command::new(&self.program)
            .env("KUBERNETES_OPENAPI", cache().join("oracle/kubernetes-openapi.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = stdin.as_bytes().to_vec();
        let writer = std::thread::spawn(move || {
            // A program that fails early does not read to the end.
            let _ = pipe.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Answer {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            exit_code: output.status.code().unwrap_or(-1),
        }
    }
}
