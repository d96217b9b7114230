//! What custom resource definitions say about their resources.

use std::collections::HashMap;
use std::rc::Rc;

use loggia_krm::Resource;
use loggia_yaml::Node;
use serde_json::Value;

use super::{Dialect, Schema};
use crate::limits;

/// Schemas of custom resources, by version and kind.
#[derive(Default)]
pub(crate) struct Definitions(HashMap<(String, String), Rc<Value>>);

impl Definitions {
    /// Learns the kinds that custom resource definitions among the resources define.
    pub(crate) fn learn(&mut self, items: &[Resource]) -> Result<(), String> {
        let is_definition = |item: &&Resource| {
            item.kind() == "CustomResourceDefinition" && item.group() == "apiextensions.k8s.io"
        };
        for item in items.iter().filter(is_definition) {
            let node = item.node();
            let text = |path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default();
            let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
            for version in node.at(&["spec", "versions"]).map_or(&[][..], Node::items) {
                let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) else { continue };
                let api_version = format!("{group}/{}", version.get_str("name").unwrap_or_default());
                let failed = |error: &dyn std::fmt::Display| {
                    format!("CustomResourceDefinition {}: {error}", item.name())
                };
                let most = limits::output_left().saturating_add(schema.text_size(usize::MAX / 16) * 6);
                let json = loggia_yaml::to_compact_json(schema, most).map_err(|error| failed(&error))?;
                limits::work(json.len())?;
                let schema = serde_json::from_str(&json).map_err(|error| failed(&error))?;
                self.0.insert((api_version, kind.to_owned()), Rc::new(schema));
            }
        }
        Ok(())
    }

    pub(crate) fn schema(&self, api_version: &str, kind: &str) -> Option<Schema> {
        let root = Rc::clone(self.0.get(&(api_version.to_owned(), kind.to_owned()))?);
        Some(Schema { root, dialect: Dialect::Definition })
    }
}
