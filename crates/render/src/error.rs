//! Why a render failed: the operations it was in, from the outside in, and the cause.
//!
//! People see the cause ([`RenderError::cause`]). The Kptfile's condition and Porch's clients see the whole
//! chain, in kpt's words.

use std::fmt;

use loggia_krm::kptfile::{KptfileError, ValidateError};

/// Why a render failed.
#[derive(Clone, Debug, thiserror::Error)]
pub struct RenderError {
    /// The outermost first.
    frames: Vec<Frame>,
    /// What happened.
    pub cause: Cause,
    /// The package's absolute path, for the whole chain.
    root: String,
}

/// What happened at the bottom of it.
#[derive(Clone, Debug)]
pub enum Cause {
    /// A Kptfile cannot be used.
    Kptfile(KptfileError),
    /// Fields of a Kptfile are wrong.
    Invalid(Vec<ValidateError>),
    /// A function said that it failed, and that was shown already.
    FunctionFailed,
    /// Anything else, in a sentence.
    Other(String),
}

#[derive(Clone, Debug, Default)]
struct Frame {
    operation: &'static str,
    path: String,
}

// === impl RenderError ===

impl RenderError {
    pub(crate) fn new(cause: Cause) -> Self {
        Self { frames: Vec::new(), cause, root: String::new() }
    }

    pub(crate) fn other(text: impl fmt::Display) -> Self {
        Self::new(Cause::Other(shortened(text.to_string())))
    }

    /// Says what was being done when it happened; what the layer below says too is not said twice.
    pub(crate) fn during(mut self, operation: &'static str, path: &str) -> Self {
        if let Some(inner) = self.frames.first_mut() {
            if inner.operation == operation {
                inner.operation = "";
            }
            if inner.path == path {
                inner.path.clear();
            }
        }
        self.frames.insert(0, Frame { operation, path: path.to_owned() });
        self
    }

    pub(crate) fn in_package(mut self, root: &str) -> Self {
        root.clone_into(&mut self.root);
        self
    }

    fn chain(&self, show: &dyn Fn(&str) -> String) -> String {
        let cause = match &self.cause {
            Cause::Kptfile(error) => {
                let (folder, reason) = kptfile_parts(error);
                let reason = shortened(reason);
                format!("error reading Kptfile at {}: {reason}", loggia_go::quote(&show(folder)))
            }
            cause => cause.to_string(),
        };
        self.frames.iter().rev().enumerate().fold(cause, |inner, (depth, frame)| {
            let path =
                if frame.path.is_empty() { String::new() } else { format!("pkg {}", show(&frame.path)) };
            let parts: Vec<&str> =
                [frame.operation, &path].into_iter().filter(|part| !part.is_empty()).collect();
            let joint = if depth == 0 { ": " } else { ":\n\t" };
            if parts.is_empty() { inner } else { format!("{}{joint}{inner}", parts.join(": ")) }
        })
    }

    /// The chain for the Kptfile's condition, with paths from the root package, so that it does not depend on
    /// where the package lies.
    pub(crate) fn condition_message(&self) -> String {
        let root = self.root.clone();
        let text = self.chain(&|path: &str| relative(&root, path));
        // Other paths of the package that causes mention.
        if root.len() > 1 {
            text.replace(&format!("{root}/"), "./").replace(&format!("\"{root}\""), "\".\"")
        } else {
            text
        }
    }
}

/// The whole chain, as Porch's clients see it.
impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer = self.clone().during("fn.render", &self.root);
        f.write_str(&outer.chain(&str::to_owned))
    }
}

fn relative(root: &str, path: &str) -> String {
    match path.strip_prefix(root.trim_end_matches('/')) {
        Some("" | "/") => ".".to_owned(),
        Some(rest) if rest.starts_with('/') => format!(".{rest}"),
        _ => path.to_owned(),
    }
}

/// The folder, and the reason in the words that kpt has for programs.
fn kptfile_parts(error: &KptfileError) -> (&str, String) {
    match error {
        KptfileError::Missing { folder } => {
            (folder, format!("open {folder}/Kptfile: no such file or directory"))
        }
        KptfileError::Deprecated { folder, version } => {
            (folder, format!("old resource version {version:?} found in Kptfile"))
        }
        KptfileError::UnknownType { folder, group_version, kind } => {
            let kind = format!("{group_version}, Kind={kind}");
            (folder, format!("unknown resource type {kind:?} found in Kptfile"))
        }
        KptfileError::Unreadable { folder, cause } => (folder, cause.clone()),
    }
}

/// Some texts quote what they are about, and that may be a file of megabytes. Its beginning is enough.
pub(crate) fn shortened(mut text: String) -> String {
    const MOST: usize = 16 << 10;
    if text.len() > MOST {
        let left_out = text.len() - MOST;
        text.truncate(text.floor_char_boundary(MOST));
        text.push_str(&format!(" … ({left_out} bytes left out)"));
    }
    text
}

// === impl Cause ===

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kptfile(error) => f.write_str(&shortened(error.to_string())),
            Self::Invalid(errors) => {
                let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&shortened(texts.join("\n")))
            }
            Self::FunctionFailed => f.write_str("already handled error"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_says_nothing_twice() {
        let error = RenderError::new(Cause::FunctionFailed)
            .during("pipeline.run", "/p/sub")
            .during("pkg.render", "/p/sub")
            .during("pkg.render", "/p/sub")
            .in_package("/p");
        assert_eq!(
            error.condition_message(),
            "pkg.render: pkg ./sub:\n\tpipeline.run: already handled error"
        );
        assert_eq!(
            error.to_string(),
            "fn.render: pkg /p:\n\tpkg.render: pkg /p/sub:\n\tpipeline.run: already handled error"
        );
    }

    #[test]
    fn what_a_text_quotes_is_cut() {
        let error = RenderError::other("ü".repeat(1 << 20)).during("pkg.render", "/p").in_package("/p");
        let text = error.to_string();
        assert!(text.len() < 20_000 && text.ends_with("bytes left out)"), "{}", text.len());
    }

    #[test]
    fn a_message_does_not_depend_on_where_the_package_lies() {
        let error = RenderError::other("/p/a.yaml: bad").during("pkg.render", "/p").in_package("/p");
        assert_eq!(error.condition_message(), "pkg.render: pkg .: ./a.yaml: bad");
        let error = RenderError::other("a/b: bad").during("pkg.render", "/").in_package("/");
        assert_eq!(error.condition_message(), "pkg.render: pkg .: a/b: bad");
        assert_eq!(error.to_string(), "fn.render: pkg /:\n\tpkg.render: a/b: bad");
    }
}
