//! Comments: which are gathered into one, and whether they stand above, behind or below something.
//!
//! A comment is bound to a character index. The parser claims it together with the first token that
//! starts there or later. A comment *behind* a token is bound to that token, one *above* to its own
//! place, and one *below* to the token before it, or to its own place if it is outdented and thus
//! belongs to an enclosing block.

use std::collections::VecDeque;

use super::Scanner;
use super::fragment::Fragment;
use super::token::{Mark, TokenKind};
use crate::text::Text;

/// How far to look for a comment beyond blanks; the rest of the line then counts as content.
const REACH: usize = 512;

pub(crate) struct Comment {
    pub(crate) text: Text,
    pub(crate) place: Place,
    /// The index of the first token that may claim it.
    pub(super) bound_to: u32,
    /// Where its first line starts. The column is counted from 1 for whole-line comments.
    start: Mark,
    /// Where the search that found it began, and where it ended.
    searched: (u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Head,
    Line,
    Foot,
}

impl Comment {
    pub(super) fn is_head(&self) -> bool {
        self.place == Place::Head
    }
}

/// The place where blocks end: before the comments that are already outside of them.
pub(super) struct BlockEnd {
    index: i64,
    line: u32,
    column: u32,
}

impl BlockEnd {
    pub(super) fn before(scan_start: Mark) -> Self {
        Self { index: i64::from(scan_start.index) - 1, line: scan_start.line, column: scan_start.column }
    }

    /// Steps back over the adjoining comments to the first one that starts in the block's column.
    pub(super) fn retreat(&mut self, comments: &VecDeque<Comment>, indent: i32) {
        let mut reached = self.index;
        for comment in comments.iter().rev() {
            if i64::from(comment.searched.1) < reached {
                break;
            }
            if i64::from(comment.start.column) == i64::from(indent) + 1 {
                let start = comment.start;
                *self = Self { index: i64::from(start.index), line: start.line, column: start.column };
            }
            reached = i64::from(comment.searched.0);
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { index: u32::try_from(self.index).unwrap_or(0), line: self.line, column: self.column }
    }
}

/// A run of comment lines being gathered.
struct Block {
    text: Fragment,
    start: Mark,
    bound_to: u32,
    search_start: u32,
}

impl Scanner<'_> {
    /// Takes a comment behind the token just scanned.
    pub(super) fn scan_line_comment(&mut self, owner: Mark) {
        if self.cursor.breaks > 0 {
            return;
        }
        let Some(ahead) = (0..REACH).find(|&ahead| !self.cursor.is_blank(ahead)) else { return };
        if self.cursor.byte(ahead) != b'#' {
            return;
        }
        self.cursor.skip_blanks(true);
        let start = self.cursor.mark();
        let text = self.take_rest_of_line();
        self.comments.push_back(Comment {
            text,
            place: Place::Line,
            bound_to: owner.index,
            start,
            searched: (0, 0),
        });
    }

    fn take_rest_of_line(&mut self) -> Text {
        let from = self.cursor.pos;
        let end = self.cursor.line_end();
        self.cursor.advance_to(end);
        Text::from_source(self.source, from..end)
    }

    /// A comment behind the first dash of a sequence, or on the line of the key above it, moves
    /// above the content that follows.
    pub(super) fn lift_comment_after_dash(&mut self) {
        let Some(comment) = self.comments.back_mut() else { return };
        if comment.place != Place::Line || self.cursor.is_break(0) {
            return;
        }
        let mut recent = self.queue.iter().rev();
        let dash = recent.next().is_some_and(|token| matches!(token.kind, TokenKind::BlockEntry));
        let first = recent.next().is_some_and(|token| matches!(token.kind, TokenKind::BlockSequenceStart));
        if dash && first {
            comment.place = Place::Head;
            if comment.start.line + 1 == self.cursor.line {
                comment.bound_to = self.cursor.index();
            }
        }
    }

    /// Gathers comment lines, standing at the first `#`, up to the next content.
    pub(super) fn scan_comment_block(&mut self, search: Mark) {
        let source = self.source.as_str();
        let previous = match self.queue.back() {
            Some(token) if matches!(token.kind, TokenKind::FlowEntry) && self.queue.len() > 1 => {
                self.queue.get(self.queue.len() - 2)
            }
            last => last,
        };
        let after_value = previous.is_some_and(|token| matches!(token.kind, TokenKind::Value));
        let indent = i64::from(self.indent.max(0));
        let foot_line = self.foot_line(search);

        let mut block = Block {
            text: Fragment::default(),
            start: Mark::default(),
            bound_to: previous.map_or(0, |token| token.start.index),
            search_start: search.index,
        };
        let mut no_gap_yet = self.cursor.breaks <= 1;
        let mut at_gap = false;
        let (mut line, mut column) = (self.cursor.line, self.cursor.column());
        let mut ahead = 0;
        while ahead < REACH {
            column += 1;
            if self.cursor.is_blank(ahead) {
                ahead += 1;
                continue;
            }
            let here = Mark { index: self.cursor.index() + ahead as u32, line, column };
            let byte = self.cursor.byte(ahead);
            let closes_flow = self.in_flow() && matches!(byte, b']' | b'}');
            if closes_flow || self.cursor.is_break_or_end(ahead) {
                // Below the content above, unless a gap came first; an outdented one always.
                let outdented = i64::from(block.start.column) - 1 < indent;
                if closes_flow || !at_gap {
                    let adjoining = i64::from(block.start.line) == foot_line && !after_value;
                    if closes_flow || (no_gap_yet && (adjoining || outdented)) {
                        if outdented && !block.text.is_empty() {
                            block.bound_to = block.start.index;
                        }
                        self.close_foot(&mut block, here);
                    } else if !block.text.is_empty() && byte != 0 {
                        block.text.push(source, '\n');
                    }
                }
                if !self.cursor.is_break(ahead) {
                    break;
                }
                no_gap_yet = false;
                at_gap = true;
                column = 0;
                line += 1;
                ahead += 1;
                continue;
            }
            // A line further out than the block, and not in line with it, starts a comment anew.
            if i64::from(column) - 1 < indent && column != block.start.column {
                self.close_foot(&mut block, here);
            }
            if byte != b'#' {
                break;
            }
            if block.text.is_empty() {
                block.start = here;
            } else {
                block.text.push(source, '\n');
            }
            at_gap = false;
            self.skip_layout(ahead);
            let from = self.cursor.pos;
            let end = self.cursor.line_end();
            self.cursor.advance_to(end);
            block.text.push_piece(source, from..end);
            // The break that ends the comment is behind us for the rest of the search.
            ahead = 1;
            column = 0;
            line = self.cursor.line;
        }
        if !block.text.is_empty() {
            let end = self.cursor.index() + (ahead as u32).saturating_sub(1);
            self.comments.push_back(Comment {
                text: block.text.take(self.source),
                place: Place::Head,
                bound_to: block.start.index,
                start: block.start,
                searched: (block.search_start, end),
            });
        }
    }

    /// The line a comment must start on to stand directly below content; -1 at the top.
    fn foot_line(&self, search: Mark) -> i64 {
        if search.line == 0 {
            return -1;
        }
        let breaks = self.cursor.breaks;
        let below_this_line = breaks == 0 && self.cursor.column() > 1;
        i64::from(self.cursor.line) - i64::from(breaks) + 1 + i64::from(below_this_line)
    }

    /// Ends the block gathered so far as one that stands below something.
    fn close_foot(&mut self, block: &mut Block, here: Mark) {
        if block.text.is_empty() {
            return;
        }
        self.comments.push_back(Comment {
            text: block.text.take(self.source),
            place: Place::Foot,
            bound_to: block.bound_to,
            start: block.start,
            searched: (block.search_start, here.index),
        });
        block.search_start = here.index;
        block.bound_to = here.index;
    }

    /// Moves over the blanks and breaks in the next `ahead` bytes.
    fn skip_layout(&mut self, ahead: usize) {
        let target = self.cursor.pos + ahead;
        while self.cursor.pos < target {
            if self.cursor.is_break(0) {
                self.cursor.skip_break();
            } else {
                self.cursor.skip_blank();
            }
        }
    }
}
