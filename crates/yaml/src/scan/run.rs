//! Finding how far a scalar reads as it stands, byte by byte.

use super::cursor::break_length;

const STOP: u8 = 1;
const STOP_IN_FLOW: u8 = 2;
const COLON: u8 = 3;
const WIDE: u8 = 4;

/// What each byte means inside a plain scalar.
static PLAIN: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0x80;
    while byte < 256 {
        table[byte] = WIDE;
        byte += 1;
    }
    table[0] = STOP;
    table[b' ' as usize] = STOP;
    table[b'\t' as usize] = STOP;
    table[b'\n' as usize] = STOP;
    table[b'\r' as usize] = STOP;
    table[b':' as usize] = COLON;
    let in_flow = b",?[]{}";
    let mut i = 0;
    while i < in_flow.len() {
        table[in_flow[i] as usize] = STOP_IN_FLOW;
        i += 1;
    }
    table
};

/// Where a run of characters ends that all belong to a plain scalar, and whether some are wide.
pub(super) fn plain_run_end(bytes: &[u8], from: usize, in_flow: bool) -> (usize, bool) {
    let mut multibyte = false;
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match PLAIN[byte as usize] {
            0 => {}
            STOP => break,
            STOP_IN_FLOW if in_flow => break,
            COLON => {
                let next = bytes.get(at + 1);
                if matches!(next, None | Some(b' ' | b'\t')) || break_length(bytes, at + 1) > 0 {
                    break;
                }
            }
            WIDE => {
                if break_length(bytes, at) > 0 {
                    break;
                }
                multibyte = true;
            }
            _ => {}
        }
        at += 1;
    }
    (at, multibyte)
}

/// Where a run ends that reads as it stands inside quotes, and whether some characters are wide.
pub(super) fn quoted_run_end(bytes: &[u8], from: usize, quote: u8) -> (usize, bool) {
    let mut multibyte = false;
    let mut at = from;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => break,
            b'\\' if quote == b'"' => break,
            _ if byte == quote => break,
            0x80.. => {
                if break_length(bytes, at) > 0 {
                    break;
                }
                multibyte = true;
            }
            _ => {}
        }
        at += 1;
    }
    (at, multibyte)
}
