use super::*;

#[test]
fn every_built_in_version_has_the_kinds_people_use() {
    for version in &Index::get().versions {
        let catalog = Catalog::new(Some(version)).expect("it is listed");
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("batch/v1", "CronJob"),
            ("networking.k8s.io/v1", "Ingress"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("apiregistration.k8s.io/v1", "APIService"),
        ] {
            assert!(catalog.schema(api_version, kind).is_some(), "{version} {api_version} {kind}");
        }
        assert!(catalog.schema("custom.io/v1", "Custom").is_none());
    }
}

#[test]
fn a_version_is_named_by_its_minor_number_too() {
    assert!(Catalog::new(Some("1.33")).is_ok());
    let error = Catalog::new(Some("1.2")).err().expect("too old");
    assert!(error.starts_with("Kubernetes version `1.2` is not built in; there are v1.29"), "{error}");
}

#[test]
fn every_reference_leads_to_a_definition() {
    for (position, version) in Index::get().versions.iter().enumerate() {
        for line in Index::get().lines.iter().filter(|line| line.versions & (1 << position) != 0) {
            for part in line.text.split("#/definitions/").skip(1) {
                let name = part.split('"').next().expect("a name");
                assert!(
                    Index::get().find(name, 1 << position).is_some(),
                    "{version}: {name} in {}",
                    line.name
                );
            }
        }
    }
}

#[test]
fn a_schema_that_refers_to_itself_comes_to_an_end() {
    let loops =
        [r##"{"$ref":"#"}"##, r##"{"allOf":[{"$ref":"#"}]}"##, r##"{"properties":{"a":{"$ref":"#"}}}"##];
    let deep = format!("{}1", "{a: ".repeat(400)) + &"}".repeat(400);
    let node = loggia_yaml::parse_all(&deep).expect("YAML").remove(0).root;
    let catalog = Catalog::new(None).expect("the newest");
    let patterns = Patterns::default();
    let checker = Checker { catalog: &catalog, strictness: Strictness::Lax, patterns: &patterns };
    for text in loops {
        let schema = json::parse(text.as_bytes()).expect("a schema");
        assert_eq!(checker.check(&schema, &node), [], "{text}");
    }
}
