//! The `depends-on` annotation: one reference to another object, in kpt's notation.

/// The annotation.
pub(crate) const DEPENDS_ON: &str = "config.kubernetes.io/depends-on";

/// `GROUP/namespaces/NAMESPACE/KIND/NAME` or `GROUP/KIND/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'a> {
    pub group: &'a str,
    pub namespace: Option<&'a str>,
    pub kind: &'a str,
    pub name: &'a str,
}

impl<'a> Reference<'a> {
    /// Reads a single reference; lists of them are none.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let segments: Vec<&str> = text.split('/').collect();
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if !segments.iter().all(|segment| segment.chars().all(word)) {
            return None;
        }
        match segments[..] {
            [group, "namespaces", namespace, kind, name] => {
                Some(Self { group, namespace: Some(namespace), kind, name })
            }
            [group, kind, name] => Some(Self { group, namespace: None, kind, name }),
            _ => None,
        }
    }
}

impl std::fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { group, namespace, kind, name } = self;
        match namespace {
            Some(namespace) => write!(f, "{group}/namespaces/{namespace}/{kind}/{name}"),
            None => write!(f, "{group}/{kind}/{name}"),
        }
    }
}
