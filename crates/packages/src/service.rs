//! The task handler behind gRPC: `loggia.v1.PackageService`.
//!
//! Each call is a task of its own that the answer's stream owns: a caller that goes away ends the render, and with
//! it the function that runs. The task does not wait for the caller to read, so that a slow reader holds up
//! nothing but its own answer.

mod convert;
mod flow;
pub mod wire;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use loggia_function::{RunError, Runtime, context};
use loggia_grpc::{Lifecycle, Phase, deadline, status};
use loggia_render::Options;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response, Status};
use tracing::info;

use self::flow::{Flow, Reporter};
use self::wire::package_service_server::PackageServiceServer;
use self::wire::{
    ApplyTaskRequest, PatchKptfileRequest, RenderEvent, RenderRequest, ReplaceResourcesRequest,
    package_service_server,
};
use crate::task::TaskHandler;

/// Renders packages over the wire.
#[derive(Clone, Debug)]
pub struct PackageService {
    /// What runs the functions.
    pub runtime: Arc<dyn Runtime>,
    /// How to render.
    pub options: Options,
    /// When to take calls.
    pub lifecycle: Lifecycle,
    /// The most that a message may take, either way.
    pub message_limit: usize,
}

/// What happens in a call. Dropping it ends the call.
#[derive(Debug)]
pub struct Events {
    receiver: mpsc::UnboundedReceiver<Result<RenderEvent, Status>>,
    task: JoinHandle<()>,
    ended: bool,
    /// The bytes of events that the caller has not read yet.
    unread: Arc<AtomicUsize>,
}

// === impl PackageService ===

impl PackageService {
    /// The names of its methods.
    pub const METHODS: &[&str] = &["Render", "ApplyTask", "PatchKptfile", "ReplaceResources"];

    /// The service for a port.
    #[must_use]
    pub fn into_server(self) -> PackageServiceServer<Self> {
        let limit = self.message_limit;
        PackageServiceServer::new(self)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    fn start(&self, flow: Flow, deadline: Option<Instant>) -> Result<Response<Events>, Status> {
        let mut in_flight = self.lifecycle.enter().map_err(|phase| {
            let text = match phase {
                Phase::Starting => "the package service is starting; try again",
                _ => "the package service is shutting down; try again",
            };
            status::of_error("", &RunError::Unavailable(text))
        })?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let unread = Arc::<AtomicUsize>::default();
        let told = Arc::clone(&unread);
        let Self { runtime, options, message_limit, .. } = self.clone();
        let task = tokio::spawn(context::carried(async move {
            let (begin, name) = (Instant::now(), flow.name());
            let mut reporter = Reporter::new(sender.clone(), message_limit, told);
            let handler = TaskHandler { options: &options, runtime: &*runtime };
            let ended = tokio::select! {
                biased;
                ended = flow.run(handler, &mut reporter) => ended.and_then(|event| fit(event, message_limit)),
                () = passed(deadline) => {
                    Err(Status::deadline_exceeded("the render took longer than the caller's deadline, or than --call-timeout for a caller without one; nothing was changed"))
                }
                () = in_flight.given_up() => {
                    let error = RunError::Interrupted("the package service stopped before the render ended; try again");
                    Err(status::of_error("", &error))
                }
            };
            let code = ended.as_ref().map_or_else(Status::code, |_| tonic::Code::Ok);
            info!(flow = name, ?code, took = ?begin.elapsed(), "Handled a package");
            let _ = sender.send(ended);
            // The call is in flight until its answer was read.
            tokio::select! {
                () = sender.closed() => {}
                () = in_flight.given_up() => {}
            }
        }));
        Ok(Response::new(Events { receiver, task, ended: false, unread }))
    }
}

/// The outcome, if it is small enough for a message.
fn fit(event: RenderEvent, limit: usize) -> Result<RenderEvent, Status> {
    match event.encoded_len() {
        size if size <= limit => Ok(event),
        size => Err(status::of_error("", &RunError::AnswerTooLarge { size, limit })),
    }
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[tonic::async_trait]
impl package_service_server::PackageService for PackageService {
    type RenderStream = Events;
    type ApplyTaskStream = Events;
    type PatchKptfileStream = Events;
    type ReplaceResourcesStream = Events;

    async fn render(&self, request: Request<RenderRequest>) -> Result<Response<Events>, Status> {
        let deadline = deadline(&request);
        self.start(request.into_inner().into(), deadline)
    }

    async fn apply_task(&self, request: Request<ApplyTaskRequest>) -> Result<Response<Events>, Status> {
        let deadline = deadline(&request);
        self.start(request.into_inner().into(), deadline)
    }

    async fn patch_kptfile(&self, request: Request<PatchKptfileRequest>) -> Result<Response<Events>, Status> {
        let deadline = deadline(&request);
        self.start(request.into_inner().into(), deadline)
    }

    async fn replace_resources(
        &self,
        request: Request<ReplaceResourcesRequest>,
    ) -> Result<Response<Events>, Status> {
        let deadline = deadline(&request);
        self.start(request.into_inner().into(), deadline)
    }
}

// === impl Events ===

impl Stream for Events {
    type Item = Result<RenderEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(event) = self.receiver.poll_recv(context) else { return Poll::Pending };
        let event = event.unwrap_or_else(|| {
            // The task always says how it ended, unless it panicked.
            Err(Status::internal("the render met something unforeseen; this is a defect, please report it"))
        });
        self.ended = event.as_ref().map_or(true, flow::is_outcome);
        // The outcome was not counted.
        if let (Ok(event), false) = (&event, self.ended) {
            self.unread.fetch_sub(event.encoded_len(), Ordering::Relaxed);
        }
        Poll::Ready(Some(event))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}
