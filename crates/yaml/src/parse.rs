//! The parser: tokens in, a tree out, without recursion.
//!
//! Collections under construction are [`Frame`]s on a stack; finished nodes wait on another until
//! their collection ends. Comments are claimed as tokens are looked at and handed to the next node
//! that takes comments, which is not every node: that decides where go-yaml attaches them.

mod frame;
mod pending;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use self::frame::{Collection, Frame};
use self::pending::Pending;
use crate::error::Error;
use crate::input::Input;
use crate::node::{Alias, Content, Document, Node, ScalarStyle, Style, Tag};
use crate::resolve::resolve;
use crate::scan::token::TagParts;
use crate::scan::{Mark, Scanner, TokenKind};
use crate::text::Text;

type Parse<T = ()> = Result<T, Error>;

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions {
    /// Refuse what go-yaml refuses although it is harmless, the JSON escape `\/` and `%YAML 1.2`, and
    /// lose the comments that it loses: behind `[` and `{`, and where two meet in one place.
    pub exact: bool,
    /// Fail on keys that a mapping has twice, as strict decoding does.
    pub unique_keys: bool,
}

/// Reads all documents of a stream.
///
/// # Errors
/// On the first syntax error; nothing of the stream is returned then.
pub fn parse_all(text: &str) -> Result<Vec<Document>, Error> {
    parse_all_with(text.as_bytes(), ParseOptions::default())
}

/// Reads the first document of a stream and ignores the rest; `None` if there is none.
///
/// # Errors
/// On a syntax error up to the end of that document, or just behind it.
pub fn parse_first(text: &str) -> Result<Option<Document>, Error> {
    parse_first_with(text.as_bytes(), ParseOptions::default())
}

/// [`parse_all`] for bytes in UTF-8, or UTF-16 with a byte order mark, and with options.
///
/// # Errors
/// On the first syntax error or forbidden character.
pub fn parse_all_with(bytes: &[u8], options: ParseOptions) -> Result<Vec<Document>, Error> {
    read(bytes, options, usize::MAX)
}

/// [`parse_first`] for bytes in UTF-8, or UTF-16 with a byte order mark, and with options.
///
/// # Errors
/// On a syntax error or forbidden character up to the end of that document, or just behind it.
pub fn parse_first_with(bytes: &[u8], options: ParseOptions) -> Result<Option<Document>, Error> {
    Ok(read(bytes, options, 1)?.pop())
}

fn read(bytes: &[u8], options: ParseOptions, limit: usize) -> Parse<Vec<Document>> {
    /// The scanner may look this far ahead of where it stands.
    const SIGHT: usize = 4;
    let input = Input::from_bytes(bytes)?;
    let source = Arc::new(input.text);
    let mut parser = Parser::new(&source, options);
    let mut documents = Vec::new();
    let outcome = loop {
        if documents.len() >= limit {
            break Ok(());
        }
        match parser.next_document() {
            Ok(Some(document)) => documents.push(document),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    if let Some(error) = input.spoiled
        && parser.scanner.position() + SIGHT > source.len()
    {
        return Err(error);
    }
    outcome?;
    if options.unique_keys {
        documents.iter().try_for_each(|document| document.root.check_unique_keys())?;
    }
    Ok(documents)
}

struct Parser<'s> {
    scanner: Scanner<'s>,
    pending: Pending,
    frames: Vec<Frame>,
    /// Finished nodes whose collection is still open.
    nodes: Vec<Node>,
    anchors: HashMap<Text, Anchored>,
    /// How many anchors there were, to tell those of the same name apart.
    anchor_count: usize,
    /// The handles that tags of this document may use, and what they stand for.
    tag_prefixes: Vec<(Text, String)>,
    first_document: bool,
    exact: bool,
    /// An error that counts only if nothing else in the syntax of this item is wrong.
    ignored: Option<Error>,
}

/// An anchor's number, and its node once that is complete.
struct Anchored {
    number: usize,
    node: Option<Node>,
}

/// What stands before a node's content.
#[derive(Default)]
struct Properties {
    anchor: Text,
    tag: String,
}

impl<'s> Parser<'s> {
    fn new(source: &'s Arc<String>, options: ParseOptions) -> Self {
        Self {
            scanner: Scanner::new(source, !options.exact),
            pending: Pending::default(),
            frames: Vec::new(),
            nodes: Vec::new(),
            anchors: HashMap::new(),
            anchor_count: 0,
            tag_prefixes: Vec::new(),
            first_document: true,
            exact: options.exact,
            ignored: None,
        }
    }

    // === tokens ===

    /// Looks at the next token and claims the comments bound to it.
    #[inline]
    fn peek(&mut self) -> Parse<(&TokenKind, Mark)> {
        self.scanner.prepare()?;
        if self.scanner.has_comments() {
            self.claim_comments()?;
        }
        let token = self.scanner.front()?;
        Ok((&token.kind, token.start))
    }

    fn claim_comments(&mut self) -> Parse {
        let token = self.scanner.front()?;
        let index = token.start.index;
        let at_block_end = matches!(token.kind, TokenKind::BlockEnd);
        while let Some(comment) = self.scanner.claim_comment(index, at_block_end) {
            self.pending.add(comment);
        }
        Ok(())
    }

    fn take(&mut self) {
        self.scanner.take();
    }

    // === documents ===

    fn next_document(&mut self) -> Parse<Option<Document>> {
        let implicit = std::mem::take(&mut self.first_document);
        if implicit {
            self.peek()?;
            self.take(); // The start of the stream.
        } else {
            while matches!(self.peek()?.0, TokenKind::DocumentEnd) {
                self.take();
            }
        }
        let mut document = Document::default();
        match self.peek()?.0 {
            TokenKind::StreamEnd => return Ok(None),
            TokenKind::VersionDirective { .. } | TokenKind::TagDirective(_) | TokenKind::DocumentStart => {
                self.start_explicit_document()?;
            }
            _ if implicit => {
                self.add_default_tag_prefixes();
                document.head_comment = self.pending.split_document_head();
                self.parse_node(true, false)?;
            }
            _ => self.start_explicit_document()?,
        }
        while let Some(frame) = self.frames.pop() {
            self.step(frame)?;
        }
        document.root = self.nodes.pop().unwrap_or_default();
        document.foot_comment = self.end_document()?;
        Ok(Some(document))
    }

    fn start_explicit_document(&mut self) -> Parse {
        self.read_directives()?;
        let (kind, start) = self.peek()?;
        if !matches!(kind, TokenKind::DocumentStart) {
            return Err(plain_error(start, "did not find expected <document start>"));
        }
        self.take();
        let (kind, start) = self.peek()?;
        match kind {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective(_)
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => self.finish_empty(start),
            _ => self.parse_node(true, false)?,
        }
        Ok(())
    }

    fn end_document(&mut self) -> Parse<Text> {
        if matches!(self.peek()?.0, TokenKind::DocumentEnd) {
            self.take();
        }
        self.tag_prefixes.clear();
        let comments = self.pending.take();
        Ok(match (self.exact, comments.foot.is_empty()) {
            (_, true) => comments.head,
            (true, false) => comments.foot,
            (false, false) => comments.head.joined_with(comments.foot),
        })
    }

    fn read_directives(&mut self) -> Parse {
        let any_version = !self.exact;
        let mut versioned = false;
        loop {
            let (kind, start) = self.peek()?;
            match kind {
                TokenKind::VersionDirective { .. } if versioned => {
                    return Err(plain_error(start, "found duplicate %YAML directive"));
                }
                TokenKind::VersionDirective { major: 1, minor } if *minor == 1 || any_version => {
                    versioned = true;
                }
                TokenKind::VersionDirective { .. } => {
                    return Err(plain_error(start, "found incompatible YAML document"));
                }
                TokenKind::TagDirective(parts) => {
                    let (handle, prefix) = (parts.handle.clone(), parts.suffix.clone());
                    if self.tag_prefixes.iter().any(|(known, _)| *known == handle) {
                        return Err(plain_error(start, "found duplicate %TAG directive"));
                    }
                    self.tag_prefixes.push((handle, prefix));
                }
                _ => break,
            }
            self.take();
        }
        self.add_default_tag_prefixes();
        Ok(())
    }

    fn add_default_tag_prefixes(&mut self) {
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tag_prefixes.iter().any(|(known, _)| known == handle) {
                self.tag_prefixes.push((handle.into(), prefix.to_owned()));
            }
        }
    }

    // === nodes ===

    /// Reads a node: a scalar or alias is finished at once, a collection is opened.
    fn parse_node(&mut self, block: bool, indentless: bool) -> Parse {
        let (kind, start) = self.peek()?;
        if let TokenKind::Alias(name) = kind {
            let name = name.clone();
            return self.finish_alias(name, start);
        }
        let properties = match kind {
            TokenKind::Anchor(_) | TokenKind::Tag(_) => self.parse_properties(start)?,
            _ => Properties::default(),
        };
        let bare = properties.anchor.is_empty() && properties.tag.is_empty();
        let (kind, here) = self.peek()?;
        match kind {
            TokenKind::BlockEntry if indentless => self.open(Collection::Indentless, start, properties, here),
            TokenKind::Scalar(..) => self.finish_scalar(start, properties)?,
            TokenKind::FlowSequenceStart => self.open(Collection::FlowSequence, start, properties, here),
            TokenKind::FlowMappingStart => self.open(Collection::FlowMapping, start, properties, here),
            TokenKind::BlockSequenceStart if block => {
                self.open(Collection::BlockSequence, start, properties, here);
            }
            TokenKind::BlockMappingStart if block => {
                self.open(Collection::BlockMapping, start, properties, here);
            }
            _ if !bare => {
                let node = Self::scalar_node(Text::new(), ScalarStyle::Plain, &properties.tag, start);
                self.finish_anchored(node, properties.anchor);
            }
            _ => return Err(context_error(start, here, "did not find expected node content")),
        }
        Ok(())
    }

    /// An anchor and a tag, in either order.
    fn parse_properties(&mut self, start: Mark) -> Parse<Properties> {
        let mut properties = Properties::default();
        let mut tagged = false;
        loop {
            let (kind, here) = self.peek()?;
            match kind {
                TokenKind::Anchor(name) if properties.anchor.is_empty() => properties.anchor = name.clone(),
                TokenKind::Tag(_) if !tagged => {
                    tagged = true;
                    let Some(token) = self.scanner.take() else { break };
                    let TokenKind::Tag(parts) = token.kind else { break };
                    properties.tag = self.expand_tag(*parts, start, here)?;
                    continue;
                }
                _ => break,
            }
            self.take();
        }
        Ok(properties)
    }

    fn expand_tag(&mut self, parts: TagParts, start: Mark, here: Mark) -> Parse<String> {
        if parts.handle.is_empty() {
            return Ok(parts.suffix);
        }
        // The error must not come before one in the tokens ahead.
        self.peek()?;
        match self.tag_prefixes.iter().find(|(handle, _)| *handle == parts.handle) {
            Some((_, prefix)) => Ok(format!("{prefix}{}", parts.suffix)),
            None => Err(context_error(start, here, "found undefined tag handle")),
        }
    }

    fn finish_alias(&mut self, name: Text, start: Mark) -> Parse {
        if let Some(error) = self.ignored.take() {
            return Err(error);
        }
        let Some(anchored) = self.anchors.get(&name) else {
            let message = format!("unknown anchor '{name}' referenced");
            return Err(Error::new(message).at(start.line + 1, start.column + 1));
        };
        let alias = Alias { name, target: anchored.node.clone() };
        let content = Content::Alias(Arc::new(alias));
        let mut node =
            Node::from_parts(content, Tag::None, Style::default(), start.line + 1, start.column + 1);
        self.pending.take().give_to(&mut node);
        self.take();
        self.finish(node);
        Ok(())
    }

    fn finish_scalar(&mut self, start: Mark, properties: Properties) -> Parse {
        let comments = self.pending.take();
        let Some(token) = self.scanner.take() else { return Ok(()) };
        if let TokenKind::Scalar(text, style) = token.kind {
            let mut node = Self::scalar_node(text, style, &properties.tag, start);
            comments.give_to(&mut node);
            self.finish_anchored(node, properties.anchor);
        }
        Ok(())
    }

    fn scalar_node(text: Text, scalar: ScalarStyle, tag: &str, start: Mark) -> Node {
        let derived = match scalar {
            _ if !is_unspecific(tag) => Tag::None,
            ScalarStyle::Plain if text == "<<" => Tag::Merge,
            ScalarStyle::Plain => resolve(&text).tag(),
            _ => Tag::Str,
        };
        let style = Style { scalar, ..Style::default() };
        let mut node =
            Node::from_parts(Content::Scalar(text), derived, style, start.line + 1, start.column + 1);
        if !is_unspecific(tag) {
            node.set_explicit_tag(tag);
        }
        node
    }

    fn finish_empty(&mut self, at: Mark) {
        let content = Content::Scalar(Text::new());
        let node = Node::from_parts(content, Tag::Null, Style::default(), at.line + 1, at.column + 1);
        self.finish(node);
    }

    fn finish_anchored(&mut self, mut node: Node, anchor: Text) {
        if !anchor.is_empty() {
            let number = self.reserve_anchor(&anchor);
            node.set_anchor(anchor);
            self.complete_anchor(&node, number);
        }
        self.finish(node);
    }

    /// Makes the anchor known, so that an alias inside its own node is not unknown.
    fn reserve_anchor(&mut self, name: &Text) -> usize {
        self.anchor_count += 1;
        let number = self.anchor_count;
        self.anchors.insert(name.clone(), Anchored { number, node: None });
        number
    }

    fn complete_anchor(&mut self, node: &Node, number: usize) {
        if let Some(anchored) = self.anchors.get_mut(node.anchor())
            && anchored.number == number
        {
            anchored.node = Some(node.clone());
        }
    }
}

/// No tag, or `!` alone, which says nothing.
fn is_unspecific(tag: &str) -> bool {
    tag.is_empty() || tag == "!"
}

/// A parser's error: the text counts lines from 0, and names none on the first line.
fn plain_error(at: Mark, problem: &str) -> Error {
    context_error(Mark::default(), at, problem)
}

/// A parser's error inside something that started at `context`, whose line the text names.
fn context_error(context: Mark, at: Mark, problem: &str) -> Error {
    let line = if context.line != 0 { context.line } else { at.line };
    let message = match line {
        0 => problem.to_owned(),
        line => format!("line {line}: {problem}"),
    };
    Error::new(message).at(at.line + 1, at.column + 1)
}
