//! Who calls, and whether it may.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use loggia_function::Grant;
use rustls::pki_types::CertificateDer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::Status;

/// Decides about calls before their messages are read.
pub trait Gate: fmt::Debug + Send + Sync {
    /// Lets a call in, or says why not. It may wait for its turn until the deadline.
    fn admit<'a>(
        &'a self,
        caller: &'a Caller,
        service: &'a str,
        deadline: Option<Instant>,
    ) -> Pin<Box<dyn Future<Output = Result<Admission, Denial>> + Send + 'a>>;
}

/// What a call was let in with. It holds its turn until it is dropped.
#[derive(Debug, Default)]
pub struct Admission {
    /// What the call may run; none for everything.
    pub grant: Option<Arc<Grant>>,
    pub call: Option<OwnedSemaphorePermit>,
    /// What its message takes from.
    pub bytes: Option<Pledge>,
}

/// Why a call was not let in.
#[derive(Debug)]
pub struct Denial {
    /// The rule that says so; none if no rule is for the caller.
    pub rule: Option<Arc<str>>,
    pub status: Status,
}

/// Bytes that several calls share.
#[derive(Clone, Debug)]
pub struct Pledge {
    pub left: Arc<Semaphore>,
    pub limit: usize,
    /// Who set the limit, for messages.
    pub whose: String,
}

/// The other end of a connection, by the names in its certificate. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    names: Arc<[String]>,
}

// === impl Pledge ===

impl Pledge {
    /// Waits, in order, for what a message of this size takes.
    pub(crate) async fn take(&self, size: usize, until: Instant) -> Result<OwnedSemaphorePermit, Status> {
        let Self { left, limit, whose } = self;
        let refused = |why: &str| {
            let text = format!("the message of {size} bytes {why} the {limit} bytes of {whose}");
            Err(Status::resource_exhausted(text))
        };
        let Some(wanted) = u32::try_from(size).ok().filter(|_| size <= *limit) else {
            return refused("is more than");
        };
        match tokio::time::timeout_at(until, Arc::clone(left).acquire_many_owned(wanted)).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => refused("got no share in time of"),
        }
    }
}

// === impl Caller ===

impl Caller {
    /// A caller with these names.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { names: names.into_iter().map(ToOwned::to_owned).collect() }
    }

    /// The caller that showed these certificates, its own first. They were verified when the connection was made.
    pub(crate) fn of(certificates: Option<&[CertificateDer<'_>]>) -> Self {
        let Some(own) = certificates.and_then(<[_]>::first) else { return Self::default() };
        let Ok(own) = webpki::EndEntityCert::try_from(own) else { return Self::default() };
        let hosts = own.valid_dns_names().map(|name| format!("dns:{}", name.to_ascii_lowercase()));
        let uris = own.valid_uri_names().map(ToOwned::to_owned);
        Self { names: uris.chain(hosts).collect() }
    }

    /// URIs as they are, host names as `dns:NAME`. None without a certificate.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.names {
            [] => f.write_str("a caller without a certificate"),
            [first, ..] => write!(f, "caller {first}"),
        }
    }
}
