use crate::find;

fn on(items: &str) -> crate::Output {
    let list = format!("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n{items}");
    find("fix").expect("it is built in").1.filter(list.as_bytes())
}

/// A resource in a file, from its text.
fn item(file: &str, text: &str) -> String {
    let text = text.replace(
        "metadata:\n",
        &format!("metadata:\n  annotations: {{config.kubernetes.io/path: {file}, internal.config.kubernetes.io/path: {file}}}\n"),
    );
    let lines: String = text.lines().map(|line| format!("  {line}\n")).collect();
    format!("-{}", lines.get(1..).unwrap_or_default())
}

const SETTERS: &str = "openAPI:
  definitions:
    io.k8s.cli.setters.tag:
      x-k8s-cli: {setter: {name: tag, value: '1.0'}}
    io.k8s.cli.setters.image:
      x-k8s-cli: {setter: {name: image, value: nginx}}
    io.k8s.cli.setters.list:
      x-k8s-cli: {setter: {name: list, listValues: [a, b]}}
    io.k8s.cli.substitutions.full:
      x-k8s-cli:
        substitution:
          name: full
          pattern: IMAGE:TAG
          values:
          - {marker: IMAGE, ref: '#/definitions/io.k8s.cli.setters.image'}
          - {marker: TAG, ref: '#/definitions/io.k8s.cli.setters.tag'}
";

#[test]
fn setters_become_a_config_and_comments_follow() {
    let kptfile = format!("apiVersion: kpt.dev/v1alpha1\nkind: Kptfile\nmetadata:\n  name: app\n{SETTERS}");
    let pod = "apiVersion: v1
kind: Pod
metadata:
  name: x
spec:
  image: nginx:1.0 # {\"$kpt-set\":\"full\"}
  tag: 1.0 # {\"$ref\":\"#/definitions/io.k8s.cli.setters.tag\"}
  other: y # {\"$kpt-set\":\"nobody\"}
  list: # {\"$kpt-set\":\"list\"}
  - a
";
    let output = on(&(item("Kptfile", &kptfile) + &item("pod.yaml", pod)));
    assert_eq!((output.exit_code, output.stderr.as_str()), (0, ""));
    for line in [
        "image: nginx:1.0 # kpt-set: ${image}:${tag}",
        "tag: 1.0 # kpt-set: ${tag}",
        "other: y # {\"$kpt-set\":\"nobody\"}",
        "list: # kpt-set: ${list}",
        "  data:\n    image: nginx\n    list: |\n      - a\n      - b\n    tag: \"1.0\"\n",
        "    - image: gcr.io/kpt-fn/apply-setters:v0.2\n      configPath: setters.yaml\n",
        "- message: Transformed \"openAPI\" definitions to \"apply-setters\" function\n",
    ] {
        assert!(output.stdout.contains(line), "{line}\n{}", output.stdout);
    }
    assert!(!output.stdout.contains("openAPI:"), "{}", output.stdout);
}

#[test]
fn functions_that_resources_configure_join_the_pipeline() {
    let kptfile = "apiVersion: kpt.dev/v1alpha1\nkind: Kptfile\nmetadata:\n  name: app\npackageMetadata: {email: a@b}\n";
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: label\n";
    let config = item("sub/fn.yaml", config).replace(
        "annotations: {",
        "annotations: {config.kubernetes.io/function: 'container: {image: \"x/label:v1\"}', ",
    );
    let output = on(&(item("Kptfile", kptfile) + &config));
    for line in [
        "    - image: x/label:v1\n      configPath: label.yaml\n",
        "    emails:\n    - a@b\n",
        "config.kubernetes.io/path: label.yaml",
        "- message: Added \"x/label:v1\" to mutators list, please move it to validators section if it is a validator function\n",
    ] {
        assert!(output.stdout.contains(line), "{line}\n{}", output.stdout);
    }
    assert!(!output.stdout.contains("kubernetes.io/function"), "{}", output.stdout);
}

#[test]
fn later_kptfiles_need_less() {
    let second = "apiVersion: kpt.dev/v1alpha2
kind: Kptfile
metadata:
  name: app
pipeline:
  mutators:
  - image: gcr.io/kpt-fn/apply-setters:v0.1
    configMap: {b: '2', a: x}
";
    let output = on(&item("a/Kptfile", second));
    assert!(output.stdout.contains("apiVersion: kpt.dev/v1\n"), "{}", output.stdout);
    assert!(output.stdout.contains("data:\n    a: x\n    b: \"2\"\n"), "{}", output.stdout);
    assert!(
        output.stdout.contains("- message: Moved setters from configMap to configPath\n"),
        "{}",
        output.stdout
    );
    assert!(output.stdout.contains("path: 'a/setters.yaml'"), "{}", output.stdout);

    let newest = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n";
    let message = "This package is already fixed as it is on latest apiVersion kpt.dev/v1";
    assert!(on(&item("Kptfile", newest)).stdout.contains(message));
}

#[test]
fn what_cannot_be_fixed_is_told() {
    let text = "Kptfile not found in directory tree, make sure you specify '--include-meta-resources' flag";
    let output = on(&item("a.yaml", "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n"));
    assert_eq!((output.exit_code, output.stderr), (1, format!("{text}{text}\n")));
    let cyclic = SETTERS.replace("setters.image'", "substitutions.full'");
    let kptfile = format!("apiVersion: kpt.dev/v1alpha1\nkind: Kptfile\nmetadata:\n  name: app\n{cyclic}");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nimage: y # {\"$kpt-set\":\"full\"}\n";
    let output = on(&(item("Kptfile", &kptfile) + &item("pod.yaml", pod)));
    assert!(output.stderr.starts_with("cyclic substitution detected with name full"), "{}", output.stderr);
}
