//! Anchors, tags and scalars of every style.

use std::fmt::Write;

use super::{Writer, words};

impl Writer {
    pub(super) fn an_anchor(&mut self) -> String {
        let at = self.random.below(self.anchors.len());
        self.anchors[at].clone()
    }

    pub(super) fn maybe_properties(&mut self) {
        let odd = 2 + self.oddity / 2;
        if self.random.chance(odd) {
            self.properties();
        }
    }

    pub(super) fn properties(&mut self) {
        let choice = self.random.below(5);
        if choice < 3 {
            let name = self.random.pick(&["a", "x1", "base", "a-b", "_", "0"]).to_string();
            write!(self.out, "&{name} ").expect("text");
            self.anchors.push(name);
        }
        if choice > 1 {
            let tag = self.random.pick(words::TAGS);
            write!(self.out, "{tag} ").expect("text");
        }
    }

    // --- scalars ---

    pub(super) fn plain_text(&mut self) -> &'static str {
        let doubtful = self.oddity > 4 && self.random.chance(4);
        self.random.pick(if doubtful { words::DOUBTFUL } else { words::PLAIN })
    }

    pub(super) fn scalar_inline(&mut self, indent: usize, flow: bool) {
        match self.random.below(10) {
            0..=3 => {
                let word = self.word();
                self.out.push_str(word);
            }
            4 => {
                let plain = self.plain_text();
                if !flow || !plain.contains([',', '[', ']', '{', '}']) {
                    self.out.push_str(plain);
                } else {
                    self.out.push('x');
                }
            }
            5 if self.odd() => {
                self.out.push_str("first line");
                for _ in 0..1 + self.random.below(3) {
                    self.out.push('\n');
                    if self.random.chance(25) {
                        self.blank();
                    }
                    let more = self.random.below(4);
                    self.spaces(indent + 1 + more);
                    let word = self.word();
                    self.out.push_str(word);
                }
            }
            6 if self.odd() => {
                let length = self.random.pick(&[70, 79, 80, 81, 130, 300]);
                while self.out.len() % 1000 < length {
                    let word = self.word();
                    write!(self.out, "{word} ").expect("text");
                }
                self.out.push_str("end");
            }
            7..=9 => self.quoted(indent, false),
            _ => write!(self.out, "{}", self.random.below(10_000)).expect("text"),
        }
    }

    pub(super) fn quoted(&mut self, indent: usize, key: bool) {
        let double = self.random.chance(60);
        let quote = if double { '"' } else { '\'' };
        self.out.push(quote);
        for _ in 0..self.random.below(4) {
            match self.random.below(14) {
                0..=4 => {
                    let word = self.word();
                    self.out.push_str(word);
                }
                5 => self.out.push_str(if double { "\\\"" } else { "''" }),
                6 if double => {
                    let escape = self.random.pick(words::ESCAPES);
                    self.out.push_str(escape);
                }
                7 if self.odd() && !key => {
                    let break_ = if double && self.random.chance(30) { "\\\n" } else { "\n" };
                    self.out.push_str(break_);
                    if self.random.chance(30) {
                        self.out.push('\n');
                    }
                    let more = self.random.below(3);
                    self.spaces(indent + 1 + more);
                }
                8 => {
                    let plain = self.random.pick(words::PLAIN);
                    if !plain.contains(['\'', '"', '\\']) {
                        self.out.push_str(plain);
                    }
                }
                9 => {
                    let text = self.random.pick(words::INDICATORS);
                    self.out.push_str(text);
                }
                10 => {
                    let text =
                        self.random.pick(&["é", "日本", "😀", "\u{a0}", "\u{2028}", "\u{feff}", "\u{85}"]);
                    self.out.push_str(text);
                }
                _ => self.out.push(' '),
            }
        }
        self.out.push(quote);
    }

    pub(super) fn block_scalar(&mut self, indent: usize) {
        let style = self.random.pick(&['|', '|', '|', '>']);
        let chomp = self.random.pick(&["", "", "-", "+"]);
        let step = if self.odd() { 1 + self.random.below(6) } else { 2 };
        let hint = if self.odd() || self.random.chance(5) { step.to_string() } else { String::new() };
        let hinted = !hint.is_empty();
        let header = if self.random.chance(50) {
            format!("{style}{hint}{chomp}")
        } else {
            format!("{style}{chomp}{hint}")
        };
        self.out.push_str(&header);
        self.end_line();
        let lines = self.random.below(6);
        for line in 0..lines {
            match self.random.below(if self.oddity > 2 { 16 } else { 11 }) {
                0 | 1 => {
                    self.out.push('\n');
                    continue;
                }
                2 if line > 0 || hinted => {
                    self.spaces(indent + step + 2);
                    self.out.push_str("more: indented");
                }
                11 => {
                    self.spaces(indent + step);
                    self.out.push_str("trailing ");
                }
                12 => {
                    self.spaces(indent + step);
                    self.out.push_str("\ttab");
                }
                13 => {
                    let text = self.random.pick(&[
                        "# not a comment",
                        "é😀",
                        "- a",
                        "key: value",
                        "---",
                        "\u{a0}x",
                        "a\u{2028}b",
                    ]);
                    self.spaces(indent + step);
                    self.out.push_str(text);
                }
                14 if line > 0 || hinted => self.spaces(indent + step + 1),
                _ => {
                    self.spaces(indent + step);
                    let (first, second) = (self.word(), self.word());
                    write!(self.out, "{first} {second}").expect("text");
                }
            }
            self.out.push('\n');
        }
        while self.random.chance(15) {
            self.out.push('\n');
        }
    }
}
