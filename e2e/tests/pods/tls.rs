//! The way from the runner to function pods over TLS.

use std::path::Path;
use std::time::{Duration, Instant};

use loggia_e2e::{address, is_ready, wrapper_image};
use loggia_grpc::Client;
use loggia_grpc::connection::Connection;
use loggia_grpc::tls::{ClientFiles, ClientTls};
use loggia_testing::Authority;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use serde_json::json;
use tonic::Code;

use crate::support::{PATIENCE, World, call, list, name, pod_of, until};
use crate::templates::{self, config_map, template};

/// Puts a certificate for the pods of a namespace where they find it.
fn install(world: &World, secret: &str, authority: &Authority) {
    let names = format!("*.{}.svc.cluster.local", world.namespace.name);
    authority.sign(secret, &[&names], &[ServerAuth, ClientAuth], 2100);
    let text = |file: &str| std::fs::read_to_string(authority.file(file)).unwrap();
    let data = json!({
        "tls.crt": text(&format!("{secret}.crt")),
        "tls.key": text(&format!("{secret}.key")),
        "ca.crt": text("ca.crt"),
    });
    let manifest = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": { "name": secret }, "stringData": data,
    });
    world.namespace.apply(&manifest.to_string()).unwrap();
}

fn flags(ca: &Path, secret: &str) -> [String; 2] {
    [format!("--pod-tls-secret={secret}"), format!("--pod-tls-ca={}", ca.display())]
}

#[tokio::test]
async fn a_function_answers_over_tls_and_its_pod_says_nothing_in_the_clear_or_to_strangers() {
    let Some(world) = World::new("tls").await else { return };
    let ours = Authority::new("ours");
    install(&world, "fn-tls", &ours);
    let ca = ours.file("ca.crt");
    let (cert, key) = ours.client();
    let [secret, authority] = flags(&ca, "fn-tls");
    let own = [format!("--pod-tls-cert={}", cert.display()), format!("--pod-tls-key={}", key.display())];
    let service = world.start(&[&secret, &authority, &own[0], &own[1]]);
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    // The kubelet's probe asks over TLS, too.
    let ready = async || world.pods().await.iter().all(is_ready);
    until("the pod is ready", PATIENCE, ready).await;

    let pod = &world.pods().await[0];
    let place = format!("{}:9446", address(pod).unwrap());
    let ask = async |client: Client| {
        client.evaluate(&world.image, list(""), Some(Duration::from_secs(10))).await.map(|_| ())
    };
    let plain = ask(Client::new(&place, 6 << 20).unwrap()).await.unwrap_err();
    assert_eq!(plain.code(), Code::Unavailable, "{plain}");
    let host = format!("x.{}.svc.cluster.local", world.namespace.name);
    let over_tls = |identity| {
        let trust = ClientTls::new(ClientFiles { ca: ca.clone(), identity }).unwrap();
        Client::over(Connection::new(&place).unwrap().secured(&host, trust).unwrap(), 6 << 20)
    };
    let stranger = ask(over_tls(None)).await.unwrap_err();
    assert!(stranger.message().contains("CertificateRequired"), "{stranger}");
    ask(over_tls(Some((cert, key)))).await.unwrap();

    // A runner after this one goes on with the same pod; one that speaks in the clear makes one of its own.
    drop(service);
    let service = world.start(&[&secret, &authority, &own[0], &own[1]]);
    assert_eq!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
    drop(service);
    let service = world.start(&[]);
    let in_the_clear = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    assert_ne!(in_the_clear, first);
    drop(service);
    // That one is of no use to a runner that speaks TLS. This one shows no certificate, so its pods ask for none.
    let service = world.start(&[&secret, &authority, "--pod-security=restricted"]);
    let third = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    assert!(third != first && third != in_the_clear, "{third}");
}

#[tokio::test]
async fn a_certificate_that_is_rotated_reaches_running_pods_and_the_runner() {
    let Some(world) = World::new("tls-rotated").await else { return };
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    install(&world, "fn-tls", &old);
    let trusted = old.file("trusted.crt");
    std::fs::copy(old.file("ca.crt"), &trusted).unwrap();
    let [secret, authority] = flags(&trusted, "fn-tls");
    // A template as people have it, with a probe in it.
    let probe = "readinessProbe: {exec: {command: [/wrapper-server-tools/grpc-health-probe, -addr, 'localhost:9446']}}";
    let template = template(&wrapper_image(&world.namespace.cluster).unwrap(), probe);
    templates::install(&world, "rotated", &template, None);
    let template = format!("--function-pod-template={}", config_map(&world, "rotated"));
    let mut service = world.start(&[&secret, &authority, &template]);
    let first = pod_of(&call(&service.address, &world.image, "").await.unwrap());
    until("the pod is ready", PATIENCE, async || world.pods().await.iter().all(is_ready)).await;

    install(&world, "fn-tls", &new);
    std::fs::copy(new.file("ca.crt"), &trusted).unwrap();
    service.wait_for_line("The certificate changed", PATIENCE).unwrap();
    let place = format!("{}:9446", address(&world.pods().await[0]).unwrap());
    let host = format!("x.{}.svc.cluster.local", world.namespace.name);
    let renewed = async || {
        let trust = ClientTls::new(ClientFiles { ca: new.file("ca.crt"), identity: None }).unwrap();
        Connection::new(&place).unwrap().secured(&host, trust).unwrap().ready().await.is_ok()
    };
    // The kubelet takes its time to write the files of a volume.
    until("the pod has the new certificate", 2 * PATIENCE, renewed).await;
    // What the runner has goes on, and so does one that begins anew.
    assert_eq!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
    drop(service);
    let service = world.start(&[&secret, &authority, &template]);
    assert_eq!(pod_of(&call(&service.address, &world.image, "").await.unwrap()), first);
}

#[tokio::test]
async fn a_pod_that_is_not_trusted_is_told_with_the_cause_and_what_to_check_and_not_made_again_and_again() {
    let Some(world) = World::new("tls-wrong").await else { return };
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    install(&world, "fn-tls", &ours);
    let [secret, authority] = flags(&other.file("ca.crt"), "fn-tls");
    let service = world.start(&[&secret, &authority]);
    let begin = Instant::now();
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    let text = status.message();
    let pod = format!("Error: pod `{}1-", world.stem);
    let expected = "no TLS: its certificate comes from an authority that is not in --pod-tls-ca (invalid peer certificate: \
                    UnknownIssuer); check that ";
    assert!(text.contains(&pod) && text.contains(expected), "{text}");
    assert!(text.ends_with("/ca.crt is the `ca.crt` of the Secret `fn-tls`"), "{text}");
    // Nobody calls, so nothing is tried.
    world.wait_for_pods(0, Duration::from_secs(60)).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let left: Vec<_> = world.living_pods().await.iter().map(name).collect();
    assert!(left.is_empty(), "{left:?}");
    drop(service);

    let [secret, authority] = flags(&ours.file("ca.crt"), "not-there");
    let service = world.start(&[&secret, &authority, "--pod-ready-timeout=8s"]);
    let status = call(&service.address, &world.image, "").await.unwrap_err();
    let expected = format!(
        "it mounts the Secret `not-there` (--pod-tls-secret): check that the namespace `{}` has it",
        world.namespace.name
    );
    assert!(status.message().ends_with(&expected), "{}", status.message());
}
