//! What a render would change, as a unified diff.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use loggia_krm::Changes;
use loggia_render::Rendered;
use similar::{ChangeTag, TextDiff};

use crate::failure::Failure;
use crate::output;
use crate::printer::colours_wanted;

/// Prints the changes, with colours on a terminal.
pub(crate) fn print(rendered: &Rendered, changes: &Changes) -> Result<(), Failure> {
    let colours = io::stdout().is_terminal() && colours_wanted();
    let old = |path: &str| String::from_utf8_lossy(rendered.source(path).unwrap_or_default()).into_owned();
    let mut text = String::new();
    let mut paths: Vec<&String> = changes.writes.keys().chain(&changes.removals).collect();
    paths.sort();
    for path in paths {
        let is_new = rendered.source(path).is_none();
        let new = changes.writes.get(path);
        let from = if is_new { "/dev/null".to_owned() } else { format!("a/{path}") };
        let to = if new.is_some() { format!("b/{path}") } else { "/dev/null".to_owned() };
        one(&mut text, &old(path), new.map_or("", String::as_str), (&from, &to), colours);
    }
    output::print(&text)
}

fn one(text: &mut String, old: &str, new: &str, (from, to): (&str, &str), colours: bool) {
    let paint = |code: &str, line: &str| {
        if colours { format!("\u{1b}[{code}m{line}\u{1b}[0m") } else { line.to_owned() }
    };
    let diff = TextDiff::from_lines(old, new);
    let _ = writeln!(text, "{}", paint("1", &format!("--- {from}\n+++ {to}")));
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        let _ = writeln!(text, "{}", paint("36", &hunk.header().to_string()));
        for change in hunk.iter_changes() {
            let (sign, code) = match change.tag() {
                ChangeTag::Delete => ("-", "31"),
                ChangeTag::Insert => ("+", "32"),
                ChangeTag::Equal => (" ", "0"),
            };
            let value = change.value();
            let line = format!("{sign}{}", value.trim_end_matches('\n'));
            let line = if change.tag() == ChangeTag::Equal { line } else { paint(code, &line) };
            let _ = writeln!(text, "{line}");
            if !value.ends_with('\n') {
                let _ = writeln!(text, "\\ No newline at end of file");
            }
        }
    }
}
