//! The list of what a program is made of.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn a_program_lists_what_it_is_made_of() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/sbom");
    let output = Command::new(&script).arg("wrapper-server").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = document["packages"].as_array().unwrap();
    let names: Vec<_> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    for name in ["wrapper-server", "loggia-evaluator", "tokio", "hyper"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(!names.contains(&"kube"), "what it does not use is not listed");
    let undeclared = packages.iter().find(|package| package["licenseDeclared"] == "NOASSERTION");
    assert_eq!(undeclared, None, "every package has a licence");
    let unknown = Command::new(script).arg("no-such-program").output().unwrap();
    assert!(!unknown.status.success());
}
