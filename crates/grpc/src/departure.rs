//! Answers on their way out, in pieces that HTTP/2 takes as the caller reads.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::line::OpenCall;

/// The largest piece: HTTP/2 takes each whole, however little the caller is ready to read.
const PIECE: usize = 16 << 10;

/// An answer up to this size goes out in one piece.
const SMALL: usize = 1 << 10;

/// The body of an answer. Its call is open until the last of it was taken.
///
/// The last piece of a message is a single byte. HTTP/2 takes a piece as soon as the caller has room for one byte of
/// it, so when that byte is taken, all before it has room: what a caller does not read is never out of our sight.
#[derive(Debug)]
pub(crate) struct Departing {
    body: Body,
    rest: Bytes,
    call: OpenCall,
}

// === impl Departing ===

impl Departing {
    /// The response, as it leaves.
    pub(crate) fn answer(response: http::Response<Body>, call: OpenCall) -> http::Response<Body> {
        response.map(|body| Body::new(Self { body, rest: Bytes::new(), call }))
    }

    fn piece(&mut self) -> Bytes {
        let length = match self.rest.len() {
            small if small <= SMALL => small,
            length => (length - 1).min(PIECE),
        };
        self.rest.split_to(length)
    }
}

impl http_body::Body for Departing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.call.taken();
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
        let piece = self.piece();
        self.call.given();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}
