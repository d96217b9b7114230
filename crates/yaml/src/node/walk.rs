//! Getting rid of a tree without recursing into it.
//!
//! Nesting may be tens of thousands deep, far more than a thread's stack holds frames for.

use std::mem;
use std::sync::Arc;

use super::{Alias, Content, Node, Pair};
use crate::text::Text;

/// Children that were taken out of a node about to go.
enum Orphans {
    Items(Vec<Node>),
    Pairs(Vec<Pair>),
    Target(Box<Node>),
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut queue = Vec::new();
        if !self.has_only_leaves() {
            self.disown(&mut queue);
        }
        while let Some(orphans) = queue.pop() {
            match orphans {
                Orphans::Items(mut items) => items.iter_mut().for_each(|item| item.disown(&mut queue)),
                Orphans::Pairs(mut pairs) => pairs.iter_mut().for_each(|pair| {
                    pair.key.disown(&mut queue);
                    pair.value.disown(&mut queue);
                }),
                Orphans::Target(mut node) => node.disown(&mut queue),
            }
        }
    }
}

impl Node {
    fn is_leaf(&self) -> bool {
        matches!(self.content, Content::Scalar(_))
    }

    /// Whether dropping this node the ordinary way goes at most one level down.
    fn has_only_leaves(&self) -> bool {
        match &self.content {
            Content::Scalar(_) => true,
            Content::Sequence(items) => items.iter().all(Node::is_leaf),
            Content::Mapping(pairs) => pairs.iter().all(|pair| pair.key.is_leaf() && pair.value.is_leaf()),
            Content::Alias(alias) => alias.target.as_ref().is_none_or(Node::is_leaf),
        }
    }

    /// Moves the children that are not shared to the queue.
    fn disown(&mut self, queue: &mut Vec<Orphans>) {
        if self.is_leaf() {
            return;
        }
        match mem::replace(&mut self.content, Content::Scalar(Text::new())) {
            Content::Scalar(_) => {}
            Content::Sequence(items) => queue.extend(Arc::into_inner(items).map(Orphans::Items)),
            Content::Mapping(pairs) => queue.extend(Arc::into_inner(pairs).map(Orphans::Pairs)),
            Content::Alias(alias) => {
                let target = Arc::into_inner(alias).and_then(|Alias { target, .. }| target);
                queue.extend(target.map(|node| Orphans::Target(Box::new(node))));
            }
        }
    }
}
