//! Comments: which are gathered into one, and whether they stand above, behind or below something.
//!
//! The rules are those of go-yaml v3, `scannerc.go`: `yaml_parser_scan_line_comment` for comments behind content,
//! `yaml_parser_scan_comments` for all others.
//!
//! A comment is bound to a character index. The parser claims it together with the first token that
//! starts there or later. A comment *behind* a token is bound to that token, one *above* to its own
//! place, and one *below* to the token before it, or to its own place if it is outdented and thus
//! belongs to an enclosing block.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

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
    /// The first of the adjoining comments in each column.
    first_in: HashMap<u32, Mark>,
}

impl BlockEnd {
    pub(super) fn before(scan_start: Mark, comments: &VecDeque<Comment>) -> Self {
        let index = i64::from(scan_start.index) - 1;
        let mut first_in = HashMap::new();
        let mut reached = index;
        for comment in comments.iter().rev() {
            if i64::from(comment.searched.1) < reached {
                break;
            }
            first_in.insert(comment.start.column, comment.start);
            reached = i64::from(comment.searched.0);
        }
        Self { index, line: scan_start.line, column: scan_start.column, first_in }
    }

    /// Steps back over the adjoining comments to the first one that starts in the block's column.
    pub(super) fn retreat(&mut self, indent: i32) {
        let column = u32::try_from(i64::from(indent) + 1).unwrap_or(0);
        if let Some(start) = self.first_in.get(&column) {
            (self.index, self.line, self.column) = (i64::from(start.index), start.line, start.column);
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { index: u32::try_from(self.index).unwrap_or(0), line: self.line, column: self.column }
    }
}

/// A run of comment lines being gathered, and what decides whether it stands above or below something. In
/// quotes are the names in `yaml_parser_scan_comments`.
struct Block {
    text: Fragment,
    /// Where its first line starts, with the column counted from 1.
    start: Mark,
    /// What it is bound to if it stands below something (`token_mark`).
    bound_to: u32,
    /// Where the search for it began (`scan_mark`).
    search_start: u32,
    /// The column of the enclosing block (`next_indent`).
    indent: i64,
    /// The line on which it must start to stand directly below content; -1 at the top (`foot_line`).
    foot_line: i64,
    /// Whether the content above ends with a `:`, whose value is still to come.
    after_value: bool,
    /// Whether no empty line has come yet (`first_empty`).
    no_gap_yet: bool,
    /// Whether an empty line came after the last comment line (`recent_empty`).
    at_gap: bool,
}

// === impl Block ===

impl Block {
    /// No line is gathered yet. `search` is where the scanner began to look for the next token.
    fn new(scanner: &Scanner<'_>, search: Mark) -> Self {
        let queue = &scanner.queue;
        let previous = match queue.back() {
            Some(token) if matches!(token.kind, TokenKind::FlowEntry) && queue.len() > 1 => {
                queue.get(queue.len() - 2)
            }
            last => last,
        };
        Self {
            text: Fragment::default(),
            start: Mark::default(),
            bound_to: previous.map_or(0, |token| token.start.index),
            search_start: search.index,
            indent: i64::from(scanner.indent.max(0)),
            foot_line: scanner.foot_line(search),
            after_value: previous.is_some_and(|token| matches!(token.kind, TokenKind::Value)),
            no_gap_yet: scanner.cursor.breaks <= 1,
            at_gap: false,
        }
    }

    /// Begins a comment line at `here`; its text follows.
    fn line(&mut self, source: &str, here: Mark) {
        if self.text.is_empty() {
            self.start = here;
        } else {
            self.text.push(source, '\n');
        }
        self.at_gap = false;
    }

    /// Ends a line without a comment: at a break, at the end of the input, or at the bracket that closes a
    /// flow. What was gathered so far stands below the content above, and is returned, if the flow ends, or at
    /// the first gap if it started directly below the content or is outdented. Otherwise the gap is part of it.
    fn gap(&mut self, source: &Arc<String>, here: Mark, gap: Gap) -> Option<Comment> {
        let closes_flow = gap == Gap::FlowEnd;
        if self.at_gap && !closes_flow {
            return None;
        }
        let outdented = i64::from(self.start.column) - 1 < self.indent;
        let adjoining = i64::from(self.start.line) == self.foot_line && !self.after_value;
        if closes_flow || (self.no_gap_yet && (adjoining || outdented)) {
            if outdented && !self.text.is_empty() {
                // It belongs to an enclosing block, not to the token before it.
                self.bound_to = self.start.index;
            }
            return self.foot(source, here);
        }
        if !self.text.is_empty() && gap == Gap::Break {
            self.text.push(source, '\n');
        }
        None
    }

    /// Goes on behind an empty line.
    fn pass_gap(&mut self) {
        self.no_gap_yet = false;
        self.at_gap = true;
    }

    /// Whether a line in this column ends the block: it is further out than the enclosing block, and not in line
    /// with the comment.
    fn ends_at(&self, column: u32) -> bool {
        i64::from(column) - 1 < self.indent && column != self.start.column
    }

    /// What was gathered so far, as a comment that stands below something. A new block begins at `here`.
    fn foot(&mut self, source: &Arc<String>, here: Mark) -> Option<Comment> {
        if self.text.is_empty() {
            return None;
        }
        let foot = self.take(source, Place::Foot, self.bound_to, here.index);
        self.search_start = here.index;
        self.bound_to = here.index;
        Some(foot)
    }

    /// What was gathered so far, as a comment that stands above what follows.
    fn head(&mut self, source: &Arc<String>, search_end: u32) -> Option<Comment> {
        (!self.text.is_empty()).then(|| self.take(source, Place::Head, self.start.index, search_end))
    }

    fn take(&mut self, source: &Arc<String>, place: Place, bound_to: u32, search_end: u32) -> Comment {
        Comment {
            text: self.text.take(source),
            place,
            bound_to,
            start: self.start,
            searched: (self.search_start, search_end),
        }
    }
}

/// What ends a line without a comment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Break,
    InputEnd,
    FlowEnd,
}

impl Scanner<'_> {
    /// Takes a comment behind the token just scanned: go-yaml's `yaml_parser_scan_line_comment`.
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
    /// above the content that follows: the special case in go-yaml's `yaml_parser_scan_to_next_token`.
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

    /// Gathers comment lines, standing at the first `#`, up to the next content: go-yaml's
    /// `yaml_parser_scan_comments`.
    pub(super) fn scan_comment_block(&mut self, search: Mark) {
        let source = self.source;
        let mut block = Block::new(self, search);
        // The search looks ahead of the cursor, which moves over comments only.
        let (mut line, mut column) = (self.cursor.line, self.cursor.column());
        let mut ahead = 0;
        while ahead < REACH {
            column += 1;
            if self.cursor.is_blank(ahead) {
                ahead += 1;
                continue;
            }
            let here = Mark { index: self.cursor.index() + ahead as u32, line, column };
            if let Some(gap) = self.gap(ahead) {
                self.comments.extend(block.gap(source, here, gap));
                if !self.cursor.is_break(ahead) {
                    break;
                }
                block.pass_gap();
                (line, column, ahead) = (line + 1, 0, ahead + 1);
                continue;
            }
            if block.ends_at(column) {
                self.comments.extend(block.foot(source, here));
            }
            if self.cursor.byte(ahead) != b'#' {
                break;
            }
            block.line(source, here);
            self.skip_layout(ahead);
            let from = self.cursor.pos;
            let end = self.cursor.line_end();
            self.cursor.advance_to(end);
            block.text.push_piece(source, from..end);
            // The break that ends the comment is behind us for the rest of the search.
            (line, column, ahead) = (self.cursor.line, 0, 1);
        }
        let search_end = self.cursor.index() + (ahead as u32).saturating_sub(1);
        self.comments.extend(block.head(source, search_end));
    }

    /// What ends the line at this place, if it does.
    fn gap(&self, ahead: usize) -> Option<Gap> {
        if self.in_flow() && matches!(self.cursor.byte(ahead), b']' | b'}') {
            Some(Gap::FlowEnd)
        } else if self.cursor.is_break(ahead) {
            Some(Gap::Break)
        } else {
            self.cursor.is_break_or_end(ahead).then_some(Gap::InputEnd)
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
