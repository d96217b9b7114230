//! `.krmignore`: which files and folders of a package a reader leaves alone.
//!
//! A subset of gitignore with its own rules: a pattern is compared with as many of a path's last parts as it
//! has itself, or with the whole path if it starts with a slash; one behind `!` always wins, whatever the order;
//! `**` has no meaning of its own.

use super::glob::Glob;

/// The largest `.krmignore`.
pub(super) const IGNORE_FILE_BYTES: u64 = 1 << 20;

/// How many characters may be compared in all, so that patterns with many stars and long names end in an error. It is a
/// matter of seconds; ten thousand files and a hundred patterns take a hundredth of it.
const WORK: u64 = 500_000_000;

/// The patterns of one file.
#[derive(Clone, Debug)]
pub(super) struct Ignore {
    ignored: Vec<Pattern>,
    accepted: Vec<Pattern>,
    /// How much of [`WORK`] is left.
    work: u64,
}

impl Default for Ignore {
    fn default() -> Self {
        Self { ignored: Vec::new(), accepted: Vec::new(), work: WORK }
    }
}

#[derive(Clone, Debug)]
struct Pattern {
    /// It starts with a slash and so stands for the whole path.
    anchored: bool,
    /// It ends with a slash and so stands for folders only.
    folders_only: bool,
    /// How many parts it has.
    depth: usize,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    Text(String),
    Glob(Glob),
}

impl Ignore {
    /// Reads the lines of a file. Malformed patterns match nothing.
    pub(super) fn parse(text: &str) -> Self {
        let mut ignore = Self::default();
        for line in text.split('\n') {
            let line = line.strip_suffix('\r').unwrap_or(line).trim_matches(' ');
            if line.starts_with('#') {
                continue;
            }
            let line = if line.starts_with("\\#") { &line[1..] } else { line };
            match line.strip_prefix('!') {
                Some(pattern) => ignore.accepted.extend(Pattern::parse(pattern)),
                None => ignore.ignored.extend(Pattern::parse(line)),
            }
        }
        ignore
    }

    /// Whether a path relative to the file's folder is to be left alone; `None` once that took too much work.
    pub(super) fn matches(&mut self, path: &str, is_folder: bool) -> Option<bool> {
        let Self { ignored, accepted, work } = self;
        let mut any = |patterns: &[Pattern]| {
            for pattern in patterns {
                if pattern.matches(path, is_folder, work)? {
                    return Some(true);
                }
            }
            Some(false)
        };
        Some(!any(accepted)? && any(ignored)?)
    }
}

impl Pattern {
    fn parse(pattern: &str) -> Option<Self> {
        let body = pattern.trim_matches('/');
        if body.is_empty() {
            return None;
        }
        let matcher = if body.contains(['*', '?', '[']) {
            Matcher::Glob(Glob::parse(body)?)
        } else {
            Matcher::Text(body.to_owned())
        };
        Some(Self {
            anchored: pattern.starts_with('/'),
            folders_only: pattern.ends_with('/'),
            depth: body.matches('/').count() + 1,
            matcher,
        })
    }

    fn matches(&self, path: &str, is_folder: bool, work: &mut u64) -> Option<bool> {
        *work = work.checked_sub(1 + path.len() as u64)?;
        if self.folders_only && !is_folder {
            return Some(false);
        }
        let Some(part) = last_parts(path, self.depth) else { return Some(false) };
        if self.anchored && part.len() != path.len() {
            return Some(false);
        }
        match &self.matcher {
            Matcher::Text(text) => Some(text == part),
            Matcher::Glob(glob) => glob.matches(part, work),
        }
    }
}

/// The last `count` parts of a path; `None` if it has fewer.
fn last_parts(path: &str, count: usize) -> Option<&str> {
    let mut slashes = path.rmatch_indices('/');
    match slashes.nth(count - 1) {
        Some((at, _)) => Some(&path[at + 1..]),
        None => (path.matches('/').count() + 1 == count).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_follow_the_library_of_kyaml() {
        let cases: &[(&str, &str, bool, bool)] = &[
            ("a.txt", "a.txt", false, true),
            ("*.txt", "dir/a.txt", false, true),
            ("dir/a.txt", "x/dir/a.txt", false, true),
            ("dir/a.txt", "a.txt", false, false),
            ("dir/*.txt", "dir/a.txt", false, true),
            ("dir", "dir", true, true),
            ("dir", "x/dir", true, true),
            ("dir/", "dir", true, true),
            ("dir/", "dir", false, false),
            ("d1/d2/", "x/d1/d2", true, true),
            ("/a.txt", "a.txt", false, true),
            ("/a.txt", "dir/a.txt", false, false),
            ("/dir/a.txt", "dir/a.txt", false, true),
            ("/dir/a.txt", "x/dir/a.txt", false, false),
            ("/dir", "dir/a.txt", false, false),
            ("dir", "dir/a.txt", false, false),
            ("*.txt\n!b.txt", "dir/b.txt", false, false),
            ("!b.txt\n*.txt", "dir/b.txt", false, false),
            ("dir/*.txt\n!/b.txt", "dir/b.txt", false, true),
            ("\\#a.txt", "#a.txt", false, true),
            ("#a.txt", "#a.txt", false, false),
            ("  a.txt  ", "a.txt", false, true),
            ("a.txt\r", "a.txt", false, true),
            ("\ta.txt", "a.txt", false, false),
            ("**/a.txt", "x/a.txt", false, true),
            ("**/a.txt", "x/y/a.txt", false, true),
            ("**/a.txt", "a.txt", false, false),
            ("x/**/a.txt", "x/y/a.txt", false, true),
            ("x/**/a.txt", "x/a.txt", false, false),
            ("[ab].txt", "b.txt", false, true),
            ("[.txt", "[.txt", false, false),
            ("/\n!\n\n", "a", false, false),
            ("a//b", "a/b", false, false),
            (".expected", ".expected", true, true),
        ];
        for (text, path, is_folder, expected) in cases {
            let matched = Ignore::parse(text).matches(path, *is_folder);
            assert_eq!(matched, Some(*expected), "{text:?} on {path}");
        }
    }

    #[test]
    fn patterns_that_take_too_long_end_in_none() {
        let stars = "*a".repeat(2000);
        let mut ignore = Ignore::parse(&format!("{stars}b\n").repeat(200));
        ignore.work = 3_000_000;
        let path = "a".repeat(1000);
        assert_eq!(ignore.matches("b", false), Some(false));
        let calls = (1..100).find(|_| ignore.matches(&path, false).is_none());
        assert!(calls.is_some(), "{} left", ignore.work);
    }
}
