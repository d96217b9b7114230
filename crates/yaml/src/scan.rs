//! The scanner: text in, tokens and loose comments out.
//!
//! Three things make it more than a lexer. Indentation becomes start and end tokens. A key without
//! `?` is only known to be one at its `:`, so candidates are remembered and tokens are inserted
//! before them later. And the scanner runs two tokens ahead of the parser: whether a comment belongs
//! above, behind or below something depends on what comes next (see [`comment`]).

pub(crate) mod comment;
mod cursor;
mod fragment;
mod key;
mod property;
mod run;
mod scalar;
pub(crate) mod token;

use std::collections::VecDeque;
use std::sync::Arc;

use self::comment::Comment;
use self::cursor::Cursor;
use self::key::KeyCandidate;
pub(crate) use self::property::is_name_byte;
pub(crate) use self::token::{Mark, Token, TokenKind};
use crate::error::Error;

/// How deep block and flow collections may nest, each counted on its own.
const MAX_DEPTH: usize = 10_000;

/// How many tokens the parser must be able to see.
const LOOKAHEAD: usize = 3;

pub(crate) struct Scanner<'s> {
    source: &'s Arc<String>,
    cursor: Cursor<'s>,
    queue: VecDeque<Token>,
    /// How many tokens the parser has taken so far; with the queue it numbers all tokens.
    taken: usize,
    /// The comments that no token has claimed yet.
    comments: VecDeque<Comment>,
    started: bool,
    /// The column of the innermost block collection, -1 outside of all.
    indent: i32,
    outer_indents: Vec<i32>,
    /// Where a simple key could start, one slot for the block context and one for each flow level.
    keys: Vec<KeyCandidate>,
    key_allowed: bool,
    escaped_slash: bool,
    /// The front of the queue may be handed out.
    ready: bool,
}

type Scan<T = ()> = Result<T, Error>;

impl<'s> Scanner<'s> {
    /// `escaped_slash` accepts the JSON escape `\/`.
    pub(crate) fn new(source: &'s Arc<String>, escaped_slash: bool) -> Self {
        Self {
            source,
            cursor: Cursor::new(source.as_bytes()),
            queue: VecDeque::with_capacity(16),
            taken: 0,
            comments: VecDeque::new(),
            started: false,
            indent: -1,
            outer_indents: Vec::new(),
            keys: Vec::new(),
            key_allowed: true,
            escaped_slash,
            ready: false,
        }
    }

    /// Makes sure that the next token can be looked at.
    #[inline]
    pub(crate) fn prepare(&mut self) -> Scan {
        if !self.ready {
            self.fill_queue()?;
            self.ready = true;
        }
        Ok(())
    }

    /// The next token, left in the queue.
    #[inline]
    pub(crate) fn front(&self) -> Scan<&Token> {
        match self.queue.front() {
            Some(token) => Ok(token),
            None => Err(Error::new("attempted to go past the end of stream; corrupted value?")),
        }
    }

    #[inline]
    pub(crate) fn has_comments(&self) -> bool {
        !self.comments.is_empty()
    }

    /// Takes the token that was looked at.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Token> {
        self.taken += 1;
        self.ready = false;
        self.queue.pop_front()
    }

    /// Takes the oldest loose comment if it is bound to a place up to `index`.
    ///
    /// A comment above something never goes to the end of a block.
    pub(crate) fn claim_comment(&mut self, index: u32, at_block_end: bool) -> Option<Comment> {
        let comment = self.comments.front()?;
        if comment.bound_to > index || (at_block_end && comment.is_head()) {
            return None;
        }
        self.comments.pop_front()
    }

    /// How far the scanner has read.
    pub(crate) fn position(&self) -> usize {
        self.cursor.pos
    }

    fn fill_queue(&mut self) -> Scan {
        while self.queue.len() < LOOKAHEAD || self.is_front_undecided()? {
            self.fetch()?;
        }
        Ok(())
    }

    fn flow_level(&self) -> usize {
        self.keys.len().saturating_sub(1)
    }

    fn in_flow(&self) -> bool {
        self.keys.len() > 1
    }

    // === dispatch ===

    fn fetch(&mut self) -> Scan {
        if !self.started {
            self.started = true;
            self.keys.push(KeyCandidate::none(0, self.cursor.mark()));
            self.push(TokenKind::StreamStart, self.cursor.mark());
            return Ok(());
        }
        let scan_start = self.cursor.mark();
        self.skip_to_token()?;
        self.close_blocks(self.cursor.column() as i32, scan_start);

        let byte = self.cursor.byte(0);
        if byte == 0 {
            return self.fetch_stream_end();
        }
        if self.cursor.column() == 0 {
            if byte == b'%' {
                return self.fetch_directive();
            }
            if let Some(kind) = self.cursor.document_marker() {
                return self.fetch_document_marker(kind);
            }
        }
        // A comment behind `:` or `,` belongs to what stands before that sign.
        let binds_back = if self.in_flow() { byte == b',' } else { byte == b':' };
        let owner = match self.queue.back() {
            Some(previous) if binds_back => previous.start,
            _ => self.cursor.mark(),
        };
        self.fetch_content(byte)?;
        // A dash alone has no comment of its own: it goes above whatever follows.
        if !matches!(self.queue.back(), Some(token) if matches!(token.kind, TokenKind::BlockEntry)) {
            self.scan_line_comment(owner);
        }
        Ok(())
    }

    fn fetch_content(&mut self, byte: u8) -> Scan {
        let flow = self.in_flow();
        match byte {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.cursor.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if flow || self.cursor.is_blank_or_end(1) => self.fetch_key(),
            b':' if flow || self.cursor.is_blank_or_end(1) => self.fetch_value(),
            b'*' | b'&' => self.fetch_anchor(byte == b'&'),
            b'!' => self.fetch_tag(),
            b'|' | b'>' if !flow => self.fetch_block_scalar(byte == b'|'),
            b'\'' | b'"' => self.fetch_quoted_scalar(byte),
            _ if self.can_start_plain(byte) => self.fetch_plain_scalar(),
            _ => Err(self.error(self.cursor.mark(), "found character that cannot start any token")),
        }
    }

    fn can_start_plain(&self, byte: u8) -> bool {
        match byte {
            b'-' => !matches!(self.cursor.byte(1), b' ' | b'\t'),
            b'?' | b':' => !self.in_flow() && !self.cursor.is_blank_or_end(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"'
            | b'%' | b'@' | b'`' => false,
            _ => !self.cursor.is_blank_or_end(0),
        }
    }

    /// Skips blanks, line breaks and comments up to the next token.
    fn skip_to_token(&mut self) -> Scan {
        let scan_start = self.cursor.mark();
        loop {
            // A tab may separate tokens but not indent what could be a key.
            let tabs = self.in_flow() || !self.key_allowed;
            self.cursor.skip_blanks(tabs);
            self.lift_comment_after_dash();
            if self.cursor.byte(0) == b'#' {
                self.scan_comment_block(scan_start);
            }
            if !self.cursor.is_break(0) {
                return Ok(());
            }
            self.cursor.skip_break();
            if !self.in_flow() {
                self.key_allowed = true;
            }
        }
    }

    // === the queue ===

    fn push(&mut self, kind: TokenKind, start: Mark) {
        self.queue.push_back(Token { kind, start });
    }

    fn next_number(&self) -> usize {
        self.taken + self.queue.len()
    }

    /// Inserts before the token with that number, or at the end if the parser already has it.
    fn insert(&mut self, number: usize, kind: TokenKind, start: Mark) {
        let token = Token { kind, start };
        match number.checked_sub(self.taken) {
            Some(at) if at <= self.queue.len() => self.queue.insert(at, token),
            _ => self.queue.push_back(token),
        }
    }

    // === block structure ===

    /// Opens a block collection if `column` is deeper than the current one.
    fn open_block(&mut self, column: u32, number: Option<usize>, kind: TokenKind, mark: Mark) -> Scan {
        let column = column as i32;
        if self.in_flow() || self.indent >= column {
            return Ok(());
        }
        self.outer_indents.push(self.indent);
        self.indent = column;
        if self.outer_indents.len() > MAX_DEPTH {
            let mark = self.keys.last().map_or(mark, |key| key.mark);
            return Err(self.error(mark, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        match number {
            Some(number) => self.insert(number, kind, mark),
            None => self.push(kind, mark),
        }
        Ok(())
    }

    /// Closes the block collections that are deeper than `column`.
    fn close_blocks(&mut self, column: i32, scan_start: Mark) {
        if self.in_flow() || self.indent <= column {
            return;
        }
        // Signed, as the stream may begin with what looks like an end.
        let mut end = comment::BlockEnd::before(scan_start, &self.comments);
        while self.indent > column {
            end.retreat(self.indent);
            self.push(TokenKind::BlockEnd, end.mark());
            self.indent = self.outer_indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Scan {
        self.cursor.end_line();
        self.close_blocks(-1, self.cursor.mark());
        self.forget_key()?;
        self.key_allowed = false;
        self.push(TokenKind::StreamEnd, self.cursor.mark());
        Ok(())
    }

    fn fetch_document_marker(&mut self, kind: TokenKind) -> Scan {
        self.close_blocks(-1, self.cursor.mark());
        self.forget_key()?;
        self.key_allowed = false;
        let start = self.cursor.mark();
        self.cursor.advance_ascii(3);
        self.push(kind, start);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Scan {
        let mark = self.cursor.mark();
        // In flow context a dash is for the parser to refuse.
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.error(mark, "block sequence entries are not allowed in this context"));
            }
            self.open_block(mark.column, None, TokenKind::BlockSequenceStart, mark)?;
        }
        self.forget_key()?;
        self.key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Scan {
        let mark = self.cursor.mark();
        if !self.in_flow() {
            if !self.key_allowed {
                return Err(self.error(mark, "mapping keys are not allowed in this context"));
            }
            self.open_block(mark.column, None, TokenKind::BlockMappingStart, mark)?;
        }
        self.forget_key()?;
        self.key_allowed = !self.in_flow();
        self.push_indicator(TokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Scan {
        let slot = self.keys.len() - 1;
        if self.is_key_still_possible(slot)? {
            let key = self.keys[slot];
            self.insert(key.token, TokenKind::Key, key.mark);
            self.open_block(key.mark.column, Some(key.token), TokenKind::BlockMappingStart, key.mark)?;
            self.keys[slot].possible = false;
            self.keys[slot].awaited = false;
            self.key_allowed = false;
        } else {
            let mark = self.cursor.mark();
            if !self.in_flow() {
                if !self.key_allowed {
                    return Err(self.error(mark, "mapping values are not allowed in this context"));
                }
                self.open_block(mark.column, None, TokenKind::BlockMappingStart, mark)?;
            }
            self.key_allowed = !self.in_flow();
        }
        self.push_indicator(TokenKind::Value);
        Ok(())
    }

    // === flow structure ===

    fn fetch_flow_start(&mut self, kind: TokenKind) -> Scan {
        self.remember_key()?;
        let mark = self.cursor.mark();
        self.keys.push(KeyCandidate::none(self.next_number(), mark));
        if self.flow_level() > MAX_DEPTH {
            return Err(self.error(mark, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.key_allowed = true;
        self.push_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind) -> Scan {
        self.forget_key()?;
        if self.in_flow() {
            // The level may have been opened by the very token that the outer level awaits; its
            // number then no longer holds the parser back.
            let inner = self.keys.pop().map(|key| key.token);
            if let Some(outer) = self.keys.last_mut().filter(|outer| Some(outer.token) == inner) {
                outer.awaited = false;
            }
        }
        self.key_allowed = false;
        self.push_indicator(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Scan {
        self.forget_key()?;
        self.key_allowed = true;
        self.push_indicator(TokenKind::FlowEntry);
        Ok(())
    }

    fn push_indicator(&mut self, kind: TokenKind) {
        let start = self.cursor.mark();
        self.cursor.advance_ascii(1);
        self.push(kind, start);
    }

    // === errors ===

    /// An error at the current place. Its text names the line of `context` or, if that is the first
    /// line, of the current place; on the first line it names none.
    fn error(&self, context: Mark, problem: impl std::fmt::Display) -> Error {
        let here = self.cursor.mark();
        let line = if context.line != 0 { context.line } else { here.line };
        let message = match line {
            0 => problem.to_string(),
            line => format!("line {}: {problem}", line + 1),
        };
        Error::new(message).at(here.line + 1, here.column + 1)
    }
}
