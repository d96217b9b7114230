//! Why a command failed, and how that is told.

use loggia_render::{Cause, RenderError};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Everything there is to say was said.
    Told,
    /// Something about the call itself.
    Plain(String),
    /// A package could not be rendered.
    Render(RenderError),
    /// A signal ended the command: the code to exit with, and what to say.
    Interrupted(u8, &'static str),
    /// A registry does not say what an image is.
    Image(loggia_registry::Error),
}

impl Failure {
    /// The code that the command exits with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(code, _) => *code,
            _ => 1,
        }
    }

    /// The text for people, as kpt words it, with its line end.
    pub(crate) fn text(&self, whole_chain: bool) -> String {
        let (mark, rest) = self.parts(whole_chain);
        format!("{mark}{rest}")
    }

    /// The same as the mark that it begins with, if it has one, and the rest.
    pub(crate) fn parts(&self, whole_chain: bool) -> (&'static str, String) {
        match self {
            Self::Told => ("", String::new()),
            Self::Plain(text) => ("error:", format!(" {text}\n")),
            Self::Interrupted(_, text) => ("error:", format!(" {text}\n")),
            Self::Image(error) => ("Error:", format!(" {error}\n")),
            Self::Render(error) if whole_chain => ("Error:", format!(" {error} \n")),
            Self::Render(error) => match &error.cause {
                Cause::FunctionFailed => ("", String::new()),
                cause @ Cause::Invalid(_) => ("", format!("{cause} \n")),
                cause => ("Error:", format!(" {cause} \n")),
            },
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Plain(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

impl From<RenderError> for Failure {
    fn from(error: RenderError) -> Self {
        Self::Render(error)
    }
}
