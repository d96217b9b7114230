//! What can go wrong while reading, checking, decoding or writing, and where.
//!
//! `Display` gives the text that go-yaml v3 gives, letter for letter, because users know it and
//! scripts match it. Its line numbers are sometimes one off; [`Error::line`] and [`Error::column`]
//! name the true place and [`Error::render`] shows it.

use std::fmt;

/// An error with the place in the text it belongs to.
#[derive(Clone, thiserror::Error)]
#[error("yaml: {}", .0.message)]
pub struct Error(Box<Report>);

#[derive(Clone, Debug)]
struct Report {
    message: String,
    line: u32,
    column: u32,
    /// The message is go-yaml's own and must not be wrapped.
    complete: bool,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Report { message: message.into(), line: 0, column: 0, complete: false }))
    }

    /// An error whose text is complete: it may get a place, but no words around it.
    pub(crate) fn complete(message: impl Into<String>) -> Self {
        let mut error = Self::new(message);
        error.0.complete = true;
        error
    }

    /// Gives an error met while decoding its place, unless it has one.
    pub(crate) fn located(self, line: u32, column: u32) -> Self {
        if self.0.line != 0 || line == 0 {
            return self;
        }
        if self.0.complete {
            return self.at(line, column);
        }
        Self::decoding(&[format!("line {line}: {}", self.0.message)]).at(line, column)
    }

    /// Adds the place, both counted from 1.
    pub(crate) fn at(mut self, line: u32, column: u32) -> Self {
        self.0.line = line;
        self.0.column = column;
        self
    }

    /// Errors found while decoding into types, each of the form `line N: what`.
    pub(crate) fn decoding(problems: &[String]) -> Self {
        Self::new(format!("unmarshal errors:\n  {}", problems.join("\n  ")))
    }

    /// The text without the leading `yaml: `.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The line of the offending place, counted from 1, if it is known.
    #[must_use]
    pub fn line(&self) -> Option<u32> {
        (self.0.line != 0).then_some(self.0.line)
    }

    /// The column of the offending place in characters, counted from 1, if it is known.
    #[must_use]
    pub fn column(&self) -> Option<u32> {
        (self.0.line != 0).then_some(self.0.column)
    }

    /// The error for people: `file:line:column: message`, then the line itself and a caret.
    ///
    /// `source` is the text that was parsed; without a known place only the message is given.
    #[must_use]
    pub fn render(&self, file: &str, source: &str) -> String {
        let Some(line) = self.line() else {
            return format!("{file}: {}", self.0.message);
        };
        let column = self.0.column.max(1);
        let message = self.message_without_line();
        let mut out = format!("{file}:{line}:{column}: {message}");
        if let Some(text) = source.lines().nth(line as usize - 1) {
            let shown = shorten_around(text, column as usize - 1);
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            out.push_str(&format!("\n{margin} |\n{number} | {}\n{margin} | ", shown.text));
            for c in shown.text.chars().take(shown.caret) {
                out.push(if c == '\t' { '\t' } else { ' ' });
            }
            out.push('^');
        }
        out
    }

    /// The message without go-yaml's `line N: `, for where the place is already shown.
    fn message_without_line(&self) -> &str {
        let message = self.0.message.as_str();
        let message = message.strip_prefix("unmarshal errors:\n  ").unwrap_or(message);
        let Some(rest) = message.strip_prefix("line ") else { return message };
        match rest.split_once(": ") {
            Some((number, rest)) if number.bytes().all(|b| b.is_ascii_digit()) => rest,
            _ => message,
        }
    }
}

struct Excerpt {
    text: String,
    caret: usize,
}

/// Cuts a long line down to the part around the caret.
fn shorten_around(line: &str, caret: usize) -> Excerpt {
    const WIDTH: usize = 120;
    let skip = caret.saturating_sub(WIDTH / 2);
    let text: String = line.trim_end_matches('\r').chars().skip(skip).take(WIDTH).collect();
    Excerpt { text, caret: caret - skip }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("message", &self.0.message)
            .field("line", &self.0.line)
            .field("column", &self.0.column)
            .finish()
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.0.message == other.0.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_error_shows_file_place_line_and_caret() {
        let error = Error::new("line 2: found unknown escape character").at(2, 4);
        assert_eq!(error.to_string(), "yaml: line 2: found unknown escape character");
        assert_eq!(
            error.render("a.yaml", "x: 1\ny: \"\\q\"\n"),
            "a.yaml:2:4: found unknown escape character\n  |\n2 | y: \"\\q\"\n  |    ^"
        );
    }

    #[test]
    fn an_error_without_a_place_renders_as_file_and_message() {
        let error = Error::new("unknown anchor 'x' referenced");
        assert_eq!(error.render("a.yaml", ""), "a.yaml: unknown anchor 'x' referenced");
        assert_eq!(error.line(), None);
    }
}
