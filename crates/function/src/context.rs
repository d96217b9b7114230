//! What travels along with a call: its id, the trace that it is part of, and what its caller may run.
//!
//! A [`Context`] belongs to the task that works on a call, so log lines and requests to other servers carry it without
//! being passed it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use loggia_go::random_id;
use tracing::{Instrument as _, Span, info_span};

use crate::Grant;

/// The header that carries the id of a call from the runner to the server in a pod.
const CALL_HEADER: &str = "loggia-call";

/// The longest `tracestate` that is passed on; the standard asks for at least this much.
const LONGEST_STATE: usize = 512;

tokio::task_local! {
    static CONTEXT: Context;
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
    grant: Option<Arc<Grant>>,
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

// === impl Context ===

impl Context {
    /// The context that a request's headers hold. A caller that names no call gets a new id.
    pub fn read<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Self {
        let id = text(CALL_HEADER).and_then(CallId::parse).unwrap_or_else(CallId::new);
        let trace = text("traceparent").and_then(Trace::parse).map(|trace| {
            let state = text("tracestate").filter(|state| !state.is_empty() && state.len() <= LONGEST_STATE);
            Trace { state: state.map(Into::into), ..trace }
        });
        Self::new(id, trace)
    }

    fn new(id: CallId, trace: Option<Trace>) -> Self {
        let span = info_span!("call", call = %id);
        Self { shared: Arc::new(Shared { id, trace, span, grant: None }) }
    }

    /// The same call, by a caller that may run only this.
    #[must_use]
    pub fn with_grant(&self, grant: Arc<Grant>) -> Self {
        let Shared { id, trace, span, .. } = &*self.shared;
        let (trace, span) = (trace.clone(), span.clone());
        Self { shared: Arc::new(Shared { id: *id, trace, span, grant: Some(grant) }) }
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

    /// What the caller may run; none for everything.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.shared.grant.as_ref()
    }

    /// The same call, at another place of a trace.
    #[must_use]
    pub fn at(&self, trace: Trace) -> Self {
        let Shared { id, span, grant, .. } = &*self.shared;
        let (span, grant) = (span.clone(), grant.clone());
        Self { shared: Arc::new(Shared { id: *id, trace: Some(trace), span, grant }) }
    }

    /// Runs work that belongs to the same call, at another place of its trace.
    pub fn continued<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CONTEXT.scope(self, work)
    }

    /// Runs work in this context: its log lines and its requests to other servers carry the id.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        let span = self.shared.span.clone();
        CONTEXT.scope(self, work).instrument(span)
    }

    /// The headers by which a request to another server carries the context.
    pub fn write(&self, mut put: impl FnMut(&'static str, String)) {
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
        Self(random_id())
    }

    fn parse(text: &str) -> Option<Self> {
        hex(text, 16).map(|id| Self(id as u64))
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

// === impl Trace ===

impl Trace {
    /// Reads a `traceparent`. A malformed one is ignored, as the standard demands.
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

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn context(headers: &[(&str, &str)]) -> Context {
        Context::read(|name| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
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
    fn what_is_not_a_traceparent_is_ignored() {
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
        let sent =
            context(&[("loggia-call", "00000000000000ff"), ("traceparent", PARENT), ("tracestate", "a=b")]);
        let mut headers = Vec::new();
        sent.write(|name, value| headers.push((name, value)));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let received = context(&headers);
        assert_eq!(received.id().to_string(), "00000000000000ff");
        assert_eq!(received.trace(), sent.trace());
        assert_eq!(received.trace().unwrap().state.as_deref(), Some("a=b"));
    }

    #[test]
    fn a_call_without_a_good_id_gets_one_of_its_own() {
        let id = |headers| context(headers).id();
        assert_ne!(id(&[]), id(&[]));
        assert_ne!(id(&[("loggia-call", "xyz")]), id(&[("loggia-call", "0000000000000000a")]));
    }

    #[tokio::test]
    async fn a_context_belongs_to_its_task() {
        assert!(Context::current().is_none());
        let context = context(&[]);
        let id = context.id();
        let work = async {
            let carried = tokio::spawn(carried(async { Context::current().map(|context| context.id()) }));
            carried.await.unwrap()
        };
        assert_eq!(context.scope(work).await, Some(id));
    }
}
