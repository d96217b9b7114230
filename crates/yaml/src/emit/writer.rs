//! The page: where the pen stands, and when a line ends.

pub(super) struct Writer {
    out: String,
    /// The column in characters.
    pub(super) column: usize,
    /// The indentation of the block at hand; -1 outside of all.
    pub(super) indent: i32,
    /// The last thing written separates what follows from what was before.
    pub(super) whitespace: bool,
    /// Only indentation and dashes stand on this line so far.
    pub(super) indention: bool,
    /// The indentation of the comment just written below something. Whatever comes next at the same
    /// indentation gets an empty line before it, or it would take the comment over.
    pub(super) foot_indent: i32,
    /// Where a block scalar ended that keeps all its line breaks. An empty line right there would
    /// become part of its text.
    pub(super) kept_breaks_end: Option<usize>,
    /// The most bytes of text. Indentation makes a text grow beyond the size of its tree, so once there are more
    /// there is none, and the walk ends.
    limit: usize,
}

impl Writer {
    pub(super) fn new(out: String, limit: usize) -> Self {
        Self {
            out,
            limit,
            column: 0,
            indent: -1,
            whitespace: true,
            indention: true,
            foot_indent: -1,
            kept_breaks_end: None,
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Whether there is more text than there may be.
    pub(super) fn is_full(&self) -> bool {
        self.out.len() > self.limit
    }

    #[inline]
    pub(super) fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    /// Writes text without line breaks.
    #[inline]
    pub(super) fn write(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += if text.is_ascii() { text.len() } else { text.chars().count() };
    }

    pub(super) fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.indention = true;
    }

    /// Writes a line break of the text itself; the separators of Unicode stay what they are.
    pub(super) fn write_break(&mut self, c: char) {
        if c == '\n' {
            self.put_break();
        } else {
            self.out.push(c);
            self.column = 0;
            self.indention = true;
        }
    }

    /// Remembers that every line break at the end so far belongs to a text.
    pub(super) fn protect_breaks(&mut self) {
        self.kept_breaks_end = Some(self.out.len());
    }

    /// Goes to the indentation, on a new line unless the pen is still before it.
    pub(super) fn write_indent(&mut self) {
        let indent = self.indent.max(0);
        let column = usize::try_from(indent).unwrap_or(0);
        if !self.indention || self.column > column || (self.column == column && !self.whitespace) {
            self.put_break();
        }
        if self.foot_indent == indent && self.kept_breaks_end != Some(self.out.len()) {
            self.put_break();
        }
        if self.is_full() {
            self.column = column;
        }
        while self.column < column {
            self.put(' ');
        }
        self.whitespace = true;
        self.foot_indent = -1;
    }

    /// Writes a sign with meaning: separated from what is before, not from what follows.
    pub(super) fn indicator(&mut self, sign: &str) {
        if !self.whitespace {
            self.put(' ');
        }
        self.write(sign);
        self.whitespace = false;
        self.indention = false;
    }

    /// `-`, `?` and the `:` of such a key: content may follow on the same line as if indented.
    pub(super) fn entry_indicator(&mut self, sign: &str) {
        let indention = self.indention;
        self.indicator(sign);
        self.indention = indention;
    }

    /// `[` and `{`: what follows needs no separation.
    pub(super) fn opening_indicator(&mut self, sign: &str) {
        self.indicator(sign);
        self.whitespace = true;
    }

    /// Closing brackets, commas, quotes: they touch what is before them.
    pub(super) fn closing_indicator(&mut self, sign: &str) {
        self.write(sign);
        self.whitespace = false;
        self.indention = false;
    }

    /// Writes comment lines at the current indentation and ends the last one.
    pub(super) fn write_comment(&mut self, comment: &str) {
        let mut at_break = false;
        for (number, line) in comment.split('\n').enumerate() {
            if number > 0 {
                self.put_break();
                at_break = true;
            }
            if line.is_empty() {
                continue;
            }
            if at_break {
                self.write_indent();
            }
            if !line.starts_with('#') {
                self.write("# ");
            }
            self.write(line);
            self.indention = false;
            at_break = false;
        }
        if !at_break {
            self.put_break();
        }
        self.whitespace = true;
    }
}
