//! The pool between its callers, the cluster's news and the servers in pods.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Pod};
use loggia_grpc::tls::{ClientFiles, ServerFiles};
use loggia_registry::{Images, SignaturePolicy};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::state::{Refusal, Settings as PoolSettings};
use super::ticker::SYNC_TIME;
use super::{Backoff, FailureKind, Image, Permit, Pool};
use crate::clock::unix_now;
use crate::fake::{ApiServer, PodServer, settings};
use crate::functions::Functions;
use crate::observe::Unobserved;
use crate::roster::Garbage;
use crate::start::{Starter, Target};
use crate::template::Template;
use crate::templates::Templates;
use crate::watch::News;
use crate::{PodTls, Settings};
use loggia_testing::Authority;
use loggia_testing::registry::signer::{Shelf, Signer};

/// Nobody listens there, so nothing can be started.
const IMAGE: &str = "127.0.0.1:1/f:v1";
const ID: &str = "f-v1-1-12345678";
const SOON: Duration = Duration::from_secs(10);

/// A pool without the watches that would bring it news.
struct World {
    pool: Pool,
    starter: Starter,
    api: ApiServer,
    garbage: mpsc::UnboundedReceiver<Garbage>,
    template: watch::Sender<Option<Arc<Template>>>,
    warm: watch::Receiver<bool>,
    _functions: watch::Sender<Arc<Functions>>,
}

impl World {
    fn new(settings: Settings) -> Self {
        Self::asking(settings, loggia_registry::Settings::default())
    }

    fn asking(settings: Settings, mut registries: loggia_registry::Settings) -> Self {
        let settings = Arc::new(settings);
        let api = ApiServer::default();
        let cluster = api.cluster();
        let functions = watch::Sender::new(Arc::new(Functions::default()));
        let template = watch::Sender::new(None);
        let (garbage, removals) = mpsc::unbounded_channel();
        registries.retries.count = 0;
        registries.private = loggia_registry::PrivateRegistries::Any;
        let templates = Templates::new(cluster.clone(), None, settings.wrapper_image.clone());
        let (images, observer) = (Images::new(registries), Arc::new(Unobserved));
        let starter =
            Starter::new(settings, cluster, images, templates, functions.subscribe(), observer).unwrap();
        let pool_settings = PoolSettings {
            patience: Duration::from_secs(1),
            warm_at_once: 4,
            margin: Duration::ZERO,
            backoff: Backoff::default(),
            most_instances: None,
        };
        let (pool, _ticker) = Pool::start(starter.clone(), pool_settings, template.subscribe(), garbage);
        Self { warm: pool.warm(), pool, starter, api, garbage: removals, template, _functions: functions }
    }

    /// The first look at the namespace: these pods, and no Services.
    fn look(&self, pods: Vec<Pod>) {
        self.pool.pods_changed(News::All(pods));
        self.pool.services_changed(News::All(Vec::new()));
    }

    fn ask(&self) -> tokio::task::JoinHandle<Result<Permit, Refusal>> {
        self.ask_for(IMAGE)
    }

    fn ask_for(&self, image: &str) -> tokio::task::JoinHandle<Result<Permit, Refusal>> {
        let (pool, image) = (self.pool.clone(), Image::new(image));
        tokio::spawn(async move { pool.permit(image).await })
    }

    async fn permit(&self) -> Permit {
        timeout(SOON, self.ask()).await.unwrap().unwrap().unwrap()
    }

    async fn refusal(&self) -> String {
        self.refusal_of(IMAGE).await
    }

    async fn refusal_of(&self, image: &str) -> String {
        match timeout(SOON, self.ask_for(image)).await.unwrap().unwrap() {
            Err(Refusal::NoInstance(failure)) => failure.text.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// A pod of somebody else, ready, at this address.
fn pod(address: &str, changes: &Value) -> Pod {
    let mut annotations = json!({
        "loggia.dev/image": IMAGE,
        "loggia.dev/owner": "another.2",
        "fn.kpt.dev/reclaim-after": (unix_now() + 600).to_string(),
    });
    annotations.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let metadata =
        json!({ "name": "p", "uid": "u", "labels": { "fn.kpt.dev/image": ID }, "annotations": annotations });
    let spec = json!({ "nodeName": "n", "containers": [{ "name": "function", "image": IMAGE }] });
    let conditions = json!([{ "type": "Ready", "status": "True" }]);
    let status = json!({ "phase": "Running", "podIP": address, "conditions": conditions });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
}

/// Until something is so.
async fn until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < SOON, "it does not come to pass");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_call_before_the_first_lists_uses_existing_pods() {
    let world = World::new(settings());
    let server = PodServer::start(&PodServer::some_address()).await;
    let call = world.ask();
    sleep(Duration::from_millis(100)).await;
    assert!(!call.is_finished(), "nobody has looked yet");
    world.look(vec![pod(&server.address, &json!({}))]);
    let permit = timeout(SOON, call).await.unwrap().unwrap().unwrap();
    assert_eq!(&*permit.pod, "p");
    let answer = permit.client.evaluate(IMAGE, "list".into(), Some(SOON)).await.unwrap();
    assert_eq!(answer.resource_list, "list");
}

#[tokio::test(start_paused = true)]
async fn without_the_first_lists_calls_wait_a_while_and_no_longer() {
    let world = World::new(settings());
    let begin = Instant::now();
    let text = world.refusal().await;
    assert!(text.starts_with(&format!("unable to get the entrypoint for {IMAGE}: ")), "{text}");
    assert!(begin.elapsed() >= SYNC_TIME, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_queue_to_others() {
    let world = World::new(Settings { max_queue_length: Some(1), ready_timeout: SOON, ..settings() });
    let address = PodServer::some_address();
    world.look(vec![pod(&address, &json!({}))]);
    let first = world.ask();
    sleep(Duration::from_millis(100)).await;
    let refused = timeout(SOON, world.ask()).await.unwrap().unwrap();
    let Err(Refusal::QueueFull { waiting: 1 }) = refused else { panic!("{refused:?}") };
    first.abort();
    let _ = first.await;
    let third = world.ask();
    sleep(Duration::from_millis(100)).await;
    assert!(!third.is_finished());
    let _server = PodServer::start(&address).await;
    timeout(SOON, third).await.unwrap().unwrap().unwrap();
}

/// The guard that ends a call exists only after the call was asked, under the same lock, so its end cannot overtake it.
/// When calls from before the first run of the pool's task went to an inbox and their ends to a lock, it could: the pool
/// then held calls that were over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn calls_that_give_up_while_the_pool_starts_leave_nothing_behind() {
    // Keeps the only worker, and with it the pool's task, from running.
    let (gate, closed) = std::sync::mpsc::channel();
    let (blocking, blocked) = std::sync::mpsc::channel();
    tokio::spawn(async move {
        blocking.send(()).unwrap();
        closed.recv().unwrap();
    });
    blocked.recv().unwrap();
    let world = World::new(settings());
    let mut calls: Vec<_> = (0..2000).map(|_| Box::pin(world.pool.permit(Image::new(IMAGE)))).collect();
    for call in &mut calls {
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    gate.send(()).unwrap();
    while let Some(call) = calls.pop() {
        drop(call);
    }
    world.look(Vec::new());
    let functions = world.pool.snapshot().functions;
    let waiting: usize = functions.iter().map(|function| function.waiting).sum();
    assert_eq!(waiting, 0, "{functions:?}");
}

#[tokio::test]
async fn a_permit_may_be_dropped_on_a_thread_without_a_runtime() {
    let world = World::new(Settings { max_concurrent_evaluations_per_pod: Some(1), ..settings() });
    let server = PodServer::start(&PodServer::some_address()).await;
    world.look(vec![pod(&server.address, &json!({}))]);
    let permit = world.permit().await;
    let next = world.ask();
    std::thread::spawn(move || {
        // A check of the instance is spawned, and the next call gets its turn.
        permit.broken();
        drop(permit);
    })
    .join()
    .unwrap();
    timeout(SOON, next).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn work_that_panics_is_reported() {
    let world = World::new(settings());
    let (report, reported) = tokio::sync::oneshot::channel();
    world.pool.spawn(async { panic!("out of order") }, move |_, outcome: Result<(), _>| {
        report.send(outcome).unwrap();
    });
    let outcome = timeout(SOON, reported).await.unwrap().unwrap();
    assert_eq!(outcome.unwrap_err().0, "out of order");
}

#[tokio::test]
async fn an_unused_instance_is_handed_over_for_removal() {
    let scan_interval = Some(Duration::from_millis(50));
    let mut world = World::new(Settings { ttl: Duration::from_millis(300), scan_interval, ..settings() });
    let server = PodServer::start(&PodServer::some_address()).await;
    world.look(vec![pod(&server.address, &json!({ "fn.kpt.dev/reclaim-after": unix_now().to_string() }))]);
    let permit = world.permit().await;
    // A call that runs keeps it, however long.
    assert!(timeout(Duration::from_secs(1), world.garbage.recv()).await.is_err());
    drop(permit);
    let garbage = timeout(SOON, world.garbage.recv()).await.unwrap().unwrap();
    let expected = Garbage::Pod {
        name: "p".to_owned(),
        uid: Some("u".to_owned()),
        service: Some((ID.to_owned(), None)),
        why: "nobody used it for its time to live".to_owned(),
    };
    assert_eq!(garbage, expected);
    // While it was used, the others were told so.
    assert!(world.api.requests().contains(&"PATCH /api/v1/namespaces/fn/pods/p".to_owned()));
}

#[tokio::test]
async fn an_instance_that_no_longer_answers_gets_no_more_calls() {
    let world = World::new(settings());
    let server = PodServer::start(&PodServer::some_address()).await;
    world.look(vec![pod(&server.address, &json!({}))]);
    let permit = world.permit().await;
    // One that still answers stays.
    permit.broken();
    drop(permit);
    let permit = world.permit().await;
    drop(server);
    permit.broken();
    drop(permit);
    // There is no other, and none can be started.
    assert!(world.refusal().await.starts_with("unable to get the entrypoint for"));
}

#[tokio::test]
async fn a_call_in_a_dead_pod_is_given_up() {
    let world = World::new(settings());
    let server = PodServer::start(&PodServer::some_address()).await;
    let found = pod(&server.address, &json!({}));
    world.look(vec![found.clone()]);
    let permit = world.permit().await;
    assert!(timeout(Duration::from_millis(100), permit.abandoned()).await.is_err());
    drop(server);
    let mut unready = found;
    unready.status.as_mut().unwrap().conditions = None;
    world.pool.pods_changed(News::Seen(unready));
    timeout(SOON, permit.abandoned()).await.unwrap();
}

#[tokio::test]
async fn an_instance_whose_service_leads_to_others_too_is_not_used() {
    let world = World::new(settings());
    let server = PodServer::start(&PodServer::some_address()).await;
    let endpoints = |addresses: &[&str]| -> Endpoints {
        let addresses: Vec<_> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
        let subsets = json!([{ "addresses": addresses }]);
        serde_json::from_value(json!({ "metadata": { "name": ID }, "subsets": subsets })).unwrap()
    };
    let tell = |addresses: &[&str]| world.pool.endpoints_changed(News::Seen(endpoints(addresses)));
    tell(&[&server.address]);
    world.look(vec![pod(&server.address, &json!({}))]);
    drop(world.permit().await);
    // The server answers, but nobody knows which one will.
    tell(&[&server.address, "127.0.0.9"]);
    sleep(Duration::from_millis(200)).await;
    assert!(world.refusal().await.starts_with("unable to get the entrypoint for"));
}

#[tokio::test]
async fn a_pod_of_another_template_is_used_until_there_is_another() {
    let world = World::new(settings());
    let server = PodServer::start(&PodServer::some_address()).await;
    world.template.send_replace(Some(Arc::new(Template::inline("x.io/wrapper:v2"))));
    world.look(vec![pod(&server.address, &json!({ "loggia.dev/template-hash": "of-another" }))]);
    let permit = world.permit().await;
    assert_eq!(&*permit.pod, "p");
}

#[tokio::test]
async fn a_pod_that_is_gone_ends_what_waits_for_it() {
    let world = World::new(settings());
    let server = PodServer::start(&PodServer::some_address()).await;
    let found = pod(&server.address, &json!({}));
    world.look(vec![found.clone()]);
    drop(world.permit().await);
    world.pool.pods_changed(News::Gone(found));
    assert!(world.refusal().await.starts_with("unable to get the entrypoint for"));
}

#[tokio::test]
async fn the_pool_ends_with_its_last_handle() {
    let mut world = World::new(settings());
    let weak = world.pool.downgrade();
    world.look(Vec::new());
    drop(world.pool);
    assert!(timeout(SOON, world.garbage.recv()).await.unwrap().is_none());
    assert!(weak.upgrade().is_none());
}

#[tokio::test]
async fn the_warm_up_is_over_once_the_pool_has_synced_and_nothing_is_left_to_warm() {
    let world = World::new(settings());
    sleep(Duration::from_millis(50)).await;
    assert!(!*world.warm.borrow());
    world.look(Vec::new());
    until(|| *world.warm.borrow()).await;
}

/// The certificates of pods in a namespace, from an authority.
fn certified(authority: &Authority, namespace: &str, year: i32) -> ServerFiles {
    let purposes = [rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let (cert, key) = authority.sign(
        &format!("{namespace}-{year}"),
        &[&format!("*.{namespace}.svc.cluster.local")],
        &purposes,
        year,
    );
    ServerFiles { cert, key, client_ca: None }
}

fn trusting(authority: &Authority, known: bool) -> Settings {
    let files = ClientFiles { ca: authority.file("ca.crt"), identity: known.then(|| authority.client()) };
    Settings { tls: Some(PodTls { secret: "fn-tls".to_owned(), files }), ..settings() }
}

#[tokio::test]
async fn a_pod_with_a_valid_certificate_is_reached_by_its_address_and_known_by_its_name() {
    let ours = Authority::new("ours");
    let files = ServerFiles { client_ca: Some(ours.file("ca.crt")), ..certified(&ours, "fn", 2100) };
    let server = PodServer::start_with(&PodServer::some_address(), Some(files)).await;
    let world = World::new(trusting(&ours, true));
    world.look(vec![pod(&server.address, &json!({}))]);
    let permit = world.permit().await;
    let answer = permit.client.evaluate(IMAGE, "list".into(), Some(SOON)).await.unwrap();
    assert_eq!(answer.resource_list, "list");
    // One that still answers stays.
    permit.broken();
    drop(permit);
    assert_eq!(&*world.permit().await.pod, "p");
}

#[tokio::test]
async fn a_pod_without_a_valid_certificate_is_never_used() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let known = ServerFiles { client_ca: Some(other.file("ca.crt")), ..certified(&ours, "fn", 2100) };
    for (files, expected) in [
        (None, "its server speaks no TLS"),
        (Some(certified(&other, "fn", 2100)), "from an authority that is not in --pod-tls-ca"),
        (Some(certified(&ours, "elsewhere", 2100)), "must be for `*.fn.svc.cluster.local`"),
        (Some(certified(&ours, "fn", 2001)), "renew the one in the Secret `fn-tls`"),
        (Some(known), "its server wants a certificate of this program (CertificateRequired)"),
    ] {
        let server = PodServer::start_with(&PodServer::some_address(), files).await;
        let world = World::new(trusting(&ours, false));
        let begin = Instant::now();
        let found = pod(&server.address, &json!({}));
        let target = Target { pod: "p".to_owned(), service: ID.to_owned(), cluster_ip: None };
        let latest = watch::Sender::new(Some(Arc::new(found.clone())));
        let failure = world.starter.adopt(&target, latest.subscribe()).await.unwrap_err();
        assert!(failure.text.contains("Error: pod `p`: no TLS: "), "{}", failure.text);
        assert!(failure.text.contains(expected), "{}", failure.text);
        assert_eq!(failure.kind, FailureKind::Lasting);
        // Whoever calls does not get it, and is not kept waiting for it.
        world.look(vec![found]);
        assert!(world.refusal().await.starts_with("unable to get the entrypoint for"));
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_pod_over_tls_is_not_used_by_a_pool_without_tls() {
    let ours = Authority::new("ours");
    let server = PodServer::start_with(&PodServer::some_address(), Some(certified(&ours, "fn", 2100))).await;
    let world = World::new(settings());
    world.template.send_replace(Some(Arc::new(Template::inline("x.io/wrapper:v1"))));
    world.look(vec![pod(&server.address, &json!({ "loggia.dev/template-hash": "of-one-with-tls" }))]);
    assert!(world.refusal().await.starts_with("unable to get the entrypoint for"));
}

#[tokio::test]
async fn no_pod_is_made_of_an_image_that_is_not_signed() {
    let (signer, (shelf, digest)) = (Signer::new(), Shelf::start());
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let rules = json!({ "default": "deny", "rules": [{ "images": ["*/team/*"], "keys": [signer.pem] }] });
    std::fs::write(&policy, rules.to_string()).unwrap();
    let world = || {
        let signatures = Some(SignaturePolicy::read(&policy).unwrap());
        let platform = loggia_registry::Platform::amd64();
        let registries = loggia_registry::Settings { signatures, platform, ..Default::default() };
        let world = World::asking(settings(), registries);
        world.look(Vec::new());
        world
    };
    let refused =
        format!("function \"{0}\" is refused by --verify-images (rule 1, `*/team/*`): ", shelf.image());
    let text = world().refusal_of(&shelf.image()).await;
    assert!(text.starts_with(&refused) && text.ends_with("there is no signature"), "{text}");
    let payload = Signer::payload(&shelf.repository(), &digest);
    let signature = signer.sign(payload.to_string().as_bytes());
    shelf.sign(&digest, &[(payload, signature)]);
    let signed = world().starter.images.verify(&Image::new(&shelf.image())).await;
    assert!(signed.is_ok(), "{signed:?}");
}
