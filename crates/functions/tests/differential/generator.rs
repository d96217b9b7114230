//! Lists of resources, from ordinary to odd.

use crate::random::Random;
use crate::tree::{Tree, list, map, raw, text};

/// How many inputs a comparison gets.
pub(crate) fn cases() -> u64 {
    from_environment("LOGGIA_CASES").unwrap_or(300)
}

/// A generator for each of the inputs of a comparison.
pub(crate) fn seeds() -> impl Iterator<Item = Random> {
    let start = from_environment("LOGGIA_SEED").unwrap_or(1);
    (start..start + cases()).map(Random::new)
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

pub(crate) const NAMESPACES: [&str; 5] = ["a", "b", "default", "staging", "x-1"];
pub(crate) const NAMES: [&str; 6] = ["web", "db", "cfg", "web-2", "a", "x"];

/// A whole list as text: resources, the config, and now and then results of a function before.
pub(crate) fn resource_list(
    random: &mut Random,
    config: Option<&Tree>,
    resource: fn(&mut Random) -> Tree,
) -> String {
    let mut out = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:".to_owned();
    let count = random.below(6);
    if count == 0 {
        out += if random.one_in(3) { " []\n" } else { "\n" };
        if out.ends_with(":\n") {
            out.truncate(out.len() - "items:\n".len());
        }
    } else {
        out.push('\n');
    }
    for at in 0..count {
        let mut item = resource(random);
        place(&mut item, random, at);
        if random.one_in(6) {
            item.wreck(random);
        }
        if !matches!(&item, Tree::Map(pairs) if !pairs.is_empty()) {
            item = ordinary(random);
        }
        let block = item.write(random, 2, true);
        out += &in_list(&block);
    }
    if let Some(config) = config {
        let block = config.write(random, 2, false);
        out += if block.trim() == "{}" { "functionConfig: {}\n" } else { "functionConfig:\n" };
        if block.trim() != "{}" {
            out += &block;
        }
    }
    if random.one_in(10) {
        out += "results:\n- message: from before\n  severity: info\n";
    }
    out
}

/// Puts the dash in front of a block that is indented by two.
fn in_list(block: &str) -> String {
    let mut dashed = false;
    let mut out = String::new();
    for line in block.lines() {
        if !dashed {
            dashed = true;
            out += &format!("- {}\n", line.trim_start());
        } else {
            out += &format!("{line}\n");
        }
    }
    out
}

/// The annotations of a reader and, at times, of people.
fn place(item: &mut Tree, random: &mut Random, at: usize) {
    let Tree::Map(pairs) = item else { return };
    let Some((_, metadata)) = pairs.iter_mut().find(|(key, _)| key == "metadata") else { return };
    let mut annotations = Vec::new();
    if !random.one_in(8) {
        let file = format!("{}.yaml", random.pick(&NAMES));
        for key in ["internal.config.kubernetes.io/path", "config.kubernetes.io/path"] {
            annotations.push((key.to_owned(), text(file.clone())));
        }
        for key in ["internal.config.kubernetes.io/index", "config.kubernetes.io/index"] {
            annotations.push((key.to_owned(), text(at.to_string())));
        }
    }
    if random.one_in(10) {
        let value = *random.pick(&["true", "false", "", "yes"]);
        annotations.push(("config.kubernetes.io/local-config".to_owned(), text(value)));
    }
    if random.one_in(4) {
        let (group, kind) = *random.pick(&[("apps", "Deployment"), ("", "ConfigMap"), ("", "Service")]);
        let name = random.pick(&NAMES);
        let value = match random.below(5) {
            0 => format!("{group}/{kind}/{name}"),
            1 => format!("{group}/namespaces/a/{kind}/{name},{group}/namespaces/b/{kind}/{name}"),
            _ => format!("{group}/namespaces/{}/{kind}/{name}", random.pick(&NAMESPACES)),
        };
        annotations.push(("config.kubernetes.io/depends-on".to_owned(), text(value)));
    }
    if random.one_in(8) {
        let namespace = random.pick(&["a", "b", "~C", "default"]);
        let value = format!("apps|Deployment|{namespace}|{}", random.pick(&NAMES));
        annotations.push(("internal.kpt.dev/upstream-identifier".to_owned(), text(value)));
    }
    if random.one_in(5) {
        annotations.push(("note".to_owned(), text("by hand")));
    }
    if !annotations.is_empty() {
        metadata.set("annotations", Tree::Map(annotations));
    }
}

pub(crate) fn metadata(random: &mut Random) -> Tree {
    let mut metadata = map([("name", text(*random.pick(&NAMES)))]);
    if random.one_in(2) {
        metadata.set("namespace", text(*random.pick(&NAMESPACES)));
    }
    if random.one_in(2) {
        metadata.set("labels", labels(random));
    }
    metadata
}

pub(crate) fn labels(random: &mut Random) -> Tree {
    let mut labels = Tree::Map(Vec::new());
    for key in ["app", "tier", "app.kubernetes.io/name", "n"] {
        if random.one_in(2) {
            labels.set(key, text(*random.pick(&["web", "be", "1", "true", ""])));
        }
    }
    labels
}

fn typed(api_version: &str, kind: &str, random: &mut Random) -> Tree {
    map([("apiVersion", text(api_version)), ("kind", text(kind)), ("metadata", metadata(random))])
}

/// A resource that everybody knows.
pub(crate) fn ordinary(random: &mut Random) -> Tree {
    let mut item = typed("v1", "ConfigMap", random);
    item.set("data", map([("k", text("v"))]));
    item
}

/// Any resource, often with a pod in it.
pub(crate) fn any(random: &mut Random) -> Tree {
    match random.below(14) {
        0 => ordinary(random),
        1..=3 => workload(random),
        4 => cron_job(random),
        5 => service(random),
        6 => policy(random),
        7 => named_cluster_object(random),
        8 => binding(random),
        9 => custom(random),
        10 => network_policy(random),
        11 => referring(random),
        12 => pod(random),
        _ => odd(random),
    }
}

fn workload(random: &mut Random) -> Tree {
    let (api_version, kind) = *random.pick(&[
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("extensions/v1beta1", "Deployment"),
        ("batch/v1", "Job"),
        ("v1", "ReplicationController"),
        ("apps/v1beta2", "StatefulSet"),
    ]);
    let mut item = typed(api_version, kind, random);
    let mut spec = map([("replicas", raw("1"))]);
    if random.one_in(2) {
        spec.set("selector", map([("matchLabels", labels(random))]));
    }
    if !random.one_in(6) {
        spec.set("template", template(random));
    }
    if kind == "StatefulSet" && random.one_in(2) {
        let mut claim = map([("metadata", map([("name", text("data"))]))]);
        if random.one_in(2) {
            claim.set("spec", map([("storageClassName", text(*random.pick(&NAMES)))]));
        }
        spec.set("volumeClaimTemplates", list([claim]));
        spec.set("serviceName", text(*random.pick(&NAMES)));
    }
    if !random.one_in(10) {
        item.set("spec", spec);
    }
    item
}

fn template(random: &mut Random) -> Tree {
    let mut template = Tree::Map(Vec::new());
    if random.one_in(2) {
        template.set("metadata", map([("labels", labels(random))]));
    }
    if !random.one_in(5) {
        template.set("spec", pod_spec(random));
    }
    template
}

pub(crate) fn image(random: &mut Random) -> String {
    let name = *random.pick(&["nginx", "reg.io/nginx", "reg.io:5000/a/nginx", "busybox", "nginx-extra"]);
    let end = *random.pick(&["", ":1.0", ":latest", "@sha256:abcd", ":1.0@sha256:abcd"]);
    format!("{name}{end}")
}

fn container(random: &mut Random) -> Tree {
    let mut container = map([("name", text(*random.pick(&NAMES))), ("image", text(image(random)))]);
    if random.one_in(3) {
        let reference = map([("name", text(*random.pick(&NAMES))), ("key", text("k"))]);
        let from = map([(*random.pick(&["configMapKeyRef", "secretKeyRef"]), reference)]);
        container.set("env", list([map([("name", text("E")), ("valueFrom", from)])]));
    }
    if random.one_in(4) {
        let reference = map([("name", text(*random.pick(&NAMES)))]);
        container.set("envFrom", list([map([(*random.pick(&["configMapRef", "secretRef"]), reference)])]));
    }
    container
}

fn pod_spec(random: &mut Random) -> Tree {
    let mut spec = map([("containers", list([container(random)]))]);
    if random.one_in(4) {
        spec.set("initContainers", list([container(random)]));
    }
    if random.one_in(4) {
        let selector = map([("matchLabels", labels(random))]);
        spec.set("topologySpreadConstraints", list([map([("labelSelector", selector)])]));
    }
    if random.one_in(5) {
        let term = map([("labelSelector", map([("matchLabels", labels(random))]))]);
        let required = map([("requiredDuringSchedulingIgnoredDuringExecution", list([term]))]);
        spec.set("affinity", map([("podAntiAffinity", required)]));
    }
    if random.one_in(4) {
        let volume = match random.below(3) {
            0 => map([("name", text("v")), ("configMap", map([("name", text(*random.pick(&NAMES)))]))]),
            1 => map([("name", text("v")), ("secret", map([("secretName", text(*random.pick(&NAMES)))]))]),
            _ => {
                let claim = map([("claimName", text(*random.pick(&NAMES)))]);
                map([("name", text("v")), ("persistentVolumeClaim", claim)])
            }
        };
        spec.set("volumes", list([volume]));
    }
    if random.one_in(4) {
        spec.set("serviceAccountName", text(*random.pick(&NAMES)));
    }
    spec
}

fn pod(random: &mut Random) -> Tree {
    let mut item = typed("v1", "Pod", random);
    item.set("spec", pod_spec(random));
    item
}

fn cron_job(random: &mut Random) -> Tree {
    let version = *random.pick(&["batch/v1", "batch/v1beta1"]);
    let mut item = typed(version, "CronJob", random);
    let mut job = map([("spec", map([("template", template(random))]))]);
    if random.one_in(2) {
        job.set("metadata", map([("labels", labels(random))]));
    }
    item.set("spec", map([("schedule", text("* * * * *")), ("jobTemplate", job)]));
    item
}

fn service(random: &mut Random) -> Tree {
    let mut item = typed("v1", "Service", random);
    let mut spec = map([("ports", list([map([("port", raw("80"))])]))]);
    if random.one_in(2) {
        spec.set("selector", labels(random));
    }
    item.set("spec", spec);
    item
}

fn policy(random: &mut Random) -> Tree {
    let version = *random.pick(&["policy/v1", "policy/v1beta1"]);
    let mut item = typed(version, "PodDisruptionBudget", random);
    item.set("spec", map([("selector", map([("matchLabels", labels(random))]))]));
    item
}

fn network_policy(random: &mut Random) -> Tree {
    let mut item = typed("networking.k8s.io/v1", "NetworkPolicy", random);
    let mut selector = || map([("podSelector", map([("matchLabels", labels(random))]))]);
    let (own, from, to) = (selector(), selector(), selector());
    let Tree::Map(mut spec) = own else { return item };
    spec.push(("ingress".to_owned(), list([map([("from", list([from]))])])));
    spec.push(("egress".to_owned(), list([map([("to", list([to]))])])));
    item.set("spec", Tree::Map(spec));
    item
}

fn named_cluster_object(random: &mut Random) -> Tree {
    let service = |random: &mut Random| {
        let mut service = Tree::Map(Vec::new());
        for key in ["name", "namespace"] {
            if random.one_in(2) {
                service.set(key, text(*random.pick(&NAMESPACES)));
            }
        }
        service
    };
    match random.below(4) {
        0 | 1 => typed("v1", "Namespace", random),
        2 => {
            let mut item = typed("apiextensions.k8s.io/v1", "CustomResourceDefinition", random);
            let mut spec = map([("group", text("example.com"))]);
            if random.one_in(2) {
                let client = map([("clientConfig", map([("service", service(random))]))]);
                let strategy = text(*random.pick(&["Webhook", "None"]));
                spec.set("conversion", map([("strategy", strategy), ("webhook", client)]));
            }
            item.set("spec", spec);
            item
        }
        _ => {
            let mut item = typed("apiregistration.k8s.io/v1", "APIService", random);
            item.set("spec", map([("service", service(random)), ("version", text("v1"))]));
            item
        }
    }
}

fn binding(random: &mut Random) -> Tree {
    let kind = *random.pick(&["ClusterRoleBinding", "RoleBinding"]);
    let version = *random.pick(&[
        "rbac.authorization.k8s.io/v1",
        "rbac.authorization.k8s.io/v1",
        "rbac.example.com/v9",
    ]);
    let mut item = typed(version, kind, random);
    let mut subjects = Vec::new();
    for _ in 0..random.below(3) {
        let subject = *random.pick(&["ServiceAccount", "User"]);
        let mut subject =
            map([("kind", text(subject)), ("name", text(*random.pick(&["web", "default", "a"])))]);
        if random.one_in(2) {
            subject.set("namespace", text(*random.pick(&NAMESPACES)));
        }
        subjects.push(subject);
    }
    let role = map([
        ("apiGroup", text("rbac.authorization.k8s.io")),
        ("kind", text(*random.pick(&["Role", "ClusterRole"]))),
        ("name", text(*random.pick(&NAMES))),
    ]);
    item.set("roleRef", role);
    item.set("subjects", list(subjects));
    item
}

fn custom(random: &mut Random) -> Tree {
    let (version, kind) = *random.pick(&[
        ("example.com/v1", "Widget"),
        ("kpt.dev/v1", "Kptfile"),
        ("constraints.gatekeeper.sh/v1beta1", "K8sNoRoot"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ]);
    let mut item = typed(version, kind, random);
    item.set("spec", map([("size", raw("3")), ("image", text(image(random)))]));
    item
}

/// Resources that refer to others by name.
fn referring(random: &mut Random) -> Tree {
    let name = |random: &mut Random| text(*random.pick(&NAMES));
    match random.below(6) {
        0 => {
            let mut item = typed("autoscaling/v1", "HorizontalPodAutoscaler", random);
            let target = map([("kind", text("Deployment")), ("name", name(random))]);
            item.set("spec", map([("scaleTargetRef", target)]));
            item
        }
        1 => {
            let mut item = typed("networking.k8s.io/v1", "Ingress", random);
            let backend = map([("service", map([("name", name(random))]))]);
            item.set(
                "spec",
                map([("defaultBackend", backend), ("tls", list([map([("secretName", name(random))])]))]),
            );
            item
        }
        2 => typed("v1", "Secret", random),
        3 => {
            let mut item = typed("v1", "ServiceAccount", random);
            item.set("imagePullSecrets", list([map([("name", name(random))])]));
            item
        }
        4 => {
            let mut item = typed("rbac.authorization.k8s.io/v1", "Role", random);
            let rule =
                map([("resources", list([text("configmaps")])), ("resourceNames", list([name(random)]))]);
            item.set("rules", list([rule]));
            item
        }
        _ => {
            let mut item = typed("v1", "PersistentVolumeClaim", random);
            item.set("spec", map([("volumeName", name(random))]));
            item
        }
    }
}

/// Resources that hardly are any.
fn odd(random: &mut Random) -> Tree {
    let mut item = ordinary(random);
    match random.below(8) {
        0 => item.set("apiVersion", raw("1")),
        1 => item.set("apiVersion", text("a/b/c")),
        2 => item.set("kind", raw("null")),
        3 => item.set("kind", text("")),
        4 => item.set("metadata", map([("name", raw("12"))])),
        5 => item.set("metadata", map([("namespace", raw("7")), ("name", text("n"))])),
        6 => item.set("metadata", map([("name", text("n")), ("labels", raw("null"))])),
        _ => item.set("metadata", map([("name", text("n")), ("labels", map([("app", raw("1"))]))])),
    }
    item
}

/// A `ConfigMap` with this data, as a function's config.
pub(crate) fn config_map(random: &mut Random, data: Tree) -> Tree {
    let mut config = map([("apiVersion", text("v1")), ("kind", text("ConfigMap"))]);
    if !random.one_in(5) {
        let name = *random.pick(&["function-input", "cfg", "kptfile.kpt.dev"]);
        config.set("metadata", map([("name", text(name))]));
    }
    config.set("data", data);
    config
}

/// A config of the catalog's own group.
pub(crate) fn custom_config(random: &mut Random, kind: &str, fields: Tree) -> Tree {
    let version = if random.one_in(12) { "fn.kpt.dev/v1" } else { "fn.kpt.dev/v1alpha1" };
    let mut config = map([("apiVersion", text(version)), ("kind", text(kind))]);
    if !random.one_in(5) {
        config.set("metadata", map([("name", text("cfg"))]));
    }
    if let Tree::Map(pairs) = fields {
        for (key, value) in pairs {
            config.set(&key, value);
        }
    }
    config
}
