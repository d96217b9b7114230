//! What happened, as one JSON document for programs.

use std::collections::BTreeSet;

use loggia_krm::{Changes, FunctionResult, FunctionResultList};
use loggia_render::Rendered;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    succeeded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    executed_functions: usize,
    packages: usize,
    results: &'a [FunctionResult],
    written: Vec<&'a String>,
    removed: &'a BTreeSet<String>,
    unchanged: usize,
}

/// Prints what a render did.
pub(crate) fn render(rendered: &Rendered, changes: Option<&Changes>) -> Result<(), Failure> {
    let nothing = Changes::default();
    let changes = changes.unwrap_or(&nothing);
    print(&Report {
        succeeded: rendered.succeeded(),
        error: rendered.error.as_ref().map(|error| error.cause.to_string()),
        executed_functions: rendered.executed,
        packages: rendered.packages,
        results: &rendered.results.items,
        written: changes.writes.keys().collect(),
        removed: &changes.removals,
        unchanged: changes.unchanged,
    })
}

/// Prints what one function did.
pub(crate) fn eval(
    results: &FunctionResultList,
    error: Option<String>,
    changes: Option<&Changes>,
) -> Result<(), Failure> {
    let nothing = Changes::default();
    let changes = changes.unwrap_or(&nothing);
    print(&Report {
        succeeded: error.is_none(),
        executed_functions: usize::from(error.is_none()),
        error,
        packages: 1,
        results: &results.items,
        written: changes.writes.keys().collect(),
        removed: &changes.removals,
        unchanged: changes.unchanged,
    })
}

/// Prints anything as JSON.
pub(crate) fn print(value: &impl Serialize) -> Result<(), Failure> {
    let text = loggia_yaml::to_node(value).and_then(|node| loggia_yaml::to_json(&node));
    output::print_data(&text.map_err(|error| error.to_string())?)
}
