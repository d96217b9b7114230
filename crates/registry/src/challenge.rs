//! Which authorization a registry asks for: the header `WWW-Authenticate`.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The longest realm or service that is taken.
const MAX_PARAMETER: usize = 2048;

/// The authorization that a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A name and a password.
    Basic,
    /// A token, which `realm` hands out.
    Bearer { realm: String, service: Option<String> },
}

// === impl Challenge ===

impl Challenge {
    /// The challenge to answer: a token if one is offered, else a password.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let offered: Vec<_> = values.flat_map(parse).collect();
        let token = offered.iter().position(|challenge| matches!(challenge, Self::Bearer { .. }));
        offered.into_iter().nth(token.unwrap_or(0))
    }
}

/// Reads `Scheme name="value", name=value, Scheme …`, and skips unknown schemes and parameters.
fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    let mut scheme = String::new();
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut finish = |scheme: &str, parameters: &mut Vec<(String, String)>| {
        let mut take = |name: &str| {
            let index = parameters.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
            index.map(|index| parameters.swap_remove(index).1)
        };
        if scheme.eq_ignore_ascii_case("basic") {
            challenges.push(Challenge::Basic);
        } else if scheme.eq_ignore_ascii_case("bearer")
            && let Some(realm) = take("realm").filter(|realm| realm.len() <= MAX_PARAMETER)
        {
            let service = take("service").filter(|service| service.len() <= MAX_PARAMETER);
            challenges.push(Challenge::Bearer { realm, service });
        }
        parameters.clear();
    };
    let mut rest = header.trim_start();
    while !rest.is_empty() {
        let end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(value) = after.trim_start().strip_prefix('=') {
            let (value, after) = take_value(value.trim_start());
            parameters.push((word.to_owned(), value));
            rest = after;
        } else {
            finish(&scheme, &mut parameters);
            scheme = word.to_owned();
            rest = after;
        }
        rest = rest.trim_start_matches([' ', ',', '\t']);
    }
    finish(&scheme, &mut parameters);
    challenges
}

/// A value with or without quotes, and the rest of the text.
fn take_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[index + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[&str]) -> Option<Challenge> {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|header| {
            map.append(WWW_AUTHENTICATE, header.parse().unwrap());
        });
        Challenge::of(&map)
    }

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
    }

    #[test]
    fn every_spelling_of_a_challenge_is_read() {
        assert_eq!(read(&["Basic realm=\"r\""]), Some(Challenge::Basic));
        assert_eq!(read(&["basic"]), Some(Challenge::Basic));
        let full = r#"Bearer realm="https://a.io/token",service="r.io",scope="repository:x:pull""#;
        assert_eq!(read(&[full]), bearer("https://a.io/token", Some("r.io")));
        assert_eq!(read(&["bearer scope=x , realm=https://a.io/t"]), bearer("https://a.io/t", None));
        assert_eq!(read(&[r#"Bearer realm="a\"b, c",error="x""#]), bearer("a\"b, c", None));
        assert_eq!(read(&["Basic realm=\"x\", Bearer realm=\"y\""]), bearer("y", None));
        assert_eq!(read(&["Negotiate", "Basic realm=\"x\""]), Some(Challenge::Basic));
    }

    #[test]
    fn other_headers_are_not_a_challenge() {
        for nonsense in ["", "Negotiate abc==", "Bearer", "Bearer realm", "Bearer service=\"x", ",,,="] {
            assert_eq!(read(&[nonsense]), None, "{nonsense}");
        }
        assert_eq!(read(&[]), None);
    }
}
