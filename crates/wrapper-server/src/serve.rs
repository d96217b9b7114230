//! Serving the function.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loggia_go::flag::{Error, FlagSet, Parsed, Syntax};
use loggia_go::klog;
use loggia_grpc::run::{self, Signals};
use loggia_grpc::server::{self, Routes};
use loggia_grpc::{Evaluations, FailureText, Lifecycle, MessageMemory};
use loggia_process::memory::Limit;
use loggia_process::{self as process, Command, Confinement, Environment, Limits, Processes};
use loggia_telemetry::Telemetry;
use tokio::sync::Semaphore;
use tracing::{debug, warn};

use crate::entrypoint::Entrypoint;
use crate::say;
use crate::tls::Identity;

/// The most of a function's standard error that is kept.
const STDERR_LIMIT: usize = 1 << 20;

/// The most memory for messages, where the container may use much.
const MOST_FOR_MESSAGES: usize = 256 << 20;

/// How many connections there may be: those of runners and of probes.
const CONNECTIONS: usize = 64;

/// Where Kubernetes puts the tokens of a pod.
const TOKENS: &str = "/var/run/secrets";

/// How long children may take to end when all else has.
const REAP_TIME: Duration = Duration::from_secs(2);

loggia_go::flags! {
    /// The command line before `--`.
    struct Flags {
        port: i64 = 9446, "The server port.";
        max_request_body_size: i64 = 6 * 1024 * 1024, "The largest message in bytes, in either direction.";
        verbosity: i64 = 2, "How much to log, from 0 to 5.";
        max_concurrent_executions: i64, "The most calls that run the function at once; 0 for 8 per core.";
        drain_timeout: loggia_go::Duration = loggia_go::Duration::from_secs(25),
            "How long calls in flight may take to end when the server is asked to stop.";
        tls_cert: String, "The certificate of the server, PEM; with it, TLS alone.";
        tls_key: String, "Its key, PEM.";
        client_ca: String,
            "The authorities of callers, PEM; with it, only callers with a certificate are served.";
        memory_budget: i64,
            "The memory for messages in bytes; 0 for a quarter of what the container may use, at most 256 MiB.";
        request_timeout: loggia_go::Duration = loggia_go::Duration::from_secs(30),
            "How long a message may take to arrive, and how long a call may wait for memory.";
        answer_timeout: loggia_go::Duration = loggia_go::Duration::from_secs(60),
            "How long an answer may wait for its caller to read it; then the connection is closed.";
        call_timeout: loggia_go::Duration = loggia_go::Duration::from_secs(600),
            "How long a call may take whose caller sets no deadline; 0 for no limit.";
        max_connections: i64, "The most connections at once, of which one address gets half; 0 for 64.";
    }
}

#[derive(Debug)]
struct Config {
    port: u16,
    verbosity: i64,
    message_limit: usize,
    limits: loggia_grpc::Limits,
    concurrent: usize,
    drain_timeout: Duration,
    command: Vec<String>,
    /// Where metrics are served.
    metrics: Option<String>,
    /// What the server needs for TLS, if it is to speak it.
    identity: Option<Identity>,
}

pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    let config = match configure(arguments) {
        Ok(config) => config,
        Err(Error::Help(usage)) => {
            say(&format!("wrapper-server [flags] -- FUNCTION [ARGUMENT ...]\n\n{}", usage.trim_end()));
            return ExitCode::SUCCESS;
        }
        Err(Error::Usage(reason)) => {
            say(&format!("unexpected error: {reason}"));
            return ExitCode::from(2);
        }
    };
    let targets = klog::Targets { own: &["loggia", "wrapper_server"], muted: &[] };
    klog::init(config.verbosity, klog::Format::Text, targets);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(run(config))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("unexpected error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn configure(arguments: Vec<OsString>) -> Result<Config, Error> {
    let mut flags = Flags::default();
    let set = FlagSet::new("wrapper-server", Syntax::Gnu);
    let Parsed { after_dashes, given: _, words: _ } = set.table(&mut flags).parse(arguments)?;
    let Flags {
        port,
        max_request_body_size,
        verbosity,
        max_concurrent_executions,
        drain_timeout,
        tls_cert,
        tls_key,
        client_ca,
        memory_budget,
        request_timeout,
        answer_timeout,
        call_timeout,
        max_connections,
    } = flags;
    let usage = |text: String| Error::Usage(text);
    let command = after_dashes.filter(|command| !command.is_empty()).ok_or_else(|| {
        usage("there is no function to run; its command line stands behind `--`".to_owned())
    })?;
    let positive = |value: i64| usize::try_from(value).ok().filter(|value| *value > 0);
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    let above_zero = |flag, time: loggia_go::Duration| {
        time.positive().ok_or_else(|| usage(format!("--{flag}: `{time}` is not a time above zero")))
    };
    let limits = loggia_grpc::Limits {
        memory: MessageMemory::new(positive(memory_budget).unwrap_or_else(memory_for_messages)),
        request_time: above_zero("request-timeout", request_timeout)?,
        answer_time: above_zero("answer-timeout", answer_timeout)?,
        call_time: call_timeout.positive(),
        connections: positive(max_connections).unwrap_or(CONNECTIONS),
        ..loggia_grpc::Limits::default()
    };
    Ok(Config {
        limits,
        port: u16::try_from(port).map_err(|_| usage(format!("--port: {port} is no port")))?,
        verbosity,
        message_limit: positive(max_request_body_size)
            .ok_or_else(|| usage(format!("--max-request-body-size: {max_request_body_size} is no size")))?,
        concurrent: positive(max_concurrent_executions).unwrap_or(8 * cores),
        drain_timeout: drain_timeout.positive().unwrap_or_default(),
        command,
        identity: Identity::named(&tls_cert, &tls_key, &client_ca).map_err(usage)?,
        metrics: loggia_telemetry::Environment::here().map_err(|error| usage(error.to_string()))?.metrics,
    })
}

/// A quarter of what the container may use: the function needs the rest.
fn memory_for_messages() -> usize {
    let bytes = match process::memory::limit() {
        Some(Limit::Cgroup(bytes) | Limit::Machine(bytes)) => {
            usize::try_from(bytes / 4).unwrap_or(usize::MAX)
        }
        None => MOST_FOR_MESSAGES,
    };
    bytes.min(MOST_FOR_MESSAGES)
}

async fn run(config: Config) -> io::Result<()> {
    let Config {
        port,
        verbosity: _,
        message_limit,
        limits,
        concurrent,
        drain_timeout,
        command,
        metrics,
        identity,
    } = config;
    if let Err(error) = process::close_to_others() {
        warn!(%error, "The function may look into this process");
    }
    let signals = Signals::new()?;
    let listener = server::listen(port).map_err(|error| {
        io::Error::new(error.kind(), format!("failed to listen: listen tcp :{port}: {error}"))
    })?;
    if let Err(error) = process::adopt_orphans() {
        warn!(%error, "Orphans of the function may stay as zombies");
    }
    let child_limits = Limits { concurrent, stderr: STDERR_LIMIT.min(message_limit) };
    let secrets = identity.iter().flat_map(Identity::secrets).chain([TOKENS.into()]);
    let processes = confined(child_limits, secrets.filter(|path| path.exists()).collect());
    let mut words = command.into_iter();
    let command = Command {
        program: words.next().unwrap_or_default().into(),
        arguments: words.map(Into::into).collect(),
        environment: Environment::Inherited,
    };
    let lifecycle = Lifecycle::default();
    let runtime = Arc::new(Entrypoint { command, processes: processes.clone(), reading: Semaphore::new(1) });
    let evaluations = Evaluations { failure_text: FailureText::Wrapper, ..Evaluations::of(runtime) };
    let mut routes = Routes::new(evaluations, &lifecycle, message_limit).within(limits);
    if let Some(identity) = identity {
        routes = identity.secure(routes)?;
    }
    if let Some(address) = metrics {
        let telemetry = Telemetry::new(env!("CARGO_PKG_VERSION"));
        routes = routes.observed_by(Arc::new(telemetry.clone()));
        show(&address, telemetry).await;
    }
    let clean_up = async {
        let _ = tokio::time::timeout(REAP_TIME, processes.stop()).await;
    };
    let stopping = "Shutting down server...";
    run::until_stopped(listener, routes, &lifecycle, signals, drain_timeout, stopping, clean_up).await
}

/// Processes whose calls are kept from each other as far as the kernel can. What it cannot is no reason not to serve: the
/// function has the container to itself.
fn confined(limits: Limits, secrets: Vec<PathBuf>) -> Processes {
    match Confinement::new(process::Settings::in_own_container(secrets)) {
        Ok(confinement) => {
            if let Some(what) = confinement.abi().lacks() {
                debug!("Calls are not kept from each other in full: this kernel lacks {what}");
            }
            Processes::confined(limits, confinement)
        }
        Err(error) => {
            warn!("Calls are not kept from each other: {error}");
            Processes::new(limits)
        }
    }
}

/// Serves metrics. Without them the function still runs, so this is no reason not to start.
async fn show(address: &str, telemetry: Telemetry) {
    match loggia_telemetry::http::listen(address).await {
        Ok(listener) => drop(tokio::spawn(loggia_telemetry::http::serve(listener, telemetry))),
        Err(error) => warn!("No metrics: listen tcp {address}: {error}"),
    }
}
