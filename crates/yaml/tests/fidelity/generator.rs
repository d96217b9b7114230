//! Documents by chance: manifests as people write them, and texts in every style YAML has.
//!
//! A document is written, never built as a tree and printed: only so do comments, blank lines and odd indentation
//! turn up in positions that no printer would choose.

mod block;
mod flow;
mod lines;
mod manifest;
mod scalar;
mod words;

use std::fmt::Write;

use crate::random::Random;

/// What kind of document to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Kubernetes manifest with a writer's habits: comments, quotes, either list style.
    Manifest,
    /// Any YAML: every scalar style, anchors, tags, flow, odd keys, odd indentation.
    Wild,
    /// A few short lines thrown together: comments and blank lines between dedents, where rules meet.
    Lines,
}

/// The document of a seed.
pub(crate) fn document(kind: Kind, seed: u64) -> String {
    let mut writer = Writer::new(Random::new(seed.wrapping_mul(4).wrapping_add(kind as u64)));
    match kind {
        Kind::Manifest => writer.manifests(),
        Kind::Wild => writer.wild_stream(),
        Kind::Lines => return writer.lines(),
    }
    writer.finish()
}

/// Writes one document or stream.
#[derive(Debug)]
struct Writer {
    random: Random,
    out: String,
    /// Names of the anchors written so far in this document.
    anchors: Vec<String>,
    /// How often, in a hundred, a place that may hold a comment does.
    comments: usize,
    /// How often, in a hundred, an unusual choice is made.
    oddity: usize,
    /// Nodes still allowed; keeps documents small.
    budget: usize,
}

// === impl Writer ===

impl Writer {
    fn new(mut random: Random) -> Self {
        let comments = random.pick(&[0, 3, 10, 10, 25, 50]);
        let oddity = random.pick(&[0, 2, 5, 10, 25]);
        let budget = 4 + random.below(40);
        Self { random, out: String::new(), anchors: Vec::new(), comments, oddity, budget }
    }

    /// The text, some of it with other line ends.
    fn finish(mut self) -> String {
        if self.random.chance(4) {
            self.out = self.out.replace('\n', "\r\n");
        }
        if self.random.chance(2) {
            self.out.insert(0, '\u{feff}');
        }
        if self.random.chance(6) {
            self.out.truncate(self.out.trim_end().len());
        }
        self.out
    }

    fn odd(&mut self) -> bool {
        let oddity = self.oddity;
        self.random.chance(oddity)
    }

    fn spaces(&mut self, count: usize) {
        self.out.extend(std::iter::repeat_n(' ', count));
    }

    fn word(&mut self) -> &'static str {
        self.random.pick(words::WORDS)
    }

    // --- comments and blank lines ---

    /// Whole lines that may stand between two entries at `indent`.
    fn gap(&mut self, indent: usize) {
        while self.random.chance(self.comments / 2) {
            match self.random.below(6) {
                0 | 1 => self.blank(),
                2..=4 => self.comment_line(indent),
                _ => {
                    let other = self.random.below(indent + 5);
                    self.comment_line(other);
                }
            }
        }
    }

    fn blank(&mut self) {
        if self.odd() {
            let blank = self.random.pick(&["  ", "    ", " ", "\t"]);
            self.out.push_str(blank);
        }
        self.out.push('\n');
    }

    fn comment_line(&mut self, indent: usize) {
        self.spaces(indent);
        self.comment_text();
        self.out.push('\n');
    }

    fn comment_text(&mut self) {
        let text = self.random.pick(words::COMMENTS);
        self.out.push_str(text);
        if self.random.chance(30) {
            write!(self.out, " {}", self.random.below(100)).expect("a string takes all text");
        }
    }

    /// The end of a line that holds content.
    fn end_line(&mut self) {
        if self.random.chance(self.comments) {
            let space = if self.random.chance(80) { " " } else { "    " };
            self.out.push_str(space);
            self.comment_text();
        } else if self.random.chance(self.oddity / 4) {
            let space = self.random.pick(&[" ", "   ", "\t"]);
            self.out.push_str(space);
        }
        self.out.push('\n');
    }
}
