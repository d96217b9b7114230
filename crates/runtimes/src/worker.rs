//! A worker process from its start to its end: it reads calls, computes, and answers.
//!
//! Before the first call it gives up everything but that: see [`confine`]. It ends when the pool closes the socket,
//! when the pool's process dies, and by an exit code that says why when a call uses up its memory or its stack: see
//! [`crate::death`].

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

use loggia_function::Budget;
use loggia_functions::{Output, find};
use rustix::buffer::spare_capacity;
use rustix::stdio::stdin;

use crate::SchemaFolders;
use crate::builtin::{ON_THE_WIRE, limits_of};
use crate::death;
use crate::workers::frame::{AnswerHead, Confined, Death, REQUEST, RequestHead, STDERR_LIMIT, Status};

mod confine;
mod seccomp;

/// The word that makes a program a worker.
pub(crate) const ENTRY: &str = "__worker";

/// How much is read at a time, and how much room is kept between calls.
const CHUNK: usize = 64 << 10;

/// The stack of the thread that works.
const STACK: usize = 16 << 20;

/// By how much a worker may have grown, in KiB, and still be used again.
const GROWTH: u64 = 48 << 10;

/// What the pool said when it started this worker.
struct Start {
    memory: u64,
    schemas: SchemaFolders,
}

/// The worker's end of the socket, which is its standard input.
struct Server {
    schemas: SchemaFolders,
    /// The most memory in KiB that was in use before the first call.
    baseline: u64,
    received: Vec<u8>,
}

/// Works and ends, if this process was started to do that. `main` calls it before anything else.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ENTRY {
        return None;
    }
    let served = Start::parse(arguments).map_or(Err(io::ErrorKind::InvalidInput.into()), Start::serve);
    Some(match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(u8::try_from(Death::Start.code()).unwrap_or(1)),
    })
}

// === impl Start ===

impl Start {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let memory = arguments.next()?.to_str()?.parse().ok()?;
        let schemas = SchemaFolders::checked(arguments.map(PathBuf::from));
        Some(Self { memory, schemas })
    }

    /// Answers calls until the pool closes the socket.
    fn serve(self) -> io::Result<()> {
        let Self { memory, schemas } = self;
        confine::shrink()?;
        confine::limit(memory)?;
        death::exit_with_reason();
        let landlock = confine::hide_files(&schemas);
        // A panic is answered as one; there is no place for its text.
        std::panic::set_hook(Box::new(|_| {}));
        let work = move || {
            let seccomp = seccomp::allow_computing(!schemas.paths().is_empty());
            let confined = Confined { landlock, seccomp };
            Server::new(schemas).serve(confined)
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the worker panicked")))
    }
}

// === impl Server ===

impl Server {
    fn new(schemas: SchemaFolders) -> Self {
        Self { schemas, baseline: confine::peak(), received: Vec::with_capacity(CHUNK) }
    }

    fn serve(mut self, confined: Confined) -> io::Result<()> {
        let ready = AnswerHead { exit: confined.encode(), ..AnswerHead::empty(Status::Ready) };
        answer(ready, &[], &[])?;
        while let Some((head, body)) = self.receive()? {
            death::allow_memory(head.memory);
            self.work(head, body)?;
            self.received.clear();
            self.received.shrink_to(CHUNK);
        }
        Ok(())
    }

    /// Reads one call: its head, and where its body begins. None if the pool has closed the socket.
    fn receive(&mut self) -> io::Result<Option<(RequestHead, usize)>> {
        let Self { received, .. } = self;
        while received.len() < REQUEST {
            if read_into(received)? == 0 {
                return Ok(None);
            }
        }
        let head = received.first_chunk().and_then(RequestHead::decode).ok_or(io::ErrorKind::InvalidData)?;
        let size = u64::from(head.name).checked_add(head.input).and_then(|size| usize::try_from(size).ok());
        let whole = size.and_then(|size| size.checked_add(REQUEST)).ok_or(io::ErrorKind::InvalidData)?;
        received.reserve_exact(whole.saturating_sub(received.len()));
        while received.len() < whole {
            if read_into(received)? == 0 {
                return Ok(None);
            }
        }
        Ok(Some((head, REQUEST)))
    }

    fn work(&self, head: RequestHead, body: usize) -> io::Result<()> {
        let name_end = body + head.name as usize;
        let name = std::str::from_utf8(&self.received[body..name_end]).unwrap_or_default();
        let input = &self.received[name_end..];
        let Some((_, version)) = find(name) else {
            return answer(AnswerHead::empty(Status::NotFound), &[], &[]);
        };
        let budget =
            Budget { output: usize::try_from(head.output).unwrap_or(usize::MAX), ..Budget::UNBOUNDED };
        let limits = limits_of(budget, ON_THE_WIRE);
        let run = || version.filter_within(input, &self.schemas, limits);
        let Ok(Output { stdout, stderr, exit_code }) = catch_unwind(AssertUnwindSafe(run)) else {
            return answer(AnswerHead { grown: true, ..AnswerHead::empty(Status::Panicked) }, &[], &[]);
        };
        let grown = confine::peak().saturating_sub(self.baseline) > GROWTH;
        let fits = stdout.len() as u64 <= head.output;
        let (status, stdout) =
            if fits { (Status::Done, stdout.as_bytes()) } else { (Status::TooMuchOutput, &[][..]) };
        let kept = &stderr.as_bytes()[..stderr.len().min(STDERR_LIMIT)];
        let head = AnswerHead {
            status,
            exit: exit_code,
            grown,
            stdout: stdout.len() as u64,
            stderr: kept.len() as u64,
            stderr_total: stderr.len() as u64,
        };
        answer(head, stdout, kept)
    }
}

fn read_into(received: &mut Vec<u8>) -> io::Result<usize> {
    if received.capacity() == received.len() {
        received.reserve(CHUNK);
    }
    loop {
        match rustix::io::read(stdin(), spare_capacity(received)) {
            Err(rustix::io::Errno::INTR) => {}
            read => return Ok(read?),
        }
    }
}

/// Writes an answer, at once if the socket has room for it.
fn answer(head: AnswerHead, stdout: &[u8], stderr: &[u8]) -> io::Result<()> {
    let head = head.encode();
    let mut parts = [IoSlice::new(&head), IoSlice::new(stdout), IoSlice::new(stderr)];
    let mut unsent = parts.as_mut_slice();
    IoSlice::advance_slices(&mut unsent, 0);
    while !unsent.is_empty() {
        match rustix::io::writev(stdin(), unsent) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut unsent, count),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
