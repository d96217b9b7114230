//! `re`: regular expressions in RE2's syntax.

use std::rc::Rc;

use regex::RegexBuilder;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::tuple::AllocTuple;
use starlark::values::{Heap, Value};

use crate::limits;
use crate::regexp::Expression;

/// Bytes of a compiled expression.
const MAX_EXPRESSION: usize = 1 << 20;
/// Bytes of a replaced text that are not worth counting.
const MAX_TEXT: usize = 1 << 20;

#[starlark_module]
pub(in crate::catalog::starlark) fn re(builder: &mut GlobalsBuilder) {
    /// All matches, each a tuple of the whole and its groups.
    fn r#match<'v>(pattern: &str, string: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let pattern = compile(pattern)?;
        let pattern = pattern.counted(string)?;
        let matches = pattern.captures_iter(string).map(|captures| {
            let groups: Vec<&str> =
                captures.iter().map(|group| group.map_or("", |group| group.as_str())).collect();
            heap.alloc(AllocTuple(groups))
        });
        Ok(heap.alloc(AllocList(matches.collect::<Vec<_>>())))
    }

    fn findall<'v>(pattern: &str, string: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let pattern = compile(pattern)?;
        let pattern = pattern.counted(string)?;
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
        let pattern = pattern.counted(string)?;
        let parts: Vec<&str> = match usize::try_from(maxsplit) {
            Ok(limit) if limit > 0 => pattern.splitn(string, limit).collect(),
            _ => pattern.split(string).collect(),
        };
        Ok(heap.alloc(AllocTuple(parts)))
    }

    fn sub(pattern: &str, repl: &str, string: &str) -> anyhow::Result<String> {
        let pattern = compile(pattern)?;
        let pattern = pattern.counted(string)?;
        // Each match may be as long as the text, and is put in as often as the replacement asks.
        let count = pattern.find_iter(string).count();
        let growth = repl.len() + string.len().saturating_mul(repl.matches('$').count());
        if count.saturating_mul(growth) > MAX_TEXT {
            limits::work(count.saturating_mul(growth))?;
        }
        Ok(pattern.replace_all(string, repl).into_owned())
    }

    /// Where the first match begins and ends; None if there is none.
    fn search<'v>(pattern: &str, string: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let pattern = compile(pattern)?;
        Ok(pattern.counted(string)?.find(string).map_or_else(Value::new_none, |found| {
            heap.alloc(AllocList([found.start() as i64, found.end() as i64]))
        }))
    }
}

fn compile(pattern: &str) -> anyhow::Result<Rc<Expression>> {
    Expression::shared(pattern).map_err(|_| {
        let error = RegexBuilder::new(pattern).size_limit(MAX_EXPRESSION).build().err();
        let error = error.map_or_else(|| "expression too large".to_owned(), |error| error.to_string());
        anyhow::anyhow!("error parsing regexp: {error}")
    })
}
