//! After init, clone, edit and upgrade.

use std::collections::BTreeMap;

use super::*;
use crate::task::Disposition;

#[tokio::test]
async fn a_package_has_exactly_one_task_of_a_kind_we_know() {
    let none = Creation::default();
    assert_eq!(
        apply(package(&[]), &none).await.unwrap_err().to_string(),
        "task list must contain exactly 1 task"
    );
    let two = Creation { tasks: vec!["init".into(), "clone".into()], ..Creation::default() };
    assert_eq!(apply(package(&[]), &two).await.unwrap_err(), TaskError::TaskCount);
    let error = apply(package(&[]), &creation("eval")).await.unwrap_err();
    assert_eq!(error.to_string(), "task of type \"eval\" not supported");
}

#[tokio::test]
async fn a_new_package_is_rendered_and_pushed_under_its_task() {
    for task in ["init", "edit"] {
        let handled = apply(package(&["sed s/blue/green/"]), &creation(task)).await.unwrap();
        assert_eq!((handled.disposition, handled.task.as_str()), (Disposition::Push, task));
        assert_eq!(text(&handled.files, "cm.yaml"), CM.replace("blue", "green"));
        assert_eq!(handled.failure, None);
        assert_eq!(handled.status.unwrap().result.items.len(), 1);
    }
}

#[tokio::test]
async fn a_clone_into_a_deployment_repository_gets_its_context_and_nobody_sees_a_task_for_it() {
    let clone = Creation { package: deployment(), ..creation("clone") };
    let handled = apply(package(&[]), &clone).await.unwrap();
    let context = "apiVersion: v1
kind: ConfigMap
metadata: # kpt-merge: /kptfile.kpt.dev
  name: kptfile.kpt.dev
  annotations:
    config.kubernetes.io/local-config: \"true\"
    internal.kpt.dev/upstream-identifier: '|ConfigMap|default|kptfile.kpt.dev'
data:
  deployment: \"true\"
  name: app
  namespace: default
  package-path: base/app
  repository: edge
";
    assert_eq!(text(&handled.files, "package-context.yaml"), context);
    assert_eq!(handled.task, "clone");
    assert!(handled.status.is_none(), "a builtin function is not in the results");
    let again = apply(handled.files.clone(), &clone).await.unwrap();
    assert_eq!(again.files, handled.files, "once is enough");
}

#[tokio::test]
async fn other_tasks_and_other_repositories_get_no_context() {
    let abstract_clone =
        Creation { package: PackageConfig { deployment: false, ..deployment() }, ..creation("clone") };
    for creation in [abstract_clone, Creation { package: deployment(), ..creation("edit") }] {
        let handled = apply(package(&[]), &creation).await.unwrap();
        assert!(!handled.files.contains_key("package-context.yaml"));
    }
}

#[tokio::test]
async fn a_former_context_gives_way_and_all_else_keeps_its_bytes() {
    let odd = "a:   1\n\n\nb: 2 # odd\napiVersion: v1\nkind: X\nmetadata: {name: odd}\n";
    let former = "# about\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\ndata:\n  name: example\n";
    let other = format!("{CM}---\n{former}");
    let mut package = files(&[
        ("Kptfile", KPTFILE),
        ("odd.yaml", odd),
        ("other.yaml", &other),
        ("package-context.yaml", former),
        ("sub/Kptfile", KPTFILE),
        ("sub/package-context.yaml", former),
    ]);
    crate::task::context::generate(&mut package, &deployment()).unwrap();
    assert_eq!(text(&package, "odd.yaml"), odd);
    assert_eq!(text(&package, "other.yaml"), CM);
    assert_eq!(text(&package, "sub/package-context.yaml"), former, "another package's");
    let context = text(&package, "package-context.yaml");
    assert!(context.starts_with("# about\n") && context.contains("  name: app\n"), "{context}");
    assert!(!context.contains("example"));
}

#[tokio::test]
async fn a_builtin_function_that_fails_leaves_nothing_but_its_error() {
    let mut package = package(&[]);
    package.insert("bad.yaml".to_owned(), b"a: [".to_vec());
    let clone = Creation { package: deployment(), ..creation("clone") };
    let error = apply(package, &clone).await.unwrap_err().to_string();
    let frame = "failed to generate deployment context: failed to evaluate function \"builtins/gen-pkg-context\": bad.yaml: MalformedYAMLError: ";
    assert!(error.starts_with(frame), "{error}");
}

#[tokio::test]
async fn clones_and_upgrades_remember_where_resources_came_from() {
    for task in ["clone", "upgrade"] {
        let handled = apply(package(&[]), &creation(task)).await.unwrap();
        let expected = "apiVersion: v1
kind: ConfigMap
metadata: # kpt-merge: /cm
  name: cm
  annotations:
    internal.kpt.dev/upstream-identifier: '|ConfigMap|default|cm'
data:
  colour: blue
";
        assert_eq!(text(&handled.files, "cm.yaml"), expected, "{task}");
    }
    let handled = apply(package(&[]), &creation("edit")).await.unwrap();
    assert_eq!(text(&handled.files, "cm.yaml"), CM);
}

#[tokio::test]
async fn a_merge_key_that_is_there_stays_and_names_the_origin() {
    let renamed = "apiVersion: apps/v1\nkind: Deployment\nmetadata: # kpt-merge: ns/old\n  name: new\n  namespace: other\n";
    let odd = "apiVersion: v1\nkind: Secret\nmetadata: # kpt-merge: nonsense\n  name: s\n";
    let package = files(&[("Kptfile", KPTFILE), ("d.yaml", renamed), ("s.yaml", odd)]);
    let handled = apply(package, &creation("clone")).await.unwrap();
    let deployment = text(&handled.files, "d.yaml");
    assert!(deployment.contains("metadata: # kpt-merge: ns/old\n"), "{deployment}");
    assert!(deployment.contains("upstream-identifier: 'apps|Deployment|ns|old'\n"), "{deployment}");
    assert!(text(&handled.files, "s.yaml").contains("'|Secret|default|s'\n"));
}

#[tokio::test]
async fn merge_keys_that_cannot_be_set_cost_a_warning_and_not_the_package() {
    let mut package = package(&[]);
    package.insert("bad.yaml".to_owned(), b"a: [".to_vec());
    package.insert(".krmignore".to_owned(), b"bad.yaml\n".to_vec());
    let handled = apply(package, &creation("clone")).await.unwrap();
    assert_eq!(text(&handled.files, "cm.yaml"), CM);
    assert!(
        handled.warnings[0].starts_with("failed to add merge-key directive: bad.yaml: "),
        "{:?}",
        handled.warnings
    );
}

#[tokio::test]
async fn metadata_is_added_to_the_kptfile_without_touching_what_is_there() {
    let kptfile = "# ours\napiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app # short\n  labels:\n    team: red\ninfo:\n  readinessGates:\n  - conditionType: old # why\n  - conditionType: kept\n";
    let entries = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    let patch = KptfilePatch {
        labels: entries("tier", "db"),
        annotations: entries("a", "b"),
        readiness_gates: Some(vec!["z".into(), "kept".into(), "a".into()]),
        conditions: None,
    };
    let mut package = files(&[("Kptfile", kptfile)]);
    patch.apply_to_files(&mut package, crate::task::Manner::Upsert).unwrap();
    let expected = "# ours
apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: app # short
  labels:
    team: red
    tier: db
  annotations:
    a: b
info:
  readinessGates:
  - conditionType: kept
  - conditionType: z
  - conditionType: a
";
    assert_eq!(text(&package, "Kptfile"), expected);
}

#[tokio::test]
async fn metadata_needs_a_kptfile_that_can_be_read() {
    let labelled = |labels| Creation { patch: KptfilePatch { labels, ..patch() }, ..creation("init") };
    let creation = labelled(Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])));
    let error = apply(files(&[("cm.yaml", CM)]), &creation).await.unwrap_err().to_string();
    assert_eq!(error, "failed to parse Kptfile: No Kptfile found at \"/\".");
    let error = apply(files(&[("Kptfile", "a: [")]), &creation).await.unwrap_err().to_string();
    assert!(error.starts_with("failed to parse Kptfile: Kptfile at \"/\" can't be read."), "{error}");
}

#[tokio::test]
async fn a_creation_that_cannot_be_rendered_is_taken_back_with_its_status() {
    let broken = package(&["sh -c 'echo broken >&2; exit 3'"]);
    let handled = apply(broken.clone(), &creation("init")).await.unwrap();
    assert_eq!(handled.disposition, Disposition::Discard);
    assert!(handled.files.is_empty());
    assert_eq!(handled.status.as_ref().unwrap().result.items[0].exit_code, 3);
    let failure = handled.failure.unwrap();
    assert!(failure.starts_with("Error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn render' succeeds) and retry. Details: fn.render: pkg /:"), "{failure}");

    let pushed = Creation { push_on_failure: true, ..creation("init") };
    let handled = apply(broken, &pushed).await.unwrap();
    assert_eq!(handled.disposition, Disposition::Push);
    assert!(text(&handled.files, "Kptfile").contains("reason: RenderFailed"));
    let failure = handled.failure.unwrap();
    assert!(failure.starts_with("Error rendering package in kpt function pipeline. Package pushed to remote despite render failure. Details: "), "{failure}");
}
