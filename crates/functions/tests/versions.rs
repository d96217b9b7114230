//! What versions differ in, where no original of the older one is to be had.
#![allow(clippy::unwrap_used, reason = "a test may")]

use loggia_functions::{Output, find};

fn run(image: &str, items: &str, config: &str) -> Output {
    let input = format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{items}functionConfig: {config}\n"
    );
    find(image).unwrap_or_else(|| panic!("{image} is not built in")).1.filter(input.as_bytes())
}

/// Runs two versions; a text must be in the list of the first and not in that of the second.
fn differ(first: &str, second: &str, items: &str, config: &str, text: &str) {
    let (with, without) = (run(first, items, config), run(second, items, config));
    assert!(with.stdout.contains(text), "{first}: {text}\n{}", with.stdout);
    assert!(!without.stdout.contains(text), "{second}: {text}\n{}", without.stdout);
}

const CONFIG_MAP: &str = "- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: cfg
    annotations:
      config.kubernetes.io/depends-on: /namespaces/a/ConfigMap/cfg
      internal.config.kubernetes.io/path: 'a.yaml'
      config.kubernetes.io/path: 'a.yaml'
";
const KPTFILE: &str = "- apiVersion: kpt.dev/v1
  kind: Kptfile
  metadata:
    name: app
";

#[test]
fn ensure_name_substring_learned_to_keep_files_and_to_follow_dependencies() {
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {prepend: dev-}}";
    let path = "config.kubernetes.io/path: 'a.yaml'";
    for older in ["unstable", "v0.2.1", "v0.1.1"] {
        differ("ensure-name-substring", &format!("ensure-name-substring:{older}"), CONFIG_MAP, config, path);
    }
    let reference = "depends-on: /namespaces/a/ConfigMap/dev-cfg";
    differ("ensure-name-substring:v0.2.1", "ensure-name-substring:v0.1.1", CONFIG_MAP, config, reference);
    let renamed = "name: dev-app";
    differ("ensure-name-substring:v0.1.1", "ensure-name-substring:v0.2.1", KPTFILE, config, renamed);
}

#[test]
fn set_image_of_2025_looks_at_containers_alone_and_loses_colons() {
    let pod = "- apiVersion: v2
  kind: Pod
  metadata: {name: p}
  spec:
    initContainers: [{name: a, image: 'nginx:1'}]
    containers: [{name: b, image: 'nginx:1'}]
";
    let tag = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {name: nginx, newTag: '2'}}";
    // Only the older one takes a kind of any version.
    differ("set-image:unstable", "set-image:latest", pod, tag, "{name: b, image: 'nginx:2'}");
    let pod = pod.replace("v2", "v1");
    differ("set-image:latest", "set-image:unstable", &pod, tag, "{name: a, image: 'nginx:2'}");
    let name = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {name: nginx, newName: web}}";
    differ("set-image:unstable", "set-image:latest", &pod, name, "image: 'web1'");
    let same = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {name: nginx, newTag: '1'}}";
    differ("set-image:unstable", "set-image:latest", &pod, same, "updated a total of 0 image(s)");
}

#[test]
fn set_namespace_learned_to_leave_definitions_alone() {
    let definition = "- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: d}
  spec: {group: example.com}
";
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {namespace: staging}}";
    for older in ["v0.4.5", "unstable", "v0.4.1"] {
        let older = format!("set-namespace:{older}");
        differ(&older, "set-namespace:latest", definition, config, "conversion");
    }
}

#[test]
fn set_namespace_of_2025_minds_where_resources_come_from() {
    let item = |name: &str, origin: &str| {
        format!(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: {name}\n    annotations:\n      \
             internal.kpt.dev/upstream-identifier: '|ConfigMap|{origin}|{name}'\n"
        )
    };
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {namespace: staging}}";
    let (newest, older) = ("set-namespace:v0.4.5", "set-namespace:unstable");
    let warning =
        "Resource(apiVersion=v1, kind=ConfigMap, namespace=, name=cfg) does not have upstream origin.";
    differ(older, newest, CONFIG_MAP, config, warning);

    let two = item("x", "a") + &item("y", "b");
    let refusal = "unable to use origin `namespace` to match. expect a single upstream namespace, found [a b]. please switch \
                   to use `namespaceMatcher`to specify the namespace value you want to change";
    differ(older, newest, &two, config, refusal);
    differ(newest, older, &two, config, "\n    namespace: staging\n");
    let lost = item("x", "~C");
    differ(older, newest, &lost, config, "but has cluster-scoped or unknown scoepd origin |ConfigMap|~C|x");
}

#[test]
fn set_namespace_0_2_takes_service_accounts_along() {
    let items = "- apiVersion: v1
  kind: ServiceAccount
  metadata: {name: robot}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: ClusterRoleBinding
  metadata: {name: b}
  subjects: [{kind: ServiceAccount, name: robot, namespace: old}]
";
    let config = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {namespace: staging}}";
    let subject = "{kind: ServiceAccount, name: robot, namespace: staging}";
    differ("set-namespace:v0.2.0", "set-namespace:v0.1.4", items, config, subject);
    for version in ["v0.2.0", "v0.1.4"] {
        let output = run(&format!("set-namespace:{version}"), KPTFILE, config);
        assert!(output.stdout.contains("name: app\n    namespace: staging\n"), "{}", output.stdout);
    }
}

#[test]
fn gatekeeper_learned_to_refuse_unknown_parameters() {
    let items = "- apiVersion: templates.gatekeeper.sh/v1
  kind: ConstraintTemplate
  metadata: {name: never}
  spec:
    crd: {spec: {names: {kind: Never}}}
    targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package never
        violation[{\"msg\": \"x\"}] { false }
- apiVersion: constraints.gatekeeper.sh/v1beta1
  kind: Never
  metadata: {name: c}
  spec: {parameters: {a: 1}}
";
    let refusal = "invalid Constraint: unknown fields: [spec.parameters]";
    for older in ["unstable", "v0.2.1"] {
        let older = format!("gatekeeper:{older}");
        differ("gatekeeper:latest", &older, items, "{}", refusal);
        assert_eq!(run(&older, items, "{}").exit_code, 0);
    }
}

#[test]
fn what_a_version_does_is_never_guessed() {
    for image in [
        "set-namespace:v0.4",
        "set-namespace:v0.4.3",
        "set-namespace:v0.3.4",
        "set-namespace:v0.1.0",
        "set-labels:v0.1.0",
        "set-image:v0.1.1",
        "apply-setters:v0.1.0",
        "starlark:v0.1.0",
        "format:v0.1.0",
        "fix:v0.2.0",
    ] {
        assert!(find(image).is_none(), "{image}");
    }
}
