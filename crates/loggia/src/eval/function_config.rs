//! The function config of `loggia fn eval`: from words on the command line or from a file.

use std::collections::BTreeMap;
use std::path::Path;

use loggia_krm::package::Limits;
use loggia_krm::{Resource, ResourceList, StreamOptions};
use loggia_yaml::{Node, Pair};

use crate::failure::Failure;

/// The function config that arguments stand for, and its data. The keys are in the order that kpt gives them.
pub(super) fn of_words(words: &[String]) -> Result<(BTreeMap<String, String>, Node), Failure> {
    let mut kind = "ConfigMap";
    let mut data = BTreeMap::new();
    let mut node = Node::mapping();
    node.set_flow(true);
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((key, value)) => {
                node.set(key, Node::string_for_field(value));
                data.insert(key.to_owned(), value.to_owned());
            }
            None if at == 0 => kind = word,
            None => return Err("args must have keys and values separated by =".into()),
        }
    }
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let config = Node::from_pairs(vec![
        pair("metadata", Node::from_pairs(vec![pair("name", Node::verbatim("function-input"))])),
        pair("data", node),
        pair("kind", Node::verbatim(kind)),
        pair("apiVersion", Node::verbatim("v1")),
    ]);
    Ok((data, config))
}

pub(super) fn read(file: &Path, limits: Limits) -> Result<Node, Failure> {
    let shown = file.display().to_string();
    if !file.exists() {
        return Err(format!("missing function config file: {shown}").into());
    }
    let content = crate::file::read(file, limits)
        .map_err(|error| format!("failed to open functionConfig from path {shown:?}: {error}"))?;
    let mut list = ResourceList::parse(&content, StreamOptions::default())
        .map_err(|error| format!("failed to read functionConfig {shown:?}: {error}"))?;
    list.remove_stream_annotations();
    let mut only = match <[Resource; 1]>::try_from(list.items) {
        Ok([only]) => only,
        Err(items) if items.is_empty() => {
            return Err(format!("functionConfig {shown:?} must contain one config, got 0").into());
        }
        Err(items) => {
            let count = items.len();
            return Err(format!(
                "functionConfig {shown:?} must not contain more than one config, got {count}"
            )
            .into());
        }
    };
    only.check_krm().map_err(|missing| format!("functionConfig {shown:?}: {missing}"))?;
    // It was read as a stream, which leaves empty annotations behind.
    let _ = only.drop_empty_metadata();
    Ok(only.into_document().root)
}
