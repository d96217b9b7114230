//! Programs over generated resources, and statements one by one for what the interpreters say about them.

use crate::compare::{Comparison, Level};
use crate::generator::{any, ordinary, resource_list, seeds};
use crate::oracle::Answer;
use crate::tree::{map, text};

/// Each works on whatever resource it meets.
const PROGRAMS: [&str; 18] = [
    "for r in ctx.resource_list['items']: r['metadata']['namespace'] = 'x'",
    "for r in ctx.resource_list['items']:\n  if r['kind'] == 'ConfigMap': r['data'] = {'a': 'b', 'c': 1, 'd': [1, 2.5, None, True]}\n",
    "ctx.resource_list['items'] = [r for r in ctx.resource_list['items'] if r['kind'] != 'Service']",
    "ctx.resource_list['items'] = []",
    "ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'Gen', 'metadata': {'name': 'g'}})",
    "def walk(x):\n  if type(x) == 'dict':\n    for k in x: x[k] = walk(x[k])\n    return x\n  if type(x) == 'list': return [walk(i) for i in x]\n  if type(x) == 'string': return x.upper()\n  return x\nfor r in ctx.resource_list['items']: walk(r)\n",
    "for r in ctx.resource_list['items']: r.setdefault('metadata', {}).setdefault('labels', {})",
    "for r in ctx.resource_list['items']:\n  r['zzz'] = 'yes'\n  r['aaa'] = '1'\n  r['multi'] = 'a\\nb\\n'\n  r['null'] = None\n",
    "print(len(ctx.resource_list['items']))",
    "for r in ctx.resource_list['items']: print(r['kind'], sorted(r.keys()))",
    "fail('no', len(ctx.resource_list['items']))",
    "load('encoding/json.star', 'json')\nfor r in ctx.resource_list['items']: r['json'] = json.encode(r)",
    "load('math.star', 'math')\nfor r in ctx.resource_list['items']: r['n'] = math.floor(7.5)",
    "for r in ctx.resource_list['items']: r['copy'] = dict(r)",
    "for r in ctx.resource_list['items']: r['spec']['replicas'] += 1",
    "ctx.resource_list['items'] = sorted(ctx.resource_list['items'], key=lambda r: r['kind'])",
    "ctx.resource_list['items'] = ctx.resource_list['items'] + [1]",
    "ctx.resource_list['results'] = [{'message': 'x'}]\nctx.resource_list['functionConfig'] = None",
];

/// What goes wrong, and what comes out.
const STATEMENTS: [&str; 110] = [
    "x =",
    "x = y",
    "f(",
    "x = [1, 2",
    "if True",
    "def f(:",
    "return 1",
    "x = 1 2",
    "for x in",
    "a b",
    "(",
    ")",
    "1 +",
    "x = {1: }",
    "def f():\nx = 1",
    "  x = 1",
    "if True:\n    x = 1\n  y = 2",
    "x = 'abc",
    "break",
    "pass pass",
    "def f(a, a): pass",
    "lambda x: x +",
    "load('x.star', 'x')",
    "load('math.star', 'nothing')",
    "import os",
    "class X: pass",
    "try: pass",
    "x = f'{1}'",
    "x == = 1",
    "1 = x",
    "fail('a', 1, [2])",
    "fail()",
    "{}['x']",
    "{1: 2}[3]",
    "1 + 'a'",
    "'a' + 1",
    "[] + ()",
    "{} + {}",
    "None + 1",
    "-'a'",
    "not_there()",
    "[1][5]",
    "(1,)[2]",
    "'abc'[7]",
    "[1]['a']",
    "None[0]",
    "1[0]",
    "ctx.foo",
    "'a'.foo()",
    "[].foo",
    "{}.foo",
    "for i in 5: pass",
    "for i in None: pass",
    "len(5)",
    "len(None)",
    "{}[[]] = 1",
    "{[]: 1}",
    "a, b = [1]",
    "a, b = [1, 2, 3]",
    "a, b = 1",
    "1 // 0",
    "1 % 0",
    "1 / 0",
    "1.0 // 0",
    "int('x')",
    "int(None)",
    "int('12', 3)",
    "float('x')",
    "int(1.9)",
    "str(1, 2)",
    "def f(x): pass\nf()",
    "def f(x): pass\nf(1, 2)",
    "def f(x): pass\nf(y=1)",
    "def f(x, y): pass\nf(1)",
    "1()",
    "'a'()",
    "def f():\n  x += 1\nf()",
    "def f():\n  y = x\n  x = 1\nf()",
    "'a' < 1",
    "[] < {}",
    "None < None",
    "1 in 2",
    "'a' in 1",
    "1 in 'a'",
    "[1, 2].index(9)",
    "[].pop()",
    "{}.pop('x')",
    "[1].remove(2)",
    "'%d' % 'x'",
    "'%d %d' % 1",
    "'%s' % (1, 2)",
    "'{}'.format()",
    "'{a}'.format()",
    "'x'.join([1])",
    "range(1, 2, 0)",
    "max()",
    "max([])",
    "min(1)",
    "sorted([1, 'a'])",
    "reversed(1)",
    "chr(-1)",
    "ord('ab')",
    "getattr(1, 'x')",
    "x = ctx.resource_list['items']\nfor i in x: x.append(1)",
    "x = {'a': 1}\nfor k in x: x['b'] = 1",
    "ctx.x = 1",
    "'a'.x = 1",
    "enumerate(1)",
    "zip(1)",
    "dict([1])",
];

/// What prints alike.
const PRINTS: [&str; 46] = [
    "1, 1.0, 1e100, 0.1, 1.5e-7, None, True",
    "{'a': 1}, (1,), (), [], {}",
    "'é\\n', ['é\\n\\x01', '\"']",
    "set(['foo', 'bar'])",
    "-7 // 2, -7 % 3, 7.5 // 2, 1 / 2, 10 / 2",
    "1 << 100, 2 * 3.0, 5 - 2.5",
    "0x10, 0o17, 1_0 if False else 1",
    "'a-b'.partition('-')",
    "'a b'.title(), 'aXb'.lower(), 'ab'.upper(), 'ab'.capitalize()",
    "'a,b'.split(','), 'a b  c'.split()",
    "' x '.strip(), 'xax'.strip('x')",
    "'abc'.removeprefix('a'), 'abc'.removesuffix('c')",
    "'abc'.find('c'), 'abc'.rfind('z'), 'abcabc'.count('b')",
    "'abc'.startswith(('x', 'a'))",
    "'%s %r %d %x %o' % ('a', 'b', 3, 255, 8)",
    "'%f %g %e' % (1.5, 1e20, 1.5)",
    "'{} {1} {a}'.format(1, a=2) if False else '{} {}'.format(1, 2)",
    "'{0} {a!r}'.format(1, a='x')",
    "sorted([3, 1, 2], reverse=True), reversed([1, 2])",
    "zip([1, 2], [3, 4]), enumerate(['a'])",
    "any([0]), all([]), max(1, 2), min([1, 2])",
    "type(1), type(None), type([]), type({}), type(1.0), type('a'), type(()), type(True)",
    "range(3), list(range(3)), len(range(10))",
    "repr('x'), str('x'), str([1, 'a'])",
    "bool(0), bool(''), bool([0])",
    "tuple([1]), dict(a=1), list((1,))",
    "hasattr('a', 'upper'), dir('')[:2]",
    "abs(-1), int('12'), float('1.5'), int(1.9)",
    "[x for x in range(3) if x], {k: 1 for k in 'ab'.elems()}",
    "1 if True else 2, not True, 1 and 2, 0 or 3",
    "[1, 2, 3][1:], 'abc'[::-1], (1, 2)[-1]",
    "1 == 1.0, 'a' < 'b', [1] < [2]",
    "1 in [1], 'a' in 'abc', 'k' in {'k': 1}",
    "{'a': 1}.items(), {'a': 1}.keys(), {'a': 1}.get('b', 2)",
    "(lambda x, y=2: x + y)(1)",
    "ord('a'), chr(97)",
    "'a' * 3, [1] * 2",
    "list('ab'.elems())",
    "'aa'.replace('a', 'b', 1)",
    "'a\\nb'.splitlines()",
    "'1'.isdigit(), 'a'.isalpha(), ' '.isspace()",
    "hash('a')",
    "sep='-', *[1, 2]",
    "float('inf'), float('nan')",
    "len('é'), 'é'[0:1] == 'é'",
    "1 | 2, 6 & 3, 5 ^ 1, ~1",
];

/// Statements that fail on both sides, with other words on ours: the engine does not tell what the original's words say.
const OTHER_WORDS: [&str; 26] = [
    "f(",
    "def f(:",
    ")",
    "  x = 1",
    "if True:\n    x = 1\n  y = 2",
    "def f(a, a): pass",
    "x = f'{1}'",
    "1 = x",
    "[1][5]",
    "(1,)[2]",
    "'abc'[7]",
    "[1]['a']",
    "a, b = 1",
    "int(None)",
    "float('x')",
    "str(1, 2)",
    "def f(x): pass\nf(1, 2)",
    "def f(x): pass\nf(y=1)",
    "1 in 'a'",
    "[].pop()",
    "'x'.join([1])",
    "max()",
    "min(1)",
    "reversed(1)",
    "chr(-1)",
    "ord('ab')",
];

/// More of them, where a function's name is missing.
const NAMELESS: [&str; 5] =
    ["enumerate(1)", "zip(1)", "dict([1])", "getattr(1, 'x')", "print(0x10, 0o17, 1_0 if False else 1)"];

fn excuse(input: &str, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    if theirs.stderr.contains("goroutine") {
        return Some("the original crashes");
    }
    let documents = loggia_yaml::parse_all(input).ok()?;
    let source = documents[0].root.at(&["functionConfig", "source"])?.as_str()?.to_owned();
    let failed = ours.exit_code == 1 && theirs.exit_code == 1 && ours.stderr == theirs.stderr;
    if failed && (OTHER_WORDS.contains(&source.as_str()) || NAMELESS.contains(&source.as_str())) {
        return Some("another message for the same error");
    }
    match source.as_str() {
        "print(len('é'), 'é'[0:1] == 'é')" => Some("strings are counted in characters, not bytes"),
        "print('é\\n', ['é\\n\\x01', '\"'])" => Some("letters beyond ASCII are escaped inside of lists"),
        "print(hasattr('a', 'upper'), dir('')[:2])" => Some("strings have other methods too"),
        "print(sep='-', *[1, 2])" => Some("print has no sep"),
        _ => None,
    }
}

fn program(random: &mut crate::random::Random, source: &str) -> String {
    let config = map([
        ("apiVersion", text("fn.kpt.dev/v1alpha1")),
        ("kind", text("StarlarkRun")),
        ("metadata", map([("name", text("prog"))])),
        ("source", text(source)),
    ]);
    let resource = if random.one_in(2) { any } else { ordinary };
    resource_list(random, Some(&config), resource)
}

fn comparison(inputs: &'static str) -> Comparison {
    Comparison {
        function: "starlark",
        version: "latest",
        original: "sdk-v1.0.3",
        inputs,
        level: Level::Values,
        excuse,
    }
}

#[test]
fn starlark_does_what_the_original_does_to_resources() {
    let inputs = seeds().map(|mut random| {
        let source = *random.pick(&PROGRAMS);
        program(&mut random, source)
    });
    comparison("programs").run(inputs);
}

#[test]
fn starlark_says_what_the_original_says() {
    let prints = PRINTS.iter().map(|values| format!("print({values})"));
    let sources = STATEMENTS.iter().map(|statement| (*statement).to_owned()).chain(prints);
    let inputs =
        sources.zip(seeds().chain(seeds())).map(|(source, mut random)| program(&mut random, &source));
    comparison("statements").run(inputs);
}
