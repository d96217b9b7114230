//! Patches of the Kptfile.

use loggia_krm::kptfile::Condition;

use super::*;
use crate::task::{Disposition, Update};

async fn update(files: Files, update: Update) -> Result<Handled, TaskError> {
    with_handler(async |handler| handler.update(files, &update, &mut Quiet).await).await
}

fn condition(condition_type: &str, status: &str, reason: &str) -> Condition {
    Condition {
        condition_type: condition_type.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
    }
}

fn patched(kptfile: &str, patch: &KptfilePatch) -> String {
    let mut package = files(&[("Kptfile", kptfile)]);
    patch.apply_to_files(&mut package, crate::task::Manner::Replace).unwrap();
    text(&package, "Kptfile").to_owned()
}

#[test]
fn conditions_are_changed_in_place_dropped_and_appended_in_order() {
    let kptfile = format!(
        "{KPTFILE}# how it fares\nstatus:\n  conditions:\n  - type: b # kept\n    status: \"False\"\n    reason: Because\n    message: gone soon\n  - type: a\n    status: \"True\"\n"
    );
    let conditions =
        vec![condition("z", "Unknown", ""), condition("b", "True", "Now"), condition("c", "False", "")];
    let expected = format!(
        "{KPTFILE}# how it fares\nstatus:\n  conditions:\n  - type: b # kept\n    status: \"True\"\n    reason: Now\n  - type: z\n    status: Unknown\n  - type: c\n    status: \"False\"\n"
    );
    assert_eq!(patched(&kptfile, &KptfilePatch { conditions: Some(conditions), ..patch() }), expected);
}

#[test]
fn what_is_given_and_empty_is_removed_and_what_is_not_given_stays() {
    let kptfile = format!(
        "{KPTFILE}  labels:\n    a: b\ninfo:\n  readinessGates:\n  - conditionType: x\nstatus:\n  conditions:\n  - type: x\n    status: \"True\"\n"
    );
    assert_eq!(patched(&kptfile, &patch()), kptfile);
    let emptied = KptfilePatch {
        labels: Some([].into()),
        readiness_gates: Some(vec![]),
        conditions: Some(vec![]),
        annotations: None,
    };
    assert_eq!(patched(&kptfile, &emptied), KPTFILE);
}

#[test]
fn a_patch_that_changes_nothing_leaves_every_byte_alone() {
    let odd = "kind:   Kptfile\n\n\napiVersion: kpt.dev/v1\nmetadata: {name: app}\ninfo: {readinessGates: [{conditionType: x}]}\n";
    assert_eq!(
        patched(odd, &KptfilePatch { readiness_gates: Some(vec!["x".into(), "x".into()]), ..patch() }),
        odd
    );
}

#[tokio::test]
async fn a_condition_with_a_bad_status_is_an_error_and_no_crash() {
    let bad = KptfilePatch { conditions: Some(vec![condition("ready", "Maybe", "")]), ..patch() };
    let error = update(package(&[]), Update { patch: bad, ..Update::default() }).await.unwrap_err();
    let expected =
        "convert new condition: condition \"ready\" has status \"Maybe\"; it must be True, False or Unknown";
    assert_eq!(error.to_string(), expected);
    let wanted = KptfilePatch { readiness_gates: Some(vec!["x".into()]), ..patch() };
    let error =
        update(files(&[("cm.yaml", CM)]), Update { patch: wanted, ..Update::default() }).await.unwrap_err();
    assert_eq!(error.to_string(), "parse Kptfile: No Kptfile found at \"/\".");
}

#[tokio::test]
async fn a_draft_is_patched_and_rendered_as_a_task_of_type_render() {
    let wanted = KptfilePatch { readiness_gates: Some(vec!["ready".into()]), ..patch() };
    let handled = update(
        package(&["sed s/blue/green/"]),
        Update { patch: wanted, lifecycle: "Draft".into(), ..Update::default() },
    )
    .await
    .unwrap();
    assert_eq!((handled.disposition, handled.task.as_str()), (Disposition::Push, "render"));
    assert!(text(&handled.files, "Kptfile").contains("conditionType: ready"));
    assert!(text(&handled.files, "cm.yaml").contains("green"));
}

#[tokio::test]
async fn what_is_no_draft_is_left_alone() {
    for lifecycle in ["Proposed", "Published", "DeletionProposed"] {
        let update_of = Update { lifecycle: lifecycle.into(), ..Update::default() };
        let handled = update(package(&["false"]), update_of).await.unwrap();
        assert_eq!((handled.disposition, handled.files.len()), (Disposition::Unchanged, 0), "{lifecycle}");
        assert!(handled.status.is_none() && handled.failure.is_none());
    }
}

#[tokio::test]
async fn a_failed_render_is_told_with_a_capital() {
    let handled = update(package(&["false"]), Update::default()).await.unwrap();
    assert_eq!(handled.disposition, Disposition::Discard);
    let failure = handled.failure.unwrap();
    assert_eq!(
        failure,
        "Error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn render' succeeds) and retry. Details: fn.render: pkg /:\n\tpkg.render:\n\tpipeline.run: func eval \"false\" failed: exit status 1"
    );
}
