//! Functions that are commands of this machine.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use loggia_go::quote;
use loggia_process::{self as process, Command, Environment, Limits, Processes};
use tokio::time::Instant;

use super::{Call, FunctionRef, FunctionRuntime, Outcome, Running, RuntimeError};
use crate::words::split_words;

/// As much as a function may write; a package is read whole anyway.
const LIMITS: Limits = Limits { concurrent: 16, stdout: 1 << 30, stderr: 64 << 20 };

/// Runs `exec` functions, with the environment and in the folder of this process.
#[derive(Clone, Debug)]
pub struct Exec {
    allowed: bool,
    timeout: Duration,
    processes: Processes,
}

impl Exec {
    /// How long kpt lets a function run.
    pub const TIMEOUT: Duration = Duration::from_secs(300);

    /// Without permission it knows every command, and refuses to run it.
    #[must_use]
    pub fn new(allowed: bool, timeout: Duration) -> Self {
        Self { allowed, timeout, processes: Processes::new(LIMITS) }
    }
}

impl FunctionRuntime for Exec {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError> {
        match function {
            FunctionRef::Exec(_) if !self.allowed => Err(RuntimeError::ExecNotAllowed),
            FunctionRef::Exec(command) => words_of(command).map(|_| ()),
            FunctionRef::Image(_) => Err(function.not_found()),
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            self.check(&call.function)?;
            let mut words = words_of(call.function.name())?.into_iter();
            let program = words.next().unwrap_or_default();
            let Some(path) = look_up(&program, call.folder.as_deref()) else {
                let text = format!("exec: {}: executable file not found in $PATH", quote(&program));
                return Err(RuntimeError::Failed(format!("unexpected function error: {text}")));
            };
            let arguments = words.map(OsString::from).collect();
            let command = Command { program: path, arguments, environment: Environment::Inherited };
            let deadline = Some(Instant::now() + self.timeout);
            let finished = self.processes.run(&command, call.list.emit().into(), deadline).await;
            let finished = finished.map_err(|error| RuntimeError::Failed(self.explain(&error)))?;
            let exit_code = exit_code(finished.status);
            Outcome::of_text(&call.function, &finished.stdout, finished.stderr.text(), exit_code)
        })
    }
}

impl Exec {
    fn explain(&self, error: &process::Error) -> String {
        match error {
            process::Error::DeadlineExceeded => {
                let seconds = self.timeout.as_secs();
                format!(
                    "unexpected function error: it ran for longer than {seconds}s (--timeout) and was stopped"
                )
            }
            error => format!("unexpected function error: {error}"),
        }
    }
}

fn words_of(command: &str) -> Result<Vec<String>, RuntimeError> {
    split_words(command).map_err(|error| {
        RuntimeError::Failed(format!("exec command {} must be valid: {error}", quote(command)))
    })
}

/// -1 for a signal, as Go has it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(if status.signal().is_some() { -1 } else { 1 })
}

/// A path is taken from the folder of this process, as in kpt, and else from that of the package; a name is
/// looked for on the search path.
fn look_up(program: &str, package: Option<&Path>) -> Option<PathBuf> {
    if program.contains('/') {
        let here = PathBuf::from(program);
        let candidates = [Some(here), package.map(|package| package.join(program))];
        return candidates.into_iter().flatten().find(|path| is_program(path));
    }
    let search_path = std::env::var_os("PATH")?;
    std::env::split_paths(&search_path).map(|folder| folder.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
