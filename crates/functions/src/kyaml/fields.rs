//! Walking a resource field by field, as the functions that look at values do.
//!
//! In each mapping the lists come first, each with its key, because that is where a comment about the whole
//! list stands; then every value in order. Aliases are left alone. What readers write into annotations for
//! their own use is not a field of the resource and is not visited.

use std::fmt::Write as _;

use loggia_krm::{Resource, annotation};
use loggia_yaml::{Kind, Node, Pair};

use crate::limits;

/// Deeper fields are not visited: the walk is recursive and the stack is finite.
pub(crate) const MAX_DEPTH: usize = 1000;

/// What happens at each field.
pub(crate) trait Visitor {
    /// A list that is the value of a key, before its items.
    fn list(&mut self, pair: &mut Pair, path: &str) -> Result<(), String>;
    /// A scalar.
    fn scalar(&mut self, node: &mut Node, path: &str) -> Result<(), String>;
}

/// A place in a resource, written `spec.containers[0].image`.
#[derive(Default)]
struct Path {
    text: String,
    depth: usize,
}

/// Visits every field of a resource until one fails.
pub(crate) fn visit(root: &mut Node, visitor: &mut impl Visitor) -> Result<(), String> {
    descend(root, &mut Path::default(), visitor)
}

/// Whether any node of a tree, keys included, passes the test. Looking costs no copy of what is shared.
pub(crate) fn any(root: &Node, mut test: impl FnMut(&Node) -> bool) -> bool {
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        if test(node) {
            return true;
        }
        waiting.extend(node.items());
        waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
    }
    false
}

/// The text of a scalar, whatever it means; an alias gives its name, a collection nothing.
pub(crate) fn raw_text(node: &Node) -> &str {
    node.scalar().or_else(|| node.alias_name()).unwrap_or_default()
}

/// The file of a resource, by whichever spelling has one.
pub(crate) fn file_of(item: &Resource) -> &str {
    let given = |key| item.annotation(key).filter(|path| !path.is_empty());
    given(annotation::PATH).or_else(|| given(annotation::LEGACY_PATH)).unwrap_or_default()
}

fn descend(node: &mut Node, path: &mut Path, visitor: &mut impl Visitor) -> Result<(), String> {
    if path.depth > MAX_DEPTH {
        return Ok(());
    }
    // Visitors look at the path, and one long key may stand above many fields.
    limits::work(1 + path.text.len() / 2)?;
    match node.kind() {
        Kind::Mapping => {
            let pairs = node.pairs_mut().into_iter().flatten();
            for pair in pairs.filter(|pair| pair.value.is_sequence()) {
                let parent = path.enter_key(raw_text(&pair.key));
                let visited = visitor.list(pair, &path.text);
                path.leave(parent);
                visited?;
            }
            for pair in node.pairs_mut().into_iter().flatten() {
                let parent = path.enter_key(raw_text(&pair.key));
                let visited = if path.is_bookkeeping(parent, &pair.key) {
                    Ok(())
                } else {
                    descend(&mut pair.value, path, visitor)
                };
                path.leave(parent);
                visited?;
            }
        }
        Kind::Sequence => {
            for (index, item) in node.items_mut().into_iter().flatten().enumerate() {
                let parent = path.enter_index(index);
                let visited = descend(item, path, visitor);
                path.leave(parent);
                visited?;
            }
        }
        Kind::Scalar => visitor.scalar(node, &path.text)?,
        Kind::Alias => {}
    }
    Ok(())
}

// === impl Path ===

impl Path {
    fn enter_key(&mut self, key: &str) -> usize {
        let parent = self.text.len();
        if self.depth > 0 {
            self.text.push('.');
        }
        self.text.push_str(key);
        self.depth += 1;
        parent
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let parent = self.text.len();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "[{index}]");
        self.depth += 1;
        parent
    }

    fn leave(&mut self, parent: usize) {
        self.text.truncate(parent);
        self.depth -= 1;
    }

    fn is_bookkeeping(&self, parent: usize, key: &Node) -> bool {
        self.depth == 3
            && &self.text[..parent] == "metadata.annotations"
            && key.scalar().is_some_and(annotation::is_internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Log(Vec<String>);

    impl Visitor for Log {
        fn list(&mut self, _: &mut Pair, path: &str) -> Result<(), String> {
            self.0.push(format!("list {path}"));
            Ok(())
        }

        fn scalar(&mut self, node: &mut Node, path: &str) -> Result<(), String> {
            self.0.push(format!("{path}={}", raw_text(node)));
            Ok(())
        }
    }

    fn visited(text: &str) -> Vec<String> {
        let mut document = loggia_yaml::parse_first(text).expect("is YAML").expect("is not empty");
        let mut log = Log::default();
        visit(&mut document.root, &mut log).expect("a log takes all");
        log.0
    }

    #[test]
    fn lists_come_before_the_values_beside_them() {
        assert_eq!(
            visited("a: 1\nb: [x, {c: 2}]\nd:\n  e: [[y]]\n"),
            ["list b", "a=1", "b[0]=x", "b[1].c=2", "list d.e", "d.e[0][0]=y"]
        );
    }

    #[test]
    fn what_readers_wrote_is_not_visited() {
        let text = "metadata:\n  annotations:\n    internal.config.kubernetes.io/path: a\n    mine: b\n";
        assert_eq!(visited(text), ["metadata.annotations.mine=b"]);
        assert_eq!(visited("x:\n  config.kubernetes.io/path: a\n").len(), 1);
    }

    #[test]
    fn a_tree_deeper_than_the_stack_is_no_danger() {
        let mut node = Node::string("leaf");
        for _ in 0..100_000 {
            node = Node::from_items(vec![node]);
        }
        assert!(visit(&mut node, &mut Log::default()).is_ok());
        assert!(any(&node, |node| node.scalar() == Some("leaf")));
    }
}
