use serde_json::{Value, json};

use super::*;

const IMAGE_NAME: &str = "ghcr.io/kptdev/krm-functions-catalog/set-labels:v0.2";

fn blueprint(template: Template) -> Blueprint {
    Blueprint {
        template,
        namespace: "porch-fn-system".to_owned(),
        message_limit: 6_291_456,
        security: PodSecurity::Baseline,
        resources: Resources::default(),
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
                    "securityContext": { "allowPrivilegeEscalation": false },
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [mount],
                }],
                "containers": [{
                    "name": "function",
                    "image": IMAGE_NAME,
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
                    "securityContext": { "allowPrivilegeEscalation": false },
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [mount],
                }],
                "volumes": [{ "name": "wrapper-server-tools", "emptyDir": {} }],
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
    assert_eq!(function["image"], IMAGE_NAME);
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
    let mut blueprint = inline();
    blueprint.security = PodSecurity::Restricted;
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
    assert_eq!(spec["volumes"][1], json!({ "name": "tmp", "emptyDir": {} }));
}

#[test]
fn the_hash_covers_what_shapes_a_pod_and_nothing_else() {
    let hash = inline().hash().unwrap();
    assert_eq!(hash, inline().hash().unwrap());
    let mut others = vec![blueprint(Template::inline("x.io/wrapper:v2"))];
    others.push(Blueprint { message_limit: 1, ..inline() });
    others.push(Blueprint { security: PodSecurity::Restricted, ..inline() });
    others.push(Blueprint { pull_secret: Some("s".to_owned()), ..inline() });
    let limits = Some([("cpu".to_owned(), Quantity("1".to_owned()))].into());
    others.push(Blueprint { resources: Resources { requests: None, limits }, ..inline() });
    let mut hashes: Vec<_> = others.iter().map(|other| other.hash().unwrap()).collect();
    hashes.push(hash);
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 6);
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
