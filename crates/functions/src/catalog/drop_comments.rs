//! `drop-comments`: turns every resource into JSON and back, for tests of who restores comments.

use std::collections::BTreeMap;

use loggia_krm::ResourceList;
use loggia_yaml::{Node, from_str, to_json, to_node};
use serde::{Deserialize, Serialize};

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
        let node = over_json(item.node()).map_err(|error| Failure::kyaml_twice(&error.to_string()))?;
        *item = node.into();
    }
    Ok(())
}

fn over_json(node: &Node) -> Result<Node, loggia_yaml::Error> {
    to_node(&from_str::<Value>(&to_json(node)?)?)
}
