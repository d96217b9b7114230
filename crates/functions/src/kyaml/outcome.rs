//! How programs on kyaml's framework end: with results, or with an error that is a result too.

use loggia_krm::{ResourceList, ResultItem, Results, Severity};
use loggia_yaml::{Node, Pair};

use crate::Failure;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A list.
    List,
    /// A mapping with the function's name, as an older framework has it.
    Named(&'static str),
}

/// Sets the results, or one result with the error's message, which is then printed twice.
pub(crate) fn conclude(
    list: &mut ResourceList,
    shape: Shape,
    outcome: Result<Vec<ResultItem>, String>,
    message: impl FnOnce(&str) -> String,
) -> Result<(), Failure> {
    let (results, ended) = match outcome {
        Ok(results) => (results, Ok(())),
        Err(error) => {
            (vec![ResultItem::new(Severity::Error, message(&error))], Err(Failure::kyaml_twice(&error)))
        }
    };
    match shape {
        Shape::List => list.set_results(&Results(results)),
        Shape::Named(name) => set_named(list, name, &Results(results)),
    }
    ended
}

/// Sets no results, or one with the error's message, whose text is then printed once; as functions on an older
/// kyaml and kustomize do.
pub(crate) fn conclude_quietly(
    list: &mut ResourceList,
    name: &'static str,
    outcome: Result<(), String>,
) -> Result<(), Failure> {
    let Err(message) = outcome else { return Ok(()) };
    let results = Results(vec![ResultItem::new(Severity::Error, message)]);
    set_named(list, name, &results);
    // The text always has a place for the field.
    Err(Failure::kyaml(results.to_string().replacen(": ", " : ", 1)))
}

/// Sets results as functions on an older kyaml do: as a mapping with the function's name.
pub(crate) fn set_named(list: &mut ResourceList, name: &str, results: &Results) {
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let mut pairs = vec![pair("name", Node::string(name))];
    if !results.is_empty() {
        pairs.push(pair("items", results.to_node()));
    }
    list.results = Some(Node::from_pairs(pairs));
}
