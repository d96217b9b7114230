//! Requests on their way in: what a call announces decides how much memory it waits for, before it is read.
//!
//! gRPC puts five bytes before each message, of which four are its length. Those are read first. The rest of the
//! message stays with the caller, whom HTTP/2 does not let send on, until there is memory for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;
use loggia_function::SIZE_FLAGS;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use crate::gate::Pledge;
use crate::headers::TimeLimit;
use crate::lifecycle::Phase;
use crate::limits::{LIGHT_MESSAGE, LIGHT_METADATA, Limits, METADATA};
use crate::memory_pool::{Held, MessageMemory};

/// The length of what is before a message.
const PREFIX: usize = 5;

/// The most that a byte of gzip can become.
const MOST_EXPANSION: usize = 1032;

/// A caller that is to learn why it waited in vain must hear it before its own deadline.
const EARLY: Duration = Duration::from_millis(100);

/// How long a message may stand still while others wait for memory, and how often that is looked at.
const STALL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);

/// What a call is, to those that let it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It needs no memory to speak of, and is served when there is none.
    Light,
    /// It has one message, and takes so many times its size.
    Times(usize),
}

/// What a call is let in by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) message_limit: usize,
    /// How many times the size of its message it takes.
    pub(crate) factor: usize,
    /// No other call of its connection waits.
    pub(crate) alone: bool,
}

/// What is read of a request before it is let in.
struct Beginning {
    body: Incoming,
    pieces: Vec<Bytes>,
    /// How many bytes of the prefix came, and the prefix.
    came: usize,
    prefix: [u8; PREFIX],
}

/// The message of a request that was let in, as it arrives.
pub(crate) struct Arriving {
    /// What was read already, the last first.
    pieces: Vec<Bytes>,
    body: Incoming,
    expected: usize,
    came: usize,
    time: Duration,
    until: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    /// When the last piece came.
    progress: Instant,
    memory: MessageMemory,
}

/// The messages of a light request as they arrive, each within a limit.
pub(crate) struct Small {
    body: Incoming,
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix of the current message came.
    came: usize,
    /// How many bytes of that message are to come.
    left: usize,
    /// The first message must be there in time; others may come whenever they do.
    first: Option<(Duration, Pin<Box<Sleep>>)>,
}

/// Reads the announced length, waits for memory, and lets the request in. A message may have so many bytes, and takes so
/// many times its size.
pub(crate) async fn admit(
    request: &http::HeaderMap,
    body: Incoming,
    limits: &Limits,
    Terms { message_limit, factor, alone }: Terms,
    time_limit: &TimeLimit,
    phase: watch::Receiver<Phase>,
    pledge: Option<Pledge>,
) -> Result<(Held, Option<OwnedSemaphorePermit>, Arriving), Status> {
    let metadata = metadata_size(request);
    check_metadata(metadata, METADATA)?;
    let Limits { memory, request_time, .. } = limits;
    let arriving = memory.arrive(metadata, alone).map_err(|_| too_many(memory))?;
    let begin = Instant::now();
    let until = begin + *request_time;
    let until = time_limit.deadline.map_or(until, |deadline| deadline.min(until));
    let mut beginning = Beginning { body, pieces: Vec::new(), came: 0, prefix: [0; PREFIX] };
    match tokio::time::timeout_at(until, beginning.read()).await {
        Ok(read) => read?,
        Err(_) => return Err(late(*request_time, beginning.came, None)),
    }
    let announced = beginning.announced();
    if announced > message_limit {
        return Err(Status::resource_exhausted(format!(
            "grpc: received message larger than max ({announced} vs. {message_limit}); {SIZE_FLAGS}"
        )));
    }
    let size = match beginning.prefix {
        [0, ..] => announced,
        // Its size is known when it is unpacked, and until then it may become as large as a message may be.
        _ => announced + announced.saturating_mul(MOST_EXPANSION).min(message_limit),
    };
    let share = match pledge {
        Some(pledge) => Some(pledge.take(size, until).await?),
        None => None,
    };
    let held = wait(memory, size, factor, until, time_limit, phase).await?;
    drop(arriving);
    // The time that it waited was not the caller's.
    let until = Instant::now() + *request_time;
    let until = time_limit.deadline.map_or(until, |deadline| deadline.min(until));
    Ok((held, share, beginning.arriving(announced, *request_time, until, memory)))
}

/// The refusal of a call that could not even wait.
pub(crate) fn too_many(memory: &MessageMemory) -> Status {
    Status::resource_exhausted(format!(
        "too many calls wait for memory; there are {} bytes for messages (--memory-budget); try again later",
        memory.limit()
    ))
}

/// Lets in a request that needs no memory to speak of.
pub(crate) fn admit_light(
    request: &http::HeaderMap,
    body: Incoming,
    time: Duration,
) -> Result<Small, Status> {
    check_metadata(metadata_size(request), LIGHT_METADATA)?;
    let first = Some((time, Box::pin(sleep_until(Instant::now() + time))));
    Ok(Small { body, prefix: [0; PREFIX], came: 0, left: 0, first })
}

async fn wait(
    memory: &MessageMemory,
    size: usize,
    factor: usize,
    until: Instant,
    time_limit: &TimeLimit,
    mut phase: watch::Receiver<Phase>,
) -> Result<Held, Status> {
    let until =
        if time_limit.deadline == Some(until) { until.checked_sub(EARLY).unwrap_or(until) } else { until };
    tokio::select! {
        biased;
        held = memory.take(size, factor) => held.map_err(|_| Status::unavailable("the service is stopping")),
        () = tokio::time::sleep_until(until) => {
            memory.refuse();
            Err(Status::resource_exhausted(format!(
                "the message of {size} bytes waited for memory until its time was up; there are {} bytes for the \
                 messages of all calls (--memory-budget); try again later",
                memory.limit()
            )))
        }
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {
            Err(Status::unavailable("the service is shutting down; try again"))
        }
    }
}

/// The size of metadata as HTTP/2 counts it.
fn metadata_size(headers: &http::HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

fn check_metadata(size: usize, limit: usize) -> Result<(), Status> {
    if size <= limit {
        return Ok(());
    }
    let text = format!("the metadata of the call has {size} bytes; at most {limit} are accepted");
    Err(Status::resource_exhausted(text))
}

fn late(time: Duration, came: usize, expected: Option<usize>) -> Status {
    let of = expected.map(|expected| format!(" of {expected}")).unwrap_or_default();
    Status::deadline_exceeded(format!(
        "the message did not arrive within {time:?} (--request-timeout) or the caller's deadline: {came}{of} bytes came"
    ))
}

// === impl Beginning ===

impl Beginning {
    /// Reads until the prefix is there, or the end.
    async fn read(&mut self) -> Result<(), Status> {
        while self.came < PREFIX {
            let Some(data) = next_data(&mut self.body).await? else { return Ok(()) };
            let missing = self.prefix.get_mut(self.came..).unwrap_or_default();
            let count = missing.len().min(data.len());
            if let (Some(missing), Some(data)) = (missing.get_mut(..count), data.get(..count)) {
                missing.copy_from_slice(data);
            }
            self.came += count;
            self.pieces.push(data);
        }
        Ok(())
    }

    /// The length of the message; nothing if the request ended before it.
    fn announced(&self) -> usize {
        let [_, a, b, c, d] = self.prefix;
        if self.came < PREFIX { 0 } else { u32::from_be_bytes([a, b, c, d]) as usize }
    }

    fn arriving(self, announced: usize, time: Duration, until: Instant, memory: &MessageMemory) -> Arriving {
        let Self { body, mut pieces, .. } = self;
        pieces.reverse();
        Arriving {
            pieces,
            body,
            expected: PREFIX + announced,
            came: 0,
            time,
            until,
            timer: None,
            progress: Instant::now(),
            memory: memory.clone(),
        }
    }
}

async fn next_data(body: &mut Incoming) -> Result<Option<Bytes>, Status> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) if data.is_empty() => {}
            Some(Ok(Ok(data))) => return Ok(Some(data)),
            Some(Ok(Err(_))) | None => return Ok(None),
            Some(Err(error)) => return Err(broken(error)),
        }
    }
}

fn broken(error: hyper::Error) -> Status {
    Status::from_error(Box::new(error))
}

// === impl Arriving ===

impl Arriving {
    /// Why the message is given up, as soon as it is: its time is over, or it does not go on while others wait.
    fn given_up(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        loop {
            let until = self.until;
            let next = || Box::pin(sleep_until((Instant::now() + LOOK).min(until)));
            let timer = self.timer.get_or_insert_with(next);
            ready!(timer.as_mut().poll(context));
            self.timer = None;
            if Instant::now() >= until {
                return Poll::Ready(late(self.time, self.came, Some(self.expected)));
            }
            if self.progress.elapsed() >= STALL && self.memory.is_short() {
                self.memory.refuse();
                return Poll::Ready(Status::resource_exhausted(format!(
                    "the message did not go on for {STALL:?} while others waited for memory (--memory-budget): {} of \
                     {} bytes came",
                    self.came, self.expected
                )));
            }
        }
    }

    fn count(&mut self, data: Bytes) -> Result<Frame<Bytes>, Status> {
        self.came += data.len();
        self.progress = Instant::now();
        if self.came > self.expected {
            let text = "the request has more than one message, and this method takes one";
            return Err(Status::internal(text));
        }
        Ok(Frame::data(data))
    }
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(piece) = self.pieces.pop() {
            return Poll::Ready(Some(self.count(piece)));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(match frame.into_data() {
                Ok(data) => self.count(data),
                Err(other) => Ok(other),
            })),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(broken(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => self.given_up(context).map(|status| Some(Err(status))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.body.is_end_stream()
    }
}

// === impl Small ===

impl Small {
    /// Looks at the lengths of the messages in a piece.
    fn check(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            let inside = self.left.min(data.len());
            self.left -= inside;
            data = data.get(inside..).unwrap_or_default();
            if inside > 0 && self.left == 0 {
                self.first = None;
            }
            while let (Some(byte), true) = (data.first(), self.left == 0) {
                if let Some(slot) = self.prefix.get_mut(self.came) {
                    *slot = *byte;
                }
                self.came += 1;
                data = data.get(1..).unwrap_or_default();
                if self.came == PREFIX {
                    self.begin_message()?;
                }
            }
        }
        Ok(())
    }

    fn begin_message(&mut self) -> Result<(), Status> {
        let [_, a, b, c, d] = self.prefix;
        (self.came, self.left) = (0, u32::from_be_bytes([a, b, c, d]) as usize);
        match self.left {
            0 => self.first = None,
            length if length > LIGHT_MESSAGE => {
                return Err(Status::resource_exhausted(format!(
                    "grpc: received message larger than max ({length} vs. {LIGHT_MESSAGE}) for this service"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    fn late(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let Some((time, timer)) = &mut self.first else { return Poll::Pending };
        ready!(timer.as_mut().poll(context));
        Poll::Ready(late(*time, self.came, None))
    }
}

impl http_body::Body for Small {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return self.late(context).map(|late| Some(Err(late))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(broken(error)))),
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        let checked = frame.data_ref().map_or(Ok(()), |data| self.check(&data.clone()));
        Poll::Ready(Some(checked.map(|()| frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
