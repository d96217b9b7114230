use crate::find;

fn on(config: &str, items: &str) -> (i32, Vec<String>) {
    let list = format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig:\n  data: {{{config}}}\nitems:\n{items}"
    );
    let output = find("kubeval").expect("it is built in").1.filter(list.as_bytes());
    let list =
        loggia_krm::ResourceList::parse(output.stdout.as_bytes(), loggia_krm::StreamOptions::default())
            .expect("a list");
    let results = list.results().expect("results");
    let field = |one: &loggia_krm::ResultItem| {
        one.field.as_ref().map(|field| format!("{}: ", field.path)).unwrap_or_default()
    };
    (output.exit_code, results.0.iter().map(|one| format!("{}{}", field(one), one.message)).collect())
}

#[test]
fn surplus_fields_come_before_wrong_types() {
    let item = "- apiVersion: v1\n  kind: ReplicationController\n  metadata: {name: bob}\n  spec: {replicas: asdf, templates: {}}\n";
    let expected = [
        "templates: Additional property templates is not allowed",
        "spec.replicas: Invalid type. Expected: [integer,null], given: string",
    ];
    assert_eq!(on("strict: 'true'", item), (1, expected.map(str::to_owned).to_vec()));
}

#[test]
fn a_kind_without_schema_is_an_error_unless_it_is_ignored_or_skipped() {
    let item = "- apiVersion: custom.io/v1\n  kind: Custom\n  metadata: {name: c}\n";
    let (exit_code, messages) = on("", item);
    assert_eq!(exit_code, 1);
    assert!(
        messages[0].starts_with("Validating arbitrary CRDs is not supported yet. You can skip them"),
        "{messages:?}"
    );
    for config in ["ignore_missing_schemas: 'true'", "skip_kinds: 'A,Custom'"] {
        assert_eq!(on(config, item), (0, Vec::new()), "{config}");
    }
}

#[test]
fn a_location_stands_in_for_kubernetes_and_others_come_behind_it() {
    for (config, expected) in [
        ("", &["package://", "default"][..]),
        ("schema_location: /s", &["package://", "/s"]),
        ("additional_schema_locations: '/s, /t'", &["package://", "default", "/s", "/t"]),
        ("schema_location: /s, additional_schema_locations: default", &["package://", "/s", "default"]),
    ] {
        let node = loggia_yaml::parse_all(&format!("data: {{{config}}}\n")).expect("YAML").remove(0).root;
        let config = super::Config::new(Some(&node)).expect("a config");
        let expected: Vec<_> =
            expected.iter().map(|text| crate::schemas::Location::parse(text).expect("a location")).collect();
        assert_eq!(config.locations(), Ok(expected));
    }
}
