//! What must hold for any text, whatever the original does: the fuzz targets' laws, for seeds on stable.

use std::collections::BTreeMap;
use std::fmt;

use loggia_yaml::{Document, ParseOptions, SequenceStyle, parse_all_with};

use crate::generator::{Kind, document};
use crate::mutator::mutate;
use crate::oracle::Answer;
use crate::random::Random;
use crate::same::same_values;
use crate::shrink::shrink;
use crate::{cases, setting, subject};

/// How a text fails.
#[derive(Debug)]
enum Failure {
    /// What was written does not hold what was read.
    Damaged(String),
    /// Writing again gives other bytes. Comments that the original moves once more are moved here too.
    Unsettled(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(how) | Self::Unsettled(how) => f.write_str(how),
        }
    }
}

/// As the default mode reads, and as the original does, which leaves fewer comments and in other places.
const READINGS: [ParseOptions; 2] =
    [ParseOptions { exact: false, unique_keys: false }, ParseOptions { exact: true, unique_keys: false }];

/// Reading what was written gives the same values, and writing that again the same bytes.
fn holds(text: &[u8]) -> Result<(), Failure> {
    READINGS.into_iter().try_for_each(|reading| holds_as_read(text, reading))
}

fn holds_as_read(text: &[u8], reading: ParseOptions) -> Result<(), Failure> {
    let Ok(documents) = parse_all_with(text, reading) else { return Ok(()) };
    for sequences in [SequenceStyle::Compact, SequenceStyle::Wide] {
        let once = subject::emit(&documents, sequences);
        let again = parse_all_with(once.as_bytes(), reading)
            .map_err(|error| Failure::Damaged(format!("wrote {once:?}, which does not parse: {error}")))?;
        if !same_values(&documents, &again) {
            return Err(Failure::Damaged(format!("wrote {once:?}, which holds other values")));
        }
        let twice = subject::emit(&again, sequences);
        if once != twice && !the_original_is_unsettled_too(text, sequences) {
            return Err(Failure::Unsettled(format!("wrote {once:?}, then {twice:?}")));
        }
    }
    Ok(())
}

/// Kyaml does not settle at once on every placement of comments; following its bytes means following that.
fn the_original_is_unsettled_too(text: &[u8], sequences: SequenceStyle) -> bool {
    let mode = if sequences == SequenceStyle::Wide { "nodes:wide" } else { "nodes:compact" };
    let Answer::Text(once) = subject::ask(mode, &[text]) else { return false };
    subject::ask(mode, &[&once]) != Answer::Text(once)
}

/// Fails on any damage, and when more than one text in 1,000 has not settled.
fn check(name: &str, texts: impl Iterator<Item = Vec<u8>>) {
    let mut broken = Vec::new();
    let mut count = 0;
    for text in texts {
        count += 1;
        if let Err(failure) = holds(&text) {
            broken.push((text, failure));
        }
    }
    let damaged = broken.iter().filter(|(_, failure)| matches!(failure, Failure::Damaged(_))).count();
    let unsettled = broken.len() - damaged;
    let mut shown = String::new();
    for (text, why) in broken.iter().take(12) {
        let small = shrink(text, 2000, |candidate| {
            holds(candidate)
                .is_err_and(|failure| std::mem::discriminant(&failure) == std::mem::discriminant(why))
        });
        let why = holds(&small).unwrap_err();
        shown.push_str(&format!("--- {:?}\n  {why}\n", String::from_utf8_lossy(&small)));
    }
    eprint!("{name}: {count} texts, {damaged} damaged, {unsettled} unsettled\n{shown}");
    assert!(
        damaged == 0 && unsettled * 1000 <= count,
        "{name}: {damaged} damaged, {unsettled} unsettled\n{shown}"
    );
}

fn documents() -> impl Iterator<Item = Vec<u8>> {
    let kinds = [Kind::Manifest, Kind::Wild, Kind::Lines];
    seeds().flat_map(move |seed| kinds.map(|kind| document(kind, seed).into_bytes()))
}

fn seeds() -> std::ops::Range<u64> {
    let start = setting("LOGGIA_YAML_SEED", 0) + 5_000_000;
    start..start + cases() / 2
}

#[test]
fn what_is_written_reads_back_the_same_and_settles_at_once() {
    check("written documents", documents());
}

#[test]
fn what_is_read_from_a_faulty_text_is_written_just_as_well() {
    let mutated = seeds().map(|seed| mutate(&mut Random::new(seed), document(Kind::Wild, seed).as_bytes()));
    check("mutated documents written", mutated);
}

/// Whether a text holds what the default mode writes another way although nothing is lost: see
/// `docs/yaml-fidelity.md`, "Differences on purpose".
fn is_spelled_otherwise(text: &str, exact: &Answer) -> bool {
    // A literal with a space at the end of a line; a single-quoted text that ends in a line break.
    let blank_end = text.contains('|') && text.lines().any(|line| line.ends_with(' '));
    let quote_in_first_column =
        matches!(exact, Answer::Text(out) if out.windows(2).any(|pair| pair == b"\n'"));
    if blank_end || quote_in_first_column {
        return true;
    }
    const SIGNS: &[&str] =
        &[">", "{", "[", "<<", "\\U", "\u{2028}", "\u{2029}", "\\u2028", "\\L", "\\P", "feff", "\u{feff}"];
    SIGNS.iter().any(|sign| text.contains(sign)) || text.chars().any(|c| c > '\u{ffff}')
}

/// Whether what the original writes for a text lacks a comment, has one behind another node, holds other values or does
/// not parse.
fn is_damaged(text: &[u8], written: &Answer) -> bool {
    let (Ok(before), Answer::Text(written)) = (subject::parse(text), written) else { return false };
    let Ok(after) = subject::parse(written) else { return true };
    !same_values(&before, &after)
        || comment_lines(&before) != comment_lines(&after)
        || line_comments(&before) != line_comments(&after)
}

/// Every comment line of a stream, sorted.
fn comment_lines(documents: &[Document]) -> Vec<String> {
    let mut lines = Vec::new();
    for document in documents {
        lines.extend([&document.head_comment, &document.foot_comment].map(ToString::to_string));
        let mut waiting = vec![&document.root];
        while let Some(node) = waiting.pop() {
            let comments = node.comments();
            lines.extend([comments.head, comments.line, comments.foot].map(str::to_owned));
            waiting.extend(node.items());
            waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
        }
    }
    let mut lines: Vec<String> = lines
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

/// Every comment behind a node, with that node's text.
fn line_comments(documents: &[Document]) -> Vec<(String, String)> {
    let mut comments = Vec::new();
    let mut waiting: Vec<_> = documents.iter().map(|document| &document.root).collect();
    while let Some(node) = waiting.pop() {
        if !node.comments().line.is_empty() {
            comments.push((node.scalar().unwrap_or_default().to_owned(), node.comments().line.to_owned()));
        }
        waiting.extend(node.items());
        waiting.extend(node.pairs().iter().flat_map(|pair| [&pair.key, &pair.value]));
    }
    comments
}

/// How the default mode's bytes relate to kyaml's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    Same,
    SpelledOtherwise,
    SavedFromDamage,
    /// Different for no reason.
    Astray,
}

fn relation(text: &[u8]) -> Relation {
    let exact = subject::ask("nodes:compact", &[text]);
    if exact == subject::ask("faithful:compact", &[text]) {
        Relation::Same
    } else if is_spelled_otherwise(&String::from_utf8_lossy(text), &exact) {
        Relation::SpelledOtherwise
    } else if is_damaged(text, &exact) {
        Relation::SavedFromDamage
    } else {
        Relation::Astray
    }
}

#[test]
fn the_default_mode_is_kyamls_wherever_kyaml_does_no_damage() {
    let mut count: BTreeMap<Relation, usize> = BTreeMap::new();
    let mut astray = Vec::new();
    for text in documents() {
        let relation = relation(&text);
        *count.entry(relation).or_default() += 1;
        if relation == Relation::Astray && astray.len() < 12 {
            astray.push(shrink(&text, 2000, |candidate| self::relation(candidate) == Relation::Astray));
        }
    }
    let shown: Vec<_> = astray
        .iter()
        .map(|text| [text.clone(), output("nodes:compact", text), output("faithful:compact", text)])
        .map(|texts| texts.map(|text| String::from_utf8_lossy(&text).into_owned()))
        .collect();
    eprintln!("default mode beside kyaml: {count:?} {shown:?}");
    let total: usize = count.values().sum();
    assert!(count.get(&Relation::Astray).unwrap_or(&0) * 1000 <= total, "input, kyaml, Loggia: {shown:#?}");
}

fn output(mode: &str, text: &[u8]) -> Vec<u8> {
    match subject::ask(mode, &[text]) {
        Answer::Text(out) => out,
        Answer::Error(error) | Answer::Panic(error) => error.into_bytes(),
    }
}

/// Whether some comment is in the text less often than in what was read, whichever way it is read.
fn loses_a_comment(text: &[u8]) -> bool {
    READINGS.into_iter().any(|reading| {
        let Ok(documents) = parse_all_with(text, reading) else { return false };
        let written = subject::emit(&documents, SequenceStyle::Compact);
        let lines = comment_lines(&documents);
        let all = lines.join("\n");
        lines.iter().any(|line| written.matches(line.as_str()).count() < all.matches(line.as_str()).count())
    })
}

#[test]
fn no_comment_is_lost() {
    let mut count = 0;
    let lost: Vec<_> = documents().inspect(|_| count += 1).filter(|text| loses_a_comment(text)).collect();
    let shown: Vec<_> = lost
        .iter()
        .take(8)
        .map(|text| shrink(text, 2000, loses_a_comment))
        .map(|text| [text.clone(), output("faithful:compact", &text)])
        .map(|texts| texts.map(|text| String::from_utf8_lossy(&text).into_owned()))
        .collect();
    eprintln!("comments: {count} texts, {} lose one {shown:?}", lost.len());
    assert!(lost.is_empty(), "{} of {count} texts; input, output: {shown:#?}", lost.len());
}

#[test]
fn arbitrary_bytes_never_panic() {
    const BYTES: &[u8] = b"\0\t\n\r !\"#%&'*,-.0:<>?@[\\]`aeltu{|}~\x7f\x80\xbf\xc2\xe2\xed\xef\xf0\xff";
    let mut random = Random::new(setting("LOGGIA_YAML_SEED", 0) ^ 77);
    for _ in 0..cases() * 5 {
        let length = random.below(60);
        let text: Vec<u8> = (0..length).map(|_| random.pick(BYTES)).collect();
        if let Ok(documents) = subject::parse(&text) {
            let _ = subject::emit(&documents, SequenceStyle::Compact);
        }
    }
}
