//! `drop-comments`: turns every resource into JSON and back, for tests of who restores comments.

use std::collections::BTreeMap;

use loggia_krm::ResourceList;
use loggia_yaml::{Node, from_str, to_compact_json, to_node};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::{Failure, Framework, Function, Role, Run, Version};

pub(crate) static FUNCTION: Function = Function {
    name: "drop-comments",
    purpose: "Drop comments, styles and the order of keys",
    role: Role::Mutator,
    manual: include_str!("drop_comments.md"),
    guarded: false,
    versions: &[Version {
        tags: &["latest", "unstable"],
        framework: Framework::KyamlTwice,
        run: Run::List(run),
    }],
};

/// What JSON can say. Every number is a float.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

fn run(list: &mut ResourceList) -> Result<(), Failure> {
    for item in &mut list.items {
        // Quotes and escapes make a text so much longer; all else comes from aliases.
        let own = item.node().text_size(usize::MAX / 8).saturating_mul(6);
        let json = to_compact_json(item.node(), limits::output_left().saturating_add(own));
        let node = json.and_then(|json| {
            let within = limits::produce(json.len().saturating_sub(own));
            if within.is_err() { Ok(Node::default()) } else { to_node(&from_str::<Value>(&json)?) }
        });
        if limits::blame(item) {
            break;
        }
        *item = node.map_err(|error| Failure::kyaml_twice(&error.to_string()))?.into();
    }
    Ok(())
}
