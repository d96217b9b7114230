//! Functions that are commands of this machine.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loggia_function::{Call, FunctionRef, Knows, Outcome, RunError, Running, Runtime};
use loggia_go::quote;
use loggia_process::{self as process, Command, Environment, Limits, Processes};
use tokio::time::Instant;

use crate::words::split_words;

/// As much standard error as a function may write; a package is read whole anyway.
const LIMITS: Limits = Limits { concurrent: 16, stderr: 64 << 20 };

/// Runs the commands that a Kptfile names, with the environment and in the working directory of this process.
#[derive(Clone, Debug)]
pub struct ExecCommand {
    allowed: bool,
    timeout: Duration,
    processes: Processes,
}

// === impl ExecCommand ===

impl ExecCommand {
    /// How long kpt lets a function run.
    pub const TIMEOUT: Duration = Duration::from_secs(300);

    /// Without permission it knows every command, and refuses to run it.
    #[must_use]
    pub fn new(allowed: bool, timeout: Duration) -> Self {
        Self { allowed, timeout, processes: Processes::new(LIMITS) }
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let FunctionRef::Command(command) = &call.function else { return Err(RunError::not_found()) };
        let mut words = self.words(command)?.into_iter();
        let program = words.next().unwrap_or_default();
        let Some(path) = look_up(&program, call.directory.as_deref()) else {
            let reason = format!("exec: {}: executable file not found in $PATH", quote(&program));
            return Err(RunError::NotStarted { reason, origin: String::new() });
        };
        let arguments = words.map(OsString::from).collect();
        let command = Command { program: path, arguments, environment: Environment::Inherited };
        let budget = call.budget.until(Some(Instant::now() + self.timeout));
        self.processes.run_call(&command, call, budget).await.map_err(|error| match error {
            process::Error::DeadlineExceeded if budget.deadline != call.budget.deadline => {
                RunError::OverTime { limit: self.timeout, flag: "--timeout" }
            }
            error => error.into(),
        })
    }

    fn words(&self, command: &str) -> Result<Vec<String>, RunError> {
        if !self.allowed {
            return Err(RunError::NotAllowed);
        }
        split_words(command).map_err(|error| RunError::InvalidCommand(error.to_string()))
    }
}

impl Runtime for ExecCommand {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        match function {
            FunctionRef::Command(command) => self.words(command).map_or_else(Knows::Refused, |_| Knows::Yes),
            FunctionRef::Image(_) => Knows::No,
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.evaluate(call))
    }
}

/// A path is relative to the working directory, as in kpt, or else to the package; a name is looked up in `$PATH`.
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
