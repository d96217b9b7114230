//! What generated documents are made of.

#[rustfmt::skip]
pub(crate) const WORDS: &[&str] = &[
    "app", "name", "image", "nginx", "value", "spec", "port", "config", "data", "path", "a", "b", "key",
    "team", "tier", "env", "replicas", "selector", "x", "frontend",
];

/// Plain texts whose meaning or quoting is a question.
#[rustfmt::skip]
pub(crate) const PLAIN: &[&str] = &[
    "true", "false", "null", "~", "yes", "no", "on", "off", "y", "N", "1", "0", "-1", "+1", "1.0", "1.50",
    ".5", "1e3", "1E+5", "0x1F", "0o7", "017", "08", "0b11", "1_000", "0_", ".inf", "-.Inf", ".nan",
    ".NaN", "2001-01-01", "2001-1-1T1:2:3Z", "2001-13-01", "2001-01-01 10:00:00", "12:30:45", "1:30",
    "1:60", "1.2.3", "v1.2.3", "1e999", "123abc", "tRue", "NaN", "=", "<<", "a:b",
    "http://example.com/p?a=b#c", "-a", "--", "?a", ":a", "a#b", "a'b", "a\"b", "a\\b", "<a", "a>b", "$a",
    "(a)", "a|b", "100m", "128Mi", "gcr.io/project/image:v1.0", "*.example.com", "a, b", "é", "naïve café",
    "日本語", "😀", "a😀b", "\u{a0}", "Null", "NULL", "TRUE", "18446744073709551615", "18446744073709551616",
    "-9223372036854775809", "0x", "0b2", "1__0", "+.inf", "hello world", "a  b", "one two three", "${VAR}",
    "$(VAR)", "100%", "a@b", "a\tb", "a...b", "---x", "a!b", "a&b", "a*b", "0.", ".", "1_0.5_0",
];

/// Plain texts that are often an error, or become something else.
#[rustfmt::skip]
pub(crate) const DOUBTFUL: &[&str] = &[
    "{{ template }}", "@", "%x", "`c`", "a]", "a}", "...", "!", "\u{85}", "a\u{2028}b", "\u{7f}", "x: y",
    "trailing:", "-", "é: é", "[a", "? a", "a: b: c", "'a' b", "\"a\" b", "*none", "&b", "a #b", "- a",
    "\u{feff}a",
];

#[rustfmt::skip]
pub(crate) const COMMENTS: &[&str] = &[
    "# comment", "#nospace", "#", "#  two spaces", "# trailing space ", "# kpt-set: ${image}",
    "# {\"$ref\": \"x\"}", "# é 日本 😀", "# a: b", "# - item", "## heading", "#\ttab", "# ---", "#!shebang",
    "# TODO(someone): change", "#%", "# 'quoted' \"text\"",
];

/// Lines that fit together more often than not; each is put at some indentation.
#[rustfmt::skip]
pub(crate) const LINES: &[&str] = &[
    "a:", "b: 1", "c: x # l", "- a", "- b: 1", "-", "- - c", "# c", "# d", "#", "", "", "a: # k", "- # h",
    "k: |", "k: >-", "k: |+ # l", "text", "a: [", "x,", "y, # l", "]", "{a: b}", "a: {", "}", "? q", ": r",
    "---", "...", "k: \"q\"", "- 's' # l", "&x", "a: &x # l", "b: *x", "- !t", "a: [x, # l",
    "b: {x: y # l", "<<: *x", "- [a] # l", "a: 'q", "q' # l", "# e ", "--- # s", "- ? a", "-   b: 1",
    "a: {} # l",
];

/// Values of an outline; those over several lines stand right of every column it uses.
#[rustfmt::skip]
pub(crate) const OUTLINE_VALUES: &[&str] = &[
    " v", " v", " v", " 'v'", " [a, b]", " {a: b}", " []", "", " |\n        text",
    " >-\n        text\n\n        text", " - x", " a: b", " [a, # c\n          b]",
    " {a: b, # c\n          # d\n          c: d}", " &x v", " !t v", " |+\n        text\n",
    " [\n          a\n          # c\n          ]", " \"a\n          b\"", " a\n          b",
];

/// Keys that are no plain words.
#[rustfmt::skip]
pub(crate) const ODD_KEYS: &[&str] = &[
    "1", "true", "null", "~", "0x1", "2001-01-01", "y", "a.b/c", "a b", "é", "=", "1.5",
];

/// Tags, long and short, known and not.
#[rustfmt::skip]
pub(crate) const TAGS: &[&str] = &[
    "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!!binary", "!custom", "!",
    "!!timestamp", "!<tag:yaml.org,2002:str>", "!<tag:example.com,2000:x>", "!!set", "!a%21b", "!!merge",
    "!custom/v1",
];

/// Escapes of double quotes.
#[rustfmt::skip]
pub(crate) const ESCAPES: &[&str] = &[
    "\\n", "\\t", "\\\\", "\\x41", "\\u00e9", "\\U0001F600", "\\0", "\\a", "\\e", "\\N", "\\_", "\\L",
    "\\P", "\\ ", "\\r", "\\x07", "\\u2028", "\\ufeff", "\\b", "\\v", "\\f", "\\x7f", "\\u00a0", "\\x85",
    "\\'",
];

/// Texts that mean something outside quotes.
#[rustfmt::skip]
pub(crate) const INDICATORS: &[&str] = &[
    ": ", " #", ", ", "[", "{", "- ", "?", "&", "*", "!", "|", ">", "%", "\t", "  ",
];
