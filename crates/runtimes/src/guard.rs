//! A child of the same program that runs one function with limits.
//!
//! Some functions execute programs that their users wrote. Such a program may loop forever or eat memory until
//! the process dies, so it gets a process of its own: this one again, started as `PROGRAM __function …`. A program
//! that wants to use a [`Guard`] calls [`enter`] first thing in `main`.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use loggia_function::{Call, Exit, Guarded, Image, Outcome, RunError};
use loggia_functions::find;
use loggia_go::quote;
use loggia_process::{self as process, Command, Environment, Limits, Processes};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use tokio::time::Instant;

/// The word that makes a program such a child.
const ENTRY: &str = "__function";

/// Bytes that a child may map unless told otherwise.
const MEMORY: u64 = 2 << 30;

/// The stack of the thread that runs the function; programs of users recurse.
const STACK: usize = 64 << 20;

/// Starts guarded children.
#[derive(Clone, Debug)]
pub struct Guard {
    program: PathBuf,
    memory: u64,
    timeout: Duration,
    processes: Processes,
}

// === impl Guard ===

impl Default for Guard {
    /// Children of this very program, with as many at once as there is hardly ever a need for.
    fn default() -> Self {
        let limits = Limits { concurrent: 16, stderr: 1 << 20 };
        Self::new(Processes::new(limits))
    }
}

impl Guard {
    /// Children of this very program, by way of these processes.
    #[must_use]
    pub fn new(processes: Processes) -> Self {
        // The link stays right when the program's file is replaced by an update.
        let program = PathBuf::from("/proc/self/exe");
        Self { program, memory: MEMORY, timeout: Duration::from_secs(60), processes }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, memory: u64, timeout: Duration) -> Self {
        Self { memory, timeout, ..self }
    }

    /// The same for at most this long.
    #[must_use]
    pub fn no_longer_than(self, timeout: Duration) -> Self {
        Self { timeout: timeout.min(self.timeout), ..self }
    }

    /// The same with another program, which calls [`enter`] too.
    #[must_use]
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..self }
    }

    /// Runs a function of the catalog in a child.
    pub(crate) async fn run(&self, image: &Image, call: &Call) -> Result<Outcome, RunError> {
        let arguments = [ENTRY.to_owned(), image.written().to_owned(), self.memory.to_string()];
        let command = Command {
            program: self.program.clone(),
            arguments: arguments.into_iter().map(OsString::from).collect(),
            environment: Environment::Only(Vec::new()),
        };
        let budget = call.budget.until(Some(Instant::now() + self.timeout));
        let outcome = self.processes.run_call(&command, call, budget).await;
        let outcome = outcome.map_err(|error| match error {
            process::Error::DeadlineExceeded if budget.deadline != call.budget.deadline => {
                RunError::Guarded(Guarded::OverTime { limit: self.timeout })
            }
            error @ (process::Error::NotStarted { .. } | process::Error::Pipes(_)) => {
                RunError::Guarded(Guarded::NotRun(error.to_string()))
            }
            error => error.into(),
        })?;
        match outcome.exit {
            Exit::Code(_) => Ok(outcome),
            Exit::Signal { .. } => Err(RunError::Guarded(self.reason(&outcome))),
        }
    }

    /// Why a signal ended the child: the runtime of Rust says so on standard error before it aborts.
    fn reason(&self, outcome: &Outcome) -> Guarded {
        let stderr = outcome.stderr.text();
        if stderr.contains("memory allocation of") {
            Guarded::OverMemory { limit: self.memory }
        } else if stderr.contains("has overflowed its stack") {
            Guarded::TooDeep
        } else {
            Guarded::Ended { exit: outcome.exit.to_string(), stderr: stderr.trim().to_owned() }
        }
    }
}

/// Runs a function and ends, if this process was started to do that. `main` calls it before anything else.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ENTRY {
        return None;
    }
    let image = arguments.next()?.into_string().ok()?;
    let memory: u64 = arguments.next()?.to_str()?.parse().ok()?;
    let limit = Rlimit { current: Some(memory), maximum: Some(memory) };
    let limited = setrlimit(Resource::As, limit)
        .and_then(|()| setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }));
    // This process must not outlive its parent, which would stop it at its deadline.
    let limited = limited.and_then(|()| set_parent_process_death_signal(Some(Signal::KILL)));
    if let Err(error) = limited {
        return Some(complain(&format!("cannot set limits: {error}")));
    }
    // A panic of the engine is the doing of the user's program, and the function's results report it.
    std::panic::set_hook(Box::new(|_| {}));
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || serve(&image));
    Some(match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(code))) => code,
        Ok(Ok(Err(error))) => complain(&format!("pipes: {error}")),
        Ok(Err(_)) => complain("the function met something unforeseen"),
        Err(error) => complain(&format!("cannot start a thread: {error}")),
    })
}

fn serve(image: &str) -> io::Result<ExitCode> {
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let Some((_, version)) = find(image) else {
        return Ok(complain(&format!("function {} not found", quote(image))));
    };
    let output = version.filter(&input);
    let mut stdout = io::stdout().lock();
    stdout.write_all(output.stdout.as_bytes())?;
    stdout.flush()?;
    io::stderr().lock().write_all(output.stderr.as_bytes())?;
    Ok(ExitCode::from(u8::try_from(output.exit_code).unwrap_or(1)))
}

fn complain(text: &str) -> ExitCode {
    // There is no other place to report it.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::FAILURE
}
