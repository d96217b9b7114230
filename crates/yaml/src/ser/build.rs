//! Collections while serde fills them.

use serde::Serialize;
use serde::ser::{SerializeSeq, SerializeTuple, SerializeTupleStruct, SerializeTupleVariant};

use super::order::natural_order;
use super::to_node;
use crate::error::Error;
use crate::node::{Node, Pair};

pub(super) struct Items {
    items: Vec<Node>,
    variant: Option<&'static str>,
}

pub(super) struct Fields {
    pub(super) pairs: Vec<Pair>,
    pub(super) key: Option<Node>,
    variant: Option<&'static str>,
    sorted: bool,
}

fn in_variant(node: Node, variant: Option<&'static str>) -> Node {
    match variant {
        Some(variant) => Node::from_pairs(vec![Pair::new(variant, node)]),
        None => node,
    }
}

impl Items {
    pub(super) fn new(length: Option<usize>, variant: Option<&'static str>) -> Self {
        // The length is only a hint and may come from anywhere.
        Self { items: Vec::with_capacity(length.unwrap_or(0).min(1024)), variant }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.items.push(to_node(value)?);
        Ok(())
    }

    fn finish(self) -> Node {
        in_variant(Node::from_items(self.items), self.variant)
    }
}

impl Fields {
    pub(super) fn new(variant: Option<&'static str>, sorted: bool) -> Self {
        Self { pairs: Vec::new(), key: None, variant, sorted }
    }

    pub(super) fn finish(mut self) -> Node {
        if self.sorted {
            self.pairs.sort_by(|a, b| natural_order(&a.key, &b.key));
        }
        in_variant(Node::from_pairs(self.pairs), self.variant)
    }
}

/// serde has four traits for what is one thing here.
macro_rules! collect_items {
    ($($name:ident $method:ident)*) => {$(
        impl $name for Items {
            type Ok = Node;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.add(value)
            }

            fn end(self) -> Result<Node, Error> {
                Ok(self.finish())
            }
        }
    )*};
}

collect_items! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}
