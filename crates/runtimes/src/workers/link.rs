//! The pool's end of the socket to a worker.

use std::io::{self, IoSlice};

use bytes::Bytes;
use loggia_function::Stderr;
use rustix::buffer::spare_capacity;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::frame::{ANSWER, AnswerHead, RequestHead, STDERR_LIMIT, Status};

/// The pool's end of the socket to a worker.
#[derive(Debug)]
pub(super) struct Link(UnixStream);

/// A call, as a worker gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) function: &'a str,
    pub(super) input: &'a [u8],
    pub(super) output: usize,
    pub(super) memory: u64,
}

/// What a worker answers.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: AnswerHead,
    pub(super) stdout: Bytes,
    pub(super) stderr: Stderr,
}

/// Why a worker has not answered.
#[derive(Debug)]
pub(super) enum Broken {
    /// Its end of the socket is closed: it has died, or is about to.
    Closed,
    /// What it sent is not an answer.
    Garbage,
    Socket(io::Error),
}

// === impl Link ===

impl Link {
    pub(super) fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        UnixStream::from_std(socket).map(Self)
    }

    /// Whether an idle worker can still be asked, as far as is known without a system call.
    pub(super) fn usable(&self) -> bool {
        // The socket counts as readable only once the worker has closed it, or has sent something unasked.
        let looked = self.0.try_io(Interest::READABLE, || Ok(rustix::io::read(&self.0, &mut [0; 1])?));
        matches!(looked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits for the head that a worker sends when it is ready.
    pub(super) async fn ready(&self) -> Result<AnswerHead, Broken> {
        let answer = self.receive(0, 0).await?;
        match answer.head.status {
            Status::Ready => Ok(answer.head),
            _ => Err(Broken::Garbage),
        }
    }

    /// Sends a call and waits for the answer. If this is dropped the worker cannot be asked again.
    pub(super) async fn ask(&self, request: &Request<'_>) -> Result<Answer, Broken> {
        let head = RequestHead {
            name: u32::try_from(request.function.len()).map_err(|_| Broken::Garbage)?,
            input: request.input.len() as u64,
            output: request.output as u64,
            memory: request.memory,
        };
        self.send(&head.encode(), request).await?;
        // Most functions give back about what they got.
        let expected = request.input.len() + request.input.len() / 8 + 1024;
        self.receive(request.output, expected.min(request.output)).await
    }

    async fn send(&self, head: &[u8], request: &Request<'_>) -> Result<(), Broken> {
        let mut parts =
            [IoSlice::new(head), IoSlice::new(request.function.as_bytes()), IoSlice::new(request.input)];
        let mut unsent = parts.as_mut_slice();
        IoSlice::advance_slices(&mut unsent, 0);
        while !unsent.is_empty() {
            match self.0.try_write_vectored(unsent) {
                Ok(0) => return Err(Broken::Closed),
                Ok(count) => IoSlice::advance_slices(&mut unsent, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.0.writable().await.map_err(Broken::Socket)?;
                }
                Err(error) => return Err(Broken::of(error)),
            }
        }
        Ok(())
    }

    /// Receives one answer with at most so many bytes of standard output.
    async fn receive(&self, limit: usize, expected: usize) -> Result<Answer, Broken> {
        let mut received = Vec::with_capacity(ANSWER + expected);
        let head = loop {
            if let Some(head) = received.first_chunk() {
                break AnswerHead::decode(head).ok_or(Broken::Garbage)?;
            }
            self.read_into(&mut received).await?;
        };
        let (stdout, stderr) = (length(head.stdout, limit)?, length(head.stderr, STDERR_LIMIT)?);
        let whole = ANSWER + stdout + stderr;
        received.reserve_exact(whole.saturating_sub(received.len()));
        while received.len() < whole {
            self.read_into(&mut received).await?;
        }
        if received.len() > whole {
            return Err(Broken::Garbage);
        }
        // All was read, so the socket is not readable any more. Saying so saves the next call a read that finds nothing.
        let _ = self.0.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        let received = Bytes::from(received);
        let kept = received.slice(ANSWER + stdout..);
        Ok(Answer {
            head,
            stdout: received.slice(ANSWER..ANSWER + stdout),
            stderr: Stderr::new(kept, head.stderr_total),
        })
    }

    async fn read_into(&self, received: &mut Vec<u8>) -> Result<(), Broken> {
        loop {
            let read = self
                .0
                .try_io(Interest::READABLE, || Ok(rustix::io::read(&self.0, spare_capacity(received))?));
            match read {
                Ok(0) => return Err(Broken::Closed),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.0.readable().await.map_err(Broken::Socket)?;
                }
                Err(error) => return Err(Broken::of(error)),
            }
        }
    }
}

/// A length that a worker announced, if it is within its limit.
fn length(announced: u64, limit: usize) -> Result<usize, Broken> {
    usize::try_from(announced).ok().filter(|length| *length <= limit).ok_or(Broken::Garbage)
}

// === impl Broken ===

impl Broken {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Socket(error),
        }
    }
}
