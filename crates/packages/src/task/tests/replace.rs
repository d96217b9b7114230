//! Replaced contents, and what is put back into them.

use super::*;
use crate::task::{Disposition, Replacement, heal};

async fn replace(replacement: Replacement) -> Result<Handled, TaskError> {
    with_handler(async |handler| handler.replace(replacement, &mut Quiet).await).await
}

fn healed(old: &str, new: &str) -> String {
    let mut contents = files(&[("a.yaml", new)]);
    heal::heal(&files(&[("a.yaml", old)]), &mut contents).unwrap();
    text(&contents, "a.yaml").to_owned()
}

const OLD: &str = "# header

apiVersion: v1
kind: ConfigMap
metadata:
  name: cm # short
data:
  # the colour
  colour: blue # kpt-set: ${colour}
  args:
    - one # first
    - two
";

#[test]
fn a_client_that_lost_all_comments_order_and_indent_gets_them_back() {
    let new = "apiVersion: v1\ndata:\n  args:\n  - one\n  - three\n  colour: red\nkind: ConfigMap\nmetadata:\n  name: cm\n";
    let expected = OLD.replace("blue", "red").replace("two", "three");
    assert_eq!(healed(OLD, new), expected);
}

#[test]
fn a_client_that_keeps_comments_may_remove_one() {
    let new = OLD.replace("  # the colour\n", "");
    assert_eq!(healed(OLD, &new), new);
    let new = OLD.replace(" # short", "").replace("# header\n\n", "");
    assert_eq!(healed(OLD, &new), new);
}

#[test]
fn a_comment_at_a_value_that_changed_comes_back_all_the_same() {
    let new = OLD.replace("blue # kpt-set: ${colour}", "red");
    assert_eq!(healed(OLD, &new), OLD.replace("blue", "red"));
}

#[test]
fn an_order_that_was_chosen_with_the_comments_in_sight_stays() {
    let old = "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: cm # short\n";
    let new = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm # short\n";
    assert_eq!(healed(old, new), new);
}

#[test]
fn a_file_that_lost_nothing_keeps_its_bytes() {
    let odd = "apiVersion:   v1\n\n\nkind: ConfigMap\nmetadata: {name: cm}\n";
    assert_eq!(healed("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\ndata: {a: b}\n", odd), odd);
    assert_eq!(healed(OLD, &odd.replace("cm", "other")), odd.replace("cm", "other"), "another resource");
}

#[test]
fn templates_are_left_alone() {
    let old = OLD.replace("# short", "#@ data.values.name");
    let new = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n";
    assert_eq!(healed(&old, new), new);
    assert_eq!(healed(&OLD.replace("# short", "#! note"), new), new);
}

#[test]
fn a_resource_is_known_in_another_file_and_other_files_are_taken_as_they_are() {
    let old = files(&[("a.yaml", OLD), ("b.yaml", "a: [")]);
    let moved = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n";
    let mut new = files(&[("moved.yaml", moved), ("README.md", "a: ["), ("x.json", "{\"kind\": 1}")]);
    heal::heal(&old, &mut new).unwrap();
    assert!(text(&new, "moved.yaml").contains("name: cm # short\n"));
    assert_eq!((text(&new, "README.md"), text(&new, "x.json")), ("a: [", "{\"kind\": 1}"));
}

#[tokio::test]
async fn new_contents_that_are_no_yaml_are_refused() {
    let new = files(&[("Kptfile", KPTFILE), ("bad.yaml", "a: [")]);
    let error = replace(Replacement { new, ..Replacement::default() }).await.unwrap_err().to_string();
    assert!(
        error.starts_with("failed to heal resources: bad.yaml: MalformedYAMLError: yaml: line 1: "),
        "{error}"
    );
}

#[tokio::test]
async fn only_drafts_can_be_replaced() {
    let published = Replacement { lifecycle: "Published".into(), ..Replacement::default() };
    let error = replace(published).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot update a package revision with lifecycle value \"Published\"; package must be Draft"
    );
}

#[tokio::test]
async fn new_contents_are_healed_and_rendered() {
    let old = files(&[("Kptfile", KPTFILE), ("cm.yaml", OLD)]);
    let new = files(&[("Kptfile", &kptfile(&["sed s/red/green/"])), ("cm.yaml", &CM.replace("blue", "red"))]);
    let handled = replace(Replacement { old, new, ..Replacement::default() }).await.unwrap();
    assert_eq!((handled.disposition, handled.task.as_str()), (Disposition::Push, "render"));
    let cm = text(&handled.files, "cm.yaml");
    assert!(cm.contains("colour: green # kpt-set: ${colour}\n"), "{cm}");
}

#[tokio::test]
async fn a_failed_render_keeps_what_was_reached_in_the_draft_and_is_told_in_small_letters() {
    let steps = kptfile(&["sed s/blue/green/", "false"]);
    let contents = |kptfile: &str| files(&[("Kptfile", kptfile), ("cm.yaml", CM)]);
    let handled = replace(Replacement { new: contents(&steps), ..Replacement::default() }).await.unwrap();
    assert_eq!(handled.disposition, Disposition::Keep);
    assert_eq!(text(&handled.files, "cm.yaml"), CM, "the originals, unless somebody asked for more");
    assert!(text(&handled.files, "Kptfile").contains("RenderFailed"));
    let failure = handled.failure.unwrap();
    assert!(
        failure
            .starts_with("error rendering package in kpt function pipeline. Package NOT pushed to remote. "),
        "{failure}"
    );
    assert_eq!(handled.status.unwrap().result.items.len(), 2);

    let saving = steps.replace(
        "  name: app\n",
        "  name: app\n  annotations:\n    kpt.dev/save-on-render-failure: \"true\"\n",
    );
    let pushing = Replacement { new: contents(&saving), push_on_failure: true, ..Replacement::default() };
    let handled = replace(pushing).await.unwrap();
    assert_eq!(handled.disposition, Disposition::Push);
    assert!(text(&handled.files, "cm.yaml").contains("green"), "partial resources");
    let failure = handled.failure.unwrap();
    assert!(failure.starts_with("error rendering package in kpt function pipeline. Package pushed to remote despite render failure. Details: "), "{failure}");
}
