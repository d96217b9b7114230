//! What a result may show of a value: nothing of what looks like a secret, and no more than a line of the rest.
//!
//! A value is taken for a secret if the field's path or a setter's name says so, if it has the form of a
//! well-known credential, or if it is one long run of base64.

use std::sync::{LazyLock, OnceLock};

use regex::{Match, Regex};

use crate::kyaml::setters;

const REDACTED: &str = "<redacted>";
const MAX_CHARACTERS: usize = 128;

/// Words that make a path or a setter's name sensitive.
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "credential",
    "privatekey",
    "private_key",
    "cert",
    "bearer",
    "auth",
];

/// Words of examples: a credential that contains one is not real.
const PLACEHOLDERS: &[&str] = &[
    "REPLACE_ME",
    "REPLACE_THIS",
    "REPLACE_WITH",
    "YOUR_KEY",
    "YOUR_TOKEN",
    "YOUR_SECRET",
    "YOUR_API_KEY",
    "YOUR_PASSWORD",
    "INSERT_HERE",
    "INSERT_KEY",
    "INSERT_TOKEN",
    "PLACEHOLDER",
    "EXAMPLE_KEY",
    "EXAMPLE_TOKEN",
    "TODO",
    "FIXME",
    "XXXX",
];

/// The form of one kind of credential.
#[derive(Default)]
struct Form {
    /// Lower-case words of which one must occur before the expression is tried.
    words: &'static [&'static str],
    expression: &'static str,
    /// The least entropy in bits per byte.
    entropy: f64,
    /// The credential is the expression's first group, if that took part.
    group: bool,
    /// It may be or touch a URL.
    in_url: bool,
    /// It is not a credential if it ends in `EXAMPLE`.
    examples: bool,
    compiled: OnceLock<Option<Regex>>,
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(forms);

/// What follows a credential that is a word of its own.
macro_rules! ends {
    () => {
        r#"(?:['"`]|[\t\n\f\r ;]|$)"#
    };
}

#[rustfmt::skip]
fn forms() -> Vec<Form> {
    let form = Form::default;
    vec![
        Form { words: &["-----begin"], expression: "-----BEGIN [A-Z ]+-----", ..form() },
        Form { words: &["eyj"], entropy: 3.0, group: true, expression: concat!(r"(?-u:\b)(ey[[:alnum:]]{17,}\.ey[[:alnum:]/_-]{17,}\.(?:[[:alnum:]/_-]{10,}={0,2})?)", ends!()), ..form() },
        Form { words: &["a3t", "akia", "asia", "abia", "acca"], entropy: 3.0, group: true, examples: true, expression: r"(?-u:\b)((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?-u:\b)", ..form() },
        Form { words: &["ghp_", "gho_", "ghu_", "ghs_"], expression: "gh[pous]_[[:alnum:]]{36}", ..form() },
        Form { words: &["github_pat_"], expression: "github_pat_[[:word:]]{82}", ..form() },
        Form { words: &["glpat-"], entropy: 3.0, expression: "glpat-[[:word:]-]{20}", ..form() },
        Form { words: &["aiza"], entropy: 4.0, group: true, expression: concat!(r"(?-u:\b)(AIza[[:word:]-]{35})", ends!()), ..form() },
        Form { words: &["t3blbkfj", "sk-proj", "sk-svcacct", "sk-admin"], expression: concat!(r"(?-u:\b)(?:sk-(?:proj|svcacct|admin)-(?:[[:word:]-]{74}|[[:word:]-]{58}|[[:word:]-]{20})T3BlbkFJ(?:[[:word:]-]{74}|[[:word:]-]{58}|[[:word:]-]{20})|sk-[[:alnum:]]{20}T3BlbkFJ[[:alnum:]]{20})", ends!()), ..form() },
        Form { words: &["mongodb://", "mongodb+srv://"], entropy: 4.0, group: true, in_url: true, expression: concat!(r"(?-u:\b)(mongodb(?:\+srv)?://[!-9;-~]{3,50}:[!-?A-~]{3,88}@(?:[[:alnum:]][[:word:].-]+|(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?::[0-9]{1,5})?(?:,(?:[[:alnum:]][[:word:].-]+|(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?::[0-9]{1,5})?)*/?(?:[[:word:]-]+)?(?:\?[[:word:]]+=[[:word:]@/.$-]+(?:&(?:amp;)?[[:word:]]+=[[:word:]@/.$-]+)*)?)", ends!()), ..form() },
        Form { words: &["postgres://", "postgresql://", "mysql://", "redis://", "amqp://"], in_url: true, expression: r"(?i)(?-u:\b)(?:postgres(?:ql)?|mysql|redis|amqp)://[^\t\n\f\r /:@]{1,64}:[^\t\n\f\r @]{1,256}@", ..form() },
        Form { words: &["xoxb"], entropy: 3.0, expression: "xoxb-[0-9]{10,13}-[0-9]{10,13}[[:alnum:]-]*", ..form() },
        Form { words: &["xapp"], entropy: 2.0, expression: "(?i)xapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-z0-9]+", ..form() },
        Form { words: &["sk_test", "sk_live", "sk_prod", "rk_test", "rk_live", "rk_prod"], entropy: 2.0, group: true, expression: concat!(r"(?-u:\b)([sr]k_(?:test|live|prod)_[[:alnum:]]{10,99})", ends!()), ..form() },
        Form { words: &["q~"], group: true, expression: r#"(?:^|[\\'"`\t\n\f\r >=:(,)])([[:word:]~.]{3}[0-9]Q~[[:word:]~.-]{31,34})(?:$|[\\'"`\t\n\f\r <),])"#, ..form() },
        Form { words: &["bearer"], expression: r"(?i)(?:(?-u:\b)|Authorization:[\t\n\f\r ]*)Bearer[\t\n\f\r ]+[A-Z0-9._~+/=-]{10,}", ..form() },
        Form { words: &["basic"], expression: r"(?i)(?-u:\b)Basic[\t\n\f\r ]+[A-Z0-9+/=]{8,}", ..form() },
    ]
}

/// Whether the path of a field or the name of a setter in its pattern speaks of a secret.
pub(super) fn is_sensitive(path: &str, pattern: &str) -> bool {
    let speaks = |text: &str| {
        let text = text.to_lowercase();
        WORDS.iter().any(|word| text.contains(word))
    };
    speaks(path) || setters::references(pattern).into_iter().any(speaks)
}

/// The value as a result shows it.
pub(super) fn shown(value: &str, sensitive: bool) -> String {
    if sensitive || is_secret(value) {
        return REDACTED.to_owned();
    }
    match value.char_indices().nth(MAX_CHARACTERS) {
        None => value.to_owned(),
        Some((end, _)) => {
            format!("{}... (truncated {} chars)", &value[..end], value[end..].chars().count())
        }
    }
}

fn is_secret(value: &str) -> bool {
    if value.is_empty() || is_only_setters(value) {
        return false;
    }
    let lower = value.to_lowercase();
    let is_form = |form: &Form| {
        form.words.iter().any(|word| lower.contains(word))
            && form.regex().is_some_and(|regex| {
                regex.captures_iter(value).any(|captures| {
                    let group = captures.get(usize::from(form.group)).or(captures.get(0));
                    group.zip(captures.get(0)).is_some_and(|(secret, all)| form.accepts(secret, all, value))
                })
            })
    };
    FORMS.iter().any(is_form) || is_long_base64(value)
}

impl Form {
    /// The expression, compiled when first needed; a test sees to it that all of them compile.
    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.expression).ok()).as_ref()
    }

    fn accepts(&self, secret: Match<'_>, whole: Match<'_>, value: &str) -> bool {
        let text = secret.as_str();
        let upper = text.to_uppercase();
        !(text.is_empty()
            || self.entropy > 0.0 && entropy(text) < self.entropy
            || is_template(text)
            || PLACEHOLDERS.iter().any(|word| upper.contains(word))
            || self.examples && upper.ends_with("EXAMPLE")
            || is_uuid(text)
            || is_hash(text)
            || !self.in_url && (is_url(text) || touches_path(whole, value)))
    }
}

/// `{{x}}`, `${x}`, `%{x}` or `<x>`, and nothing beside it.
fn is_template(text: &str) -> bool {
    let text = text.trim();
    [("{{", "}}", "{}"), ("${", "}", "{}"), ("%{", "}", "{}"), ("<", ">", "<>")].iter().any(
        |(open, close, not)| {
            text.strip_prefix(open)
                .and_then(|text| text.strip_suffix(close))
                .is_some_and(|inner| !inner.is_empty() && !inner.contains(|c| not.contains(c)))
        },
    )
}

/// References to setters, with no letter and no digit beside them.
fn is_only_setters(value: &str) -> bool {
    let value = value.trim();
    /// Taking out more of them one by one would take too long.
    const MANY: usize = 64;
    let (literals, references) = setters::pieces(value);
    let mut rest = value.to_owned();
    if references.len() > MANY {
        rest = literals.concat();
    } else {
        for reference in &references {
            rest = rest.replace(reference, "");
        }
    }
    is_template(value) || !references.is_empty() && !rest.contains(char::is_alphanumeric)
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 32 | 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Something with a scheme, or a host name with a port.
fn is_url(text: &str) -> bool {
    static HOST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[[:alnum:]][[:alnum:].-]*\.[[:alnum:]-]+:").expect("is an expression")
    });
    text.contains("://") || HOST.is_match(text)
}

/// Whether a match inside a value is or adjoins a part of a path or address.
fn touches_path(found: Match<'_>, value: &str) -> bool {
    let adjoins = |byte: Option<&u8>| byte.is_some_and(|byte| br"/\:.@?=".contains(byte));
    found.start() > 0
        && (found.as_str().contains(['/', '\\', ':'])
            || adjoins(value.as_bytes().get(found.start() - 1))
            || adjoins(value.as_bytes().get(found.end())))
}

/// Shannon's entropy in bits per byte.
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        counts[usize::from(byte)] += 1;
    }
    let length = text.len() as f64;
    let share = |count: u32| f64::from(count) / length;
    counts.into_iter().filter(|count| *count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

/// At least 40 bytes of letters, digits, `+`, `/` and `=`, of two of these kinds or more.
fn is_long_base64(value: &str) -> bool {
    let (mut upper, mut lower, mut digit, mut symbol) = (false, false, false, false);
    let mut count = 0_usize;
    for character in value.chars() {
        match character {
            '+' | '/' | '=' => symbol = true,
            c if c.is_uppercase() => upper = true,
            c if c.is_lowercase() => lower = true,
            c if c.is_numeric() => digit = true,
            _ => return false,
        }
        count += 1;
    }
    let kinds = [upper, lower, digit, symbol].into_iter().filter(|seen| *seen).count();
    value.len() >= 40 && count as f64 / value.len() as f64 >= 0.9 && kinds >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_compiles() {
        for form in forms() {
            assert!(form.regex().is_some(), "{}", form.expression);
        }
    }

    #[test]
    fn a_name_or_a_path_makes_a_value_secret() {
        assert!(is_sensitive("spec.dbPassword", "${x}"));
        assert!(is_sensitive("spec.x", "a-${API_KEY}"));
        assert!(!is_sensitive("spec.image", "token-${tag}"));
    }

    #[test]
    fn credentials_are_not_shown() {
        let github = format!("ghp_{}", "aZ3".repeat(12));
        let base64 = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU2Nzg5";
        for value in
            ["-----BEGIN RSA PRIVATE KEY-----", "redis://u:p@h", "Bearer abcdefghij", &github, base64]
        {
            assert_eq!(shown(value, false), REDACTED, "{value}");
        }
        for value in ["nginx:1.7", "AKIAIOSFODNN7EXAMPLE", "", "${password}", "sha256:abc"] {
            assert_eq!(shown(value, false), value);
        }
    }

    #[test]
    fn a_long_value_is_cut_by_characters() {
        let value = "é ".repeat(100);
        assert_eq!(shown(&value, false), format!("{}... (truncated 72 chars)", "é ".repeat(64)));
    }
}
