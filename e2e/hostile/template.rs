//! The text of a hostile input, written shortly.
//!
//! `{%COUNT TEXT%}` is TEXT so many times; with an `x` behind the count, as many as the size of the variation says.
//! TEXT may hold more of these. `@i` in it is the number of the repetition, from 0, of the innermost one.

/// The text that a template means at a size.
///
/// # Errors
/// If the template is not well formed.
pub(crate) fn expand(template: &str, size: f64) -> Result<String, String> {
    let mut parts = Parts { rest: template, size };
    let text = parts.text(false)?;
    Ok(text.into_iter().map(|piece| piece.write(None)).collect())
}

struct Parts<'a> {
    rest: &'a str,
    size: f64,
}

enum Piece {
    Text(String),
    Repeat(usize, Vec<Piece>),
}

impl Parts<'_> {
    fn text(&mut self, inside: bool) -> Result<Vec<Piece>, String> {
        let mut pieces = Vec::new();
        loop {
            let (open, close) = (opening(self.rest), self.rest.find("%}").filter(|_| inside));
            match (open, close) {
                (Some(open), close) if close.is_none_or(|close| open < close) => {
                    pieces.push(Piece::Text(self.rest[..open].to_owned()));
                    self.rest = &self.rest[open + 2..];
                    pieces.push(self.repeat()?);
                }
                (_, Some(close)) => {
                    pieces.push(Piece::Text(self.rest[..close].to_owned()));
                    self.rest = &self.rest[close + 2..];
                    return Ok(pieces);
                }
                _ if inside => return Err("a repetition `{%` without its end `%}`".to_owned()),
                _ => {
                    pieces.push(Piece::Text(std::mem::take(&mut self.rest).to_owned()));
                    return Ok(pieces);
                }
            }
        }
    }

    fn repeat(&mut self) -> Result<Piece, String> {
        let (count, rest) = self.rest.split_once(' ').ok_or("a repetition without a count and a space")?;
        self.rest = rest;
        let (digits, scale) = count.strip_suffix('x').map_or((count, 1.0), |digits| (digits, self.size));
        let count: f64 = digits.parse().map_err(|_| format!("`{count}` is not a count"))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts are small and positive"
        )]
        let count = (count * scale).max(1.0) as usize;
        Ok(Piece::Repeat(count, self.text(true)?))
    }
}

/// Where a repetition begins: a brace and a percent sign before a digit, since `{%}` is a brace at a repetition's end.
fn opening(text: &str) -> Option<usize> {
    let starts = text.match_indices("{%").map(|(at, _)| at);
    starts.into_iter().find(|at| text[at + 2..].starts_with(|letter: char| letter.is_ascii_digit()))
}

impl Piece {
    fn write(&self, index: Option<usize>) -> String {
        match self {
            Self::Text(text) => match index {
                Some(index) if text.contains("@i") => text.replace("@i", &index.to_string()),
                _ => text.clone(),
            },
            Self::Repeat(count, pieces) => {
                if let [Self::Text(text)] = &pieces[..]
                    && !text.contains("@i")
                {
                    return text.repeat(*count);
                }
                (0..*count)
                    .flat_map(|index| pieces.iter().map(move |piece| piece.write(Some(index))))
                    .collect()
            }
        }
    }
}

/// The generator is what every row relies on, so it is checked before they run.
pub(crate) fn check() {
    let cases = [
        ("a{%3 b%}c", 1.0, "abbbc"),
        ("{%2x [%}1{%2x ]%}", 2.0, "[[[[1]]]]"),
        ("{%2 k@i: {%2 @i%},%}", 1.0, "k0: 01,k1: 01,"),
        ("%} {a: 1}", 1.0, "%} {a: 1}"),
        ("{%10x a%}", 0.1, "a"),
        ("{%2 ${%}{%2 {%}", 1.0, "${${{{"),
    ];
    for (template, size, expected) in cases {
        assert_eq!(expand(template, size).as_deref(), Ok(expected), "{template}");
    }
    assert!(expand("{%3 a", 1.0).is_err() && expand("{%3y a%}", 1.0).is_err());
}
