//! What a render leaves in the Kptfile: the `Rendered` condition and the steps.

use loggia_krm::Resource;
use loggia_krm::kptfile::{Condition, KptfileDocument, RenderStatus, StepResult};

use crate::error::RenderError;
use crate::pipeline::StepRecord;

/// Marks resources of Config Connector, so that their provider can count what renders them.
const BLUEPRINT: &str = "cnrm.cloud.google.com/blueprint";

pub(crate) fn set(document: &mut KptfileDocument, error: Option<&RenderError>, steps: &[StepRecord]) {
    let condition = |status: &str, reason: &str, message: String| Condition {
        condition_type: "Rendered".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
    };
    document.set_condition(match error {
        None => condition("True", "RenderSuccess", String::new()),
        Some(error) => condition("False", "RenderFailed", error.condition_message()),
    });
    document.set_render_status((!steps.is_empty()).then(|| render_status(steps)));
}

fn render_status(steps: &[StepRecord]) -> RenderStatus {
    let of = |validator| {
        let chosen = steps.iter().filter(move |record| record.validator == validator);
        chosen.map(|record| record.step.clone()).collect()
    };
    let summary: Vec<String> = steps.iter().filter_map(|record| failure(&record.step)).collect();
    RenderStatus { mutation_steps: of(false), validation_steps: of(true), error_summary: summary.join("\n") }
}

fn failure(step: &StepResult) -> Option<String> {
    let name = [&step.name, &step.image, &step.exec].into_iter().find(|name| !name.is_empty())?;
    match (step.execution_error.as_str(), step.exit_code) {
        ("", 0) => None,
        ("", code) => Some(format!("{name}: exit code {code}")),
        (error, _) => Some(format!("{name}: {error}")),
    }
}

/// Adds the mark of a render to a resource of Config Connector.
pub(crate) fn attribute(resource: &mut Resource) {
    if !resource.api_version().contains(".cnrm.") {
        return;
    }
    let known = resource.annotation(BLUEPRINT).unwrap_or_default();
    let value = attribution(known);
    if value == known {
        return;
    }
    // A resource that cannot carry annotations is none of Config Connector's.
    let _ = resource.set_reader_annotation(BLUEPRINT, value);
}

/// The mark with what is known already: `a,krm-pkg,b` becomes `a,krm-pkg-fn,b`.
fn attribution(known: &str) -> String {
    if known.is_empty() {
        return "krm-fn".to_owned();
    }
    if !known.contains("krm-") {
        return format!("{known},krm-fn");
    }
    let mark = |part: &str| match part {
        part if !part.contains("krm") => part.to_owned(),
        part => {
            let groups =
                ["pkg", "fn", "live"].iter().filter(|group| **group == "fn" || part.contains(**group));
            groups.fold("krm".to_owned(), |mark, group| format!("{mark}-{group}"))
        }
    };
    known.split(',').map(mark).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_joins_the_marks_that_are_there() {
        for (known, expected) in [
            ("", "krm-fn"),
            ("krm-fn", "krm-fn"),
            ("cnrm/zone/v0.4.0", "cnrm/zone/v0.4.0,krm-fn"),
            ("cnrm/zone/v0.4.0,krm-pkg,controller", "cnrm/zone/v0.4.0,krm-pkg-fn,controller"),
            ("krm-live", "krm-fn-live"),
        ] {
            assert_eq!(attribution(known), expected, "{known}");
        }
    }
}
