//! `--schema-folder`: what kubeconform and kubeval may read, and what no package can make them read.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test may")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

mod support;

use support::{Package, loggia, run};

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: carts.example.com
spec:
  group: example.com
  names: {kind: Cart, plural: carts}
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {wheels: {type: integer}}}
";

const JSON: &str = r#"{"type":"object","properties":{"spec":{"type":"object","required":["owner"]}}}"#;

const CART: &str = "apiVersion: example.com/v1\nkind: Cart\nmetadata:\n  name: small\nspec:\n  wheels: two\n";

/// A package with a cart, beside `crds` with its definition, `json` with other schemas of it, and what is nobody's
/// business.
fn stage() -> (Package, PathBuf) {
    let package = Package::new(&[("cart.yaml", CART)]);
    let root = package.path.parent().unwrap().to_owned();
    for (file, content) in [
        ("crds/carts.yaml", DEFINITION),
        ("json/master-standalone/cart-example-v1.json", JSON),
        ("json/example.com/cart_v1.json", JSON),
        ("secret/cart.json", JSON),
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    (package, root)
}

/// What the function has to say about the package, line by line.
fn eval(image: &str, folders: &[&str], root: &Path, locations: &[&str]) -> (i32, Vec<String>) {
    let mut arguments = vec!["fn", "eval", "app", "-i", image];
    for folder in folders {
        arguments.extend(["--schema-folder", folder]);
    }
    arguments.push("--");
    arguments.extend(locations);
    let ran = loggia(&arguments, root, "");
    let said = |line: &&str| line.starts_with("    ") || line.starts_with("error:");
    (ran.code, ran.stderr.lines().filter(said).map(|line| line.trim().to_owned()).collect())
}

#[test]
fn custom_resources_are_checked_against_a_folder() {
    let (_package, root) = stage();
    let failure = "failed to evaluate function: error: function failure";
    let wheels = "[error] example.com/v1/Cart/small spec.wheels: got string, want integer";
    let owner = "[error] example.com/v1/Cart/small spec: missing property 'owner'";
    let absolute = format!("schema_location=file://{}/crds", root.display());
    let template = format!(
        "additional_schema_locations=default,{}/json/{{{{ .Group }}}}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json",
        root.display()
    );
    for (folders, locations, expected) in [
        (&["crds"][..], &["schema_location=crds"][..], wheels),
        (&["crds"], &[&absolute], wheels),
        (&["json"], &["schema_location=json"], owner),
        (&["json"], &["schema_location=./app/../json/"], owner),
        (&["crds", "json"], &[&template], owner),
        (&["crds", "json"], &["schema_location=crds", &template], wheels),
        (&["crds", "json"], &["schema_location=json", "additional_schema_locations=crds"], owner),
        (&["."], &["schema_location=crds"], wheels),
    ] {
        let said = eval("kubeconform", folders, &root, locations);
        assert_eq!(said, (1, vec![expected.to_owned(), failure.to_owned()]), "{locations:?}");
    }
    let wheels =
        "[error] example.com/v1/Cart/small spec.wheels: Invalid type. Expected: integer, given: string";
    let said = eval("kubeval", &["crds"], &root, &["additional_schema_locations=crds"]);
    assert_eq!(said, (1, vec![wheels.to_owned()]));
    let said = eval("kubeval", &["json"], &root, &["schema_location=json"]);
    assert_eq!(said, (1, vec!["[error] example.com/v1/Cart/small owner: owner is required".to_owned()]));
}

#[test]
fn a_valid_resource_passes() {
    let (package, root) = stage();
    package.write("cart.yaml", &CART.replace("two", "2"));
    assert_eq!(eval("kubeconform", &["crds"], &root, &["schema_location=crds"]), (0, vec![]));
    assert_eq!(eval("kubeval", &["crds"], &root, &["schema_location=crds"]), (0, vec![]));
}

#[test]
fn nothing_outside_of_the_folders_is_read() {
    let (_package, root) = stage();
    symlink("../secret", root.join("crds/link")).unwrap();
    let none = "no folder with schemas may be read; `--schema-folder DIR` allows one";
    let outside = "it is outside of the folders that may be read; another `--schema-folder DIR` allows more";
    let secret = root.join("secret").display().to_string();
    for (folders, location, reason) in [
        (&[][..], "crds", none),
        (&[], "/etc", none),
        (&["crds"], secret.as_str(), outside),
        (&["crds"], "/etc/passwd.json", outside),
        (&["crds"], "/does/not/exist", outside),
        (&["crds"], "crds/../secret", outside),
        (&["crds"], "file:///%2e%2e/etc", outside),
        (&["crds"], "crds/link", outside),
        (&["crds"], "crds/link/cart.json", outside),
        (&["crds"], "{{.Group}}/x.json", outside),
        (&["crds"], "crds/missing", "there is no such folder"),
    ] {
        let argument = format!("schema_location={location}");
        let said = eval("kubeconform", folders, &root, &[&argument]);
        let expected = format!("failed to evaluate function: schema location `{location}`: {reason}");
        assert_eq!(said, (1, vec![expected]), "{location}");
    }
}

#[test]
fn a_resource_cannot_lead_out_of_a_folder() {
    let (package, root) = stage();
    package.write("cart.yaml", &CART.replace("example.com/v1", "../v1"));
    let location = "schema_location=crds/{{.Group}}/secret/{{.ResourceKind}}.json";
    let (code, said) = eval("kubeconform", &["crds"], &root, &[location]);
    let expected = "failed to evaluate function: schema `crds/../secret/cart.json` of ../v1 Cart: it is outside of the \
                    folders that may be read; another `--schema-folder DIR` allows more";
    assert_eq!((code, said), (1, vec![expected.to_owned()]));
}

#[test]
fn a_folder_that_is_not_there_is_told_at_once() {
    let (_package, root) = stage();
    let said = eval("kubeconform", &["crdz"], &root, &[]);
    let expected = "error: --schema-folder: `crdz`: No such file or directory (os error 2)";
    assert_eq!(said, (1, vec![expected.to_owned()]));
}

#[test]
fn a_render_may_read_the_folder_of_the_environment() {
    let (package, root) = stage();
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\npipeline:\n  validators:\n  - image: \
                   kubeconform\n    configMap:\n      schema_location: SCHEMAS\n";
    package.write("Kptfile", &kptfile.replace("SCHEMAS", &root.join("crds").display().to_string()));
    // Programs of tests start without the variable, so another one sets it.
    let variable = format!("LOGGIA_SCHEMA_FOLDER={}", root.join("crds").display());
    let render = [env!("CARGO_BIN_EXE_loggia"), "fn", "render", "app"];
    let ran = run(Command::new("env").arg(variable).args(render).current_dir(&root), "");
    assert!(ran.stderr.contains("spec.wheels: got string, want integer"), "{}", ran.stderr);
    for variable in ["LOGGIA_SCHEMA_FOLDER=", "OTHER=x"] {
        let ran = run(Command::new("env").arg(variable).args(render).current_dir(&root), "");
        assert!(ran.stderr.contains("no folder with schemas may be read"), "{}", ran.stderr);
    }
}
