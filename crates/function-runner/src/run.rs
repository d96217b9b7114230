//! The service from bind to exit.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use loggia_access::Access;
use loggia_function::policy::Allowed;
use loggia_function::{Chain, Runtime};
use loggia_grpc::run::{self, Signals};
use loggia_grpc::server::{self, Routes};
use loggia_grpc::tls::ServerTls;
use loggia_grpc::{Evaluations, Gate, Lifecycle};
use loggia_packages::service::PackageService;
use loggia_pods::PodEvaluator;
use loggia_process::{self as process, Confinement, Environment, Limits, Processes};
use loggia_registry::Images;
use loggia_runtimes::{Builtin, ExecCommand, ExecSettings, ExecTable, Workers};
use loggia_telemetry::{Sources, Telemetry};
use tracing::{info, warn};

use crate::config::{Config, ConfinementConfig, ExecConfig, LimitConfig, PodConfig};
use crate::packages;

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
        packages,
        image_prefix,
        catalog,
        message_limit,
        limits,
        drain_timeout,
        metrics,
        push,
        traces,
        tls,
        access,
        images,
    } = config;
    let LimitConfig { budget, limits, address, reflection, package_service } = limits;
    info!("Memory budget: {budget}; at most {} connections", limits.connections);
    let tls = tls.map(ServerTls::new).transpose().context("--tls-cert, --tls-key, --client-ca")?;
    let access = access.as_deref().map(Access::new).transpose().context("--access-config")?;
    if let Some(access) = &access {
        let known = tls.as_ref().is_some_and(|tls| tls.files().client_ca.is_some());
        if access.needs_certificates() && !known {
            bail!(
                "--access-config: callers are known by their certificates, and nobody is asked for one; add --client-ca, \
                 or write `anyone`"
            );
        }
        tokio::spawn(access.clone().follow_changes());
    }
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
        let pool = Workers::new(builtins.workers(budget.builtins()));
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

    let host = address.map(|address| address.to_string()).unwrap_or_default();
    let listener = server::listen_at(address, port)
        .with_context(|| format!("failed to listen: listen tcp {host}:{port}"))?;
    telemetry.look_at(Sources {
        lifecycle: lifecycle.clone(),
        evaluators: names,
        processes: processes.clone(),
        pods: pool,
        messages: Some(limits.memory.clone()),
    });
    if !images.is_empty() {
        info!("Only some images may run: --allowed-images, --denied-images and --require-digest say which");
    }
    let allowed = |runtime| Allowed { runtime, policy: Arc::clone(&images) };
    let mut for_packages = Chain::new(runtimes.clone());
    // Commands that a package names are never run on a server; this says so.
    for_packages.push(ExecCommand::new(false, ExecCommand::TIMEOUT));
    let packages = packages::service(
        allowed(for_packages),
        telemetry.clone(),
        catalog,
        &lifecycle,
        message_limit,
        &packages,
    );
    let evaluations = Evaluations {
        image_prefix: image_prefix.map(Into::into),
        observer: Some(Arc::new(telemetry.clone())),
        ..Evaluations::of(Arc::new(allowed(Chain::new(runtimes))))
    };
    let mut routes = Routes::new(evaluations, &lifecycle, message_limit)
        .within(limits)
        .behind(access.map(|access| Arc::new(access) as Arc<dyn Gate>))
        .observed_by(Arc::new(telemetry.clone()))
        .over_tls(tls.clone());
    let mut described = Vec::new();
    if package_service {
        routes = routes.with(packages.into_server(), PackageService::METHODS);
        described.push(loggia_packages::service::wire::DESCRIPTORS);
    }
    if reflection {
        routes = routes.with_reflection_of(&described);
    }
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
    let ExecConfig { config, functions, concurrent, timeout, inherit_environment, confinement } = config;
    let limits = Limits { concurrent, stderr: STDERR_LIMIT.min(message_limit) };
    let processes = match config {
        Some(_) => confined(limits, confinement)?,
        // There are no functions.
        None => Processes::new(limits),
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

/// Processes that are confined as far as the kernel can. One line says what it cannot.
fn confined(limits: Limits, config: ConfinementConfig) -> anyhow::Result<Processes> {
    let ConfinementConfig { required, settings } = config;
    let lacking = |what: &str| format!("exec functions are not confined in full: this kernel lacks {what}");
    let refused = "--require-confinement: use Linux 6.12 or newer with Landlock, or --disable-runtimes=exec";
    match Confinement::new(settings) {
        Ok(confinement) => {
            match confinement.abi().lacks() {
                Some(what) if required => anyhow::bail!("{}; {refused}", lacking(what)),
                Some(what) => warn!("{}", lacking(what)),
                None => {}
            }
            Ok(Processes::confined(limits, confinement))
        }
        Err(error) => Err(anyhow::Error::new(error).context("exec functions cannot be confined")),
    }
}
