//! The file: rules, each for some callers.

use std::collections::HashSet;
use std::sync::Arc;

use loggia_function::policy::{Grant, InvalidPattern, Pattern};
use loggia_go::quote;
use loggia_grpc::Caller;
use serde::Deserialize;

/// The most bytes that a file may have.
pub(crate) const LONGEST_FILE: u64 = 1 << 20;

/// Whoever calls, with or without a certificate.
const ANYONE: &str = "anyone";

/// Rules in the order of the file. The first that names a caller counts for it, and no other.
#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

/// What some callers may do.
#[derive(Debug)]
pub(crate) struct Rule {
    callers: Vec<CallerPattern>,
    pub(crate) grant: Arc<Grant>,
    pub(crate) limits: Limits,
    pub(crate) package_service: bool,
}

/// What bounds the callers of a rule together. None stands for no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) calls: Option<usize>,
    pub(crate) bytes: Option<usize>,
}

/// Whom an entry of `callers` means.
#[derive(Debug, PartialEq, Eq)]
enum CallerPattern {
    Anyone,
    /// This name, as a certificate has it.
    Name(String),
    /// Every name that begins so.
    Below(String),
}

/// What is wrong with a file. Displayed as what comes after its name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Yaml(#[from] loggia_yaml::Error),
    #[error(
        "the file contains no rules, so every call would be denied; add a rule, or remove --access-config"
    )]
    Empty,
    #[error("rule {at} has no `name`; messages and metrics need one")]
    Nameless { at: usize },
    #[error("two rules have the name {}", quote(.0))]
    Twice(String),
    #[error("rule {}: `callers` is empty, so the rule never applies; list callers, or write {ANYONE}", quote(.0))]
    NoCallers(String),
    #[error(
        "rule {}: {} is not a caller; write {ANYONE}, dns:NAME, or the URI of a certificate such as \
         spiffe://DOMAIN/PATH, with * at the end for all that begin so", quote(.rule), quote(.caller)
    )]
    Caller { rule: String, caller: String },
    #[error("rule {}: {source}", quote(.rule))]
    Image { rule: String, source: InvalidPattern },
    #[error("rule {}: `{key}` is 0, so its callers could do nothing; leave it out for no limit", quote(.rule))]
    Zero { rule: String, key: &'static str },
    #[error("rule {}: `maxBytes`: {} is not a number of bytes, such as 64Mi", quote(.rule), quote(.text))]
    Bytes { rule: String, text: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    callers: Vec<String>,
    /// None for all.
    images: Option<Vec<String>>,
    #[serde(default)]
    denied_images: Vec<String>,
    max_concurrent_calls: Option<u32>,
    max_bytes: Option<String>,
    package_service: Option<bool>,
}

// === impl Rules ===

impl Rules {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let File { rules } = loggia_yaml::from_str(text)?;
        if rules.is_empty() {
            return Err(Problem::Empty);
        }
        let mut names = HashSet::new();
        let rules = rules.into_iter().enumerate().map(|(at, entry)| {
            let rule = Rule::new(at + 1, entry)?;
            match names.insert(Arc::clone(&rule.grant.rule)) {
                true => Ok(rule),
                false => Err(Problem::Twice(rule.grant.rule.to_string())),
            }
        });
        Ok(Self(rules.collect::<Result<_, _>>()?))
    }

    /// The position of the rule that counts for a caller, and the rule.
    pub(crate) fn of(&self, caller: &Caller) -> Option<(usize, &Rule)> {
        self.0.iter().enumerate().find(|(_, rule)| rule.callers.iter().any(|entry| entry.means(caller)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }
}

// === impl Rule ===

impl Rule {
    fn new(at: usize, entry: Entry) -> Result<Self, Problem> {
        let Entry { name, callers, images, denied_images, max_concurrent_calls, max_bytes, package_service } =
            entry;
        let rule = || name.clone();
        if name.is_empty() {
            return Err(Problem::Nameless { at });
        }
        if callers.is_empty() {
            return Err(Problem::NoCallers(name));
        }
        let callers = callers.into_iter().map(|caller| {
            CallerPattern::parse(&caller).ok_or_else(|| Problem::Caller { rule: rule(), caller })
        });
        let callers = callers.collect::<Result<_, _>>()?;
        let patterns = |list: Vec<String>| -> Result<Vec<Pattern>, Problem> {
            let parsed = list.iter().map(|text| text.parse());
            parsed.collect::<Result<_, _>>().map_err(|source| Problem::Image { rule: rule(), source })
        };
        let grant = Grant {
            rule: name.as_str().into(),
            allowed: images.map(patterns).transpose()?,
            denied: patterns(denied_images)?,
        };
        let bytes = max_bytes.map(|text| match loggia_go::quantity::bytes(&text).map(usize::try_from) {
            Some(Ok(0)) => Err(Problem::Zero { rule: rule(), key: "maxBytes" }),
            Some(Ok(bytes)) => Ok(bytes),
            _ => Err(Problem::Bytes { rule: rule(), text }),
        });
        let calls = max_concurrent_calls.map(|calls| match calls {
            0 => Err(Problem::Zero { rule: rule(), key: "maxConcurrentCalls" }),
            calls => Ok(calls as usize),
        });
        let limits = Limits { calls: calls.transpose()?, bytes: bytes.transpose()? };
        Ok(Self { callers, grant: Arc::new(grant), limits, package_service: package_service.unwrap_or(true) })
    }
}

impl Rule {
    /// Whether it names a caller by its certificate.
    pub(crate) fn names_certificates(&self) -> bool {
        self.callers.iter().any(|caller| *caller != CallerPattern::Anyone)
    }
}

// === impl CallerPattern ===

impl CallerPattern {
    fn parse(text: &str) -> Option<Self> {
        if text == ANYONE {
            return Some(Self::Anyone);
        }
        let name = text.strip_suffix('*').unwrap_or(text);
        // A star elsewhere would look like a pattern and match nothing.
        let sound = !name.contains(|c: char| c == '*' || c.is_whitespace() || c.is_control());
        let known = match name.strip_prefix("dns:") {
            // `*` may stand for the beginning of a host, as in a certificate, so it cannot stand for its end.
            Some(host) => !host.is_empty() && name.len() == text.len(),
            None => name.contains("://") && !name.ends_with("://"),
        };
        match (sound && known, name.len() == text.len()) {
            (false, _) => None,
            (true, true) => Some(Self::Name(name.to_owned())),
            (true, false) => Some(Self::Below(name.to_owned())),
        }
    }

    fn means(&self, caller: &Caller) -> bool {
        match self {
            Self::Anyone => true,
            Self::Name(name) => caller.names().iter().any(|known| known == name),
            Self::Below(start) => caller.names().iter().any(|known| known.starts_with(start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
rules:
- name: porch
  callers: [spiffe://cluster.local/ns/porch-system/sa/porch-server, dns:porch.example.com]
  maxConcurrentCalls: 64
  maxBytes: 64Mi
- name: ci
  callers: [spiffe://cluster.local/ns/ci/*]
  images: [ghcr.io/kptdev/*]
  deniedImages: [ghcr.io/kptdev/krm-functions-catalog/starlark]
  packageService: false
- name: rest
  callers: [anyone]
  images: []
";

    fn rule_of(rules: &Rules, names: &[&str]) -> String {
        let caller = Caller::named(names.iter().copied());
        rules.of(&caller).map(|(_, rule)| rule.grant.rule.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_first_rule_that_names_a_caller_counts() {
        let rules = Rules::parse(FILE).unwrap();
        assert_eq!(rule_of(&rules, &["dns:porch.example.com"]), "porch");
        assert_eq!(
            rule_of(&rules, &["dns:x", "spiffe://cluster.local/ns/porch-system/sa/porch-server"]),
            "porch"
        );
        assert_eq!(rule_of(&rules, &["spiffe://cluster.local/ns/ci/sa/default"]), "ci");
        assert_eq!(rule_of(&rules, &["spiffe://cluster.local/ns/cicd/sa/default"]), "rest");
        assert_eq!(rule_of(&rules, &["spiffe://cluster.local/ns/porch-system/sa/porch-server2"]), "rest");
        assert_eq!(rule_of(&rules, &[]), "rest");
        let (_, porch) = rules.of(&Caller::named(["dns:porch.example.com"])).unwrap();
        assert_eq!(porch.limits, Limits { calls: Some(64), bytes: Some(64 << 20) });
        assert!(porch.package_service);
    }

    #[test]
    fn who_is_in_no_rule_has_none() {
        let rules = Rules::parse("rules: [{name: a, callers: ['dns:a']}]").unwrap();
        assert_eq!(rule_of(&rules, &[]), "");
        assert_eq!(rule_of(&rules, &["dns:A", "dns:a.b"]), "");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let refused = |text: &str| Rules::parse(text).unwrap_err().to_string();
        assert!(refused("").starts_with("the file contains no rules"));
        assert!(refused("rules: [{callers: [anyone]}]").starts_with("rule 1 has no `name`"));
        assert!(refused("rules: [{name: a}]").starts_with("rule \"a\": `callers` is empty"));
        for caller in
            ["everyone", "", "*", "dns:", "dns:*", "dns:a*", "spiffe://", "spiffe://*", "spiffe://a/*/b"]
        {
            let error = refused(&format!("rules: [{{name: a, callers: ['{caller}']}}]"));
            assert!(error.contains("is not a caller"), "{caller}: {error}");
        }
        let twice = "rules: [{name: a, callers: [anyone]}, {name: a, callers: [anyone]}]";
        assert_eq!(refused(twice), "two rules have the name \"a\"");
        assert!(refused("rules: [{name: a, callers: [anyone], image: []}]").contains("image"));
        assert!(refused("rules: [{name: a, callers: [anyone], maxBytes: 1Zi}]").contains("maxBytes"));
        assert!(refused("rules: [{name: a, callers: [anyone], maxBytes: 0}]").contains("is 0"));
        assert!(refused("rules: [{name: a, callers: [anyone], maxConcurrentCalls: 0}]").contains("is 0"));
        assert!(refused("rules: [{name: a, callers: [anyone], images: ['']}]").starts_with("rule \"a\": "));
    }
}
