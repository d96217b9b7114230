//! Texts cut to what headers can carry.

use std::borrow::Cow;
use std::fmt;

/// How much of each end of a long text is kept while it is written.
const KEPT: usize = 32 * 1024;

/// A text that may become long: its two ends are kept, and its length is counted.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    head: String,
    tail: String,
    total: usize,
}

/// Text of at most `limit` bytes, cut in the middle with a note of its full size. `cost` says how many
/// bytes a byte of the text will take where it is going.
pub(crate) fn cut_middle(text: &str, limit: usize, cost: impl Fn(u8) -> usize) -> Cow<'_, str> {
    let total: usize = text.bytes().map(&cost).sum();
    if total <= limit {
        return Cow::Borrowed(text);
    }
    Cow::Owned(join(text, text, text.len(), limit, cost))
}

/// The beginning of `head` and the end of `tail`, with a note between them: what is left of a text of `total` bytes.
fn join(head: &str, tail: &str, total: usize, limit: usize, cost: impl Fn(u8) -> usize) -> String {
    let note = format!(" [... cut, {total} bytes in all ...] ");
    let half = limit.saturating_sub(note.bytes().map(&cost).sum()) / 2;
    let fitting = |bytes: &mut dyn Iterator<Item = u8>| {
        let mut spent = 0;
        bytes
            .take_while(|&byte| {
                spent += cost(byte);
                spent <= half
            })
            .count()
    };
    let first = head.floor_char_boundary(fitting(&mut head.bytes()));
    let last = tail.ceil_char_boundary(tail.len() - fitting(&mut tail.bytes().rev()));
    format!("{}{note}{}", &head[..first], &tail[last..])
}

// === impl Ends ===

impl Ends {
    /// The text in at most `limit` bytes, as [`cut_middle`] has it. `limit` is at most what is kept of one end.
    pub(crate) fn cut(self, limit: usize, cost: impl Fn(u8) -> usize) -> String {
        let Self { head, tail, total } = self;
        if total > head.len() + tail.len() {
            return join(&head, &tail, total, limit, cost);
        }
        cut_middle(&(head + &tail), limit, cost).into_owned()
    }
}

impl fmt::Write for Ends {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.total += text.len();
        let first = text.floor_char_boundary(KEPT.saturating_sub(self.head.len()));
        // What comes after a character that did not fit does not fit either.
        let first = if self.tail.is_empty() { first } else { 0 };
        let (head, rest) = text.split_at(first);
        self.head.push_str(head);
        self.tail.push_str(&rest[rest.ceil_char_boundary(rest.len().saturating_sub(KEPT))..]);
        if self.tail.len() > 2 * KEPT {
            self.tail.drain(..self.tail.ceil_char_boundary(self.tail.len() - KEPT));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn text_is_cut_at_characters_and_says_how_long_it_was() {
        let text = "ä".repeat(1000);
        let cut = cut_middle(&text, 201, |_| 1);
        assert!(cut.len() <= 201 && cut.contains("[... cut, 2000 bytes in all ...]"), "{cut}");
        assert_eq!(cut_middle("short", 5, |_| 1), "short");

        let encoded = cut_middle(&text, 600, |byte| if byte.is_ascii() { 1 } else { 3 });
        assert!(encoded.bytes().map(|b| if b.is_ascii() { 1 } else { 3 }).sum::<usize>() <= 600);
    }

    #[test]
    fn a_long_text_is_cut_while_it_is_written_as_it_would_be_afterwards() {
        for part in ["x", "ä", "a line of text\n", &"ö".repeat(100_000)] {
            for count in [1, 10, 20_000] {
                let (mut ends, mut whole) = (Ends::default(), String::new());
                for number in 0..count.min(4_000_000 / part.len()) {
                    write!(ends, "{number}{part}").unwrap();
                    write!(whole, "{number}{part}").unwrap();
                }
                assert!(ends.head.len() + ends.tail.len() <= 4 * KEPT);
                let cut = cut_middle(&whole, KEPT, |_| 1).into_owned();
                assert_eq!(ends.cut(KEPT, |_| 1), cut, "{count} times {} bytes", part.len());
            }
        }
    }
}
