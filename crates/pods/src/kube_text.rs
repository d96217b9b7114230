//! The text of kube's errors with their causes.

use std::error::Error;

use kube::runtime::watcher;
use loggia_go::chain;

use crate::cluster;

/// An error with everything that it came from, each thing once. kube's own errors end with the text of their source, so
/// the walk goes on below the innermost of them.
pub(crate) fn kube_text(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let mut repeated = error;
    while repeats_its_source(repeated)
        && let Some(source) = repeated.source()
    {
        repeated = source;
    }
    match repeated.source() {
        Some(cause) => format!("{text}: {}", chain(cause)),
        None => text,
    }
}

/// The longest that is quoted of a pod's status, in characters.
const LONGEST: usize = 2000;

/// A text that others wrote, for messages, Events and logs: characters that change how text is shown are escaped, and
/// what is very long is cut.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (number, c) in text.chars().enumerate() {
        if number == LONGEST {
            shown.push('…');
            break;
        }
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push(c),
            _ if c.is_control() => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
                shown.extend(c.escape_unicode());
            }
            _ => shown.push(c),
        }
    }
    shown
}

fn repeats_its_source(error: &(dyn Error + 'static)) -> bool {
    error.is::<kube::Error>() || error.is::<watcher::Error>() || error.is::<cluster::Error>()
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Outer(std::io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("client error (Connect)")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn every_cause_of_kubes_errors_is_printed_once() {
        let kube = || kube::Error::Service(Box::new(Outer(std::io::Error::other("connection refused"))));
        assert_eq!(kube_text(&kube()), "ServiceError: client error (Connect): connection refused");
        let watcher = watcher::Error::WatchStartFailed(kube());
        let text =
            "failed to start watching object: ServiceError: client error (Connect): connection refused";
        assert_eq!(kube_text(&watcher), text);
    }
}
