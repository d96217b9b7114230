//! The parts of an image's name, as kustomize takes them apart.

/// Name, tag and digest; what is missing is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    pub name: &'a str,
    pub tag: &'a str,
    pub digest: &'a str,
}

impl<'a> Reference<'a> {
    /// A colon before the first slash belongs to the registry's port.
    pub(super) fn split(text: &'a str) -> Self {
        let start = text.find('/').unwrap_or(0);
        let find = |mark| text.get(start..).and_then(|rest| rest.find(mark)).map(|at| at + start);
        let cut = |text: &'a str, at: usize| text.split_at_checked(at).unwrap_or((text, ""));
        match (find('@'), find(':')) {
            (None, None) => Self { name: text, tag: "", digest: "" },
            (Some(at), colon) if colon.is_none_or(|colon| at < colon) => {
                let (name, digest) = cut(text, at);
                Self { name, tag: "", digest: digest.strip_prefix('@').unwrap_or(digest) }
            }
            (at, colon) => {
                let (name, rest) = cut(text, colon.unwrap_or(start));
                let (tag, digest) = match at {
                    Some(at) => cut(rest, at - name.len()),
                    None => (rest, ""),
                };
                let digest = digest.strip_prefix('@').unwrap_or(digest);
                Self { name, tag: tag.strip_prefix(':').unwrap_or(tag), digest }
            }
        }
    }
}
