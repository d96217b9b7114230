//! The functions of the catalog, in worker processes or inside this one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use loggia_function::{
    Budget, Call, Exit, FunctionRef, Guarded, Image, Knows, Outcome, Payload, RunError, Running, Runtime,
    Stderr,
};
use loggia_functions::{CATALOG, Failure, Function, Limits, Output, Version, find};
use loggia_krm::ResourceList;
use loggia_process::passed;
use tokio::time::Instant;

use crate::schema_folders::SchemaFolders;
use crate::suggest;
use crate::workers::Workers;

/// Runs the functions of the catalog. Those that execute programs of their users always run in a worker.
#[derive(Clone, Debug)]
pub struct Builtin {
    workers: Workers,
    place: Place,
}

/// Where the other functions run.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In workers too.
    Workers,
    /// On another thread of this process, for at most as long as a worker would have.
    Thread,
    /// Where they are called, for as long as they take.
    Here,
}

// === impl Builtin ===

impl Builtin {
    /// Runs functions where they are called. Nothing can stop them.
    #[must_use]
    pub fn new(workers: Workers) -> Self {
        Self { workers, place: Place::Here }
    }

    /// Runs every function in a worker, as a server must: a call can hurt only itself.
    #[must_use]
    pub fn in_workers(workers: Workers) -> Self {
        Self { workers, place: Place::Workers }
    }

    /// Runs functions on another thread, so that a deadline and a caller that goes away are heard while one runs. What
    /// runs then goes on until the process ends: this is for commands.
    #[must_use]
    pub fn on_threads(workers: Workers) -> Self {
        Self { workers, place: Place::Thread }
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let image = call.function.image().ok_or_else(RunError::not_found)?;
        let (function, version) = look_up(image).ok_or_else(RunError::not_found)?;
        if function.guarded {
            return self.workers.run(image, function, call).await;
        }
        match self.place {
            Place::Workers => self.workers.run(image, function, call).await,
            Place::Thread => self.on_thread(version, call).await,
            Place::Here => run_caught(
                version,
                call.input.clone(),
                &self.workers.settings().schemas,
                limits_of(call.budget, IN_A_COMMAND),
            ),
        }
    }

    async fn on_thread(&self, version: &'static Version, call: &Call) -> Result<Outcome, RunError> {
        let settings = self.workers.settings();
        let (input, schemas) = (call.input.clone(), settings.schemas.clone());
        let limits = limits_of(call.budget, IN_A_COMMAND);
        let run = move || run_caught(version, input, &schemas, limits);
        let thread = tokio::task::spawn_blocking(run);
        let budget = call.budget.until(Instant::now().checked_add(settings.timeout));
        tokio::select! {
            biased;
            ended = thread => ended.unwrap_or(Err(RunError::Panicked)),
            () = passed(budget.deadline) => Err(match budget.deadline == call.budget.deadline {
                true => RunError::TimedOut,
                false => over_time(settings.timeout, settings.flags.timeout),
            }),
        }
    }
}

impl Runtime for Builtin {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        match function {
            FunctionRef::Image(image) if look_up(image).is_some() => Knows::Yes,
            _ => Knows::No,
        }
    }

    fn advice(&self, function: &FunctionRef) -> Vec<String> {
        function.image().map(|image| suggest::advice(image.written())).unwrap_or_default()
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.evaluate(call))
    }

    fn tags(&self, image: &str) -> Vec<String> {
        let base = image.rsplit('/').next().unwrap_or(image);
        let function = CATALOG.iter().find(|function| function.name == base);
        let versions = function.into_iter().flat_map(|function| function.versions);
        versions.flat_map(|version| version.tags).map(ToString::to_string).collect()
    }
}

/// The catalog knows its functions by their short names too, so the lookup uses what the caller wrote.
fn look_up(image: &Image) -> Option<(&'static Function, &'static Version)> {
    find(image.written())
}

/// What to do about a function that produces too much, where messages are the limit.
pub(crate) const ON_THE_WIRE: &str =
    "raise --max-request-body-size of function-runner, and of Porch's server to the same value";

/// The same on the command line.
const IN_A_COMMAND: &str = "--max-package-size allows more";

/// What a function may produce: what the caller takes, where it says so.
pub(crate) fn limits_of(budget: Budget, advice: &'static str) -> Limits {
    match budget.output {
        output if output >= Limits::GENEROUS.output => Limits::GENEROUS,
        output => Limits { output, advice },
    }
}

fn over_time(limit: Duration, flag: &'static str) -> RunError {
    RunError::Guarded(Guarded::OverTime { limit, flag })
}

fn run_caught(
    version: &Version,
    input: Payload,
    schemas: &SchemaFolders,
    limits: Limits,
) -> Result<Outcome, RunError> {
    catch_unwind(AssertUnwindSafe(|| run_here(version, input, schemas, limits)))
        .map_err(|_| RunError::Panicked)
}

/// Runs a function on a list in the form in which it came: as text, as the original's program would, or as a tree.
fn run_here(version: &Version, input: Payload, schemas: &SchemaFolders, limits: Limits) -> Outcome {
    match input {
        Payload::Bytes(bytes) => {
            let Output { stdout, stderr, exit_code } = version.filter_within(&bytes, schemas, limits);
            outcome(Payload::Bytes(Bytes::from(stdout)), stderr, exit_code)
        }
        Payload::List(list) => run_on_tree(list, |list| version.run_within(list, schemas, limits)),
    }
}

fn run_on_tree(
    mut list: ResourceList,
    run: impl FnOnce(&mut ResourceList) -> Result<(), Failure>,
) -> Outcome {
    match run(&mut list) {
        Ok(()) => {
            let printed = std::mem::take(&mut list.printed);
            outcome(Payload::List(list), printed, 0)
        }
        Err(Failure { stderr }) => outcome(Payload::List(list), stderr, 1),
    }
}

fn outcome(output: Payload, stderr: String, exit_code: i32) -> Outcome {
    Outcome { output, stderr: Stderr::from(stderr), exit: Exit::Code(exit_code), remote: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::Settings;

    fn image(name: &str) -> FunctionRef {
        FunctionRef::Image(Image::new(name))
    }

    #[test]
    fn what_the_catalog_does_not_have_comes_with_advice() {
        let builtin = Builtin::new(Workers::new(Settings::one_by_one()));
        assert!(matches!(builtin.knows(&image("no-op:latest")), Knows::Yes));
        assert!(matches!(builtin.knows(&image("noop")), Knows::No));
        let advice = builtin.advice(&image("noop"));
        assert!(advice[0].contains("no-op"), "{advice:?}");
        assert!(matches!(builtin.knows(&FunctionRef::Command("no-op".into())), Knows::No));
    }

    #[tokio::test]
    async fn text_and_tree_come_back_as_they_went_in() {
        let builtin = Builtin::new(Workers::new(Settings::one_by_one()));
        let list = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n";
        let call = Call::of_image(Image::new("no-op:latest"), list.into(), Budget::UNBOUNDED);
        let outcome = builtin.run(&call).await.unwrap();
        assert!(matches!(&outcome.output, Payload::Bytes(bytes) if !bytes.is_empty()));
        let call = Call { input: Payload::List(ResourceList::default()), ..call };
        let outcome = builtin.run(&call).await.unwrap();
        assert!(outcome.exit.success() && matches!(outcome.output, Payload::List(_)));
    }
}
