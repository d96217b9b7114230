//! What a pool and its workers send each other: a head of fixed size, then bytes.
//!
//! A request is `[head][function as written][input]`, an answer `[head][standard output][standard error]`. Both sides
//! are this program, so numbers are in the machine's order. The pool checks every length all the same: a worker may
//! have been taken over by its input.

use loggia_function::Exit;

/// The first bytes of every head.
const MARK: u32 = 0x4c57_4731;

/// The bytes of a request's head.
pub(crate) const REQUEST: usize = 32;

/// The bytes of an answer's head.
pub(crate) const ANSWER: usize = 40;

/// The most of a function's standard error that travels.
pub(crate) const STDERR_LIMIT: usize = 1 << 20;

/// A call, as a worker gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// Bytes of the function's name.
    pub(crate) name: u32,
    /// Bytes of the input.
    pub(crate) input: u64,
    /// The most bytes of standard output.
    pub(crate) output: u64,
    /// Bytes that the worker may use for this call.
    pub(crate) memory: u64,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerHead {
    pub(crate) status: Status,
    /// The function's exit code.
    pub(crate) exit: i32,
    /// The worker has grown and should be replaced.
    pub(crate) grown: bool,
    /// Bytes of standard output that follow; after [`Status::TooMuchOutput`] none do.
    pub(crate) stdout: u64,
    /// Bytes of standard error that follow.
    pub(crate) stderr: u64,
    /// Bytes of standard error that the function wrote.
    pub(crate) stderr_total: u64,
}

/// How a call ended, or that a worker is ready for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The worker waits for calls. `exit` says how it is confined, see [`Confined`].
    Ready,
    Done,
    TooMuchOutput,
    Panicked,
    /// The worker is another version of this program.
    NotFound,
}

/// What keeps a worker from doing more than computing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confined {
    pub(crate) landlock: bool,
    pub(crate) seccomp: bool,
}

/// Why a worker exited by itself. As data, so that no text has to be read to learn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// It got no more memory.
    Memory,
    /// Its stack was full.
    Stack,
    /// It aborted for another reason.
    Abort,
    /// It touched memory that is not there.
    Fault,
    /// It could not begin its work.
    Start,
}

// === impl RequestHead ===

impl RequestHead {
    pub(crate) fn encode(self) -> [u8; REQUEST] {
        let mut head = [0; REQUEST];
        head[..4].copy_from_slice(&MARK.to_ne_bytes());
        head[4..8].copy_from_slice(&self.name.to_ne_bytes());
        head[8..16].copy_from_slice(&self.input.to_ne_bytes());
        head[16..24].copy_from_slice(&self.output.to_ne_bytes());
        head[24..].copy_from_slice(&self.memory.to_ne_bytes());
        head
    }

    pub(crate) fn decode(head: &[u8; REQUEST]) -> Option<Self> {
        let [mark, name] = [0, 4].map(|at| short(head, at));
        let [input, output, memory] = [8, 16, 24].map(|at| long(head, at));
        (mark == MARK).then_some(Self { name, input, output, memory })
    }
}

// === impl AnswerHead ===

impl AnswerHead {
    /// An answer with nothing behind its head.
    pub(crate) fn empty(status: Status) -> Self {
        Self { status, exit: 0, grown: false, stdout: 0, stderr: 0, stderr_total: 0 }
    }

    pub(crate) fn encode(self) -> [u8; ANSWER] {
        let mut head = [0; ANSWER];
        let status = u32::from(self.status.number()) | u32::from(self.grown) << 8;
        head[..4].copy_from_slice(&MARK.to_ne_bytes());
        head[4..8].copy_from_slice(&status.to_ne_bytes());
        head[8..12].copy_from_slice(&self.exit.to_ne_bytes());
        head[16..24].copy_from_slice(&self.stdout.to_ne_bytes());
        head[24..32].copy_from_slice(&self.stderr.to_ne_bytes());
        head[32..].copy_from_slice(&self.stderr_total.to_ne_bytes());
        head
    }

    pub(crate) fn decode(head: &[u8; ANSWER]) -> Option<Self> {
        let [mark, status, exit] = [0, 4, 8].map(|at| short(head, at));
        let [stdout, stderr, stderr_total] = [16, 24, 32].map(|at| long(head, at));
        let (number, grown) = (status & 0xff, status >> 8);
        if mark != MARK || grown > 1 {
            return None;
        }
        let status = Status::ALL.into_iter().find(|status| u32::from(status.number()) == number)?;
        Some(Self { status, exit: exit.cast_signed(), grown: grown == 1, stdout, stderr, stderr_total })
    }
}

/// Four bytes of a head.
fn short(head: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&head[at..at + 4]);
    u32::from_ne_bytes(bytes)
}

/// Eight bytes of a head.
fn long(head: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&head[at..at + 8]);
    u64::from_ne_bytes(bytes)
}

// === impl Status ===

impl Status {
    const ALL: [Self; 5] = [Self::Ready, Self::Done, Self::TooMuchOutput, Self::Panicked, Self::NotFound];

    fn number(self) -> u8 {
        self as u8
    }
}

// === impl Confined ===

impl Confined {
    pub(crate) fn encode(self) -> i32 {
        i32::from(self.landlock) | i32::from(self.seccomp) << 1
    }

    pub(crate) fn decode(bits: i32) -> Self {
        Self { landlock: bits & 1 != 0, seccomp: bits & 2 != 0 }
    }
}

// === impl Death ===

impl Death {
    const ALL: [Self; 5] = [Self::Memory, Self::Stack, Self::Abort, Self::Fault, Self::Start];

    /// The exit code that stands for it.
    pub(crate) const fn code(self) -> i32 {
        91 + self as i32
    }

    pub(crate) fn of(exit: Exit) -> Option<Self> {
        Self::ALL.into_iter().find(|death| exit == Exit::Code(death.code()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_as_they_were() {
        let request = RequestHead { name: 7, input: 1 << 33, output: u64::MAX, memory: 64 << 20 };
        assert_eq!(RequestHead::decode(&request.encode()), Some(request));
        for status in Status::ALL {
            let answer =
                AnswerHead { status, exit: -1, grown: true, stdout: 1 << 40, stderr: 3, stderr_total: 9 };
            assert_eq!(AnswerHead::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn anything_else_is_not_a_head() {
        assert_eq!(AnswerHead::decode(&[b'x'; ANSWER]), None);
        let mut head = AnswerHead::empty(Status::Done).encode();
        head[4] = 5;
        assert_eq!(AnswerHead::decode(&head), None);
        assert_eq!(RequestHead::decode(&[0; REQUEST]), None);
    }

    #[test]
    fn deaths_are_told_apart_by_exit_codes() {
        for death in Death::ALL {
            assert_eq!(Death::of(Exit::Code(death.code())), Some(death));
        }
        assert_eq!(Death::of(Exit::Code(0)), None);
        assert_eq!(Death::of(Exit::Signal { number: 9, core_dumped: false }), None);
    }
}
