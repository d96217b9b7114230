use crate::find;

const TEMPLATE: &str = "- apiVersion: templates.gatekeeper.sh/v1beta1
  kind: ConstraintTemplate
  metadata: {name: banned}
  spec:
    crd: {spec: {names: {kind: Banned}}}
    targets:
    - target: admission.k8s.gatekeeper.sh
      rego: |
        package banned
        violation[{\"msg\": msg}] {
          keys := {k | input.review.object.data[k]} & {k | k := input.parameters.keys[_]}
          count(keys) > 0
          msg := sprintf(\"banned: %v\", [keys])
        }
";

fn constraint(spec: &str) -> String {
    format!(
        "- apiVersion: constraints.gatekeeper.sh/v1beta1\n  kind: Banned\n  metadata: {{name: c}}\n  spec: {{{spec}}}\n"
    )
}

const ITEM: &str = "- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: cm
    namespace: ns
    annotations: {config.kubernetes.io/path: cm.yaml, config.kubernetes.io/index: '2'}
  data: {key: x, other: y}
";

fn on(items: &[&str]) -> crate::Output {
    let list = format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{}", items.concat());
    find("gatekeeper").expect("it is built in").1.filter(list.as_bytes())
}

fn stderr_of(items: &[&str]) -> String {
    on(items).stderr
}

#[test]
fn a_violation_is_an_error_unless_the_constraint_says_otherwise() {
    let parameters = "parameters: {keys: [key]}";
    let output = on(&[TEMPLATE, &constraint(parameters), ITEM]);
    assert_eq!(output.exit_code, 1);
    assert_eq!(output.stderr, "[error] v1/ConfigMap/ns/cm : banned: {\"key\"}\nviolatedConstraint: c\n");
    assert!(output.stdout.contains("file:\n    path: cm.yaml\n    index: 2\n"), "{}", output.stdout);
    for (action, severity) in [("warn", "warning"), ("dryrun", "info")] {
        let output =
            on(&[TEMPLATE, &constraint(&format!("enforcementAction: {action}, {parameters}")), ITEM]);
        assert_eq!((output.exit_code, output.stderr.as_str()), (0, ""));
        assert!(output.stdout.contains(&format!("severity: {severity}")), "{}", output.stdout);
    }
}

#[test]
fn nothing_to_complain_about_leaves_no_results() {
    let output = on(&[TEMPLATE, &constraint("parameters: {keys: [none]}"), ITEM]);
    assert_eq!(output.exit_code, 0);
    assert!(!output.stdout.contains("results"), "{}", output.stdout);
}

#[test]
fn policies_that_make_no_sense_are_refused_in_the_original_s_words() {
    let bare = "[error] : adding ";
    let text = stderr_of(&[&constraint(""), ITEM]);
    assert_eq!(
        text,
        format!("{bare}constraint \"c\": missing ConstraintTemplate: template \"banned\" not found\n")
    );
    let renamed = TEMPLATE.replace("name: banned", "name: other");
    assert_eq!(
        stderr_of(&[&renamed]),
        format!(
            "{bare}template \"other\": invalid ConstraintTemplate: the ConstraintTemplate's name \"other\" is not equal to the \
             lowercase of CRD's Kind: \"banned\"\n"
        )
    );
    let no_rule = TEMPLATE.replace("violation[", "other[");
    assert!(stderr_of(&[&no_rule]).contains("missing required rules: [violation]"));
}

#[test]
fn hostile_rego_ends_in_an_error() {
    let endless = TEMPLATE.replace(
        "count(keys) > 0",
        "some a, b, c, d, e; numbers.range(1, 1000)[a]; numbers.range(1, 1000)[b]; numbers.range(1, 1000)[c]; a + b + c < 0",
    );
    let started = std::time::Instant::now();
    let output = on(&[&endless, &constraint("parameters: {keys: [key]}"), ITEM]);
    assert_eq!(output.exit_code, 1, "{}", output.stderr);
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
    let itself = TEMPLATE
        .replace("count(keys) > 0", "f(1)")
        .replace("        }\n", "        }\n        f(x) { f(x) }\n");
    let output = on(&[&itself, &constraint("parameters: {keys: [key]}"), ITEM]);
    assert_eq!(output.exit_code, 1, "{}", output.stderr);
}
