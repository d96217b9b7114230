//! Texts cut to what headers can carry.

use std::borrow::Cow;

/// Text of at most `limit` bytes, cut in the middle with a note of its full size. `cost` says how many
/// bytes a byte of the text will take where it is going.
pub(crate) fn cut_middle(text: &str, limit: usize, cost: impl Fn(u8) -> usize) -> Cow<'_, str> {
    let total: usize = text.bytes().map(&cost).sum();
    if total <= limit {
        return Cow::Borrowed(text);
    }
    let note = format!(" [... cut, {} bytes in all ...] ", text.len());
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
    let mut head = fitting(&mut text.bytes());
    let mut tail = text.len() - fitting(&mut text.bytes().rev());
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    Cow::Owned(format!("{}{note}{}", &text[..head], &text[tail..]))
}

#[cfg(test)]
mod tests {
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
}
