//! The alert by which a TLS peer refuses this end, kept as data.
//!
//! In TLS 1.3 a server refuses a client's certificate after the client has finished its handshake. The alert then
//! arrives while HTTP/2 reads, and `h2` keeps of an I/O error only its kind and its text.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first alert that arrived. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alert(Arc<OnceLock<AlertDescription>>);

/// A TLS stream whose alert is kept.
#[derive(Debug)]
pub(crate) struct Alerted<S> {
    pub(crate) stream: S,
    pub(crate) alert: Alert,
}

// === impl Alert ===

impl Alert {
    pub(crate) fn get(&self) -> Option<AlertDescription> {
        self.0.get().copied()
    }

    fn keep(&self, error: &io::Error) {
        let error = error.get_ref().and_then(|error| error.downcast_ref());
        if let Some(rustls::Error::AlertReceived(alert)) = error {
            let _ = self.0.set(*alert);
        }
    }
}

// === impl Alerted ===

impl<S: AsyncRead + Unpin> AsyncRead for Alerted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.alert.keep(error);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Alerted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
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
