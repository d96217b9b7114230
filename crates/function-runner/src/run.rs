//! The service from bind to exit.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use loggia_function::{Chain, Runtime};
use loggia_grpc::run::{self, Signals};
use loggia_grpc::server::{self, Routes};
use loggia_grpc::tls::ServerTls;
use loggia_grpc::{Evaluations, Lifecycle};
use loggia_pods::PodEvaluator;
use loggia_process::{self as process, Confinement, Environment, Limits, Processes};
use loggia_registry::Images;
use loggia_runtimes::{Builtin, ExecCommand, ExecSettings, ExecTable, Workers};
use loggia_telemetry::{Sources, Telemetry};
use tracing::{info, warn};

use crate::config::{Config, ExecConfig, PodConfig};
use crate::packages;

/// The memory that workers of built-in functions may use together.
const BUILTIN_MEMORY: u64 = 1 << 30;

/// How long children may take to end when all else has.
const REAP_TIME: Duration = Duration::from_secs(2);

/// The most of a function's standard error that is kept.
const STDERR_LIMIT: usize = 1 << 20;

/// Serves until a signal says stop; a second signal ends the process at once.
pub(crate) async fn run(config: Config, signals: Signals) -> anyhow::Result<()> {
    let Config {
        port,
        builtins,
        exec,
        pods,
        image_prefix,
        catalog,
        message_limit,
        drain_timeout,
        metrics,
        push,
        traces,
        tls,
    } = config;
    let tls = tls.map(ServerTls::new).transpose().context("--tls-cert, --tls-key, --client-ca")?;
    let telemetry = Telemetry::new(env!("CARGO_PKG_VERSION"));
    if let Some(traces) = traces {
        match telemetry.trace(traces) {
            Ok(()) => info!("Traces are sent"),
            Err(error) => warn!("No traces: {error}; check the variables OTEL_EXPORTER_OTLP_*"),
        }
    }
    if let Some(settings) = push {
        match telemetry.push(settings) {
            Ok(()) => info!("Metrics are sent"),
            Err(error) => warn!("No metrics are sent: {error}; check the variables OTEL_EXPORTER_OTLP_*"),
        }
    }
    if let Err(error) = process::adopt_orphans() {
        warn!(%error, "Orphans of functions may stay as zombies");
    }
    let lifecycle = Lifecycle::default();
    let mut runtimes: Vec<Arc<dyn Runtime>> = Vec::new();
    let (mut workers, mut processes, mut pool) = (None, None, None);
    if let Some(builtins) = builtins {
        let pool = Workers::new(builtins.workers(BUILTIN_MEMORY));
        pool.keep_ready();
        runtimes.push(Arc::new(Builtin::in_workers(pool.clone())));
        workers = Some(pool);
    }
    if let Some(exec) = exec {
        let (exec, children) = exec_table(exec, message_limit)?;
        tokio::spawn(exec.clone().follow_changes());
        runtimes.push(Arc::new(exec));
        processes = Some(children);
    }
    if let Some(pods) = pods {
        let pods = pod_evaluator(pods, &telemetry).await.context("failed to initialize pod evaluator")?;
        lifecycle.set_warm(false);
        let (warm, warmed_up) = (lifecycle.clone(), pods.warmed_up());
        tokio::spawn(async move {
            warmed_up.await;
            warm.set_warm(true);
        });
        pool = Some(pods.clone());
        runtimes.push(Arc::new(pods));
    }
    let names: Vec<_> = runtimes.iter().map(|runtime| runtime.name()).collect();
    match names.as_slice() {
        [] => warn!("no runtime is enabled in function-runner"),
        names => info!("Functions are looked up in this order: {}", names.join(", ")),
    }

    let listener = server::listen(port).with_context(|| format!("failed to listen: listen tcp :{port}"))?;
    telemetry.look_at(Sources {
        lifecycle: lifecycle.clone(),
        evaluators: names,
        processes: processes.clone(),
        pods: pool,
    });
    let mut for_packages = Chain::new(runtimes.clone());
    // Commands that a package names are never run on a server; this says so.
    for_packages.push(ExecCommand::new(false, ExecCommand::TIMEOUT));
    let packages = packages::service(for_packages, telemetry.clone(), catalog, &lifecycle, message_limit);
    let evaluations = Evaluations {
        image_prefix: image_prefix.map(Into::into),
        observer: Some(Arc::new(telemetry.clone())),
        ..Evaluations::of(Arc::new(Chain::new(runtimes)))
    };
    let routes = Routes::new(evaluations, &lifecycle, message_limit)
        .with(packages.into_server())
        .with_reflection_of(&[loggia_packages::service::wire::DESCRIPTORS])
        .observed_by(Arc::new(telemetry.clone()))
        .over_tls(tls.clone());
    if let Some(tls) = tls {
        tokio::spawn(tls.follow_changes());
    }
    if let Some(address) = metrics {
        show(&address, telemetry.clone()).await;
    }
    let clean_up = async {
        if let Some(workers) = workers {
            let _ = tokio::time::timeout(REAP_TIME, workers.stop()).await;
        }
        if let Some(processes) = processes {
            let _ = tokio::time::timeout(REAP_TIME, processes.stop()).await;
        }
        telemetry.stop().await;
    };
    let stopping = "Draining: no new calls are taken";
    run::until_stopped(listener, routes, &lifecycle, signals, drain_timeout, stopping, clean_up).await?;
    Ok(())
}

/// Serves metrics and the status page. Without them functions still run, so this is no reason not to start.
async fn show(address: &str, telemetry: Telemetry) {
    let listener = loggia_telemetry::http::listen(address).await;
    match listener.and_then(|listener| Ok((listener.local_addr()?, listener))) {
        Ok((address, listener)) => {
            info!("Metrics and the status page are at http://{address}/");
            tokio::spawn(loggia_telemetry::http::serve(listener, telemetry));
        }
        Err(error) => warn!(
            "No metrics: listen tcp {address}: {error}; check --metrics-address and OTEL_EXPORTER_PROMETHEUS_PORT"
        ),
    }
}

async fn pod_evaluator(config: PodConfig, telemetry: &Telemetry) -> anyhow::Result<PodEvaluator> {
    let PodConfig { kubeconfig, mut registries, settings } = config;
    registries.observer = Some(Arc::new(telemetry.clone()));
    let observer: Arc<dyn loggia_pods::Observer> = Arc::new(telemetry.clone());
    let client = loggia_pods::connect(kubeconfig.as_deref(), Some(Arc::clone(&observer))).await;
    let client = client.context("failed to get rest config")?;
    Ok(PodEvaluator::start(client, Images::new(registries), settings, Some(observer)).await?)
}

fn exec_table(config: ExecConfig, message_limit: usize) -> anyhow::Result<(ExecTable, Processes)> {
    let ExecConfig { config, functions, concurrent, timeout, inherit_environment, hidden } = config;
    let limits = Limits { concurrent, stderr: STDERR_LIMIT.min(message_limit) };
    let processes = match hidden.map(|hidden| (Confinement::hiding(&hidden), hidden)) {
        None => Processes::new(limits),
        Some((Ok(confinement), _)) => Processes::confined(limits, confinement),
        Some((Err(error), hidden)) => {
            warn!("Exec functions can read {}: {error}", hidden.display());
            Processes::new(limits)
        }
    };
    let environment = match inherit_environment {
        true => Environment::Inherited,
        false => ExecSettings::minimal_environment(),
    };
    let settings = ExecSettings { config, functions, environment, timeout };
    let exec =
        ExecTable::new(settings, processes.clone()).context("failed to initialize executable evaluator")?;
    Ok((exec, processes))
}
