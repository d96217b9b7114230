//! The functions of the catalog, which need no process or only one of this program's own.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use bytes::Bytes;
use loggia_evaluator::{Answer, Call, Error, Evaluation, Evaluator};
use loggia_functions::{Output, find};
use loggia_process::Captured;
use loggia_render::SchemaFolders;
use loggia_render::guard::{Guard, GuardedOutput};

/// Runs built-in functions; those that execute programs of their users run in a guarded child.
#[derive(Debug)]
pub(crate) struct Catalog {
    guard: Guard,
    schemas: SchemaFolders,
}

// === impl Catalog ===

impl Catalog {
    /// The catalog, with folders that functions may take schemas from.
    pub(crate) fn new(schemas: SchemaFolders) -> Self {
        Self { guard: Guard::default(), schemas }
    }

    async fn run(&self, call: &Call) -> Result<Answer, Error> {
        let image = || call.image.clone();
        let not_found = || Error::NotFound { image: image(), asked: vec![] };
        let (function, version) = find(&call.image).ok_or_else(not_found)?;
        let resource_list = call.resource_list.clone();
        let ended = if function.guarded {
            self.guard.run_text(&call.image, resource_list).await
        } else {
            let schemas = self.schemas.clone();
            let filter = move || version.filter_with(&resource_list, &schemas);
            let filtered = tokio::task::spawn_blocking(filter).await;
            filtered.map(guarded).map_err(|_| "it panicked".to_owned())
        };
        let defect = |reason| Error::Defect { image: image(), reason };
        let GuardedOutput { stdout, stderr, exit_code } = ended.map_err(defect)?;
        if exit_code == 0 {
            return Ok(Answer { resource_list: stdout, log: stderr.into() });
        }
        let mut captured = Captured::new(stderr.len());
        captured.push(stderr.as_bytes());
        let results = loggia_krm::sdk::results(&stdout).unwrap_or_default();
        // The kernel keeps the exit code in the second byte.
        let status = ExitStatus::from_raw(exit_code << 8);
        Err(Error::Failed { image: image(), status, stderr: captured, results })
    }
}

fn guarded(output: Output) -> GuardedOutput {
    let Output { stdout, stderr, exit_code } = output;
    GuardedOutput { stdout: Bytes::from(stdout), stderr, exit_code }
}

impl Evaluator for Catalog {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(self.run(call))
    }
}
