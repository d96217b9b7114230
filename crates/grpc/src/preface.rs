//! The preface: what an HTTP/2 client sends first.
//!
//! HTTP/2's own pings watch over a peer only from then on, so the server waits for it with a time limit of its own and
//! then hands the stream on, to be read from its beginning.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// The length of the preface.
const LENGTH: usize = 24;

/// A stream whose peer has sent its preface, to be read from its beginning.
#[derive(Debug)]
pub(crate) struct Prefaced<S> {
    preface: [u8; LENGTH],
    replayed: usize,
    stream: S,
}

// === impl Prefaced ===

impl<S: AsyncRead + Unpin> Prefaced<S> {
    /// Waits for the preface. What it says is HTTP/2's business.
    pub(crate) async fn read(mut stream: S) -> io::Result<Self> {
        let mut preface = [0; LENGTH];
        stream.read_exact(&mut preface).await?;
        Ok(Self { preface, replayed: 0, stream })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = self.preface.get(self.replayed..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..count).unwrap_or_default());
        self.replayed += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
