//! function-runner: a gRPC service that runs KRM functions.

use std::process::ExitCode;

use loggia_go::{flag, klog};
use tracing::info;

mod config;
mod flags;
mod packages;
mod registries;
mod run;

use config::{Config, Surroundings, UsageError};
use flags::Flags;

/// So that a worker knows that it ran out of memory.
#[global_allocator]
static ALLOCATOR: loggia_runtimes::death::Allocator = loggia_runtimes::death::Allocator;

fn main() -> ExitCode {
    // This process may be one that runs functions of the catalog within limits.
    if let Some(code) = loggia_runtimes::workers::enter() {
        return code;
    }
    loggia_grpc::memory::give_back_promptly();
    // Only a second provider would be refused, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match configure().and_then(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

fn configure() -> anyhow::Result<Config> {
    let flags = Flags::parse(std::env::args_os().skip(1)).map_err(UsageError::Flags)?;
    let (level, format) = config::logging(&flags.log)?;
    let targets = klog::Targets { own: &["loggia", "function_runner"], muted: &["kube_runtime"] };
    klog::init(level, format, targets);
    info!(version = env!("CARGO_PKG_VERSION"), "Loggia function-runner");
    Config::resolve(&flags, &Surroundings::here()?)
}

fn start(config: Config) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async { run::run(config, loggia_grpc::run::Signals::new()?).await });
    // What still runs on other threads must not hold up the exit.
    runtime.shutdown_background();
    ended
}

/// The one place that picks an exit code: 2 for a mistake on the command line, 1 for all else.
fn refuse(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<UsageError>() {
        Some(UsageError::Flags(flag::Error::Help(usage))) => {
            say(usage);
            ExitCode::SUCCESS
        }
        Some(_) => {
            say(&format!("function-runner: {error:#}; function-runner --help lists the flags\n"));
            ExitCode::from(2)
        }
        None => {
            say(&format!("unexpected error: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The one place that writes to the terminal other than by the log.
#[allow(clippy::print_stderr)]
fn say(text: &str) {
    eprint!("{text}");
}
