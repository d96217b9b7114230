//! Streams and block collections in any style.

use std::fmt::Write;

use super::{Writer, words};

impl Writer {
    pub(super) fn wild_stream(&mut self) {
        self.gap(0);
        let documents = 1 + self.random.below(10) / 8 * (1 + self.random.below(3));
        for document in 0..documents {
            if document > 0 || self.random.chance(8) {
                self.separator();
            }
            self.gap(0);
            self.anchors.clear();
            self.budget += 3;
            self.wild_root();
            self.gap(0);
        }
        if self.random.chance(3) {
            self.out.push_str("...");
            self.end_line();
        }
    }

    pub(super) fn separator(&mut self) {
        if self.odd() {
            let odd = self.random.pick(&[
                "...\n",
                "%YAML 1.1\n",
                "%TAG !e! tag:example.com,2000:\n",
                "...\n%YAML 1.2\n",
                "\n",
            ]);
            self.out.push_str(odd);
        }
        self.out.push_str("---");
        self.end_line();
    }

    pub(super) fn wild_root(&mut self) {
        match self.random.below(20) {
            0 => {
                self.scalar_inline(0, false);
                self.end_line();
            }
            1 => {
                self.flow(0, 0);
                self.end_line();
            }
            2 => self.block_scalar(0),
            3 | 4 => self.sequence(0, 0),
            _ => self.mapping(0, 0),
        }
    }

    // --- block collections ---

    pub(super) fn mapping(&mut self, indent: usize, depth: usize) {
        let entries = 1 + self.random.below(5);
        for entry in 0..entries {
            if entry > 0 {
                self.gap(indent);
                self.spaces(indent);
            } else if indent > 0 && !self.out.ends_with("- ") && !self.at_column(indent) {
                self.spaces(indent);
            }
            self.entry(indent, depth);
        }
        if self.random.chance(20) {
            self.gap(indent);
        }
    }

    /// Whether the text ends on a line that already has `column` characters.
    pub(super) fn at_column(&self, column: usize) -> bool {
        self.out.len() - self.out.rfind('\n').map_or(0, |p| p + 1) == column
    }

    pub(super) fn entry(&mut self, indent: usize, depth: usize) {
        if self.odd() && self.random.chance(30) {
            return self.complex_entry(indent, depth);
        }
        if !self.anchors.is_empty() && self.random.chance(6) {
            let anchor = self.an_anchor();
            writeln!(self.out, "<<: *{anchor}").expect("a string takes all text");
            return;
        }
        self.key();
        self.out.push(':');
        self.value(indent, depth, false);
    }

    pub(super) fn complex_entry(&mut self, indent: usize, depth: usize) {
        self.out.push('?');
        self.value(indent, depth + 2, true);
        if self.random.chance(80) {
            self.gap(indent);
            self.spaces(indent);
            self.out.push(':');
            self.value(indent, depth + 1, true);
        }
    }

    pub(super) fn key(&mut self) {
        if self.odd() && self.random.chance(30) {
            self.properties();
        }
        let word = self.word();
        match self.random.below(if self.oddity > 4 { 24 } else { 18 }) {
            0..=15 => {
                let number = self.random.below(30);
                write!(self.out, "{word}{}", if number < 10 { number.to_string() } else { String::new() })
                    .expect("text");
            }
            16 => self.quoted(0, true),
            17 => {
                let key = self.random.pick(words::ODD_KEYS);
                self.out.push_str(key);
            }
            18 => {}
            19 => {
                let length = self.random.pick(&[120, 127, 128, 129, 200]);
                self.out.extend(std::iter::repeat_n('k', length));
            }
            20 => self.flow(0, 3),
            21 if !self.anchors.is_empty() => {
                let anchor = self.an_anchor();
                write!(self.out, "*{anchor} ").expect("text");
            }
            22 => self.out.push_str("\"a:b\""),
            _ => {
                let plain = self.plain_text();
                self.out.push_str(plain);
            }
        }
        if self.random.chance(self.oddity / 4) {
            self.out.push(' ');
        }
    }

    pub(super) fn sequence(&mut self, indent: usize, depth: usize) {
        let items = 1 + self.random.below(4);
        for item in 0..items {
            if item > 0 {
                self.gap(indent);
                self.spaces(indent);
            } else if !self.at_column(indent) {
                self.spaces(indent);
            }
            self.item(indent, depth);
        }
        if self.random.chance(20) {
            self.gap(indent);
        }
    }

    pub(super) fn item(&mut self, indent: usize, depth: usize) {
        self.out.push('-');
        self.budget = self.budget.saturating_sub(1);
        let nest = self.budget > 0 && depth < 6;
        match self.random.below(10) {
            0 | 1 if nest => {
                self.out.push(' ');
                self.mapping(indent + 2, depth + 1);
            }
            2 if nest => {
                let extra = if self.odd() { 1 + self.random.below(3) } else { 0 };
                self.spaces(1 + extra);
                self.mapping(indent + 2 + extra, depth + 1);
            }
            3 if nest => {
                self.out.push(' ');
                self.sequence(indent + 2, depth + 1);
            }
            _ => self.value(indent, depth, true),
        }
    }

    /// What follows `key:`, `-`, `?` or `:` of an entry at `indent`, to the end of its last line.
    pub(super) fn value(&mut self, indent: usize, depth: usize, in_sequence: bool) {
        self.budget = self.budget.saturating_sub(1);
        let nest = self.budget > 0 && depth < 6;
        match self.random.below(24) {
            0..=2 if nest => self.nested_mapping(indent, depth),
            3..=5 if nest => self.nested_sequence(indent, depth, in_sequence),
            6 | 7 => {
                self.space();
                self.maybe_properties();
                self.flow(indent + 1, depth);
                self.end_line();
            }
            8 | 9 => {
                self.space();
                self.maybe_properties();
                self.block_scalar(indent);
            }
            10 => {
                if self.odd() {
                    self.space();
                    self.properties();
                }
                self.end_line();
            }
            11 if !self.anchors.is_empty() => {
                let anchor = self.an_anchor();
                write!(self.out, " *{anchor}").expect("text");
                self.end_line();
            }
            12 if self.odd() => {
                self.end_line();
                self.gap(indent + 2);
                self.spaces(indent + 2);
                self.maybe_properties();
                self.scalar_inline(indent + 2, false);
                self.end_line();
            }
            _ => {
                self.space();
                self.maybe_properties();
                self.scalar_inline(indent, false);
                self.end_line();
            }
        }
    }

    pub(super) fn nested_mapping(&mut self, indent: usize, depth: usize) {
        if self.random.chance(15) {
            self.space();
            self.maybe_properties();
        }
        self.end_line();
        let step = if self.odd() { self.random.pick(&[1, 3, 4, 8]) } else { 2 };
        self.gap(indent + step);
        self.mapping(indent + step, depth + 1);
    }

    pub(super) fn nested_sequence(&mut self, indent: usize, depth: usize, in_sequence: bool) {
        if self.random.chance(15) {
            self.space();
            self.maybe_properties();
        }
        self.end_line();
        let step = match self.random.below(10) {
            0..=4 if !in_sequence => 0,
            9 if self.odd() => self.random.pick(&[1, 3, 4, 6]),
            _ => 2,
        };
        self.gap(indent + step);
        self.sequence(indent + step, depth + 1);
    }

    pub(super) fn space(&mut self) {
        if self.odd() {
            let space = self.random.pick(&["  ", "\t", " \t", "     "]);
            self.out.push_str(space);
        } else {
            self.out.push(' ');
        }
    }
}
