//! Patterns for paths of fields: `spec.*.image`, `**.containers[*].name`.

/// A pattern, read.
pub(super) struct PathPattern(Vec<Part>);

enum Part {
    /// `**`: any number of parts.
    Many,
    /// `*`: one part, whatever it is.
    One,
    /// Text that a part equals, or an item of a list that is like it.
    Like(String),
}

impl PathPattern {
    pub(super) fn new(pattern: &str) -> Self {
        let part = |text| match text {
            "**" => Part::Many,
            "*" => Part::One,
            text => Part::Like(text.to_owned()),
        };
        Self(pattern.split('.').map(part).collect())
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let path: Vec<&str> = path.strip_prefix('.').unwrap_or(path).split('.').collect();
        // Where in the path the pattern so far may have led: one bit a place.
        let mut places = vec![false; path.len() + 1];
        places[0] = true;
        for part in &self.0 {
            match part {
                Part::Many => {
                    let mut reached = false;
                    for place in &mut places {
                        reached |= *place;
                        *place = reached;
                    }
                }
                Part::One | Part::Like(_) => {
                    for at in (1..places.len()).rev() {
                        places[at] = places[at - 1] && part.is_like(path[at - 1]);
                    }
                    places[0] = false;
                }
            }
        }
        places[path.len()]
    }
}

impl Part {
    fn is_like(&self, element: &str) -> bool {
        let Self::Like(pattern) = self else { return true };
        if element == pattern {
            return true;
        }
        let (mut parts, mut wanted) = (element.split('['), pattern.split('['));
        let (name, wanted_name) = (parts.next(), wanted.next());
        // Of nested lists, only the first index counts.
        match (parts.next(), wanted.next()) {
            (Some(index), Some(wanted_index)) => {
                (wanted_name == Some("*") || name == wanted_name)
                    && (wanted_index == "*]" || index == wanted_index)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_it_is_documented() {
        let cases = [
            ("spec.replicas", "spec.replicas", true),
            ("spec.*", "spec.replicas", true),
            ("spec.*", "spec", false),
            ("**.image", "spec.containers[0].image", true),
            ("**", "a.b.c", true),
            ("a.**.b", "a.b", true),
            ("a.**.b", "a.x.y.b", true),
            ("a.**.b", "a.x.y", false),
            ("a[*].b", "a[3].b", true),
            ("a[1].b", "a[3].b", false),
            ("*[*].b", "a[3].b", true),
            ("*[3].b", "a[3].b", true),
            ("a.b", "a[3].b", false),
            ("*.b", "a[3].b", true),
            ("a[0]", "a[0][1]", true),
            ("a[*]", "a", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(PathPattern::new(pattern).matches(path), expected, "{pattern} on {path}");
        }
    }
}
