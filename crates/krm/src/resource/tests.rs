//! A resource's getters and setters on small documents.

use loggia_yaml::{parse_first, to_string};

use super::*;
use crate::annotation::{ID, INDEX, LEGACY_ID, LEGACY_INDEX, LEGACY_PATH, PACKAGE_PATH, PATH};

fn resource(yaml: &str) -> Resource {
    Resource::from(parse_first(yaml).expect("is YAML").expect("is there"))
}

fn yaml(resource: &Resource) -> String {
    to_string([resource.document()])
}

const DEPLOYMENT: &str = "# about it

apiVersion: apps/v1 # stable
kind: Deployment
metadata:
  name: web
  # where
  namespace: 'prod'
  labels: {app: web, tier: 1}
  annotations:
    note: \"x\" # why
    config.kubernetes.io/local-config: \"true\"
";

#[test]
fn getters_read_the_text_of_fields_whatever_their_type() {
    let resource = resource(DEPLOYMENT);
    assert_eq!(resource.api_version(), "apps/v1");
    assert_eq!(resource.group(), "apps");
    assert_eq!(resource.kind(), "Deployment");
    assert_eq!((resource.name(), resource.namespace()), ("web", "prod"));
    assert_eq!(resource.label("tier"), Some("1"));
    assert_eq!(resource.annotations().map(|(key, _)| key).collect::<Vec<_>>().len(), 2);
    assert_eq!(resource.id().to_string(), "apps/Deployment/prod/web");
    assert!(resource.is_local_config());
}

#[test]
fn what_is_not_there_reads_as_nothing() {
    let resource = resource("kind:\nmetadata:\n  name: ~\n  labels: [a]\n");
    assert_eq!((resource.kind(), resource.name(), resource.namespace()), ("", "", ""));
    assert_eq!(resource.labels().len(), 0);
    assert_eq!(resource.annotation("a"), None);
    assert_eq!(
        (resource.path(), resource.index(), resource.function_id(), resource.package_path()),
        ("", "", "", "")
    );
    assert!(!resource.is_local_config());
}

#[test]
fn aliases_are_followed() {
    let resource = resource("x: &m {name: n, labels: {a: b}}\ny: &k Kind\nkind: *k\nmetadata: *m\n");
    assert_eq!((resource.kind(), resource.name(), resource.label("a")), ("Kind", "n", Some("b")));
}

#[test]
fn setters_keep_order_comments_and_quotes() {
    let mut resource = resource(DEPLOYMENT);
    resource.set_api_version("apps/v2").expect("is a mapping");
    resource.set_annotation("note", "y").expect("is a mapping");
    resource.set_annotation("plain", "some text").expect("is a mapping");
    resource.set_annotation("number", "2").expect("is a mapping");
    let expected = "# about it

apiVersion: apps/v2 # stable
kind: Deployment
metadata:
  name: web
  # where
  namespace: 'prod'
  labels: {app: web, tier: 1}
  annotations:
    note: \"y\" # why
    config.kubernetes.io/local-config: \"true\"
    plain: some text
    number: \"2\"
";
    assert_eq!(yaml(&resource), expected);
}

#[test]
fn setters_make_what_is_missing() {
    let mut made = Resource::default();
    made.set_api_version("v1").expect("null becomes a mapping");
    made.set_annotation("a", "- b").expect("made");
    made.set_annotation("c", "1").expect("made");
    let expected = "apiVersion: v1\nmetadata:\n  annotations:\n    a: \"- b\"\n    c: \"1\"\n";
    assert_eq!(yaml(&made), expected);
}

#[test]
fn setters_refuse_what_is_no_mapping() {
    let error = resource("text").set_api_version("v1").expect_err("a scalar");
    assert_eq!(
        error.to_string(),
        "wrong node kind: expected MappingNode but got ScalarNode: node contents:\ntext\n"
    );
    let mut list = resource("kind: A\nmetadata: [a]\n");
    let error = list.set_annotation("a", "b").expect_err("a sequence");
    assert_eq!(
        error.to_string(),
        "wrong node kind: expected MappingNode but got SequenceNode: node contents:\n[a]\n"
    );
    assert_eq!(error.line, Some(2));
    let mut alias = resource("x: &x {a: b}\nmetadata: *x\n");
    let error = alias.set_path("p").expect_err("an alias").to_string();
    assert_eq!(error, "wrong node kind: expected MappingNode but got AliasNode: node contents:\n*x\n");
    assert!(resource("metadata:\n  annotations: x\n").set_annotation("a", "b").is_err());
    assert!(resource("metadata:\n  annotations: [x]\n").set_index(1).is_err());
}

#[test]
fn path_index_and_id_are_read_in_either_spelling_and_written_in_both() {
    let mut old = resource("metadata:\n  annotations:\n    config.kubernetes.io/path: old.yaml\n");
    assert_eq!(old.path(), "old.yaml");
    old.set_path("new.yaml").expect("is a mapping");
    old.set_index(3).expect("is a mapping");
    for (key, value) in [(ID, "7"), (LEGACY_ID, "7"), (PACKAGE_PATH, "/p")] {
        old.set_reader_annotation(key, value).expect("is a mapping");
    }
    let expected = "metadata:
  annotations:
    config.kubernetes.io/path: new.yaml
    internal.config.kubernetes.io/path: 'new.yaml'
    internal.config.kubernetes.io/index: '3'
    config.kubernetes.io/index: '3'
    internal.config.kubernetes.io/id: '7'
    config.k8s.io/id: '7'
    internal.config.kubernetes.io/package-path: '/p'
";
    assert_eq!(yaml(&old), expected);
    assert_eq!(
        (old.path(), old.index(), old.function_id(), old.package_path()),
        ("new.yaml", "3", "7", "/p")
    );
}

#[test]
fn the_modern_spelling_wins_and_a_missing_one_is_filled_in() {
    let mut both = resource(&format!(
        "metadata:\n  annotations:\n    {LEGACY_PATH}: a\n    {PATH}: b\n    {INDEX}: '4'\n"
    ));
    assert_eq!(both.path(), "b");
    both.fill_twins().expect("is a mapping");
    assert_eq!(both.annotation(LEGACY_PATH), Some("a"));
    assert_eq!(both.annotation(LEGACY_INDEX), Some("4"));
    assert_eq!(both.annotation("config.k8s.io/id"), None);
}

#[test]
fn annotations_of_readers_go_without_a_trace() {
    let text = "kind: A\nmetadata:\n  annotations:\n    a: b\n";
    let mut resource = resource(text);
    resource.set_path("x.yaml").expect("is a mapping");
    resource.set_index(0).expect("is a mapping");
    resource.set_reader_annotation(crate::annotation::SEQUENCE_INDENT, "wide").expect("is a mapping");
    assert_eq!(resource.sequence_style(), loggia_yaml::SequenceStyle::Wide);
    resource.retain_annotations(|key| key == "a");
    assert_eq!(yaml(&resource), text);
}

#[test]
fn empty_annotations_and_then_empty_metadata_are_dropped() {
    for text in
        ["metadata:\n  annotations: {}\n", "metadata:\n  annotations:\n", "metadata: {}\n", "metadata:\n"]
    {
        let mut resource = resource(&format!("kind: A\n{text}"));
        resource.drop_empty_metadata().expect("is a mapping");
        assert_eq!(yaml(&resource), "kind: A\n", "{text}");
    }
    let mut named = resource("metadata:\n  annotations: {}\n  name: x\n");
    named.drop_empty_metadata().expect("is a mapping");
    assert_eq!(yaml(&named), "metadata:\n  name: x\n");
    let mut labelled = resource("metadata:\n  labels: {}\n");
    labelled.drop_empty_metadata().expect("is a mapping");
    assert_eq!(yaml(&labelled), "metadata:\n  labels: {}\n");
}

#[test]
fn annotations_that_are_an_alias_keep_their_values() {
    let mut resource = resource("x: &x {a: b}\nmetadata:\n  annotations: *x\n");
    resource.set_path("p").expect("is a mapping");
    assert_eq!(resource.annotation("a"), Some("b"));
    resource.retain_annotations(|key| key == "a");
    assert_eq!(yaml(&resource), "x: &x {a: b}\nmetadata:\n  annotations: {a: b}\n");
}

#[test]
fn removing_an_entry_leaves_the_rest() {
    let mut resource = resource(DEPLOYMENT);
    resource.remove_annotation("note");
    resource.remove_annotation("no such");
    let left: Vec<_> = resource.annotations().collect();
    assert_eq!(left, [("config.kubernetes.io/local-config", "true")]);
    assert_eq!(resource.labels().collect::<Vec<_>>(), [("app", "web"), ("tier", "1")]);
}

#[test]
fn local_config_is_anything_but_empty_and_false() {
    for (value, expected) in [("\"true\"", true), ("whatever", true), ("\"false\"", false), ("\"\"", false)] {
        let text = format!("metadata:\n  annotations:\n    config.kubernetes.io/local-config: {value}\n");
        assert_eq!(resource(&text).is_local_config(), expected, "{value}");
    }
}

#[test]
fn the_krm_check_names_what_is_missing() {
    let check = |text: &str| resource(text).check_krm().map_err(|missing| missing.to_string());
    assert_eq!(check("apiVersion: v1\nkind: A\nmetadata: {name: x}\n"), Ok(()));
    assert_eq!(check("a: b\n"), Err("resource must have `apiVersion`, `kind`, and `name`".into()));
    assert_eq!(check("kind: A\n"), Err("resource must have `apiVersion`".into()));
    assert_eq!(check("apiVersion: v1\n"), Err("resource must have `kind`".into()));
    assert_eq!(check("apiVersion: v1\nkind: List\n"), Err("resource must have `metadata.name`".into()));
    assert_eq!(check("metadata: {name: x}\n"), Err("resource must have `apiVersion`".into()));
}

#[test]
fn kustomizations_need_no_name() {
    let check = |text: &str| resource(text).check_krm().is_ok();
    assert!(check("kind: Kustomization\n"));
    assert!(check("apiVersion: kustomize.config.k8s.io/v1beta1\n"));
    assert!(check("metadata: {annotations: {config.kubernetes.io/path: a/kustomization.yml}}\n"));
    assert!(!check("apiVersion: v1\nkind: Kustomization\n"));
}

#[test]
fn default_paths_are_made_of_namespace_kind_and_name() {
    let mut resources = vec![
        resource("kind: ConfigMap\nmetadata: {name: a, namespace: n}\n"),
        resource("kind: Secret\nmetadata: {name: b}\n"),
        resource("kind: A\nmetadata: {name: c, annotations: {config.kubernetes.io/path: kept.yaml}}\n"),
    ];
    set_default_paths(&mut resources, "confs").expect("are resources");
    let paths: Vec<&str> = resources.iter().map(Resource::path).collect();
    assert_eq!(paths, ["confs/n/configmap_a.yaml", "confs/secret_b.yaml", "kept.yaml"]);
    let error = set_default_paths(&mut [resource("a: b\n")], "").expect_err("no resource").to_string();
    assert_eq!(error, "missing Resource metadata");
}
