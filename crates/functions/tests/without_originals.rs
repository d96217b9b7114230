//! Functions whose original programs are not to be had: what their published examples and sources say.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may")]

use loggia_functions::{Output, find};

fn run(image: &str, items: &str, config: &str) -> Output {
    let input = format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{items}{config}");
    find(image).unwrap().1.filter(input.as_bytes())
}

const SET: &str = "- apiVersion: blueprints.cloud.google.com/v1alpha1
  kind: ProjectServiceSet
  metadata:
    name: proj
    annotations:
      mine: here
      internal.config.kubernetes.io/path: 'a/set.yaml'
      config.kubernetes.io/path: 'a/set.yaml'
  spec:
    services: # all of them
    - compute.googleapis.com
    projectID: proj-id
";

#[test]
fn a_service_set_becomes_services_beside_it() {
    let output = run("enable-gcp-services", SET, "");
    assert_eq!((output.exit_code, output.stderr.as_str()), (0, ""));
    assert!(output.stdout.contains("    services: # all of them\n"), "{}", output.stdout);
    assert!(
        output.stdout.contains("      config.kubernetes.io/local-config: \"true\"\n"),
        "{}",
        output.stdout
    );
    let expected = "- apiVersion: serviceusage.cnrm.cloud.google.com/v1beta1
  kind: Service
  metadata:
    name: proj-compute
    annotations:
      mine: 'here'
      blueprints.cloud.google.com/ownerReference: 'blueprints.cloud.google.com/ProjectServiceSet/proj'
      internal.config.kubernetes.io/path: 'a/service_proj-compute.yaml'
      config.kubernetes.io/path: 'a/service_proj-compute.yaml'
  spec:
    resourceID: compute.googleapis.com
    projectRef:
      external: proj-id
results:
- message: generated service
  severity: info
  resourceRef:
    apiVersion: serviceusage.cnrm.cloud.google.com/v1beta1
    kind: Service
    name: proj-compute
  file:
    path: a/service_proj-compute.yaml
";
    assert!(output.stdout.ends_with(expected), "{}", output.stdout);
}

#[test]
fn what_a_service_set_made_before_is_recreated_or_pruned() {
    let owned = |name: &str| {
        format!(
            "- apiVersion: serviceusage.cnrm.cloud.google.com/v1beta1
  kind: Service
  metadata:
    name: {name}
    annotations:
      blueprints.cloud.google.com/ownerReference: blueprints.cloud.google.com/ProjectServiceSet/proj
      internal.config.kubernetes.io/path: 'a/{name}.yaml'
      config.kubernetes.io/path: 'a/{name}.yaml'
"
        )
    };
    let items = format!("{SET}{}{}", owned("proj-compute"), owned("proj-redis"));
    let output = run("enable-gcp-services", &items, "");
    assert!(output.stdout.contains("- message: recreated service\n"), "{}", output.stdout);
    assert!(output.stdout.contains("- message: pruned service\n"), "{}", output.stdout);
    assert_eq!(output.stdout.matches("\n  kind: Service\n").count(), 1, "{}", output.stdout);
}

#[test]
fn a_service_set_without_services_fails() {
    let items = SET.replace("    services: # all of them\n    - compute.googleapis.com\n", "");
    let output = run("enable-gcp-services", &items, "");
    let error = "at least one service must be specified under `spec.services[]`";
    assert_eq!((output.exit_code, output.stderr), (1, format!("{error}{error}\n")));
    assert!(
        output.stdout.contains(&format!("- message: 'failed to add services: {error}'\n")),
        "{}",
        output.stdout
    );
}

#[test]
fn local_config_is_removed_in_any_case_of_letters() {
    let item = |name: &str, local: &str| {
        format!(
            "- kind: A\n  metadata:\n    name: {name}\n    annotations:\n      config.kubernetes.io/local-config: {local}\n"
        )
    };
    let items = item("a", "\"True\"") + &item("b", "binding") + &item("c", "\"true\"");
    let output = run("remove-local-config-resources", &items, "");
    let expected = format!(
        "items:\n{}results:\n  name: remove-local-config-resources\n  items:\n  - message: 'Number of resources pruned: 2'\n    severity: info\n  - message: 'Resource name: [a]'\n    severity: info\n  - message: 'Resource name: [c]'\n    severity: info\n",
        item("b", "binding")
    );
    assert!(output.stdout.ends_with(&expected), "{}", output.stdout);
    let output = run("remove-local-config-resources", &item("b", "binding"), "");
    assert!(output.stdout.contains("Found no resources to prune"), "{}", output.stdout);
}

const KPTFILE: &str = "- apiVersion: kpt.dev/v1
  kind: Kptfile
  metadata:
    name: pkg
    annotations:
      internal.config.kubernetes.io/path: 'Kptfile'
      config.kubernetes.io/path: 'Kptfile'
";
const PROJECT: &str = "functionConfig:\n  data:\n    project-id: my-project\n";

#[test]
fn a_project_becomes_a_setter_and_an_annotation() {
    let bucket = "- apiVersion: storage.cnrm.cloud.google.com/v1beta1
  kind: StorageBucket
  metadata:
    name: bucket # a name
    annotations:
      internal.config.kubernetes.io/path: 'b.yaml'
      config.kubernetes.io/path: 'b.yaml'
- apiVersion: core.cnrm.cloud.google.com/v1beta1
  kind: ConfigConnector
  metadata:
    name: core
";
    let output = run("set-project-id", &format!("{KPTFILE}{bucket}"), PROJECT);
    assert_eq!((output.exit_code, output.stderr.as_str()), (0, ""));
    let pipeline = "  pipeline:
    mutators:
    - image: gcr.io/kpt-fn/apply-setters:v0.2
      configMap:
        project-id: my-project
";
    assert!(output.stdout.contains(pipeline), "{}", output.stdout);
    assert_eq!(output.stdout.matches("cnrm.cloud.google.com/project-id: my-project").count(), 1);
}

#[test]
fn a_setter_that_has_a_value_keeps_it() {
    let items = format!(
        "{KPTFILE}  pipeline:\n    mutators:\n    - image: apply-setters\n      configMap:\n        project-id: \"theirs\" # set\n"
    );
    let output = run("set-project-id", &items, PROJECT);
    assert!(output.stdout.contains("        project-id: \"theirs\" # set\n"), "{}", output.stdout);
}

#[test]
fn a_project_needs_a_kptfile() {
    let output = run("set-project-id", "- kind: A\n  metadata:\n    name: a\n", PROJECT);
    let error = "failed to set project-id setter: failed to find Kptfile: unable to find Kptfile, please include --include-meta-resources flag if a Kptfile is present";
    assert_eq!((output.exit_code, output.stderr), (1, format!("{error}{error}\n")));
}
