//! What to say about an image that is not built in.

use loggia_functions::CATALOG;

/// The nearest built-in functions, or the versions there are, and what else can be done.
pub(crate) fn advice(image: &str) -> Vec<String> {
    let base = image.rsplit('/').next().unwrap_or(image);
    let (name, tag) = base.split_once(['@', ':']).unwrap_or((base, "latest"));
    let mut advice = Vec::new();
    if let Some(function) = CATALOG.iter().find(|function| function.name == name) {
        let tags: Vec<&str> = function.versions.iter().flat_map(|version| version.tags).copied().collect();
        if tags.contains(&tag) {
            advice.push(format!("`{name}:{tag}` is built in, but not this image of it"));
        } else {
            advice.push(format!("`{name}` is built in with the tags {}", tags.join(", ")));
        }
    } else {
        let near = nearest(name);
        if !near.is_empty() {
            advice.push(format!("the nearest built-in functions are {}", near.join(", ")));
        }
    }
    advice.push(
        "`loggia fn list` shows all that are built in; with --runner a function-runner can run any image"
            .to_owned(),
    );
    advice
}

/// Up to three functions whose names are not far off.
fn nearest(name: &str) -> Vec<&'static str> {
    let mut ranked: Vec<(usize, &str)> = CATALOG
        .iter()
        .map(|function| (distance(name, function.name), function.name))
        .filter(|(distance, other)| *distance <= name.len().max(other.len()) / 2)
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().take(3).map(|(_, name)| name).collect()
}

/// How many letters to change, add or remove.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("set-lables", "set-labels"), 2);
        assert_eq!(distance("no-op", "no-op"), 0);
    }

    #[test]
    fn a_slip_of_the_pen_is_met_with_the_right_name() {
        let advice = advice("ghcr.io/kptdev/krm-functions-catalog/noop:latest");
        assert!(advice[0].contains("no-op"), "{advice:?}");
    }

    #[test]
    fn an_unknown_version_is_met_with_the_known_ones() {
        assert!(advice("no-op:v9")[0].contains("latest"));
    }
}
