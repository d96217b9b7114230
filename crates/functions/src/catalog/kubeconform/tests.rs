use crate::find;

fn on(config: &str, items: &str) -> crate::Output {
    let list = format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  \
         data: {{{config}}}\nitems:\n{items}"
    );
    find("kubeconform").expect("it is built in").1.filter(list.as_bytes())
}

/// The messages and fields of what is found.
fn found(config: &str, items: &str) -> Vec<String> {
    let output = on(config, items);
    let list =
        loggia_krm::ResourceList::parse(output.stdout.as_bytes(), loggia_krm::StreamOptions::default())
            .expect("a list");
    let results = list.results().expect("results");
    assert_eq!(output.exit_code, i32::from(!results.is_empty()), "{}", output.stderr);
    results
        .0
        .iter()
        .map(|one| format!("{}: {}", one.field.as_ref().map_or("", |field| &field.path), one.message))
        .collect()
}

fn deployment(spec: &str) -> String {
    format!("- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {{name: d}}\n  spec: {{{spec}}}\n")
}

const WHOLE: &str = "selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: i}]}}";

#[test]
fn missing_fields_come_before_what_is_wrong_below() {
    let expected = [
        "spec: missing properties 'selector', 'template'",
        "spec.replicas: got string, want null or integer",
    ];
    assert_eq!(found("strict: 'true'", &deployment("replicas: '3'")), expected);
}

#[test]
fn unknown_fields_are_errors_only_if_the_check_is_strict() {
    let item = deployment(&format!("{WHOLE}, odd: 1, more: 2"));
    assert_eq!(found("", &item), Vec::<String>::new());
    assert_eq!(found("strict: 'TRUE'", &item), ["spec: additional properties 'more', 'odd' not allowed"]);
}

#[test]
fn numbers_may_stand_for_quantities_and_ports_for_names() {
    let resources = "resources: {limits: {cpu: 1, memory: 1Gi, x: true}}";
    let item = deployment(&WHOLE.replace("image: i", &format!("image: i, {resources}")));
    let expected = ["spec.template.spec.containers.0.resources.limits.x: oneOf failed, none matched"];
    assert_eq!(found("", &item), expected);
}

#[test]
fn kinds_without_schema_and_skipped_kinds_pass() {
    assert_eq!(found("", "- apiVersion: custom.io/v1\n  kind: Custom\n  spec: 1\n"), Vec::<String>::new());
    assert_eq!(found("skip_kinds: 'Service,Deployment'", &deployment("replicas: x")), Vec::<String>::new());
    assert_eq!(found("skip_kinds: apps/v1/Deployment", &deployment("replicas: x")), Vec::<String>::new());
}

#[test]
fn custom_resources_are_checked_if_the_package_s_definitions_are_asked_for() {
    let items = "- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: things.x.io}
  spec:
    group: x.io
    names: {kind: Thing}
    versions:
    - name: v1
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, required: [size], properties: {size: {type: integer, minimum: 1}, mode: {enum: [a, b]}}}
- apiVersion: x.io/v1
  kind: Thing
  metadata: {name: t}
  spec: {size: 0, mode: c, odd: 1}
";
    assert_eq!(found("strict: 'true'", items), Vec::<String>::new());
    let expected = [
        "spec.mode: value must be one of 'a', 'b'",
        "spec.size: minimum: got 0, want 1",
        "spec: additional properties 'odd' not allowed",
    ];
    assert_eq!(found("strict: 'true', schema_location: 'package://'", items), expected);
}

#[test]
fn a_location_that_would_have_to_be_read_is_an_error() {
    let output = on("schema_location: 'https://example.com'", &deployment(WHOLE));
    assert_eq!(output.exit_code, 1);
    assert!(
        output.stderr.starts_with("failed to evaluate function: schema location `https://example.com`"),
        "{}",
        output.stderr
    );
}

#[test]
fn kubernetes_is_left_out_where_files_stand_in_for_it() {
    for (locations, expected) in [
        (&[][..], &["default"][..]),
        (&["package://"], &["package://", "default"]),
        (&["/s"], &["/s"]),
        (&["package://", "/s"], &["package://", "/s"]),
        (&["/s", "default"], &["/s", "default"]),
    ] {
        let text = format!("data: {{additional_schema_locations: '{}'}}\n", locations.join(","));
        let node = loggia_yaml::parse_all(&text).expect("YAML").remove(0).root;
        let expected: Vec<_> =
            expected.iter().map(|text| crate::schemas::Location::parse(text).expect("a location")).collect();
        assert_eq!(super::Config::new(Some(&node)).locations(), Ok(expected), "{locations:?}");
    }
}
