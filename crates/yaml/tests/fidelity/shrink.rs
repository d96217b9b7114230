//! The smallest text that still shows a difference, so that a report can be read.

/// Drops lines, then characters, from `text` as long as `shows` still holds. Gives up after `budget` questions.
pub(crate) fn shrink(text: &[u8], mut budget: usize, mut shows: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut current = text.to_vec();
    let by_line =
        |bytes: &[u8]| bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let by_char = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => text.chars().map(|c| c.to_string().into_bytes()).collect::<Vec<_>>(),
        Err(_) => bytes.iter().map(|b| vec![*b]).collect(),
    };
    loop {
        let before = current.len();
        current = drop_pieces(by_line(&current), &mut budget, &mut shows);
        if current.len() < 600 {
            current = drop_pieces(by_char(&current), &mut budget, &mut shows);
        }
        if current.len() == before || budget == 0 {
            return current;
        }
    }
}

/// Removes runs of pieces, long ones first.
fn drop_pieces(
    mut pieces: Vec<Vec<u8>>,
    budget: &mut usize,
    shows: &mut impl FnMut(&[u8]) -> bool,
) -> Vec<u8> {
    let mut run = (pieces.len() / 2).max(1);
    loop {
        let mut at = 0;
        while at < pieces.len() {
            let end = (at + run).min(pieces.len());
            let shorter = [&pieces[..at], &pieces[end..]].concat();
            if *budget == 0 {
                return pieces.concat();
            }
            *budget -= 1;
            if shows(&shorter.concat()) {
                pieces = shorter;
            } else {
                at = end;
            }
        }
        if run == 1 {
            return pieces.concat();
        }
        run /= 2;
    }
}
