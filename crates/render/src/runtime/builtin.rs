//! Functions of the catalog, inside this process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loggia_functions::{Failure, find};
use loggia_krm::ResourceList;

use super::{Call, FunctionRef, FunctionRuntime, Outcome, Running, RuntimeError};
use crate::guard::Guard;
use crate::schema_folders::SchemaFolders;
use crate::suggest;

/// Runs the functions of the catalog. Those that execute programs of their users run in a guarded child.
#[derive(Clone, Debug)]
pub struct Builtin {
    guard: Guard,
    schemas: SchemaFolders,
    own_threads: bool,
}

impl Builtin {
    /// Runs functions where they are called.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        Self { guard, schemas: SchemaFolders::default(), own_threads: false }
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
}

impl FunctionRuntime for Builtin {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn check(&self, function: &FunctionRef) -> Result<(), RuntimeError> {
        match function {
            FunctionRef::Image(image) if find(image).is_some() => Ok(()),
            FunctionRef::Image(image) => {
                Err(RuntimeError::NotFound { function: image.clone(), advice: suggest::advice(image) })
            }
            FunctionRef::Exec(_) => Err(function.not_found()),
        }
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(async move {
            self.check(&call.function)?;
            let image = call.function.name();
            let Some((function, version)) = find(image) else { return Err(call.function.not_found()) };
            if function.guarded {
                return self.guard.run(&call.function, &call.list).await;
            }
            let (list, schemas) = (call.list.clone(), self.schemas.clone());
            let run = move || run_here(list, |list| version.run_with(list, &schemas));
            let ended =
                if self.own_threads { tokio::task::spawn_blocking(run).await.unwrap_or(None) } else { run() };
            ended.ok_or_else(|| {
                let text = format!("KRM function panicked: {image} is built in and met something unforeseen; please report it");
                RuntimeError::Failed(text)
            })
        })
    }
}

/// `None` if the function panicked.
fn run_here(
    mut list: ResourceList,
    run: impl FnOnce(&mut ResourceList) -> Result<(), Failure>,
) -> Option<Outcome> {
    let ended = catch_unwind(AssertUnwindSafe(|| run(&mut list))).ok()?;
    let (stderr, exit_code) = match ended {
        Ok(()) => (std::mem::take(&mut list.printed), 0),
        Err(Failure { stderr }) => (stderr, 1),
    };
    Some(Outcome { list, stderr, exit_code, said_nothing: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_the_function_and_nothing_else() {
        assert!(run_here(ResourceList::default(), |_| panic!("unforeseen")).is_none());
        let after = run_here(ResourceList::default(), |_| Ok(())).map(|outcome| outcome.exit_code);
        assert_eq!(after, Some(0));
    }
}
