mod hardening;

use serde_json::{Value, json};

use super::*;
use crate::PodResources;
use crate::template::PodSecurity;

const IMAGE_NAME: &str = "ghcr.io/kptdev/krm-functions-catalog/set-labels:v0.2";
const PINNED: &str = "ghcr.io/kptdev/krm-functions-catalog/set-labels@sha256:index";

fn blueprint(template: Template) -> Blueprint {
    Blueprint {
        template,
        namespace: "porch-fn-system".to_owned(),
        message_limit: 6_291_456,
        hardening: Hardening::default(),
        resources: Resources::default(),
        default_resources: Resources::default(),
        image_by_tag: false,
        tries_user_namespace: false,
        pull_secret: None,
        cluster_domain: "cluster.local".to_owned(),
        identity: None,
    }
}

fn inline() -> Blueprint {
    blueprint(Template::inline("x.io/wrapper:v1"))
}

fn entrypoint() -> Vec<String> {
    vec!["/usr/local/bin/function".to_owned(), "--home=$(HOME)".to_owned()]
}

fn made(blueprint: &Blueprint) -> (Value, Value) {
    let entrypoint = entrypoint();
    let instance = Particulars {
        id: "set-labels-v02-1-12345678",
        pod_name: "set-labels-v02-1-12345678-abcde",
        image: IMAGE_NAME,
        function: IMAGE_NAME,
        digest: "sha256:1234567890",
        pinned: "sha256:index",
        entrypoint: &entrypoint,
        owner: "runner-1",
        reclaim_after: 1_700_000_000,
    };
    let hash = blueprint.hash().unwrap();
    let pod = serde_json::to_value(blueprint.pod(instance).unwrap()).unwrap();
    (pod, serde_json::to_value(blueprint.service(instance, &hash)).unwrap())
}

fn given(pod: &str) -> Blueprint {
    blueprint(Template::given(pod, None, "4711").unwrap())
}

#[test]
fn the_inline_pod_is_porchs_with_probes_and_hardening_of_our_own() {
    let (pod, _) = made(&inline());
    let hash = inline().hash().unwrap();
    let mount = json!({ "name": "wrapper-server-tools", "mountPath": "/wrapper-server-tools" });
    let protected =
        json!({ "name": "wrapper-server-tools", "mountPath": "/wrapper-server-tools", "readOnly": true });
    let context = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    assert_eq!(
        pod,
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "set-labels-v02-1-12345678-abcde",
                "namespace": "porch-fn-system",
                "labels": { "fn.kpt.dev/image": "set-labels-v02-1-12345678" },
                "annotations": {
                    "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                    "fn.kpt.dev/reclaim-after": "1700000000",
                    "fn.kpt.dev/template-version": "inline-v1",
                    "loggia.dev/digest": "sha256:1234567890",
                    "loggia.dev/image": IMAGE_NAME,
                    "loggia.dev/owner": "runner-1",
                    "loggia.dev/requested-image": IMAGE_NAME,
                    "loggia.dev/template-hash": hash,
                },
            },
            "spec": {
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
                "initContainers": [{
                    "name": "copy-wrapper-server",
                    "image": "x.io/wrapper:v1",
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["cp", "-a", "/home/nonroot/wrapper-server/.", "/wrapper-server-tools"],
                    "securityContext": context,
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [mount],
                }],
                "containers": [{
                    "name": "function",
                    "image": PINNED,
                    "command": ["/wrapper-server-tools/wrapper-server"],
                    "args": [
                        "--port", "9446", "--max-request-body-size", "6291456", "--",
                        "/usr/local/bin/function", "--home=$$(HOME)",
                    ],
                    "env": [
                        { "name": "OTEL_METRICS_EXPORTER", "value": "prometheus" },
                        { "name": "OTEL_TRACES_EXPORTER", "value": "none" },
                        { "name": "OTEL_EXPORTER_PROMETHEUS_HOST", "value": "0.0.0.0" },
                    ],
                    "startupProbe": {
                        "grpc": { "port": 9446 }, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 120,
                    },
                    "readinessProbe": {
                        "grpc": { "port": 9446 }, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3,
                    },
                    "securityContext": context,
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [protected],
                }],
                "volumes": [{ "name": "wrapper-server-tools", "emptyDir": { "sizeLimit": "128Mi" } }],
            },
        })
    );
}

#[test]
fn the_inline_service_selects_exactly_its_pod() {
    let (_, service) = made(&inline());
    assert_eq!(
        service,
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "set-labels-v02-1-12345678",
                "namespace": "porch-fn-system",
                "labels": { "app.kubernetes.io/name": "set-labels-v02-1-12345678" },
                "annotations": {
                    "internal.kpt.dev/upstream-identifier": "|Service|porch-system|function-runner",
                    "loggia.dev/image": IMAGE_NAME,
                    "loggia.dev/owner": "runner-1",
                    "loggia.dev/template-hash": inline().hash().unwrap(),
                },
            },
            "spec": {
                "type": "ClusterIP",
                "publishNotReadyAddresses": true,
                "selector": { "fn.kpt.dev/image": "set-labels-v02-1-12345678" },
                "ports": [{ "port": 9446, "targetPort": 9446, "protocol": "TCP" }],
            },
        })
    );
}

const SIDECAR_FIRST: &str = "
apiVersion: v1
kind: Pod
annotations: {misplaced: true}
metadata:
  name: to-be-replaced
  namespace: elsewhere
  labels: {team: a}
  annotations: {note: b}
spec:
  serviceAccountName: custom
  imagePullSecrets: [{name: mine}]
  containers:
  - {name: sidecar, image: mesh}
  - name: function
    image: placeholder
    command: [/tools/wrapper-server]
    args: [--verbosity, '4']
    resources: {requests: {cpu: 1}, limits: {cpu: 2}}
";

#[test]
fn a_given_template_keeps_what_it_says() {
    let mut blueprint = given(SIDECAR_FIRST);
    blueprint.pull_secret = Some("auth-secret".to_owned());
    blueprint.resources.requests = Some([("cpu".to_owned(), Quantity("100m".to_owned()))].into());
    let (pod, _) = made(&blueprint);
    let metadata = &pod["metadata"];
    assert_eq!(metadata["name"], "set-labels-v02-1-12345678-abcde");
    assert_eq!(metadata["namespace"], "porch-fn-system");
    assert_eq!(metadata["labels"]["team"], "a");
    assert_eq!(metadata["annotations"]["note"], "b");
    assert_eq!(metadata["annotations"]["fn.kpt.dev/template-version"], "4711");
    let spec = &pod["spec"];
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "mine" }, { "name": "auth-secret" }]));
    assert_eq!(spec["serviceAccountName"], "custom");
    assert!(spec.get("securityContext").is_none(), "hardening is the template's business");
    assert_eq!(spec["containers"][0], json!({ "name": "sidecar", "image": "mesh" }));
    let function = &spec["containers"][1];
    assert_eq!(function["image"], PINNED);
    assert_eq!(function["args"][0], "--verbosity");
    assert_eq!(function["args"][2], "--port");
    assert_eq!(function["resources"]["requests"]["cpu"], "100m");
    assert_eq!(function["resources"]["limits"]["cpu"], "2");
}

#[test]
fn a_pull_secret_that_is_there_is_not_added_again() {
    let mut blueprint = given(SIDECAR_FIRST);
    blueprint.pull_secret = Some("mine".to_owned());
    assert_eq!(made(&blueprint).0["spec"]["imagePullSecrets"], json!([{ "name": "mine" }]));
}

#[test]
fn restricted_pods_meet_the_level_of_that_name_and_write_only_to_tmp() {
    let mut blueprint = restricted();
    blueprint.default_resources = Resources::of(&defaults());
    let (pod, _) = made(&blueprint);
    let spec = &pod["spec"];
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(spec["securityContext"]["runAsUser"], 65_532);
    for container in [&spec["containers"][0], &spec["initContainers"][0]] {
        let context = &container["securityContext"];
        assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
    }
    assert_eq!(spec["containers"][0]["volumeMounts"][1], json!({ "name": "tmp", "mountPath": "/tmp" }));
    assert_eq!(spec["volumes"][1], json!({ "name": "tmp", "emptyDir": { "sizeLimit": "1Gi" } }));
}

fn restricted() -> Blueprint {
    let hardening = Hardening { security: PodSecurity::Restricted, ..Hardening::default() };
    Blueprint { hardening, ..inline() }
}

fn defaults() -> PodResources {
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
    };
    PodResources {
        requests: map(&[("cpu", "10m"), ("memory", "32Mi")]),
        limits: map(&[("memory", "2Gi"), ("ephemeral-storage", "1Gi")]),
    }
}

#[test]
fn the_hash_covers_what_shapes_a_pod_and_nothing_else() {
    let hash = inline().hash().unwrap();
    assert_eq!(hash, inline().hash().unwrap());
    let mut others = vec![blueprint(Template::inline("x.io/wrapper:v2"))];
    others.push(Blueprint { message_limit: 1, ..inline() });
    others.push(restricted());
    others.push(Blueprint { default_resources: Resources::of(&defaults()), ..inline() });
    others.push(Blueprint { pull_secret: Some("s".to_owned()), ..inline() });
    let limits = Some([("cpu".to_owned(), Quantity("1".to_owned()))].into());
    others.push(Blueprint { resources: Resources { requests: None, limits }, ..inline() });
    let mut hashes: Vec<_> = others.iter().map(|other| other.hash().unwrap()).collect();
    hashes.push(hash);
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 7);
    let mut edited = given(SIDECAR_FIRST);
    edited.template.version = "4712".to_owned();
    assert_eq!(edited.hash(), given(SIDECAR_FIRST).hash(), "an edit that changes no pod replaces none");
}

#[test]
fn a_template_needs_a_container_for_the_function() {
    let error = Template::given("spec: {containers: [{name: other}]}", None, "1").unwrap_err();
    assert_eq!(error.to_string(), "failed to find the function container in the pod");
    let error = Template::given("spec: [", None, "1").unwrap_err();
    assert!(error.to_string().starts_with("unable to decode function pod template: "), "{error}");
    let error = Template::given(SIDECAR_FIRST, Some("spec: 7"), "1").unwrap_err();
    assert!(error.to_string().starts_with("unable to decode function service template: "), "{error}");
}

fn over_tls(blueprint: Blueprint, mutual: bool) -> Blueprint {
    Blueprint { identity: Some(Identity { secret: "fn-tls".to_owned(), mutual }), ..blueprint }
}

#[test]
fn a_pod_over_tls_gets_the_secret_and_a_probe_that_asks_over_it() {
    let (pod, service) = made(&over_tls(inline(), false));
    let spec = &pod["spec"];
    let secret = json!({ "name": "wrapper-server-tls", "secret": { "secretName": "fn-tls" } });
    assert_eq!(spec["volumes"][1], secret);
    assert_eq!(
        spec["initContainers"][0]["volumeMounts"].as_array().unwrap().len(),
        1,
        "the key is not for it"
    );
    let function = &spec["containers"][0];
    let mount = json!({ "name": "wrapper-server-tls", "mountPath": "/wrapper-server-tls", "readOnly": true });
    assert_eq!(function["volumeMounts"][1], mount);
    assert_eq!(
        function["args"],
        json!([
            "--tls-cert",
            "/wrapper-server-tls/tls.crt",
            "--tls-key",
            "/wrapper-server-tls/tls.key",
            "--port",
            "9446",
            "--max-request-body-size",
            "6291456",
            "--",
            "/usr/local/bin/function",
            "--home=$$(HOME)",
        ])
    );
    let command = json!([
        "/wrapper-server-tools/grpc-health-probe",
        "-addr",
        "localhost:9446",
        "-tls",
        "-tls-ca-cert",
        "/wrapper-server-tls/ca.crt",
        "-tls-server-name",
        "set-labels-v02-1-12345678.porch-fn-system.svc.cluster.local",
    ]);
    let startup = json!({
        "exec": { "command": command }, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 120,
    });
    assert_eq!(function["startupProbe"], startup);
    assert_eq!(function["readinessProbe"]["exec"]["command"], command);
    let (_, plain) = made(&inline());
    assert_eq!(service["spec"], plain["spec"], "a Service is as ever");
}

#[test]
fn a_pod_that_is_to_know_its_callers_is_told_whom_and_its_probe_shows_the_pods_own_certificate() {
    let (pod, _) = made(&over_tls(inline(), true));
    let function = &pod["spec"]["containers"][0];
    assert_eq!(function["args"][4], "--client-ca");
    assert_eq!(function["args"][5], "/wrapper-server-tls/ca.crt");
    let command = function["readinessProbe"]["exec"]["command"].as_array().unwrap();
    let shown =
        ["-tls-client-cert", "/wrapper-server-tls/tls.crt", "-tls-client-key", "/wrapper-server-tls/tls.key"];
    assert_eq!(command[command.len() - 4..], shown);
}

#[test]
fn probes_of_a_given_template_ask_over_tls_where_they_ask_the_server() {
    let template = "
spec:
  initContainers: [{name: copy, command: [cp, -a, /wrapper-server/., /tools]}]
  containers:
  - name: function
    command: [/tools/wrapper-server]
    startupProbe: {exec: {command: [/tools/grpc-health-probe, -addr, 'localhost:9446']}, periodSeconds: 2}
    readinessProbe: {grpc: {port: 9446, service: x}}
    livenessProbe: {httpGet: {port: 9464, path: /healthz}}
";
    let (pod, _) = made(&over_tls(given(template), false));
    let spec = &pod["spec"];
    let function = &spec["containers"][0];
    let host = "set-labels-v02-1-12345678.porch-fn-system.svc.cluster.local";
    let tls = ["-tls", "-tls-ca-cert", "/wrapper-server-tls/ca.crt", "-tls-server-name", host];
    let words = |probe: &str| function[probe]["exec"]["command"].as_array().unwrap().clone();
    assert_eq!(words("startupProbe")[..3], ["/tools/grpc-health-probe", "-addr", "localhost:9446"]);
    assert_eq!(words("startupProbe")[3..], tls);
    assert_eq!(words("readinessProbe")[3..5], ["-service", "x"]);
    assert_eq!(words("readinessProbe")[5..], tls);
    assert!(function["readinessProbe"].get("grpc").is_none(), "only one way to ask is allowed");
    assert_eq!(function["livenessProbe"], json!({ "httpGet": { "port": 9464, "path": "/healthz" } }));
    // Who wrote how to ask means it.
    let knowing = template.replace("'localhost:9446'", "'localhost:9446', -tls, -tls-no-verify");
    let (pod, _) = made(&over_tls(given(&knowing), false));
    assert_eq!(pod["spec"]["containers"][0]["startupProbe"]["exec"]["command"].as_array().unwrap().len(), 5);
}

#[test]
fn pods_with_and_without_tls_or_with_another_secret_are_not_of_one_template() {
    let other = Identity { secret: "other".to_owned(), mutual: false };
    let blueprints = [
        inline(),
        over_tls(inline(), false),
        over_tls(inline(), true),
        Blueprint { identity: Some(other), ..inline() },
    ];
    let hashes: std::collections::HashSet<_> = blueprints.iter().map(|one| one.hash().unwrap()).collect();
    assert_eq!(hashes.len(), 4);
}
