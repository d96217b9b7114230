//! Slash paths, handled as text the way Go's `path` package does.

/// The shortest path that means the same: no empty parts, no `.`, no `x/..`; `.` if nothing is left.
#[must_use]
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Joins what is not empty and cleans the result; empty if nothing is there.
#[must_use]
pub fn join(parts: &[&str]) -> String {
    let present: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    if present.is_empty() { String::new() } else { clean(&present.join("/")) }
}

/// The part behind the last slash.
#[must_use]
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The part before the last slash; empty if there is none.
#[must_use]
pub fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A name inside a folder, where the empty folder is the root.
#[must_use]
pub fn inside(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning_follows_go() {
        let cases = [
            ("", "."),
            (".", "."),
            ("./a.yaml", "a.yaml"),
            ("a//b/", "a/b"),
            ("a/../b", "b"),
            ("a/../../b", "../b"),
            ("../..", "../.."),
            ("/../a", "/a"),
            ("/", "/"),
            ("a/..", "."),
            ("a..b.yaml", "a..b.yaml"),
        ];
        for (path, cleaned) in cases {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn joining_skips_what_is_empty() {
        assert_eq!(join(&["", "", "a.yaml"]), "a.yaml");
        assert_eq!(join(&["dir", "ns", "../a.yaml"]), "dir/a.yaml");
        assert_eq!(join(&["", ""]), "");
    }
}
