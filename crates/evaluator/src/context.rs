//! What goes along with a call: its id, the trace it belongs to, and what is noted of it on the way.
//!
//! None of it is passed by hand. A [`Context`] belongs to the task that works on a call, [`Notes`] to one
//! evaluation in it, and whoever knows something worth noting does so with [`note`], which does nothing where
//! nobody listens.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use loggia_process::{self as process, Command, Finished, Processes};
use tokio::time::Instant;
#[cfg(any(feature = "client", test))]
use tonic::metadata::MetadataMap;
use tracing::{Instrument as _, Span, info_span};

/// The header that carries the id of a call from the runner to the server in a pod.
const CALL_HEADER: &str = "loggia-call";

/// The header of an answer that says how long the process of the function ran, in microseconds.
pub(crate) const RAN_HEADER: &str = "loggia-ran";

/// The longest `tracestate` that is passed on; the standard asks for at least this much.
const LONGEST_STATE: usize = 512;

tokio::task_local! {
    static CONTEXT: Context;
    static NOTES: Notes;
}

/// One call of one caller. Clones share it.
#[derive(Clone, Debug)]
pub struct Context {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: CallId,
    trace: Option<Trace>,
    span: Span,
}

/// The name of a call in logs, on every side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(u64);

/// A place in a trace, as `traceparent` and `tracestate` of the W3C say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub id: u128,
    /// The span that what happens next belongs to.
    pub parent: u64,
    pub sampled: bool,
    pub state: Option<Arc<str>>,
}

/// Where one evaluation is noted. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Noted>>);

/// What is noted of one evaluation.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Who runs the function.
    pub evaluator: Option<&'static str>,
    /// How long it waited for its turn, more than once if it was tried more than once.
    pub queued: Option<Duration>,
    /// How long the function took, with the way to it and back.
    pub called: Option<Duration>,
    /// How long its process ran, as the server in the pod says.
    pub ran: Option<Duration>,
    /// The pod that it ran in.
    pub pod: Option<Arc<str>>,
    /// How its process ended, if that was one of this machine.
    pub exit: Option<ExitStatus>,
}

// === impl Context ===

impl Context {
    /// The context that a request comes with. A caller that names no call gets a new id.
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let id = text(CALL_HEADER).and_then(CallId::parse).unwrap_or_else(CallId::new);
        let trace = text("traceparent").and_then(Trace::parse).map(|trace| {
            let state = text("tracestate").filter(|state| !state.is_empty() && state.len() <= LONGEST_STATE);
            Trace { state: state.map(Into::into), ..trace }
        });
        Self::new(id, trace)
    }

    fn new(id: CallId, trace: Option<Trace>) -> Self {
        let span = info_span!("call", call = %id);
        Self { shared: Arc::new(Shared { id, trace, span }) }
    }

    /// The context of the task that this is called in.
    pub fn current() -> Option<Self> {
        CONTEXT.try_with(Clone::clone).ok()
    }

    pub fn id(&self) -> CallId {
        self.shared.id
    }

    pub fn trace(&self) -> Option<&Trace> {
        self.shared.trace.as_ref()
    }

    /// The same call, at another place of a trace.
    #[must_use]
    pub fn at(&self, trace: Trace) -> Self {
        let Shared { id, span, .. } = &*self.shared;
        Self { shared: Arc::new(Shared { id: *id, trace: Some(trace), span: span.clone() }) }
    }

    /// Has work done that belongs to the same call, at another place of its trace.
    pub fn continued<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CONTEXT.scope(self, work)
    }

    /// Has work done in this context: its log lines carry the id, and what it asks of others does, too.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        let span = self.shared.span.clone();
        CONTEXT.scope(self, work).instrument(span)
    }

    /// Puts the context into a request to somebody else.
    #[cfg(any(feature = "client", test))]
    pub(crate) fn inject(&self, metadata: &mut MetadataMap) {
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = value.parse() {
                metadata.insert(name, value);
            }
        };
        put(CALL_HEADER, self.id().to_string());
        if let Some(trace) = self.trace() {
            put("traceparent", trace.to_string());
            if let Some(state) = &trace.state {
                put("tracestate", state.to_string());
            }
        }
    }
}

/// Takes the context of this task along into another one.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let context = Context::current();
    async move {
        match context {
            Some(context) => context.scope(work).await,
            None => work.await,
        }
    }
}

// === impl CallId ===

impl CallId {
    /// An id that no other call has.
    #[allow(clippy::new_without_default, reason = "two of them are never equal")]
    pub fn new() -> Self {
        Self(chance())
    }

    fn parse(text: &str) -> Option<Self> {
        hex(text, 16).map(|id| Self(id as u64))
    }
}

/// A number that does not come twice.
pub fn chance() -> u64 {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    SEED.get_or_init(RandomState::new).hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

// === impl Trace ===

impl Trace {
    /// Reads a `traceparent`. What is malformed is no trace at all, as the standard wants it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = hex(version, 2).filter(|version| *version != 0xff)?;
        // Only later versions may say more.
        if version == 0 && parts.next().is_some() {
            return None;
        }
        let id = hex(id, 32).filter(|id| *id != 0)?;
        let parent = hex(parent, 16).filter(|parent| *parent != 0)?;
        let sampled = hex(flags, 2)? & 1 == 1;
        Some(Self { id, parent: parent as u64, sampled, state: None })
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.id, self.parent, u8::from(self.sampled))
    }
}

/// So many hexadecimal digits in lower case, and nothing else.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let all = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    all.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

// === impl Notes ===

/// Notes something of the evaluation that runs in this task, if somebody wants to know.
pub fn note(write: impl FnOnce(&mut Noted)) {
    let _ = NOTES.try_with(|notes| write(&mut notes.lock()));
}

/// Runs a command and notes how long it waited and ran, and how it ended.
pub async fn run_noted(
    processes: &Processes,
    command: &Command,
    input: Bytes,
    deadline: Option<Instant>,
) -> Result<Finished, process::Error> {
    let slot = processes.slot(deadline).await?;
    note(|noted| noted.queued = Some(slot.waited()));
    let begin = Instant::now();
    let finished = slot.run(command, input, deadline).await;
    if !matches!(finished, Err(process::Error::DeadlineExceeded | process::Error::Stopped)) {
        note(|noted| noted.called = Some(begin.elapsed()));
    }
    finished.inspect(|finished| note(|noted| noted.exit = Some(finished.status)))
}

impl Notes {
    /// Has work done of which is noted here.
    pub fn during<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        NOTES.scope(self.clone(), work)
    }

    /// What was noted so far.
    pub fn read(&self) -> Noted {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_trace_comes_back_as_it_was_read() {
        let trace = Trace::parse(PARENT).unwrap();
        assert_eq!((trace.parent, trace.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(trace.to_string(), PARENT);
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more";
        assert!(!Trace::parse(later).unwrap().sampled);
    }

    #[test]
    fn what_is_no_traceparent_is_no_trace() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_context_goes_through_a_request_unchanged() {
        let context = Context::of(&headers(&[
            ("loggia-call", "00000000000000ff"),
            ("traceparent", PARENT),
            ("tracestate", "a=b"),
        ]));
        let mut metadata = MetadataMap::new();
        context.inject(&mut metadata);
        let again = Context::of(&metadata.into_headers());
        assert_eq!(again.id().to_string(), "00000000000000ff");
        assert_eq!(again.trace(), context.trace());
        assert_eq!(again.trace().unwrap().state.as_deref(), Some("a=b"));
    }

    #[test]
    fn a_call_without_a_good_id_gets_one_of_its_own() {
        let id = |pairs| Context::of(&headers(pairs)).id();
        assert_ne!(id(&[]), id(&[]));
        assert_ne!(id(&[("loggia-call", "xyz")]), id(&[("loggia-call", "0000000000000000a")]));
    }

    #[tokio::test]
    async fn context_and_notes_belong_to_their_task() {
        assert!(Context::current().is_none());
        let (context, notes) = (Context::of(&HeaderMap::new()), Notes::default());
        let id = context.id();
        let inner = notes.during(async {
            note(|noted| noted.evaluator = Some("exec"));
            let carried = tokio::spawn(carried(async { Context::current().map(|context| context.id()) }));
            carried.await.unwrap()
        });
        assert_eq!(context.scope(inner).await, Some(id));
        assert_eq!(notes.read().evaluator, Some("exec"));
        note(|_| panic!("nobody listens here"));
    }
}
