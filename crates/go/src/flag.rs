//! Command lines in the two syntaxes of Go programs.
//!
//! [`flags!`](crate::flags) declares flags, each once; a [`FlagSet`] reads a command line into them and lists them,
//! for `--help` and for the docs.
//!
//! [`Syntax::Go`] is the standard library's: `-x v`, `--x v`, `-x=v`; the first bare word ends the
//! flags. [`Syntax::Gnu`] is that of pflag: only `--x v` and `--x=v`; flags and words may mix. Both take
//! a boolean's value only after `=`, let the last of several win ([`Target::Texts`] keeps all) and stop at `--`.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::quantity::Size;
use crate::{Duration, quote};

pub mod table;

pub use table::Table;

/// How flags are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Go's standard library.
    Go,
    /// GNU style, as the pflag library reads it.
    Gnu,
}

/// Where a flag's value goes; what stands there before parsing is its default.
#[derive(Debug)]
pub enum Target<'a> {
    Bool(&'a mut bool),
    Int(&'a mut i64),
    Text(&'a mut String),
    /// Grows each time that the flag is given.
    Texts(&'a mut Vec<String>),
    Duration(&'a mut Duration),
    Size(&'a mut Size),
}

/// The flags of one program.
#[derive(Debug)]
pub struct FlagSet<'a> {
    program: &'static str,
    syntax: Syntax,
    flags: Vec<Flag<'a>>,
}

#[derive(Debug)]
struct Flag<'a> {
    name: &'static str,
    help: &'static str,
    default: String,
    target: Target<'a>,
}

/// What a command line held besides the values of its flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The names of the flags that were given.
    pub given: BTreeSet<&'static str>,
    /// The words that belong to no flag: all of them in GNU style, those from the first on in Go's.
    pub words: Vec<String>,
    /// The words behind `--`, if it was there.
    pub after_dashes: Option<Vec<String>>,
}

/// Why a command line gives no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The user asked for help, which is this text.
    Help(String),
    /// The command line is wrong, and this is how, in the words of the syntax's own library.
    Usage(String),
}

// === impl FlagSet ===

impl<'a> FlagSet<'a> {
    /// A program without flags yet.
    pub fn new(program: &'static str, syntax: Syntax) -> Self {
        Self { program, syntax, flags: Vec::new() }
    }

    /// Adds all flags of a table, whose fields get their values.
    #[must_use]
    pub fn table(mut self, table: &'a mut impl Table) -> Self {
        table.add_to(&mut self);
        self
    }

    /// Adds a flag whose value goes into `target`.
    pub fn add(&mut self, name: &'static str, target: Target<'a>, help: &'static str) {
        let default = target.to_string();
        self.flags.push(Flag { name, help, default, target });
    }

    /// Reads a command line, without the program's name, into the targets.
    pub fn parse(&mut self, arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, Error> {
        let arguments = arguments.into_iter().map(|argument| {
            argument
                .into_string()
                .map_err(|argument| Error::Usage(format!("the argument {} is not UTF-8", argument.display())))
        });
        let mut arguments = arguments.collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut parsed = Parsed::default();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                let rest: Vec<_> = arguments.collect();
                if self.syntax == Syntax::Go {
                    parsed.words.clone_from(&rest);
                }
                parsed.after_dashes = Some(rest);
                break;
            }
            let Some(written) = self.written(&argument)? else {
                parsed.words.push(argument);
                if self.syntax == Syntax::Go {
                    parsed.words.extend(arguments);
                    break;
                }
                continue;
            };
            parsed.given.insert(self.apply(&written, &mut arguments)?);
        }
        Ok(parsed)
    }

    /// What an argument says, or nothing if it is a bare word.
    fn written<'b>(&self, argument: &'b str) -> Result<Option<Written<'b>>, Error> {
        let Some(after) = argument.strip_prefix('-').filter(|after| !after.is_empty()) else {
            return Ok(None);
        };
        let body = match (self.syntax, after.strip_prefix('-')) {
            (_, Some(body)) => body,
            (Syntax::Go, None) => after,
            (Syntax::Gnu, None) if after.starts_with('h') => return Err(Error::Help(self.usage())),
            (Syntax::Gnu, None) => {
                let letter = after.chars().next().unwrap_or('-');
                return Err(Error::Usage(format!("unknown shorthand flag: '{letter}' in {argument}")));
            }
        };
        if body.is_empty() || body.starts_with(['-', '=']) {
            return Err(Error::Usage(format!("bad flag syntax: {argument}")));
        }
        Ok(Some(match body.split_once('=') {
            Some((name, value)) => Written { name, value: Some(value) },
            None => Written { name: body, value: None },
        }))
    }

    fn apply(
        &mut self,
        written: &Written<'_>,
        rest: &mut dyn Iterator<Item = String>,
    ) -> Result<&'static str, Error> {
        let syntax = self.syntax;
        let Some(at) = self.flags.iter().position(|flag| flag.name == written.name) else {
            return Err(match (syntax, written.name) {
                (_, "help") | (Syntax::Go, "h") => Error::Help(self.usage()),
                (Syntax::Go, name) => Error::Usage(format!("flag provided but not defined: -{name}")),
                (Syntax::Gnu, name) => Error::Usage(format!("unknown flag: --{name}")),
            });
        };
        let flag = &mut self.flags[at];
        let value = match (&flag.target, written.value) {
            (_, Some(value)) => value.to_owned(),
            (Target::Bool(_), None) => "true".to_owned(),
            (_, None) => rest.next().ok_or_else(|| {
                let dashes = if syntax == Syntax::Go { "-" } else { "--" };
                Error::Usage(format!("flag needs an argument: {dashes}{}", flag.name))
            })?,
        };
        flag.set(&value).map_err(|reason| {
            let (value, name) = (quote(&value), flag.name);
            Error::Usage(match (syntax, &flag.target) {
                (Syntax::Go, Target::Bool(_)) => {
                    format!("invalid boolean value {value} for -{name}: {reason}")
                }
                (Syntax::Go, _) => format!("invalid value {value} for flag -{name}: {reason}"),
                (Syntax::Gnu, _) => format!("invalid argument {value} for \"--{name}\" flag: {reason}"),
            })
        })?;
        Ok(flag.name)
    }

    /// The flags with their defaults, one after another by name.
    pub fn usage(&self) -> String {
        let mut flags: Vec<_> = self.flags.iter().collect();
        flags.sort_by_key(|flag| flag.name);
        let dashes = if self.syntax == Syntax::Go { "-" } else { "--" };
        let mut usage = format!("Usage of {}:\n", self.program);
        for flag in flags {
            let kind = match flag.target {
                Target::Bool(_) => "",
                Target::Int(_) => " int",
                Target::Text(_) | Target::Texts(_) => " string",
                Target::Duration(_) => " duration",
                Target::Size(_) => " size",
            };
            let default = match (&flag.target, flag.default.as_str()) {
                (_, "" | "false" | "0" | "0s") => String::new(),
                (Target::Text(_), text) => format!(" (default {})", quote(text)),
                (_, value) => format!(" (default {value})"),
            };
            usage.push_str(&format!("  {dashes}{}{kind}\n    \t{}{default}\n", flag.name, flag.help));
        }
        usage
    }

    /// The flags as a Markdown table for the docs, one after another as they were declared.
    pub fn markdown(&self) -> String {
        let mut table = "| Flag | Default | |\n|---|---|---|\n".to_owned();
        for Flag { name, help, default, target } in &self.flags {
            let default = match (target, default.as_str()) {
                (_, "") => String::new(),
                (Target::Text(_), text) => format!("`{text}` "),
                (_, value) => format!("{value} "),
            };
            table.push_str(&format!("| `--{name}` | {default}| {help} |\n"));
        }
        table
    }
}

/// A flag as it stands on the command line.
struct Written<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

// === impl Flag ===

impl Flag<'_> {
    fn set(&mut self, value: &str) -> Result<(), String> {
        match &mut self.target {
            Target::Bool(target) => **target = parse_bool(value)?,
            Target::Int(target) => **target = parse_int(value)?,
            Target::Text(target) => value.clone_into(target),
            Target::Texts(target) => target.push(value.to_owned()),
            Target::Size(target) => {
                **target = value.parse().map_err(|error| format!("parse error ({error})"))?;
            }
            Target::Duration(target) => {
                **target = value
                    .parse()
                    .map_err(|error| format!("parse error ({error}; write it as 30s, 5m or 1h15m)"))?;
            }
        }
        Ok(())
    }
}

fn parse_bool(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("parse error".to_owned()),
    }
}

/// Decimal, `0x`, `0o`, `0b` or a leading-zero octal, with `_` between digits.
fn parse_int(value: &str) -> Result<i64, String> {
    let wrong = || "parse error".to_owned();
    let (negative, digits) = match value.as_bytes().first() {
        Some(b'-') => (true, &value[1..]),
        Some(b'+') => (false, &value[1..]),
        _ => (false, value),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, body) = match prefix.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        // A leading zero is itself a digit, so that `0_7` may have an underscore after it.
        Some(_) if digits.starts_with('0') => (8, digits),
        _ => (10, digits),
    };
    let prefixed = body.len() < digits.len();
    if body.ends_with('_') || body.contains("__") || (body.starts_with('_') && !prefixed) {
        return Err(wrong());
    }
    let plain = body.replace('_', "");
    if plain.is_empty() || !plain.chars().all(|digit| digit.is_digit(radix)) {
        return Err(wrong());
    }
    let magnitude = i128::from_str_radix(&plain, radix).unwrap_or(i128::MAX);
    let signed = if negative { -magnitude } else { magnitude };
    i64::try_from(signed).map_err(|_| "value out of range".to_owned())
}

// === impl Target ===

impl<'a> From<&'a mut bool> for Target<'a> {
    fn from(value: &'a mut bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a mut i64> for Target<'a> {
    fn from(value: &'a mut i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a mut String> for Target<'a> {
    fn from(value: &'a mut String) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a mut Vec<String>> for Target<'a> {
    fn from(value: &'a mut Vec<String>) -> Self {
        Self::Texts(value)
    }
}

impl<'a> From<&'a mut Duration> for Target<'a> {
    fn from(value: &'a mut Duration) -> Self {
        Self::Duration(value)
    }
}

impl<'a> From<&'a mut Size> for Target<'a> {
    fn from(value: &'a mut Size) -> Self {
        Self::Size(value)
    }
}

impl std::fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value}"),
            Self::Texts(values) => write!(f, "{}", values.join(",")),
            Self::Duration(value) => write!(f, "{value}"),
            Self::Size(value) => write!(f, "{value}"),
        }
    }
}

// === impl Error ===

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Help(text) | Self::Usage(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    crate::flags! {
        #[derive(PartialEq)]
        struct Values {
            warm: bool = true, "warm up";
            port: i64 = 1, "server port";
            config: String = "c", "file";
            ttl: Duration = Duration::from_secs(60), "time to live";
        }
    }

    fn read(syntax: Syntax, line: &[&str]) -> Result<(Values, Parsed), Error> {
        let mut values = Values::default();
        let parsed =
            FlagSet::new("test", syntax).table(&mut values).parse(line.iter().map(OsString::from))?;
        Ok((values, parsed))
    }

    fn complaint(syntax: Syntax, line: &[&str]) -> String {
        match read(syntax, line) {
            Err(Error::Usage(text)) => text,
            other => panic!("{line:?} was taken: {other:?}"),
        }
    }

    #[test]
    fn both_dash_forms_and_both_value_forms_are_read() {
        for line in [
            &["-port", "7", "-config", "f", "-ttl", "1m30s"][..],
            &["--port", "7", "--config", "f", "--ttl", "1m30s"],
            &["-port=7", "--config=f", "-ttl=1m30s"],
        ] {
            let (values, parsed) = read(Syntax::Go, line).unwrap();
            assert_eq!(
                values,
                Values { warm: true, port: 7, config: "f".into(), ttl: Duration::from_secs(90) }
            );
            assert_eq!(parsed.given, BTreeSet::from(["config", "port", "ttl"]));
        }
    }

    #[test]
    fn a_boolean_takes_its_value_only_after_an_equals_sign() {
        assert!(!read(Syntax::Go, &["--warm=false"]).unwrap().0.warm);
        assert!(read(Syntax::Go, &["--warm=false", "--warm"]).unwrap().0.warm);

        let (values, parsed) = read(Syntax::Go, &["--warm", "false", "--port", "2"]).unwrap();
        assert!(values.warm && values.port == 1);
        assert_eq!(parsed.words, ["false", "--port", "2"]);
    }

    #[test]
    fn the_last_of_several_wins() {
        assert_eq!(read(Syntax::Go, &["-port", "2", "--port=3"]).unwrap().0.port, 3);
    }

    #[test]
    fn a_list_keeps_all_of_several() {
        crate::flags! {
            struct Folders {
                folder: Vec<String>, "A folder.";
            }
        }
        let mut folders = Folders::default();
        let mut flags = FlagSet::new("test", Syntax::Go).table(&mut folders);
        assert_eq!(flags.usage(), "Usage of test:\n  -folder string\n    \tA folder.\n");
        flags.parse(["--folder", "a", "-folder=b,c"].map(OsString::from)).unwrap();
        assert_eq!(folders.folder, ["a", "b,c"]);
    }

    #[test]
    fn integers_are_read_in_every_base() {
        for (text, value) in [
            ("0x1F", 31),
            ("0o17", 15),
            ("017", 15),
            ("0b101", 5),
            ("1_000", 1000),
            ("-3", -3),
            ("0", 0),
            ("0x_f", 15),
        ] {
            assert_eq!(read(Syntax::Go, &["-port", text]).unwrap().0.port, value, "{text}");
        }
        for bad in ["", "x", "1.5", "1__0", "_1", "1_", "08", "0x", "12 "] {
            assert_eq!(
                complaint(Syntax::Go, &["-port", bad]),
                format!("invalid value {} for flag -port: parse error", quote(bad))
            );
        }
        assert_eq!(
            complaint(Syntax::Go, &["-port=9223372036854775808"]),
            r#"invalid value "9223372036854775808" for flag -port: value out of range"#
        );
    }

    #[test]
    fn mistakes_are_told_in_gos_words() {
        assert_eq!(complaint(Syntax::Go, &["-nope"]), "flag provided but not defined: -nope");
        assert_eq!(complaint(Syntax::Go, &["--nope=1"]), "flag provided but not defined: -nope");
        assert_eq!(complaint(Syntax::Go, &["-port"]), "flag needs an argument: -port");
        assert_eq!(complaint(Syntax::Go, &["---port"]), "bad flag syntax: ---port");
        assert_eq!(complaint(Syntax::Go, &["-=1"]), "bad flag syntax: -=1");
        assert_eq!(
            complaint(Syntax::Go, &["--warm=yes"]),
            r#"invalid boolean value "yes" for -warm: parse error"#
        );
        assert!(
            complaint(Syntax::Go, &["--ttl", "30"])
                .starts_with(r#"invalid value "30" for flag -ttl: parse error"#)
        );
    }

    #[test]
    fn help_is_its_own_answer() {
        for (syntax, word, dashes) in [
            (Syntax::Go, "-h", "-"),
            (Syntax::Go, "-help", "-"),
            (Syntax::Go, "--help", "-"),
            (Syntax::Gnu, "-h", "--"),
            (Syntax::Gnu, "--help", "--"),
        ] {
            match read(syntax, &["--port=7", word]) {
                Err(Error::Help(text)) => {
                    assert!(text.starts_with("Usage of test:\n"), "{text}");
                    assert!(
                        text.contains(&format!("\n  {dashes}port int\n    \tserver port (default 1)\n")),
                        "{text}"
                    );
                }
                other => panic!("{word}: {other:?}"),
            }
        }
    }

    #[test]
    #[cfg(unix)]
    fn an_argument_that_is_not_text_is_named() {
        use std::os::unix::ffi::OsStringExt as _;
        let line = [OsString::from("--"), OsString::from_vec(b"a\xffb".into())];
        assert_eq!(
            FlagSet::new("test", Syntax::Gnu).parse(line),
            Err(Error::Usage("the argument a\u{fffd}b is not UTF-8".to_owned()))
        );
    }

    #[test]
    fn gnu_flags_may_follow_words_and_take_two_dashes_only() {
        let (values, parsed) = read(Syntax::Gnu, &["word", "--port=2", "--", "cat", "--port", "3"]).unwrap();
        assert_eq!(values.port, 2);
        assert_eq!(parsed.words, ["word"]);
        assert_eq!(parsed.after_dashes.unwrap(), ["cat", "--port", "3"]);

        assert_eq!(complaint(Syntax::Gnu, &["--nope"]), "unknown flag: --nope");
        assert_eq!(complaint(Syntax::Gnu, &["-port", "3"]), "unknown shorthand flag: 'p' in -port");
        assert_eq!(complaint(Syntax::Gnu, &["--port"]), "flag needs an argument: --port");
        assert_eq!(
            complaint(Syntax::Gnu, &["--port=x"]),
            r#"invalid argument "x" for "--port" flag: parse error"#
        );
    }

    #[test]
    fn every_flag_is_listed_with_its_default() {
        crate::flags! {
            struct Server {
                port: i64 = 9445, "The server port.";
                config_file: String, "A file.";
                pod_ttl: Duration, "A time.";
                warm: bool = true, "Warm up.";
                name: String = "n", "A name.";
            }
        }
        let mut server = Server::default();
        let flags = FlagSet::new("server", Syntax::Go).table(&mut server);
        assert_eq!(
            flags.usage(),
            "Usage of server:\n  -config-file string\n    \tA file.\n  -name string\n    \tA name. (default \"n\")\n  \
             -pod-ttl duration\n    \tA time.\n  -port int\n    \tThe server port. (default 9445)\n  \
             -warm\n    \tWarm up. (default true)\n"
        );
        assert_eq!(
            flags.markdown(),
            "| Flag | Default | |\n|---|---|---|\n| `--port` | 9445 | The server port. |\n\
             | `--config-file` | | A file. |\n| `--pod-ttl` | 0s | A time. |\n| `--warm` | true | Warm up. |\n\
             | `--name` | `n` | A name. |\n"
        );
    }
}
