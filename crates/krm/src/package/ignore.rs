//! `.krmignore`: which files and folders of a package a reader leaves alone.
//!
//! A subset of gitignore with its own rules: a pattern is compared with as many of a path's last parts as it
//! has itself, or with the whole path if it starts with a slash; one behind `!` always wins, whatever the order;
//! `**` has no meaning of its own.

use super::glob::Glob;

/// The patterns of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Ignore {
    ignored: Vec<Pattern>,
    accepted: Vec<Pattern>,
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

    /// Whether a path relative to the file's folder is to be left alone.
    pub(super) fn matches(&self, path: &str, is_folder: bool) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path, is_folder));
        !any(&self.accepted) && any(&self.ignored)
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

    fn matches(&self, path: &str, is_folder: bool) -> bool {
        if self.folders_only && !is_folder {
            return false;
        }
        let Some(part) = last_parts(path, self.depth) else { return false };
        if self.anchored && part.len() != path.len() {
            return false;
        }
        match &self.matcher {
            Matcher::Text(text) => text == part,
            Matcher::Glob(glob) => glob.matches(part),
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
            assert_eq!(Ignore::parse(text).matches(path, *is_folder), *expected, "{text:?} on {path}");
        }
    }
}
