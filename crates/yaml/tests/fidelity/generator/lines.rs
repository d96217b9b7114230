//! Short lines thrown together.

use std::fmt::Write;

use super::{Writer, words};

impl Writer {
    pub(super) fn lines(mut self) -> String {
        if self.random.chance(80) {
            self.outline();
        } else {
            self.jumble();
        }
        self.out
    }

    /// Lines at indentations that wander by steps of two.
    pub(super) fn jumble(&mut self) {
        let mut indent: usize = 0;
        for _ in 0..2 + self.random.below(9) {
            let line = self.random.pick(words::LINES);
            indent = match self.random.below(6) {
                0 | 1 => indent + 2,
                2 => indent.saturating_sub(2),
                3 if self.random.chance(30) => self.random.below(6),
                _ => indent,
            };
            if !line.is_empty() || self.random.chance(10) {
                self.spaces(indent);
            }
            self.out.push_str(line);
            self.out.push('\n');
        }
    }

    /// Keys and items that open and close as they should, with comments and blank lines anywhere between.
    pub(super) fn outline(&mut self) {
        let mut open = vec![(0, self.random.chance(70))];
        let mut opener = true;
        for number in 0..2 + self.random.below(10) {
            while self.random.chance(45) {
                match self.random.below(3) {
                    0 => self.out.push('\n'),
                    1 => {
                        let column = self.random.below(4) * 2;
                        self.comment_line(column);
                    }
                    _ => {
                        let at = self.random.below(open.len());
                        self.comment_line(open[at].0);
                    }
                }
            }
            let (column, mapping) = open[open.len() - 1];
            if opener && number > 0 {
                let sequence = self.random.chance(50);
                let by = if sequence && mapping && self.random.chance(50) {
                    0
                } else {
                    self.random.pick(&[2, 2, 2, 1, 4])
                };
                open.push((column + by, !sequence));
            } else {
                while open.len() > 1 && self.random.chance(35) {
                    open.pop();
                }
            }
            opener = self.outline_entry(open[open.len() - 1], number);
        }
        while self.random.chance(50) {
            let column = self.random.below(3) * 2;
            if self.random.chance(50) {
                self.comment_line(column);
            } else {
                self.out.push('\n');
            }
        }
    }

    /// One entry; true if what belongs to it stands on the next lines.
    pub(super) fn outline_entry(&mut self, (column, mapping): (usize, bool), number: usize) -> bool {
        self.spaces(column);
        if mapping {
            write!(self.out, "k{number}:").expect("text");
        } else {
            self.out.push('-');
        }
        let opener = self.random.chance(35);
        if !opener {
            let value = self.random.pick(words::OUTLINE_VALUES);
            let fits = !mapping || !matches!(value, " - x" | " a: b");
            self.out.push_str(if fits { value } else { " w" });
        }
        if self.out.ends_with("text") || self.out.ends_with("text\n") {
            self.out.push('\n');
        } else {
            if self.random.chance(25) {
                self.out.push(' ');
                self.comment_text();
            }
            self.out.push('\n');
        }
        opener
    }
}
