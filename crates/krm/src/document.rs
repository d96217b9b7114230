//! Documents: a file's or a stream's text cut into resources, and resources written as text again.
//!
//! A text is cut at its separator lines before it is parsed, so a comment above a document stays with it, and
//! each document's own sequence style is known. Everything here is a pure function.

use std::borrow::Cow;

use loggia_yaml::{
    Document, EmitOptions, Emitter, Fidelity, Node, ParseOptions, SequenceStyle, Text, detect_sequence_style,
    parse_first_with, to_json,
};

use crate::annotation::{INDEX, LEGACY_INDEX, LEGACY_PATH, PATH, SEQUENCE_INDENT};
use crate::resource::{BARE_SEQUENCE_KEY, Resource, WrongKind};

/// What is wrong with a text, and where in it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}")]
pub struct StreamError {
    /// What is wrong.
    pub kind: StreamErrorKind,
    /// The line of the text, counted from 1, if it is known. Messages count lines within their document.
    pub line: Option<u32>,
}

/// What can be wrong with a text. The messages are kyaml's.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StreamErrorKind {
    /// It is not YAML.
    #[error("MalformedYAMLError: {0}")]
    Malformed(loggia_yaml::Error),
    /// Something stands behind `---`.
    #[error("invalid document separator: {0}")]
    Separator(String),
    /// A document, or what should carry its annotations, is not a mapping.
    #[error("{0}")]
    WrongKind(WrongKind),
}

/// How documents become resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading<'a> {
    /// The file, recorded on each resource.
    pub(crate) path: Option<&'a str>,
    /// More annotations to set, sorted by key.
    pub(crate) annotations: &'a [(String, Text)],
    /// Record each document's sequence style.
    pub(crate) sequence_style: bool,
    /// Refuse what the original refuses for no good reason.
    pub(crate) exact: bool,
}

/// What a text holds.
pub(crate) enum Stream {
    /// One list, not unwrapped.
    List(Node),
    /// Resources that know their index and, if asked for, path and style.
    Resources(Vec<Resource>),
}

/// A document of a text that is more than comments.
struct Part {
    document: Document,
    style: SequenceStyle,
    /// The line it starts on, counted from 1.
    line: u32,
}

// === reading ===

/// Reads the resources of a text.
pub(crate) fn read(bytes: &[u8], reading: &Reading<'_>) -> Result<Vec<Resource>, StreamError> {
    match read_stream(bytes, reading, &|_| false)? {
        Stream::Resources(resources) => Ok(resources),
        Stream::List(root) => Ok(vec![Resource::new(root)]),
    }
}

/// Reads a text that may be a single list. Documents without content are left out and do not count.
pub(crate) fn read_stream(
    bytes: &[u8],
    reading: &Reading<'_>,
    is_list: &dyn Fn(&Node) -> bool,
) -> Result<Stream, StreamError> {
    let text = unix_lines(bytes);
    let path = reading.path.map(Text::from);
    let mut resources = Vec::new();
    // A list that has been alone so far.
    let mut list: Option<Part> = None;
    for piece in split(&text, reading.exact)? {
        let part = parse(&piece, reading).transpose();
        let Some(part) = part else { continue };
        if let Some(list) = list.take() {
            resources.push(list.into_resource(0, path.as_ref(), reading)?);
        }
        let part = part?;
        if resources.is_empty() && is_list(&part.document.root) {
            list = Some(part);
        } else {
            let index = resources.len();
            resources.push(part.into_resource(index, path.as_ref(), reading)?);
        }
    }
    Ok(match list {
        Some(list) => Stream::List(list.document.root),
        None => Stream::Resources(resources),
    })
}

/// Parses a document; `None` if it has no content.
fn parse(piece: &Piece<'_>, reading: &Reading<'_>) -> Result<Option<Part>, StreamError> {
    let options = ParseOptions { exact: reading.exact, unique_keys: false };
    let parsed = parse_first_with(piece.text, options).map_err(|error| StreamError {
        line: error.line().map(|line| line.saturating_add(piece.line - 1)),
        kind: StreamErrorKind::Malformed(error),
    })?;
    Ok(parsed.filter(|document| !document.is_empty()).map(|document| {
        let style = if reading.sequence_style { style_of(piece.text) } else { SequenceStyle::Compact };
        Part { document, style, line: piece.line }
    }))
}

impl Part {
    fn into_resource(
        self,
        index: usize,
        path: Option<&Text>,
        reading: &Reading<'_>,
    ) -> Result<Resource, StreamError> {
        let line = self.line;
        let mut resource = Resource::from(wrap_bare_sequence(self.document));
        let index = Text::from(index.to_string());
        let mut entries: Vec<(&str, Text)> = Vec::with_capacity(5 + reading.annotations.len());
        entries.extend([(LEGACY_INDEX, index.clone()), (INDEX, index)]);
        if let Some(path) = path {
            entries.extend([(LEGACY_PATH, path.clone()), (PATH, path.clone())]);
        }
        if reading.sequence_style {
            entries.push((SEQUENCE_INDENT, Text::from(Resource::style_text(self.style))));
        }
        entries.extend(reading.annotations.iter().map(|(key, value)| (key.as_str(), value.clone())));
        entries.sort_by_key(|(key, _)| *key);
        resource.fill_twins().and_then(|()| resource.annotate(&entries)).map_err(|error| StreamError {
            line: error.line.map(|inner| inner.saturating_add(line - 1)),
            kind: StreamErrorKind::WrongKind(error),
        })?;
        Ok(resource)
    }
}

fn unix_lines(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.windows(2).any(|pair| pair == b"\r\n") {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        if byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            text.push(byte);
        }
    }
    Cow::Owned(text)
}

struct Piece<'a> {
    text: &'a [u8],
    line: u32,
}

/// Cuts a text at its separator lines: those that start with `---`, but not the first line, nor one right
/// behind another separator, nor one that lacks a line end.
fn split(text: &[u8], exact: bool) -> Result<Vec<Piece<'_>>, StreamError> {
    const MARK: &[u8] = b"\n---";
    let mut pieces = Vec::new();
    let (mut start, mut line, mut from) = (0, 1, 0);
    while let Some(found) = find(&text[from..], MARK) {
        let mark = from + found;
        let after = mark + MARK.len();
        let Some(length) = text[after..].iter().position(|&byte| byte == b'\n') else { break };
        let behind = text[after..after + length].trim_ascii();
        let end = after + length + 1;
        if !exact && only_directives(&text[start..=mark]) {
            // `%YAML` and its like need the `---` that follows them.
            from = end - 1;
            continue;
        }
        let next_line = line + count_lines(&text[start..end]);
        if !behind.is_empty() && behind[0] != b'#' {
            let separator = String::from_utf8_lossy(text[mark..end].trim_ascii()).into_owned();
            return Err(StreamError {
                kind: StreamErrorKind::Separator(separator),
                line: Some(next_line - 1),
            });
        }
        pieces.push(Piece { text: &text[start..=mark], line });
        (start, line, from) = (end, next_line, end);
    }
    if !text.is_empty() {
        pieces.push(Piece { text: &text[start..], line });
    }
    Ok(pieces)
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

fn count_lines(text: &[u8]) -> u32 {
    u32::try_from(text.iter().filter(|&&byte| byte == b'\n').count()).unwrap_or(u32::MAX / 2)
}

fn only_directives(text: &[u8]) -> bool {
    text.contains(&b'%')
        && text.split(|&byte| byte == b'\n').all(|line| matches!(line.first(), None | Some(b'%' | b'#')))
}

fn style_of(text: &[u8]) -> SequenceStyle {
    std::str::from_utf8(text).map_or(SequenceStyle::Compact, detect_sequence_style)
}

fn wrap_bare_sequence(mut document: Document) -> Document {
    if document.root.is_sequence() {
        let sequence = std::mem::take(&mut document.root);
        document.root.replace(BARE_SEQUENCE_KEY, sequence);
    }
    document
}

// === writing ===

/// Writes resources as the content of one file: separated by `---`, each in its own sequence style, without
/// the annotations of readers. A single one bound for a `.json` file becomes JSON.
pub(crate) fn write(
    resources: Vec<Resource>,
    path: &str,
    fidelity: Fidelity,
) -> Result<String, loggia_yaml::Error> {
    Ok(write_within(resources, path, fidelity, usize::MAX)?.unwrap_or_default())
}

/// [`write`], unless that takes more than `limit` bytes.
pub(crate) fn write_within(
    resources: Vec<Resource>,
    path: &str,
    fidelity: Fidelity,
    limit: usize,
) -> Result<Option<String>, loggia_yaml::Error> {
    let as_json = resources.len() == 1 && path.ends_with(".json");
    let mut emitter = Emitter::with_limit(EmitOptions { sequences: SequenceStyle::Compact, fidelity }, limit);
    for mut resource in resources {
        emitter.set_sequences(resource.sequence_style());
        clear_place(&mut resource);
        if as_json && fidelity == Fidelity::Exact {
            return json(resource.node()).map(Some);
        }
        let document = unwrap_bare_sequence(resource.into_document(), fidelity);
        if as_json {
            return json(&document.root).map(Some);
        }
        emitter.document(&document);
    }
    Ok(emitter.finish_within())
}

/// Indentation makes JSON grow with the square of its depth, so that has a limit.
fn json(node: &Node) -> Result<String, loggia_yaml::Error> {
    const MAX_DEPTH: usize = 1000;
    let mut waiting = vec![(node, 0)];
    while let Some((node, depth)) = waiting.pop() {
        if depth > MAX_DEPTH {
            return Err(serde::de::Error::custom(format!("nests more than {MAX_DEPTH} deep")));
        }
        waiting.extend(
            node.items()
                .iter()
                .chain(node.pairs().iter().map(|pair| &pair.value))
                .map(|node| (node, depth + 1)),
        );
    }
    to_json(node)
}

/// Removes path, index and sequence style, and what is empty without them.
fn clear_place(resource: &mut Resource) {
    resource.retain_annotations(|key| {
        !matches!(key, INDEX | LEGACY_INDEX | PATH | LEGACY_PATH | SEQUENCE_INDENT)
    });
    // What is not a mapping has neither annotations nor anything else to remove.
    let _ = resource.drop_empty_metadata();
}

/// The original loses the comments around a bare sequence, and leaves an empty one in its wrapping.
fn unwrap_bare_sequence(mut document: Document, fidelity: Fidelity) -> Document {
    let exact = fidelity == Fidelity::Exact;
    let unwraps = |node: &Node| node.is_sequence() && !(exact && node.is_empty());
    if document.root.get(BARE_SEQUENCE_KEY).is_some_and(unwraps)
        && let Some(pair) = document.root.remove(BARE_SEQUENCE_KEY)
    {
        if exact {
            return Document::new(pair.value);
        }
        document.root = pair.value;
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(&str, u32)> {
        split(text.as_bytes(), false)
            .expect("separators are fine")
            .iter()
            .map(|piece| (std::str::from_utf8(piece.text).expect("cut between characters"), piece.line))
            .collect()
    }

    #[test]
    fn a_text_is_cut_at_lines_that_start_with_three_dashes() {
        assert_eq!(pieces("a: 1\n---\nb: 2\n"), [("a: 1\n", 1), ("b: 2\n", 3)]);
        assert_eq!(pieces("a: 1\n--- # c\n# d\nb: 2"), [("a: 1\n", 1), ("# d\nb: 2", 3)]);
        assert_eq!(pieces("---\na: 1\n"), [("---\na: 1\n", 1)]);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn a_separator_right_behind_another_opens_the_next_document() {
        assert_eq!(pieces("a: 1\n---\n---\nb: 2\n"), [("a: 1\n", 1), ("---\nb: 2\n", 3)]);
    }

    #[test]
    fn a_separator_without_a_line_end_stays_in_its_document() {
        assert_eq!(pieces("a: 1\n---"), [("a: 1\n---", 1)]);
    }

    #[test]
    fn directives_stay_with_their_document() {
        assert_eq!(pieces("%YAML 1.2\n---\na: 1\n---\nb: 2\n").len(), 2);
        let resources = read(b"%YAML 1.2\n---\na: 1\n", &Reading::default()).expect("is YAML");
        assert_eq!(resources.len(), 1);
        let error = read(b"%YAML 1.1\n---\na: 1\n", &Reading { exact: true, ..Reading::default() });
        let error = error.expect_err("the original cuts the header off").to_string();
        assert_eq!(error, "MalformedYAMLError: yaml: line 1: did not find expected <document start>");
    }

    #[test]
    fn text_behind_a_separator_is_an_error_with_its_line() {
        let error = read(b"a: 1\nb: 2\n--- foo\nc: 3\n", &Reading::default()).expect_err("foo");
        assert_eq!(error.to_string(), "invalid document separator: --- foo");
        assert_eq!(error.line, Some(3));
    }

    #[test]
    fn an_error_counts_lines_in_its_document_and_knows_the_line_of_the_text() {
        let error = read(b"a: 1\n---\nb: 2\nc: [\n", &Reading::default()).expect_err("the bracket is open");
        assert!(error.to_string().starts_with("MalformedYAMLError: yaml: line "), "{error}");
        assert!(error.line.is_some_and(|line| line >= 4), "{:?}", error.line);
    }

    #[test]
    fn windows_line_ends_become_unix_ones() {
        let resources = read(b"a: |\r\n  x\r\n  y\r\n", &Reading::default()).expect("is YAML");
        assert_eq!(resources[0].node().get_str("a"), Some("x\ny\n"));
    }

    #[test]
    fn documents_without_content_vanish_and_do_not_count() {
        let resources =
            read(b"# only\n---\na: 1\n---\nnull\n---\nb: 2\n", &Reading::default()).expect("is YAML");
        assert_eq!(resources.len(), 2);
        assert_eq!(resources[1].index(), "1");
    }

    #[test]
    fn a_bare_scalar_is_refused_with_its_text() {
        let error = read(b"a: 1\n---\nfoo\n", &Reading::default()).expect_err("no mapping");
        assert_eq!(
            error.to_string(),
            "wrong node kind: expected MappingNode but got ScalarNode: node contents:\nfoo\n"
        );
        assert_eq!(error.line, Some(3));
    }

    #[test]
    fn a_bare_sequence_is_wrapped_and_unwrapped_with_its_comments() {
        let text = "# head\n\n- a\n- b\n\n# foot\n";
        let resources = read(text.as_bytes(), &Reading::default()).expect("is YAML");
        assert_eq!(resources[0].index(), "0");
        assert_eq!(write(resources.clone(), "a.yaml", Fidelity::Faithful).expect("no JSON"), text);
        assert_eq!(write(resources, "a.yaml", Fidelity::Exact).expect("no JSON"), "- a\n- b\n");
    }

    #[test]
    fn an_empty_bare_sequence_stays_one() {
        let resources = read(b"[]\n", &Reading::default()).expect("is YAML");
        assert_eq!(write(resources.clone(), "a.yaml", Fidelity::Faithful).expect("no JSON"), "[]\n");
        let exact = write(resources, "a.yaml", Fidelity::Exact).expect("no JSON");
        assert_eq!(exact, "bareSeqNodeWrappingKey: []\n");
    }
}
