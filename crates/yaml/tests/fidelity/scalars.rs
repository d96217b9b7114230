//! Strings that no file held: how they are quoted, by value and by place.

use crate::compare::Report;
use crate::oracle;
use crate::random::Random;

/// Strings whose quoting is a question; mostly the table of the YAML specification of this project and its neighbours.
#[rustfmt::skip]
const TELLING: &[&str] = &[
    "", " ", "a", "true", "True", "null", "~", "1", "-1", "1.0", ".5", "1e3", "0x1f", "0o7", "07", "08",
    "1_000", "0_", ".inf", "2001-01-01", "yes", "on", "y", "Off", "n", "NO", "1:30", "12:30:45", "1:60",
    "2001-13-01", "1e999", "1.2.3", "123abc", "tRue", "NaN", ".nan", "<<", "=", "a:b", "http://h/p?a=b",
    "1,000", "a: b", "a:", "- a", "-", "? a", "#a", "a #b", "[a", "{}", "*a", "&a", "!a", "%a", "@a", "`a",
    "'a", "\"a", "---", "...", "--- a", " a", "a ", "-a", "--", "?a", ":a", "a# b", "a'b", "a\"b", "a\\b",
    "<a", "a>b", "|", ">", "$a", "(a)", "a\tb", "\ta", "a\t", "é", "\u{a0}", "😀", "\0", "\u{7f}", "\u{85}",
    "\u{feff}", "a\nb", "a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n b", "a\nb ", "a\n\tb", "\n", "\n\n",
    "a\r\nb", "a\rb", "\u{2028}", "a\u{2029}b", "a,b", "[a]", "{a: b}", "a]", "a?b", "a{b", "?", ":",
    "a\n\nb\n", "0b1", "0b", "+1", "+.inf", "-.INF", "0x", "1__0", "._5", "1.e5", "1e+3", "é\né",
    "18446744073709551615", "18446744073709551616", "-9223372036854775809", "2001-01-01T10:00:00Z",
    "2001-01-01 10:00:00", "\u{1b}[0m", "# a\nb", "- a\n- b\n", "a\n---\nb\n", "0o8", "-0x1", "1_0:30",
    "a\u{200b}b", "\u{d7ff}", "\u{e000}", "\u{fffd}", "\u{fffe}", "\u{10ffff}",
];

/// The strings to ask about: the telling ones and some by chance.
pub(crate) fn values() -> Vec<Vec<u8>> {
    let mut random = Random::new(4_242);
    let mut values: Vec<Vec<u8>> = TELLING.iter().map(|text| text.as_bytes().to_vec()).collect();
    values.extend((0..300).map(|_| chance(&mut random).into_bytes()));
    values.push("k".repeat(128).into_bytes());
    values.push("k".repeat(129).into_bytes());
    values.push(format!("{} end", "long ".repeat(60)).into_bytes());
    values
}

/// The strings whose order as keys is defined: the original's comparison overflows on 19 digits in a row.
pub(crate) fn sortable(values: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let short = |value: &&Vec<u8>| value.split(|b| !b.is_ascii_digit()).all(|digits| digits.len() < 19);
    values.iter().filter(short).cloned().collect()
}

fn chance(random: &mut Random) -> String {
    const PIECES: &[&str] = &[
        "a", "b", " ", "  ", ":", "#", "-", "?", ",", "[", "]", "{", "}", "&", "*", "!", "|", ">", "'", "\"",
        "%", "@", "`", "\n", "\t", "0", "1", "9", "_", ".", "e", "x", "+", "~", "é", "😀", "\\", "/", "<",
        "=", "T", "Z", "\r", "\u{85}", "\u{2028}", "o", "n", "y",
    ];
    (0..1 + random.below(6)).map(|_| random.pick(PIECES)).collect()
}

/// Every place, with and without the string tag, in every style go-yaml has bits for (0 none, 2 double, 4 single, 8 literal,
/// 16 folded).
pub(crate) fn modes() -> Vec<&'static str> {
    vec![
        "scalar:str:0:value",
        "scalar:str:0:key",
        "scalar:str:0:item",
        "scalar:str:0:nested",
        "scalar:str:0:flow",
        "scalar:str:0:flowkey",
        "scalar:-:0:value",
        "scalar:-:0:flow",
        "scalar:str:2:value",
        "scalar:str:4:value",
        "scalar:str:8:value",
        "scalar:str:16:value",
        "scalar:str:2:key",
        "scalar:str:4:nested",
        "scalar:str:8:key",
        "scalar:str:8:flow",
        "scalar:str:16:item",
        "scalar:str:4:flow",
    ]
}

/// A `setter` question: the string into a new field of a small mapping.
pub(crate) fn setting(value: &[u8]) -> Vec<Vec<u8>> {
    vec![b"a: 1\n".to_vec(), b"field".to_vec(), value.to_vec()]
}

/// Short texts of the characters that numbers, dates and words with a meaning are made of.
fn doubtful_plain(random: &mut Random) -> String {
    const PIECES: &[&str] = &[
        "0",
        "0",
        "1",
        "2",
        "9",
        "_",
        ".",
        "-",
        "+",
        "e",
        "E",
        "x",
        "o",
        "b",
        "a",
        "f",
        ":",
        "0x",
        "0o",
        "0b",
        ".inf",
        ".nan",
        "T",
        "Z",
        "-01",
        "2001",
        "-1-1",
        "10:00:00",
        "t",
        "yes",
        "no",
        "true",
        "null",
        "~",
        "=",
        "<<",
        "1e",
        "e5",
        "17",
        "08",
        "999999999999",
    ];
    (0..1 + random.below(5)).map(|_| random.pick(PIECES)).collect()
}

#[test]
fn plain_scalars_mean_the_same() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("plain scalars");
    let mut random = Random::new(crate::setting("LOGGIA_YAML_SEED", 0) ^ 99);
    for _ in 0..5 * crate::cases() {
        let text = format!("- {}\n", doubtful_plain(&mut random));
        report.ask(&mut oracle, "dump", &[text.as_bytes()]);
        report.ask(&mut oracle, "values", &[text.as_bytes()]);
    }
    report.finish(1000, Some(&mut oracle));
}

#[test]
fn tagged_scalars_mean_the_same() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("tagged scalars");
    let mut random = Random::new(crate::setting("LOGGIA_YAML_SEED", 0) ^ 100);
    for _ in 0..crate::cases() {
        let tag =
            random.pick(&["!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary", "!x"]);
        let quote = random.pick(&["", "'", "\""]);
        let text = format!("- {tag} {quote}{}{quote}\n", doubtful_plain(&mut random));
        report.ask(&mut oracle, "dump", &[text.as_bytes()]);
        report.ask(&mut oracle, "values", &[text.as_bytes()]);
        report.ask(&mut oracle, "nodes:compact", &[text.as_bytes()]);
    }
    report.finish(1000, Some(&mut oracle));
}

#[test]
fn scalars_are_quoted_alike_wherever_they_stand() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("scalars by place");
    for value in values() {
        modes().iter().for_each(|mode| report.ask(&mut oracle, mode, &[&value]));
    }
    report.finish(1000, Some(&mut oracle));
}

#[test]
fn strings_put_by_a_setter_are_quoted_alike() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("strings set");
    for value in values() {
        let texts = setting(&value);
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        report.ask(&mut oracle, "setter", &texts);
        for existing in
            ["field: old\n", "field: 'old'\n", "field: \"old\"\n", "field: |\n  old\n", "{field: old}\n"]
        {
            report.ask(&mut oracle, "setter", &[existing.as_bytes(), b"field", &value]);
        }
    }
    report.finish(1000, None);
}

#[test]
fn maps_of_strings_are_marshalled_alike() {
    let Some(mut oracle) = oracle::start() else { return };
    let mut report = Report::new("maps of strings");
    let values = values();
    for value in &values {
        report.ask(&mut oracle, "marshal", &[b"key", value]);
        report.ask(&mut oracle, "marshal", &[value, b"value"]);
    }
    for group in sortable(&values).chunks(7) {
        let texts: Vec<&[u8]> = group.iter().flat_map(|value| [value.as_slice(), b"v".as_slice()]).collect();
        report.ask(&mut oracle, "marshal", &texts);
    }
    report.finish(1000, None);
}
