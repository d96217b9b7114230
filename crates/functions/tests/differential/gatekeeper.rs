//! Policies over generated resources: what Rego says, whom constraints are about, what is refused.

use crate::compare::{Comparison, Level};
use crate::generator::seeds;
use crate::oracle::Answer;
use crate::random::Random;

/// Bodies of `violation[{"msg": msg}]`.
const RULES: [&str; 22] = [
    r#"msg := "always""#,
    r#"msg := sprintf("%v", [input.review.kind])"#,
    r#"msg := sprintf("%v|%v", [input.parameters, input.review.object.metadata])"#,
    r#"not input.review.object.metadata.labels.app; msg := "no app""#,
    r#"missing := {k | k := input.parameters.labels[_]} - {k | input.review.object.metadata.labels[k]}; count(missing) > 0; msg := sprintf("missing %v", [missing])"#,
    r#"c := input.review.object.spec.template.spec.containers[_]; not startswith(c.image, "reg/"); msg := sprintf("image %q of %v", [c.image, c.name])"#,
    r#"input.review.object.spec.replicas > 2; msg := sprintf("%d replicas", [input.review.object.spec.replicas])"#,
    r#"o := data.inventory.namespace[ns][gv][k][n]; msg := sprintf("%v/%v/%v/%v", [ns, gv, k, n])"#,
    r#"n := count(data.inventory.cluster); msg := sprintf("%d groups", [n])"#,
    r#"re_match("^w", input.review.object.metadata.name); msg := concat(",", ["a", lower("B")])"#,
    r#"regex.match("^[a-c]", input.review.object.metadata.name); msg := "regex""#,
    r#"x := to_number("x"); msg := sprintf("%v", [x])"#,
    r#"input.review.object.data[k] == "v"; msg := k"#,
    r#"some i; input.review.object.spec.ports[i].port < 1024; msg := sprintf("port %v", [i])"#,
    r#"is_string(input.review.object.data.k); msg := trim(" x ", " ")"#,
    r#"msg := json.marshal(input.parameters)"#,
    r#"walk(input.review.object, [path, value]); value == "v"; msg := sprintf("%v", [path])"#,
    r#"msg := sprintf("%v %v %v", [object.get(input.parameters, "x", "none"), max([1, 3, 2]), sum([1, 2])])"#,
    r#"all([true, input.review.name != "x"]); msg := replace(input.review.name, "w", "v")"#,
    r#"msg := sprintf("%s and %v", ["text", [1, "a", true, null, 1.5, {"b": 2}]])"#,
    r#"helper(input.review.object.kind); msg := "helper""#,
    r#"msg := split(input.review.object.apiVersion, "/")[1]"#,
];

/// Whole templates' Rego that is refused, or odd.
const ODD: [&str; 8] = [
    "package foo\nx = 1",
    "package foo\nimport data.bar\nviolation[{\"msg\": \"a\"}] { bar.x }",
    "package foo\nimport future.keywords\nviolation contains {\"msg\": \"fk\"} if { true }",
    "package foo\nviolation[{\"msg\": \"a\"}] { true }\nviolation[{\"msg\": \"a\", \"details\": {}}] { true }",
    "package foo\nviolation[{\"msg\": \"a\", \"details\": {\"x\": 1}}] { true }",
    "package foo\ndefault ok = false\nok { input.review.object.kind == \"ConfigMap\" }\nviolation[{\"msg\": \"b\"}] { not ok }",
    "package foo\nviolation[{\"msg\": msg}] { msg := f(input.review.name) }\nf(x) = y { y := upper(x) }\nf(x) = y { x == \"\"; y := \"none\" }",
    "",
];

const MATCHES: [&str; 14] = [
    "{}",
    "{kinds: [{kinds: [ConfigMap]}]}",
    "{kinds: [{apiGroups: [apps], kinds: ['*']}]}",
    "{kinds: [{apiGroups: [''], kinds: [Service, ConfigMap]}]}",
    "{namespaces: [a, 'st*']}",
    "{excludedNamespaces: [a, '*ing']}",
    "{labelSelector: {matchLabels: {app: web}}}",
    "{labelSelector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}}",
    "{labelSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}",
    "{scope: Cluster}",
    "{scope: Namespaced}",
    "{name: 'w*'}",
    "{namespaceSelector: {matchLabels: {team: x}}}",
    "{labelSelector: {matchExpressions: [{key: app, operator: Foo}]}}",
];

fn resource(random: &mut Random, at: usize) -> String {
    let (api_version, kind, body) = *random.pick(&[
        ("v1", "ConfigMap", "data: {k: v, n: w}"),
        (
            "apps/v1",
            "Deployment",
            "spec: {replicas: 3, template: {spec: {containers: [{name: c, image: nginx}]}}}",
        ),
        ("v1", "Service", "spec: {ports: [{port: 80}, {port: 8080}]}"),
        ("v1", "Namespace", "spec: {}"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "rules: []"),
        ("example.com/v1", "Custom", "spec: {a: 1.5, b: [x]}"),
    ]);
    let name = *random.pick(&["web", "db", "a", "x"]);
    let namespace = *random.pick(&["", "a", "staging", "b"]);
    let labels = *random.pick(&["", "app: web", "app: other", "team: x"]);
    let mut metadata = format!("name: {name}{at}, labels: {{{labels}}}");
    if !namespace.is_empty() && !matches!(kind, "Namespace" | "ClusterRole") {
        metadata += &format!(", namespace: {namespace}");
    }
    if random.one_in(2) {
        metadata += &format!(
            ", annotations: {{config.kubernetes.io/path: f{at}.yaml, config.kubernetes.io/index: '{at}'}}"
        );
    }
    format!("- apiVersion: {api_version}\n  kind: {kind}\n  metadata: {{{metadata}}}\n  {body}\n")
}

fn list(random: &mut Random) -> String {
    let rego = if random.one_in(4) {
        (*random.pick(&ODD)).to_owned()
    } else {
        let rule = random.pick(&RULES);
        format!("package foo\nviolation[{{\"msg\": msg}}] {{ {rule} }}\nhelper(k) {{ k == \"Service\" }}\n")
    };
    let rego = rego.replace('\n', "\n        ");
    let version = *random.pick(&["v1beta1", "v1", "v1alpha1"]);
    let name = if random.one_in(20) { "other" } else { "foo" };
    let mut out = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n".to_owned();
    if !random.one_in(20) {
        out += &format!(
            "- apiVersion: templates.gatekeeper.sh/{version}\n  kind: ConstraintTemplate\n  metadata: {{name: {name}}}\n  \
             spec:\n    crd: {{spec: {{names: {{kind: Foo}}}}}}\n    targets:\n    - target: admission.k8s.gatekeeper.sh\n      \
             rego: |\n        {rego}\n"
        );
    }
    for at in 0..1 + random.below(2) {
        let matches = random.pick(&MATCHES);
        let action = *random.pick(&[
            "",
            "enforcementAction: warn, ",
            "enforcementAction: dryrun, ",
            "enforcementAction: x, ",
        ]);
        let parameters = *random.pick(&["", ", parameters: {labels: [app, team], x: 1}"]);
        out += &format!(
            "- apiVersion: constraints.gatekeeper.sh/v1beta1\n  kind: Foo\n  metadata: {{name: c{at}}}\n  \
             spec: {{{action}match: {matches}{parameters}}}\n"
        );
    }
    for at in 0..random.below(5) {
        out += &resource(random, at);
    }
    out
}

fn excuse(_: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    if theirs.stdout.contains("annotations-migration-resource-id") && ours.exit_code == theirs.exit_code {
        return Some("a policy that prints the reader's own annotations");
    }
    let compiles =
        |answer: &Answer| answer.stderr.contains("adding template") && answer.stderr.contains("rego_");
    (compiles(theirs) && ours.exit_code == 1).then_some("the compiler has other words")
}

#[test]
fn gatekeeper_finds_what_the_original_finds() {
    let inputs = seeds().map(|mut random| list(&mut random));
    Comparison {
        function: "gatekeeper",
        version: "latest",
        original: "gator-v3.23.1",
        inputs: "policies",
        level: Level::Values,
        excuse,
    }
    .run(inputs);
}
