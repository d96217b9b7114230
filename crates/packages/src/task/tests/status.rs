//! Rendering as such: where the package is, and what is told of it.

use super::*;
use crate::task::Disposition;

#[tokio::test]
async fn without_a_package_there_is_nothing_to_render() {
    let handled = render(files(&[("cm.yaml", CM)])).await;
    assert_eq!(handled.disposition, Disposition::Push);
    assert_eq!(handled.warnings, ["skipping render as no package was found"]);
    assert_eq!(text(&handled.files, "cm.yaml"), CM);
    assert!(handled.status.is_none());
}

#[tokio::test]
async fn a_package_below_the_top_is_found_and_put_back_in_its_place() {
    let inner = kptfile(&["sed s/blue/green/"]);
    let handled = render(files(&[
        ("README.md", "hi"),
        ("app/Kptfile", &inner),
        ("app/cm.yaml", CM),
        ("app/db/Kptfile", KPTFILE),
    ]))
    .await;
    assert_eq!(handled.failure, None);
    assert!(text(&handled.files, "app/cm.yaml").contains("green"));
    assert_eq!(text(&handled.files, "README.md"), "hi");
    assert!(handled.files.contains_key("app/db/Kptfile") && !handled.files.contains_key("cm.yaml"));
}

#[tokio::test]
async fn several_packages_side_by_side_are_not_guessed_about() {
    let handled =
        render(files(&[("b/Kptfile", KPTFILE), ("a/Kptfile", KPTFILE), ("a/c/Kptfile", KPTFILE)])).await;
    let error = handled.status.unwrap().error;
    assert_eq!(
        error,
        "there are 2 packages and none of them holds the others: `a`, `b`; add a Kptfile above them or handle them one by one"
    );
}

#[tokio::test]
async fn names_of_files_must_be_what_they_seem() {
    for (path, reason) in [
        ("", "is empty"),
        ("/etc/x", "is absolute"),
        ("../x", "shortest form"),
        ("a/./b", "shortest form"),
        ("a\0", "NUL"),
    ] {
        let handled =
            with_handler(async |handler| handler.render(files(&[(path, "")]), false, &mut Quiet).await).await;
        let error = handled.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_kptfile_that_cannot_be_read_is_a_failed_render() {
    let handled =
        render(files(&[("Kptfile", "apiVersion: kpt.dev/v2\nkind: Kptfile\nmetadata: {name: a}\n")])).await;
    let status = handled.status.unwrap();
    assert!(status.error.starts_with("fn.render: pkg /:"), "{}", status.error);
    assert!(status.error.contains("unknown resource type"), "{}", status.error);
    assert_eq!(status.result.exit_code, 1);
}

#[tokio::test]
async fn a_result_of_severity_error_fails_a_render_even_with_exit_code_0() {
    let complains = r#"sh -c 'cat; printf "results:\n- message: too blue\n  severity: error\n"'"#;
    let handled = render(package(&[complains])).await;
    let status = handled.status.unwrap();
    assert!(status.error.contains("reported 1 result(s) of severity error"), "{}", status.error);
    assert_eq!((status.result.exit_code, status.result.items[0].exit_code), (1, 1));
    assert_eq!(status.result.items[0].results.0[0].message, "too blue");
}

#[tokio::test]
async fn the_json_is_that_of_porch_with_the_command_kept() {
    let fails = r#"sh -c 'cat; printf "results:\n- message: no\n  severity: error\n  resourceRef: {apiVersion: v1, kind: ConfigMap, name: cm, namespace: ns}\n  field: {path: data.k, currentValue: a, proposedValue: b}\n  file: {path: cm.yaml, index: 1}\n  tags: {k: v}\n"; echo boom >&2; exit 3'"#;
    let json = render(package(&[fails])).await.status.unwrap().to_json();
    let parsed = loggia_yaml::parse_first(json.as_str()).unwrap().unwrap().root;
    let at =
        |path: &[&str]| parsed.at(path).and_then(loggia_yaml::Node::scalar).unwrap_or_default().to_owned();
    assert_eq!(at(&["result", "kind"]), "FunctionResultList");
    assert_eq!(at(&["result", "apiVersion"]), "kpt.dev/v1");
    assert_eq!(at(&["result", "metadata", "name"]), "fnresults");
    assert_eq!(at(&["result", "exitCode"]), "1");
    assert_eq!(at(&["result", "items", "0", "exitCode"]), "3");
    assert_eq!(at(&["result", "items", "0", "stderr"]), "boom\n");
    assert!(at(&["result", "items", "0", "exec"]).starts_with("sh -c "), "{json}");
    let result = ["result", "items", "0", "results", "0"];
    let of = |path: &[&str]| at(&[&result[..], path].concat());
    assert_eq!((of(&["message"]), of(&["severity"])), ("no".into(), "error".into()));
    assert_eq!(of(&["resourceRef", "namespace"]), "ns");
    assert_eq!((of(&["field", "currentValue"]), of(&["field", "proposedValue"])), ("a".into(), "b".into()));
    assert_eq!((of(&["file", "index"]), of(&["tags", "k"])), ("1".into(), "v".into()));
    assert!(at(&["error"]).contains("func eval \"sh -c"), "{json}");

    let json = render(package(&["cat"])).await.status.unwrap().to_json();
    assert!(json.contains("\"error\": \"\"") && json.contains("\"exitCode\": 0"), "always there: {json}");
}

#[tokio::test]
async fn an_unknown_function_is_told_by_name() {
    let kptfile = format!("{KPTFILE}pipeline:\n  mutators:\n  - image: example.com/none:v1\n");
    let handled = render(files(&[("Kptfile", &kptfile), ("cm.yaml", CM)])).await;
    let error = handled.status.unwrap().error;
    assert!(error.contains("function \"example.com/none:v1\" not found"), "{error}");
}
