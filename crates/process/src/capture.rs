//! What a child writes, within bounds.

use bytes::{Bytes, BytesMut};

/// Output kept from its beginning and its end, with the middle left out where it is too long.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    // Boxed because errors carry one.
    kept: Box<Kept>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    head: BytesMut,
    /// A ring: the oldest byte is at `start`.
    tail: Vec<u8>,
    start: usize,
    half: usize,
    total: u64,
}

// === impl Captured ===

impl Captured {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { kept: Box::new(Kept { half: limit.div_ceil(2), ..Kept::default() }) }
    }

    /// Takes what came next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.kept.push(bytes);
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.kept.total
    }

    /// What was kept, with a note in the place of what was not.
    pub fn bytes(&self) -> Bytes {
        self.kept.bytes()
    }

    /// The same as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

// === impl Kept ===

impl Kept {
    fn push(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half - self.head.len();
        if room > 0 {
            let (head, rest) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(head);
            bytes = rest;
        }
        let bytes = &bytes[bytes.len().saturating_sub(self.half)..];
        let growth = bytes.len().min(self.half - self.tail.len());
        self.tail.extend_from_slice(&bytes[..growth]);
        for &byte in &bytes[growth..] {
            self.tail[self.start] = byte;
            self.start = (self.start + 1) % self.half;
        }
    }

    fn bytes(&self) -> Bytes {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let mut bytes = self.head.clone();
        if kept < self.total {
            bytes.extend_from_slice(format!("\n[... {} bytes left out ...]\n", self.total - kept).as_bytes());
        }
        let (newer, older) = self.tail.split_at(self.start);
        bytes.extend_from_slice(older);
        bytes.extend_from_slice(newer);
        bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, pieces: &[&str]) -> Captured {
        let mut captured = Captured::new(limit);
        for piece in pieces {
            captured.push(piece.as_bytes());
        }
        captured
    }

    #[test]
    fn short_output_is_kept_whole() {
        assert_eq!(captured(8, &["ab", "cd", "", "efgh"]).text(), "abcdefgh");
        assert_eq!(captured(0, &[]).text(), "");
    }

    #[test]
    fn long_output_loses_its_middle_however_it_arrives() {
        let whole = "abcdefghijklmnopqrstuvwxyz";
        let expected = "abcd\n[... 18 bytes left out ...]\nwxyz";
        assert_eq!(captured(8, &[whole]).text(), expected);
        for size in 1..whole.len() {
            let pieces: Vec<_> =
                whole.as_bytes().chunks(size).map(|chunk| std::str::from_utf8(chunk).unwrap()).collect();
            let captured = captured(8, &pieces);
            assert_eq!(captured.text(), expected, "in pieces of {size}");
            assert_eq!(captured.total(), 26);
        }
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        assert_eq!(captured(0, &["abc"]).text(), "\n[... 3 bytes left out ...]\n");
    }
}
