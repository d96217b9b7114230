use loggia_krm::StreamOptions;

use super::*;
use crate::find;

/// The items and messages a program leaves; each item is a line of text in flow style or as written.
fn on(items: &str, source: &str) -> (String, String) {
    let indented = source.replace('\n', "\n    ");
    let input = format!(
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig:\n  apiVersion: fn.kpt.dev/v1alpha1\n  \
         kind: StarlarkRun\n  metadata:\n    name: prog\n  source: |\n    {indented}\nitems:{items}"
    );
    let output = find("starlark").expect("it is built in").1.filter(input.as_bytes());
    let list = ResourceList::parse(output.stdout.as_bytes(), StreamOptions::default()).expect("a list");
    let items: String = list.items.iter().map(|item| loggia_yaml::node_to_string(item.node())).collect();
    let results = list.results().expect("results");
    let said = results.0.iter().map(|result| result.message.clone()).collect::<Vec<_>>().join("\n");
    (items, if output.exit_code == 0 { output.stderr } else { said })
}

fn fails_with(source: &str, message: &str) {
    assert_eq!(on(" []\n", source).1, message, "{source}");
}

#[test]
fn what_a_program_leaves_alone_stays_as_it_was_written() {
    let items = "
- apiVersion: v1
  kind: A # the kind
  metadata: {name: \"x\"}
  # about data
  data:
    z: 'quoted' # why
    n: 1.0
    a: yes
";
    let (items, _) =
        on(items, "for r in ctx.resource_list['items']: r['data']['n2'] = 'yes'; r['data']['a'] = None");
    let expected = "apiVersion: v1
kind: A # the kind
metadata: {name: \"x\"}
# about data
data:
  z: 'quoted' # why
  n: 1.0
  a: null
  n2: \"yes\"
";
    assert_eq!(items, expected);
}

#[test]
fn what_comes_from_the_config_is_written_anew() {
    let source =
        "ctx.resource_list['items'].append(dict(b=1, a=ctx.resource_list['functionConfig']['metadata']))";
    let (items, _) = on(" []\n", source);
    assert_eq!(items, "a:\n  name: prog\nb: 1\n");
    let items = "\n- apiVersion: v1\n  kind: A\n  metadata: {name: x}\n  data: {z: 1, y: 2} # kept\n";
    let (items, _) = on(items, "for r in ctx.resource_list['items']: r['new'] = {'z': 1, 'y': 2}");
    assert!(items.contains("data: {z: 1, y: 2} # kept\nnew:\n  \"y\": 2\n  z: 1\n"), "{items}");
}

#[test]
fn what_it_prints_goes_to_standard_error_although_it_succeeds() {
    let (_, printed) = on(" []\n", "print(set(['foo', 'bar']))\nprint(1, 'a', [1.5, None])");
    assert_eq!(printed, "set([\"foo\", \"bar\"])\n1 a [1.5, None]\n");
}

#[test]
fn while_works_at_the_top_in_functions_and_on_one_line() {
    let source = "x = 0\nwhile x < 3: x += 1\ndef f(n):\n  while True:\n    # a comment\n    n -= 1\n    if n < 0:\n      \
                  break\n    if n == 2: continue\n  return n\nprint(x, f(5))\nwhile (x and\n    x > 1):\n  x -= 1\nprint(x)";
    assert_eq!(on(" []\n", source).1, "3 -1\n1\n");
    fails_with("while False:\n  pass\nx = 1\ny = z", "prog:4:5: undefined: z");
}

#[test]
fn errors_read_as_the_interpreter_of_the_original_puts_them() {
    fails_with("x =\n", "prog:1:4: got newline, want primary expression");
    fails_with("def f(r):\n  return r == 1 and\n  r == 2", "prog:2:20: got newline, want primary expression");
    fails_with("x = y", "prog:1:5: undefined: y");
    fails_with("fail('a', 1, [2])", "fail: a 1 [2]");
    fails_with("{}['x']", "key \"x\" not in dict");
    fails_with("1 + 'a'", "unknown binary op: int + string");
    fails_with("ctx.foo", "struct has no .foo attribute");
    fails_with("'a'.foo()", "string has no .foo field or method");
    fails_with("for i in 5: pass", "int value is not iterable");
    fails_with("{}[[]] = 1", "unhashable type: list");
    fails_with("a, b = [1]", "too few values to unpack (got 1, want 2)");
    fails_with("1 // 0", "floored division by zero");
    fails_with("load('nope.star', 'x')", "load: name x not found in module nope.star");
    fails_with("ctx.resource_list['items'] = [{'a': set([1])}]", "sets aren't yet supported");
}

#[test]
fn hostile_programs_end_in_an_error() {
    fails_with("def f(n): return f(n + 1)\nf(0)", "Starlark program called itself too deeply");
    let itself = "a = {}\na['a'] = a\nctx.resource_list['items'] = [a]";
    fails_with(itself, "values are nested more than 1000 deep, or hold themselves");
    fails_with("while True: print('x' * 1000)", "print: more than 1048576 bytes");
}
