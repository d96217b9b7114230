//! Flow collections, on one line or spread over many.

use std::fmt::Write;

use super::Writer;

impl Writer {
    pub(super) fn flow(&mut self, indent: usize, depth: usize) {
        let sequence = self.random.chance(50);
        self.out.push(if sequence { '[' } else { '{' });
        let spread = self.random.chance(5 + self.oddity);
        let count = if depth > 5 { 0 } else { self.random.below(4) };
        for element in 0..count {
            self.flow_space(indent, spread);
            if sequence {
                self.flow_item(indent, depth);
            } else {
                self.flow_pair(indent, depth);
            }
            if element + 1 < count || self.random.chance(15) {
                self.flow_gap();
                self.out.push(',');
            }
        }
        self.flow_space(indent, spread);
        self.out.push(if sequence { ']' } else { '}' });
    }

    pub(super) fn flow_gap(&mut self) {
        if self.odd() {
            self.out.push(' ');
        }
    }

    /// What separates flow elements: a space, or a line end with comments around it.
    pub(super) fn flow_space(&mut self, indent: usize, spread: bool) {
        if spread {
            self.end_line();
            let column = indent + self.random.below(3);
            self.gap(column);
            self.spaces(column);
        } else if self.random.chance(70) {
            self.out.push(' ');
        }
    }

    pub(super) fn flow_item(&mut self, indent: usize, depth: usize) {
        match self.random.below(10) {
            0 => self.flow(indent, depth + 1),
            1 if self.odd() => self.flow_pair(indent, depth),
            2 if !self.anchors.is_empty() => {
                let anchor = self.an_anchor();
                write!(self.out, "*{anchor} ").expect("text");
            }
            _ => {
                self.maybe_properties();
                self.scalar_inline(indent, true);
            }
        }
    }

    pub(super) fn flow_pair(&mut self, indent: usize, depth: usize) {
        if self.odd() && self.random.chance(20) {
            self.out.push_str("? ");
        }
        match self.random.below(8) {
            0 => self.quoted(indent, true),
            1 if self.odd() => {}
            2 if self.odd() => self.flow(indent, depth + 2),
            _ => {
                let word = self.word();
                self.out.push_str(word);
            }
        }
        match self.random.below(8) {
            0 if self.odd() => {}
            1 => self.out.push_str(": "),
            2 => {
                self.out.push_str(": ");
                self.flow(indent, depth + 1);
            }
            3 if self.odd() => {
                self.out.push(':');
                self.quoted(indent, false);
            }
            _ => {
                self.out.push_str(": ");
                self.maybe_properties();
                self.scalar_inline(indent, true);
            }
        }
    }
}
