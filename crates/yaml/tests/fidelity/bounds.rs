//! Hostile input costs an error or a little time, never the stack, the memory or the patience.

use std::time::{Duration, Instant};

use loggia_yaml::SequenceStyle;

use crate::subject;

/// A stack far smaller than any thread's of ours, so that recursion by depth would not go unnoticed.
const STACK: usize = 256 * 1024;

/// Far above what any of these takes; a debug build on a busy machine must pass too.
const PATIENCE: Duration = Duration::from_secs(30);

/// How large the large texts are; a debug build takes ten times as long.
const LARGE: usize = if cfg!(debug_assertions) { 1 << 20 } else { 4 << 20 };

/// More than the whole test program may ever hold; the largest text here has 4 MiB.
const MEMORY: u64 = 2 << 30;

/// The most memory this process ever held, where the system tells (Linux); 0 elsewhere.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// What became of a text.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It was read and written, and this many bytes came out.
    Written(usize),
    Rejected(String),
}

/// Reads, writes, decodes and drops a text on a thread with a small stack.
fn run(what: &str, text: String) -> Outcome {
    let start = Instant::now();
    let size = text.len();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let documents = match subject::parse(text.as_bytes()) {
            Ok(documents) => documents,
            Err(error) => return Outcome::Rejected(error),
        };
        let _ = subject::values(text.as_bytes());
        Outcome::Written(subject::emit(&documents, SequenceStyle::Compact).len())
    });
    let outcome = thread.unwrap().join().unwrap_or_else(|_| panic!("{what} panicked"));
    let took = start.elapsed();
    eprintln!(
        "{what}: {size} bytes, {took:?}, {}",
        match &outcome {
            Outcome::Written(size) => format!("{size} bytes written"),
            Outcome::Rejected(error) => error.clone(),
        }
    );
    assert!(took < PATIENCE, "{what} took {took:?}");
    let peak = peak_memory();
    assert!(peak < MEMORY, "{peak} bytes of memory were in use at some time up to {what}");
    outcome
}

fn rejected(what: &str, text: String) -> String {
    match run(what, text) {
        Outcome::Rejected(error) => error,
        Outcome::Written(_) => panic!("{what} was accepted"),
    }
}

#[test]
fn deep_nesting_is_an_error_with_the_depth_in_it() {
    for opening in ["[", "{", "- ", "? ", "[{a: ", "{? ", "[[], "] {
        let error = rejected(&format!("100,000 of {opening:?}"), opening.repeat(100_000));
        assert!(error.contains("exceeded max depth of 10000"), "{opening:?}: {error}");
    }
}

#[test]
fn nesting_below_the_limit_is_read_and_written() {
    let depth = 9_000;
    run("9,000 flow sequences", format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    run("9,000 block sequences", format!("{}x\n", "- ".repeat(depth)));
    let keys: String = (0..1_500).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    run("1,500 block mappings", keys);
    run("100,000 equal keys in a row", "a:\n".repeat(100_000));
}

#[test]
fn aliases_of_aliases_do_not_multiply() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", below.trim_end_matches(", ")));
    }
    let size = bomb.len();
    assert!(matches!(run("an alias bomb", bomb.clone()), Outcome::Written(out) if out < 2 * size));
    let error = subject::values(bomb.as_bytes()).unwrap_err();
    assert!(error.contains("excessive aliasing"), "{error}");

    run("an anchor inside itself", "a: &a [*a, {b: *a}]\n".to_owned());
    let chain: String = (1..20_000).map(|n| format!("- &a{n} [*a{}]\n", n - 1)).collect();
    run("20,000 anchors in a chain", format!("- &a0 x\n{chain}"));
    run(
        "100,000 anchors",
        (0..100_000).map(|n| format!("- &a{n} *a{n}\n").replace(&format!("*a{n}"), "x")).collect(),
    );
}

#[test]
fn large_scalars_and_keys_are_read_and_written() {
    let size = LARGE;
    for (what, text) in [
        ("a plain scalar", format!("a: {}\n", "x".repeat(size))),
        ("a plain scalar of words", format!("a: {}\n", "word ".repeat(size / 5))),
        ("a plain scalar of lines", format!("a: x\n{}", "  y\n".repeat(size / 8))),
        ("a double-quoted scalar", format!("a: \"{}\"\n", "\\n\\u00e9".repeat(size / 8))),
        ("a single-quoted scalar", format!("a: '{}'\n", "''".repeat(size / 2))),
        ("a literal block", format!("a: |\n{}", "  line of text\n".repeat(size / 15))),
        ("a folded block", format!("a: >\n{}", "  line of text\n".repeat(size / 15))),
        ("an empty-lined block", format!("a: |+\n  x\n{}", "\n".repeat(size / 4))),
        ("a comment", format!("# {}\na: 1\n", "x".repeat(size))),
        ("many comments", format!("{}a: 1\n", "# c\n".repeat(size / 16))),
        ("many line comments", "a: 1 # c\n".repeat(size / 32)),
        ("many foot comments", "a: 1\n# c\n\n".repeat(size / 32)),
        ("comments dedenting", format!("a:\n  b:\n    c: 1\n{}", "    # c\n  # d\n# e\n".repeat(size / 64))),
        ("comments between dedents", "a:\n  # c\n  b:\n    c: 1\n    # d\n  # e\n# f\n\n".repeat(size / 128)),
        ("comments in a sequence", format!("a:\n{}", "  - x\n  # c\n\n    # d\n".repeat(size / 64))),
        ("blank lines", format!("a: 1\n{}b: 2\n", "\n".repeat(size))),
        (
            "the longest key",
            format!(
                "\"{}\": v
",
                "k".repeat(1_000)
            ),
        ),
        (
            "an explicit quoted key",
            format!(
                "? \"{}\"
: v
",
                "k".repeat(1 << 20)
            ),
        ),
        ("an explicit key", format!("? {}\n: v\n", "k".repeat(1 << 20))),
        ("an anchor", format!("a: &{} x\n", "k".repeat(1 << 20))),
        ("a tag", format!("a: !{} x\n", "k".repeat(1 << 20))),
        ("escaped tags", format!("a: !{} x\n", "%C3%A9".repeat(1 << 16))),
    ] {
        assert!(matches!(run(what, text), Outcome::Written(_)), "{what}");
    }
    rejected("a quoted key over the limit", format!("\"{}\": v\n", "k".repeat(1 << 20)));
    rejected("a plain key over the limit", format!("{}: v\n", "k".repeat(1 << 20)));
}

#[test]
fn many_small_things_take_linear_time() {
    let count = LARGE / 40;
    for (what, text) in [
        ("documents", "---\na: 1\n".repeat(count)),
        ("empty documents", "---\n".repeat(count)),
        ("keys of one mapping", (0..count).map(|n| format!("k{n}: {n}\n")).collect()),
        (
            "keys of a flow mapping",
            format!("{{{}}}\n", (0..count).map(|n| format!("k{n}: {n}, ")).collect::<String>()),
        ),
        ("items of a flow sequence", format!("[{}]\n", "a, ".repeat(count))),
        ("lone keys of a flow mapping", format!("{{{}}}\n", "a, ".repeat(count))),
        ("pairs in a flow sequence", format!("[{}]\n", "a: b, ".repeat(count))),
        ("comments in a flow sequence", format!("[{}]\n", "a, # c\n ".repeat(count / 4))),
        ("items of a sequence", "- a\n".repeat(count)),
        ("empty items", "-\n".repeat(count)),
        ("tags", "- !t x\n".repeat(count)),
        ("aliases", format!("- &a x\n{}", "- *a\n".repeat(count))),
    ] {
        assert!(matches!(run(what, text), Outcome::Written(_)), "{what}");
    }
}

#[test]
fn texts_that_never_end_are_rejected_in_time() {
    let count = 200_000;
    for text in [
        "\"".repeat(count + 1),
        format!("\"{}", "a\n".repeat(count)),
        format!("'{}", "a\n".repeat(count)),
        "{a".repeat(5_000),
        format!("[{}", "a, ".repeat(count)),
        format!("{{{}", "a: b, ".repeat(count)),
        "%TAG !a! b\n".repeat(count / 10),
        "*a".repeat(count),
        "&a ".repeat(count),
        "!a ".repeat(count),
        "? - : ".repeat(count),
        format!("a: {}", "\t".repeat(count) + "\u{1}"),
        "a: b: ".repeat(count),
        "- : - ".repeat(count),
        "'a': [".repeat(count),
    ] {
        let what = format!("{:?}…", text.chars().take(12).collect::<String>());
        rejected(&what, text);
    }
}
