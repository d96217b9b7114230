//! The text of an error with its causes.

use std::error::Error;

/// An error and everything it came from, outermost first, joined by `: ` as `%w` wrapping reads in Go.
///
/// It relies on errors that do not repeat the text of their [`source`](Error::source).
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    #[test]
    fn every_cause_is_printed_in_order() {
        let innermost = Layer("no", None);
        assert_eq!(chain(&innermost), "no");
        let inner = Layer("no connection", Some(Box::new(innermost)));
        assert_eq!(chain(&Layer("r.io", Some(Box::new(inner)))), "r.io: no connection: no");
    }
}
