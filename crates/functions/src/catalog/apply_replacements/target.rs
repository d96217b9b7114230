//! Paths that may lead to many fields: `spec.containers.[name=web].image`, `items.*.name`.

use loggia_yaml::{Kind, Node, Pair, Tag, parse_first};

use crate::kyaml::fields::raw_text;
use crate::kyaml::lookup::{empty, expect_kind, is_item, kind_before, new_item, split_item};
use crate::limits;
use crate::regexp;

/// How fields are looked for.
#[derive(Clone, Copy)]
pub(super) struct Matching {
    /// Make what is missing, the last part of this kind.
    pub(super) create: Option<Kind>,
    /// A path may go on inside text; what is found there is not kept.
    pub(super) into_text: bool,
}

/// The parts of a path: at dots, but not at `\.` nor inside brackets.
pub(super) fn split(path: &str) -> Vec<String> {
    let mut rough = path.split('.').peekable();
    // A leading dot is no part.
    if path.contains('.') && rough.peek() == Some(&"") {
        rough.next();
    }
    let mut parts: Vec<String> = Vec::new();
    for part in rough {
        match parts.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => {
                last.pop();
                last.push('.');
                last.push_str(part);
            }
            None => parts.push(part.to_owned()),
        }
    }
    let mut joined = Vec::new();
    let mut parts = parts.into_iter();
    while let Some(mut part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            joined.push(part);
            continue;
        }
        for next in parts.by_ref() {
            part.push('.');
            part.push_str(&next);
            if next.ends_with(']') {
                break;
            }
        }
        joined.push(if part.contains('=') { part } else { part.trim_matches(['[', ']']).to_owned() });
    }
    joined
}

type Found<'a> = &'a mut dyn FnMut(&mut Node);

impl Matching {
    /// Calls `found` with every field that the path leads to, and says how many there were.
    pub(super) fn visit(self, node: &mut Node, path: &[String], found: Found<'_>) -> Result<usize, String> {
        let Some((part, rest)) = path.split_first() else {
            found(node);
            return Ok(1);
        };
        if let Ok(index) = part.parse::<i64>()
            && index >= 0
        {
            return self.index(node, usize::try_from(index).unwrap_or(usize::MAX), rest, found);
        }
        if is_item(part) {
            return self.items(node, part, rest, found);
        }
        if part == "*" {
            expect_kind(node, Kind::Sequence)?;
            let items = node.items_mut().into_iter().flatten();
            return items.map(|item| self.visit(item, rest, found)).sum();
        }
        self.field(node, part, rest, found)
    }

    fn new_node(self, rest: &[String]) -> Option<Node> {
        self.create.map(|last| empty(kind_before(rest.first().map(String::as_str), last)))
    }

    fn index(
        self,
        node: &mut Node,
        index: usize,
        rest: &[String],
        found: Found<'_>,
    ) -> Result<usize, String> {
        expect_kind(node, Kind::Sequence)?;
        if node.len() == index
            && let Some(mut item) = self.new_node(rest)
        {
            if node.tag() == Tag::Null {
                return self.visit(&mut item, rest, found);
            }
            node.push(item);
        }
        let count = node.len();
        match node.items_mut().and_then(|items| items.get_mut(index)) {
            Some(item) => self.visit(item, rest, found),
            None => Err(format!("index {index} specified but only {count} elements found")),
        }
    }

    /// The items of a list whose key has a value that the expression matches, or that match it themselves.
    fn items(self, node: &mut Node, part: &str, rest: &[String], found: Found<'_>) -> Result<usize, String> {
        let (key, expression) = split_item(part)?;
        expect_kind(node, Kind::Sequence)?;
        let mut count = 0;
        let mut compiled = None;
        // The second time, the item is there that was missing.
        for attempt in 0..2 {
            for item in node.items_mut().into_iter().flatten() {
                let regex = match &compiled {
                    Some(regex) => regex,
                    None => compiled.insert(regexp::compile(expression)?),
                };
                let value = if key.is_empty() { Some(&*item) } else { item.get(key) };
                let Some(value) = value else { continue };
                if !regex.is_match(limits::written(value)?.trim())? {
                    continue;
                }
                if key.is_empty() {
                    found(item);
                    count += 1;
                } else {
                    count += self.visit(item, rest, found)?;
                }
            }
            if count > 0 || attempt > 0 || self.create.is_none() || node.tag() == Tag::Null {
                break;
            }
            node.push(new_item(key, expression));
        }
        Ok(count)
    }

    fn field(self, node: &mut Node, key: &str, rest: &[String], found: Found<'_>) -> Result<usize, String> {
        if key.is_empty() {
            // Without a name, what is looked for is the text itself.
            expect_kind(node, Kind::Scalar)?;
            let is_it = node.tag() != Tag::Null && raw_text(node).is_empty();
            return if is_it { self.visit(node, rest, found) } else { Ok(0) };
        }
        if node.tag() == Tag::Null {
            // What is made behind null goes nowhere.
            return self.new_node(rest).map_or(Ok(0), |mut value| self.visit(&mut value, rest, found));
        }
        expect_kind(node, Kind::Mapping)?;
        if !node.contains_key(key) {
            let Some(value) = self.new_node(rest) else { return Ok(0) };
            node.push_pair(Pair { key: Node::verbatim(key), value });
        }
        let Some(value) = node.get_mut(key) else { return Ok(0) };
        if self.into_text && value.is_scalar() && !rest.is_empty() {
            let text = raw_text(value);
            limits::work(text.len())?;
            let mut parsed = parse_first(text).map_err(|error| error.to_string())?.unwrap_or_default();
            return self.visit(&mut parsed.root, rest, found);
        }
        self.visit(value, rest, found)
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_path_is_split_at_dots_that_mean_it() {
        let cases = [
            ("a.b", &["a", "b"][..]),
            (".a.b", &["a", "b"]),
            (r"a.b\.c/d", &["a", "b.c/d"]),
            ("a.[b.c/d].e", &["a", "b.c/d", "e"]),
            ("a.[n=x.y].e", &["a", "[n=x.y]", "e"]),
            ("a.[b]", &["a", "[b]"]),
            ("", &[""]),
        ];
        for (path, parts) in cases {
            assert_eq!(split(path), parts, "{path}");
        }
    }
}
