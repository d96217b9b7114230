//! The functions of the catalog, inside this process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use loggia_function::{
    Budget, Call, Exit, FunctionRef, Image, Knows, Outcome, Payload, RunError, Running, Runtime, Stderr,
};
use loggia_functions::{CATALOG, Failure, Function, Limits, Output, Version, find};
use loggia_krm::ResourceList;

use crate::guard::Guard;
use crate::schema_folders::SchemaFolders;
use crate::suggest;

/// Runs the functions of the catalog. Those that execute programs of their users run in a guarded child.
#[derive(Clone, Debug)]
pub struct Builtin {
    guard: Arc<Guard>,
    schemas: SchemaFolders,
    own_threads: bool,
}

// === impl Builtin ===

impl Builtin {
    /// Runs functions where they are called.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self { guard: Arc::new(guard), schemas: SchemaFolders::default(), own_threads: false }
    }

    /// Runs functions on threads that may block, as a server must.
    #[must_use]
    pub fn on_own_threads(guard: Guard) -> Self {
        Self { own_threads: true, ..Self::new(guard) }
    }

    /// The same, with folders that functions may take schemas from.
    #[must_use]
    pub fn with_schemas(self, schemas: SchemaFolders) -> Self {
        Self { schemas, ..self }
    }

    async fn evaluate(&self, call: &Call) -> Result<Outcome, RunError> {
        let image = call.function.image().ok_or_else(RunError::not_found)?;
        let (function, version) = look_up(image).ok_or_else(RunError::not_found)?;
        if function.guarded {
            return self.guard.run(image, call).await;
        }
        let (input, schemas) = (call.input.clone(), self.schemas.clone());
        let limits = limits_of(call.budget);
        let run = move || catch_unwind(AssertUnwindSafe(|| run_here(version, input, &schemas, limits))).ok();
        let ended =
            if self.own_threads { tokio::task::spawn_blocking(run).await.unwrap_or(None) } else { run() };
        ended.ok_or(RunError::Panicked)
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

/// What a function may produce: what the caller takes, where it says so.
fn limits_of(budget: Budget) -> Limits {
    const ADVICE: &str =
        "raise --max-request-body-size of function-runner, and of Porch's server to the same value";
    if budget.output >= Limits::GENEROUS.output {
        return Limits::GENEROUS;
    }
    Limits { output: budget.output, advice: ADVICE }
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

    fn image(name: &str) -> FunctionRef {
        FunctionRef::Image(Image::new(name))
    }

    #[test]
    fn what_the_catalog_does_not_have_comes_with_advice() {
        let builtin = Builtin::new(Guard::default());
        assert!(matches!(builtin.knows(&image("no-op:latest")), Knows::Yes));
        assert!(matches!(builtin.knows(&image("noop")), Knows::No));
        let advice = builtin.advice(&image("noop"));
        assert!(advice[0].contains("no-op"), "{advice:?}");
        assert!(matches!(builtin.knows(&FunctionRef::Command("no-op".into())), Knows::No));
    }

    #[tokio::test]
    async fn text_and_tree_come_back_as_they_went_in() {
        let builtin = Builtin::new(Guard::default());
        let list = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n";
        let call = Call::of_image(Image::new("no-op:latest"), list.into(), Budget::UNBOUNDED);
        let outcome = builtin.run(&call).await.unwrap();
        assert!(matches!(&outcome.output, Payload::Bytes(bytes) if !bytes.is_empty()));
        let call = Call { input: Payload::List(ResourceList::default()), ..call };
        let outcome = builtin.run(&call).await.unwrap();
        assert!(outcome.exit.success() && matches!(outcome.output, Payload::List(_)));
    }
}
