//! What a render would change, as a unified diff.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use loggia_go::printable_line;
use loggia_krm::Changes;
use loggia_render::Rendered;
use similar::{ChangeTag, TextDiff};

use crate::failure::Failure;
use crate::output;
use crate::printer::{Look, colours_wanted, painted};

/// How long to look for the shortest diff of a file.
const PATIENCE: Duration = Duration::from_secs(2);

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
    // What is in it was made printable line by line; the colours stay.
    output::write(text.as_bytes())
}

fn one(text: &mut String, old: &str, new: &str, (from, to): (&str, &str), colours: bool) {
    let mut line = |look: Look, line: &str| {
        text.push_str(&painted(&[(look, line)], colours));
        text.push('\n');
    };
    // Files that have little in common take time that grows with the square of their length. After the timeout the
    // diff is still right, only longer than it could be.
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    line(Look::Bold, &format!("--- {}\n+++ {}", printable_line(from), printable_line(to)));
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        line(Look::Cyan, &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (sign, look) = match change.tag() {
                ChangeTag::Delete => ("-", Look::Red),
                ChangeTag::Insert => ("+", Look::Green),
                ChangeTag::Equal => (" ", Look::Plain),
            };
            let value = change.value();
            line(look, &format!("{sign}{}", value.trim_end_matches('\n')));
            if !value.ends_with('\n') {
                line(Look::Plain, "\\ No newline at end of file");
            }
        }
    }
}
