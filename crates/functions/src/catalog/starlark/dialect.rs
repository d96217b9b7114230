//! What the original's dialect has and the engine's lacks: `while`.
//!
//! `while CONDITION:` becomes an endless `for` whose body begins with a test. Lines are added, never merged, and
//! [`Rewritten::line`] leads back, so that errors name the lines people wrote.

/// The name of the number of rounds a `while` loop can have.
pub(super) const FOREVER: &str = "_while_rounds_";

/// A program in the engine's dialect.
pub(super) struct Rewritten {
    pub(super) text: String,
    /// The original line of each line, counted from 0.
    lines: Vec<usize>,
}

impl Rewritten {
    /// The line people wrote for a line of the text, both counted from 0.
    pub(super) fn line(&self, line: usize) -> usize {
        self.lines.get(line).or(self.lines.last()).copied().unwrap_or(line)
    }
}

/// How deep expressions may nest. The engine recurses over them, and the stack has an end.
const MAX_NESTING: usize = 4_000;

/// Fails if an expression may nest deeper than the engine can follow.
///
/// This counts words and signs that may belong to one another: all since the last comma, in every bracket that is
/// open. So it is never less than the nesting, and mostly little more.
pub(super) fn check_nesting(source: &str) -> Result<(), String> {
    let mut scan = Scan::default();
    let mut open: Vec<usize> = vec![0];
    let (mut total, mut in_word, mut line) = (0_usize, false, 1);
    for (at, character) in source.char_indices() {
        let is_code = scan.quote.is_none() && !scan.comment && scan.skip == 0;
        scan.step(character, &source[at..]);
        line += usize::from(character == '\n');
        let is_word = character.is_alphanumeric() || character == '_';
        let begins_word = is_word && !in_word;
        in_word = is_word;
        if !is_code {
            continue;
        }
        let depth = open.len();
        let Some(last) = open.last_mut() else { break };
        match character {
            ')' | ']' | '}' if depth > 1 => total -= open.pop().unwrap_or(0),
            ',' | ';' => total -= std::mem::take(last),
            '\n' if depth == 1 => total -= std::mem::take(last),
            '(' | '[' | '{' => {
                *last += 1;
                total += 1;
                open.push(0);
            }
            _ if begins_word || (character.is_ascii_punctuation() && !is_word) => {
                *last += 1;
                total += 1;
            }
            _ => {}
        }
        if total > MAX_NESTING {
            return Err(format!("line {line}: an expression is nested more than {MAX_NESTING} deep"));
        }
    }
    Ok(())
}

/// A logical line: it may span several lines inside brackets or strings.
struct Statement<'a> {
    /// All of it, with its last line break.
    text: &'a str,
    first_line: usize,
}

/// A loop whose body has not begun.
struct Open {
    indent: usize,
    condition: String,
    line: usize,
}

pub(super) fn rewrite(source: &str) -> Rewritten {
    let mut out = Rewritten { text: String::with_capacity(source.len()), lines: Vec::new() };
    let mut open: Option<Open> = None;
    for statement in Statements::new(source) {
        let body = statement.text.trim_start_matches([' ', '\t']);
        let indent = statement.text.len() - body.len();
        let blank = body.trim().is_empty() || body.starts_with('#');
        if !blank
            && let Some(Open { indent: outer, condition, line }) = open.take()
            && indent > outer
        {
            out.push(&format!("{}if not ({condition}): break\n", &statement.text[..indent]), line, false);
        }
        match split_while(body) {
            Some((condition, rest)) => {
                let margin = &statement.text[..indent];
                let line = statement.first_line;
                out.push(&format!("{margin}for _ in range({FOREVER}):\n"), line, false);
                if rest.trim().is_empty() || rest.trim_start().starts_with('#') {
                    open = Some(Open { indent, condition: condition.replace('\n', " "), line });
                } else {
                    let condition = condition.replace('\n', " ");
                    out.push(
                        &format!("{margin} if not ({condition}): break\n{margin} {}", rest.trim_start()),
                        line,
                        false,
                    );
                }
            }
            None => out.push(statement.text, statement.first_line, true),
        }
    }
    out
}

impl Rewritten {
    /// Adds lines: one after another in the original, or all from the same line of it.
    fn push(&mut self, text: &str, line: usize, advancing: bool) {
        self.text.push_str(text);
        let count = text.matches('\n').count() + usize::from(!text.ends_with('\n'));
        self.lines.extend((0..count).map(|offset| if advancing { line + offset } else { line }));
    }
}

/// The condition and what follows the colon, if this is a `while` statement.
fn split_while(body: &str) -> Option<(&str, &str)> {
    let after = body.strip_prefix("while").filter(|rest| rest.starts_with([' ', '\t', '(']))?;
    let mut scan = Scan::default();
    for (at, character) in after.char_indices() {
        if character == ':' && scan.is_bare() {
            return Some((after[..at].trim(), &after[at + 1..]));
        }
        scan.step(character, &after[at..]);
    }
    None
}

/// Where in the text a character is: inside brackets, a string, a comment.
#[derive(Default)]
struct Scan {
    depth: usize,
    quote: Option<(char, bool)>,
    comment: bool,
    skip: usize,
}

impl Scan {
    fn is_bare(&self) -> bool {
        self.depth == 0 && self.quote.is_none() && !self.comment && self.skip == 0
    }

    /// Takes one character; `rest` begins with it.
    fn step(&mut self, character: char, rest: &str) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.comment {
            self.comment = character != '\n';
        } else if let Some((quote, triple)) = self.quote {
            if character == '\\' {
                self.skip = 1;
            } else if character == quote && !triple {
                self.quote = None;
            } else if character == quote && rest[1..].starts_with([quote]) && rest[2..].starts_with([quote]) {
                self.quote = None;
                self.skip = 2;
            } else if character == '\n' && !triple {
                self.quote = None;
            }
        } else {
            match character {
                '#' => self.comment = true,
                '"' | '\'' => {
                    let triple = rest[1..].starts_with([character]) && rest[2..].starts_with([character]);
                    self.quote = Some((character, triple));
                    self.skip = if triple { 2 } else { 0 };
                }
                '(' | '[' | '{' => self.depth += 1,
                ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                '\\' => self.skip = 1,
                _ => {}
            }
        }
    }
}

struct Statements<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Statements<'a> {
    fn new(source: &'a str) -> Self {
        Self { rest: source, line: 0 }
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = Statement<'a>;

    fn next(&mut self) -> Option<Statement<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut scan = Scan::default();
        let end = self
            .rest
            .char_indices()
            .find_map(|(at, character)| {
                let continued = scan.skip > 0;
                scan.step(character, &self.rest[at..]);
                (character == '\n' && !continued && scan.is_bare()).then_some(at + 1)
            })
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        let statement = Statement { text, first_line: self.line };
        self.line += text.matches('\n').count();
        self.rest = rest;
        Some(statement)
    }
}
