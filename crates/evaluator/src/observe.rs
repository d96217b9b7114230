//! Watching calls from the outside: which method, how it ended, how long it took.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};

/// The name for methods that a service does not have, so that callers cannot make up names.
const NO_METHOD: &str = "_OTHER";

/// Is told of every call that is over.
pub trait Observer: Send + Sync {
    fn ended(&self, call: Ended<'_>);
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
}

/// A call that goes on. Dropped before its end it counts as cancelled.
pub(crate) struct Watch {
    observer: Arc<dyn Observer>,
    service: &'static str,
    method: String,
    begin: Instant,
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
    ) -> Self {
        Self { observer, service, method: method.to_owned(), begin, over: false }
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
            let Self { service, method, begin, .. } = self;
            self.observer.ended(Ended { service, method, code, took: begin.elapsed() });
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
