//! Watching calls from the outside: which method, how it ended, how long it took.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use loggia_function::Context as CallContext;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};

/// The name for methods that a service does not have, so that callers cannot make up names.
const NO_METHOD: &str = "_OTHER";

/// Hears of every call of every method.
pub trait Observer: Send + Sync {
    /// A call begins. What this returns goes along with it.
    fn began(&self, context: CallContext) -> CallContext {
        context
    }

    /// It is over.
    fn ended(&self, call: Ended<'_>);

    /// A call was not let in, by this rule or because no rule is for its caller.
    fn denied(&self, _rule: Option<&str>) {}
}

/// A call that is over.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    pub service: &'static str,
    pub method: &'a str,
    /// `Cancelled` if the caller went away.
    pub code: Code,
    /// From the headers of the request to the end of the response.
    pub took: Duration,
    /// What went along with it.
    pub context: &'a CallContext,
    /// The caller's place in its trace, if it has one.
    pub caller: Option<u64>,
}

/// A call that goes on. Dropped before its end it counts as cancelled.
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    service: &'static str,
    method: String,
    begin: Instant,
    context: CallContext,
    caller: Option<u64>,
    over: bool,
}

/// A response's body, watched for its trailers.
struct Watched {
    body: Body,
    watch: Watch,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new(
        observer: Arc<dyn Observer>,
        service: &'static str,
        method: &str,
        begin: Instant,
        context: CallContext,
    ) -> Self {
        let caller = context.trace().map(|trace| trace.parent);
        let context = observer.began(context);
        Self { observer, service, method: method.to_owned(), begin, context, caller, over: false }
    }

    /// What goes along with the call.
    pub(crate) fn context(&self) -> &CallContext {
        &self.context
    }

    /// The response, watched until its end.
    pub(crate) fn over(mut self, response: http::Response<Body>) -> http::Response<Body> {
        // A status in the headers is all there is.
        if let Some(code) = code_of(response.headers()) {
            if code == Code::Unimplemented {
                NO_METHOD.clone_into(&mut self.method);
            }
            self.end(code);
            return response;
        }
        response.map(|body| Body::new(Watched { body, watch: self }))
    }

    fn end(&mut self, code: Code) {
        if !std::mem::replace(&mut self.over, true) {
            let Self { service, method, begin, context, caller, .. } = &*self;
            let (took, caller) = (begin.elapsed(), *caller);
            self.observer.ended(Ended { service, method, code, took, context, caller });
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()))
}

// === impl Watched ===

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(code) = frame.trailers_ref().and_then(code_of) {
                    self.watch.end(code);
                }
            }
            Poll::Ready(Some(Err(status))) => self.watch.end(status.code()),
            Poll::Ready(None) => self.watch.end(Code::Unknown),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
