//! One call: what it asks for, and what it tells while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loggia_krm::Files;
use loggia_render::{Ending, Progress};
use prost::Message as _;
use tokio::sync::mpsc::UnboundedSender;
use tonic::Status;

use super::wire::render_event::Event;
use super::wire::{self, RenderEvent};
use crate::task::{Creation, Replacement, TaskError, TaskHandler, Update};

/// What a call asks for.
#[derive(Debug)]
pub(super) enum Flow {
    Render { files: Files, push_on_failure: bool },
    Apply { files: Files, creation: Creation },
    Update { files: Files, update: Update },
    Replace(Replacement),
}

/// Tells the caller what happens.
#[derive(Debug)]
pub(super) struct Reporter {
    sender: UnboundedSender<Result<RenderEvent, Status>>,
    message_limit: usize,
    /// The bytes of events that the caller has not read yet.
    unread: Arc<AtomicUsize>,
    /// Where the function runs that started last.
    package: String,
}

pub(super) fn is_outcome(event: &RenderEvent) -> bool {
    matches!(event.event, Some(Event::Outcome(_)))
}

/// The status of a task that could not be carried out.
fn status(error: &TaskError) -> Status {
    let text = error.to_string();
    match error {
        TaskError::NotDraft(_) => Status::failed_precondition(text),
        TaskError::TaskCount
        | TaskError::UnsupportedTask(_)
        | TaskError::BadPath { .. }
        | TaskError::Context(_)
        | TaskError::Metadata { .. }
        | TaskError::Patch { .. }
        | TaskError::Heal(_) => Status::invalid_argument(text),
    }
}

// === impl Flow ===

impl Flow {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Render { .. } => "Render",
            Self::Apply { .. } => "ApplyTask",
            Self::Update { .. } => "PatchKptfile",
            Self::Replace(_) => "ReplaceResources",
        }
    }

    pub(super) async fn run(
        self,
        handler: TaskHandler<'_>,
        reporter: &mut Reporter,
    ) -> Result<RenderEvent, Status> {
        let handled = match self {
            Self::Render { files, push_on_failure } => handler.render(files, push_on_failure, reporter).await,
            Self::Apply { files, creation } => handler.apply_task(files, &creation, reporter).await,
            Self::Update { files, update } => handler.update(files, &update, reporter).await,
            Self::Replace(replacement) => handler.replace(replacement, reporter).await,
        };
        match handled {
            Ok(handled) => Ok(RenderEvent { event: Some(Event::Outcome(handled.into())) }),
            Err(error) => Err(status(&error)),
        }
    }
}

// === impl Reporter ===

impl Reporter {
    pub(super) fn new(
        sender: UnboundedSender<Result<RenderEvent, Status>>,
        message_limit: usize,
        unread: Arc<AtomicUsize>,
    ) -> Self {
        Self { sender, message_limit, unread, package: String::new() }
    }

    fn tell(&self, event: Event) {
        let event = RenderEvent { event: Some(event) };
        self.unread.fetch_add(event.encoded_len(), Ordering::Relaxed);
        // A caller that is gone ends this task anyway.
        let _ = self.sender.send(Ok(event));
    }
}

impl Progress for Reporter {
    fn package(&mut self, display_path: &str) {
        self.tell(Event::PackageStarted(wire::PackageStarted { package: display_path.to_owned() }));
    }

    fn started(&mut self, function: &str, resources: Option<usize>, package: Option<&str>) {
        package.unwrap_or_default().clone_into(&mut self.package);
        self.tell(Event::FunctionStarted(wire::FunctionStarted {
            function: function.to_owned(),
            package: self.package.clone(),
            resources: resources.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        }));
    }

    fn ended(&mut self, function: &str, ending: &Ending<'_>) {
        let mut ended = wire::FunctionEnded {
            function: function.to_owned(),
            package: self.package.clone(),
            passed: ending.passed,
            took: prost_types::Duration::try_from(ending.took).ok(),
            run: ending.result.map(Into::into),
            run_left_out: false,
        };
        /// For the frame around the message.
        const MARGIN: usize = 64;
        // A caller that does not read must not have us keep what every function said.
        let unread = self.unread.load(Ordering::Relaxed);
        if unread + ended.encoded_len() + MARGIN > self.message_limit {
            ended.run = None;
            ended.run_left_out = true;
        }
        self.tell(Event::FunctionEnded(ended));
    }
}
