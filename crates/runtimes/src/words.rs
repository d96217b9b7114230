//! A command line cut into words, as a POSIX shell would, but with nothing expanded.

/// Quotes that do not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuoting {
    /// The text ends inside quotes.
    #[error("EOF found when expecting closing quote")]
    OpenQuote,
    /// The text ends behind a backslash.
    #[error("EOF found after escape character")]
    OpenEscape,
}

/// Cuts a command line into words. Quotes and backslashes are taken away; `#` at the start of a word begins a
/// comment.
///
/// # Errors
/// If quotes or an escape do not end.
pub fn split_words(text: &str) -> Result<Vec<String>, BadQuoting> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' if word.is_none() => {
                rest.by_ref().find(|&character| character == '\n');
            }
            '\\' => word.get_or_insert_default().push(rest.next().ok_or(BadQuoting::OpenEscape)?),
            '\'' => single_quoted(&mut rest, word.get_or_insert_default())?,
            '"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), BadQuoting> {
    for character in rest {
        match character {
            '\'' => return Ok(()),
            other => word.push(other),
        }
    }
    Err(BadQuoting::OpenQuote)
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), BadQuoting> {
    while let Some(character) = rest.next() {
        match character {
            '"' => return Ok(()),
            '\\' => word.push(rest.next().ok_or(BadQuoting::OpenEscape)?),
            other => word.push(other),
        }
    }
    Err(BadQuoting::OpenQuote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_words_together() {
        assert_eq!(split_words("sed -e 's/foo/bar/'").unwrap(), ["sed", "-e", "s/foo/bar/"]);
        assert_eq!(split_words(r#"a "b \" c" d\ e '' #f"#).unwrap(), ["a", "b \" c", "d e", ""]);
        assert_eq!(split_words("a#b  $HOME | c\n# d\ne").unwrap(), ["a#b", "$HOME", "|", "c", "e"]);
        assert_eq!(split_words("  ").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_end_is_an_error() {
        assert_eq!(split_words("a 'b"), Err(BadQuoting::OpenQuote));
        assert_eq!(split_words("a \"b"), Err(BadQuoting::OpenQuote));
        assert_eq!(split_words("a\\"), Err(BadQuoting::OpenEscape));
    }
}
