//! `re`: regular expressions in RE2's syntax.

use regex::{Regex, RegexBuilder};
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::tuple::AllocTuple;
use starlark::values::{Heap, Value};

/// Bytes of a compiled expression.
const MAX_EXPRESSION: usize = 10 << 20;

#[starlark_module]
pub(in crate::catalog::starlark) fn re(builder: &mut GlobalsBuilder) {
    /// All matches, each a tuple of the whole and its groups.
    fn r#match<'v>(pattern: &str, string: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let pattern = compile(pattern)?;
        let matches = pattern.captures_iter(string).map(|captures| {
            let groups: Vec<&str> =
                captures.iter().map(|group| group.map_or("", |group| group.as_str())).collect();
            heap.alloc(AllocTuple(groups))
        });
        Ok(heap.alloc(AllocList(matches.collect::<Vec<_>>())))
    }

    fn findall<'v>(pattern: &str, string: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let pattern = compile(pattern)?;
        let found: Vec<&str> = pattern.find_iter(string).map(|found| found.as_str()).collect();
        Ok(heap.alloc(AllocTuple(found)))
    }

    fn split<'v>(
        pattern: &str,
        string: &str,
        #[starlark(default = 0)] maxsplit: i32,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        let pattern = compile(pattern)?;
        let parts: Vec<&str> = match usize::try_from(maxsplit) {
            Ok(limit) if limit > 0 => pattern.splitn(string, limit).collect(),
            _ => pattern.split(string).collect(),
        };
        Ok(heap.alloc(AllocTuple(parts)))
    }

    fn sub(pattern: &str, repl: &str, string: &str) -> anyhow::Result<String> {
        Ok(compile(pattern)?.replace_all(string, repl).into_owned())
    }

    /// Where the first match begins and ends; None if there is none.
    fn search<'v>(pattern: &str, string: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        Ok(compile(pattern)?.find(string).map_or_else(Value::new_none, |found| {
            heap.alloc(AllocList([found.start() as i64, found.end() as i64]))
        }))
    }
}

fn compile(pattern: &str) -> anyhow::Result<Regex> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_EXPRESSION)
        .build()
        .map_err(|error| anyhow::anyhow!("error parsing regexp: {error}"))
}
