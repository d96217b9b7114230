//! Several runtimes, one after another.

use std::sync::Arc;

use crate::{Call, FunctionRef, Knows, Outcome, RunError, Running, Runtime};

/// Tries runtimes in order. Only one that does not have the function lets the next one try.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    runtimes: Vec<Arc<dyn Runtime>>,
}

// === impl Chain ===

impl Chain {
    /// These, in this order.
    #[must_use]
    pub fn new(runtimes: Vec<Arc<dyn Runtime>>) -> Self {
        Self { runtimes }
    }

    /// Adds one to be tried last.
    pub fn push(&mut self, runtime: impl Runtime + 'static) {
        self.runtimes.push(Arc::new(runtime));
    }

    /// The names of the runtimes, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.runtimes.iter().map(|runtime| runtime.name()).collect()
    }

    async fn first(&self, call: &Call) -> Result<Outcome, RunError> {
        let mut advice = Vec::new();
        for runtime in &self.runtimes {
            match runtime.knows(&call.function) {
                Knows::No => {}
                Knows::Refused(error) => return Err(error),
                Knows::Yes | Knows::AskToRun => {
                    call.record.note(|recorded| recorded.runtime = Some(runtime.name()));
                    match runtime.run(call).await {
                        Err(RunError::NotFound { advice: given, .. }) => advice.extend(given),
                        answer => return answer,
                    }
                }
            }
        }
        call.record.note(|recorded| recorded.runtime = None);
        advice.splice(0..0, self.advice(&call.function));
        Err(RunError::NotFound { asked: self.names(), advice })
    }
}

impl Runtime for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn knows(&self, function: &FunctionRef) -> Knows {
        let known = self.runtimes.iter().map(|runtime| runtime.knows(function));
        known.into_iter().find(|knows| !matches!(knows, Knows::No)).unwrap_or(Knows::No)
    }

    fn advice(&self, function: &FunctionRef) -> Vec<String> {
        self.runtimes.iter().flat_map(|runtime| runtime.advice(function)).collect()
    }

    fn run<'a>(&'a self, call: &'a Call) -> Running<'a> {
        Box::pin(self.first(call))
    }

    fn tags(&self, image: &str) -> Vec<String> {
        self.runtimes.iter().flat_map(|runtime| runtime.tags(image)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Budget, Image};

    type Answer = fn() -> Result<Outcome, RunError>;

    /// Gives the same answer every time, and counts.
    #[derive(Debug)]
    struct Stub {
        name: &'static str,
        knows: Knows,
        answer: Answer,
        calls: AtomicUsize,
    }

    fn stub(name: &'static str, knows: Knows, answer: Answer) -> Arc<Stub> {
        Arc::new(Stub { name, knows, answer, calls: AtomicUsize::new(0) })
    }

    fn asked(name: &'static str, answer: Answer) -> Arc<Stub> {
        stub(name, Knows::AskToRun, answer)
    }

    impl Runtime for Stub {
        fn name(&self) -> &'static str {
            self.name
        }

        fn knows(&self, _: &FunctionRef) -> Knows {
            self.knows.clone()
        }

        fn advice(&self, _: &FunctionRef) -> Vec<String> {
            vec![format!("ask {} again", self.name)]
        }

        fn run<'a>(&'a self, _: &'a Call) -> Running<'a> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { (self.answer)() })
        }
    }

    fn missing() -> Result<Outcome, RunError> {
        Err(RunError::not_found())
    }

    fn found() -> Result<Outcome, RunError> {
        Ok(Outcome { stderr: "found".to_owned().into(), ..Outcome::default() })
    }

    fn broken() -> Result<Outcome, RunError> {
        Err(RunError::Unavailable("broken"))
    }

    async fn ask(stubs: &[&Arc<Stub>]) -> (Result<Outcome, RunError>, Vec<usize>, Option<&'static str>) {
        let chain = Chain::new(stubs.iter().map(|stub| Arc::clone(stub) as Arc<dyn Runtime>).collect());
        let call = Call::of_image(Image::new("x:v1"), "".into(), Budget::UNBOUNDED);
        let answer = chain.run(&call).await;
        let calls = stubs.iter().map(|stub| stub.calls.load(Ordering::Relaxed)).collect();
        (answer, calls, call.record.read().runtime)
    }

    #[tokio::test]
    async fn not_found_alone_goes_on_to_the_next() {
        let (answer, calls, runtime) = ask(&[
            &stub("builtin", Knows::No, found),
            &asked("exec", missing),
            &asked("sandbox", found),
            &asked("pod", found),
        ])
        .await;
        assert_eq!(answer.unwrap().stderr.text(), "found");
        assert_eq!(calls, [0, 1, 1, 0]);
        assert_eq!(runtime, Some("sandbox"));
    }

    #[tokio::test]
    async fn any_other_error_is_final() {
        let (answer, calls, _) = ask(&[&asked("exec", broken), &asked("pod", found)]).await;
        assert!(matches!(answer, Err(RunError::Unavailable("broken"))));
        assert_eq!(calls, [1, 0]);
        let refuses = stub("exec", Knows::Refused(RunError::NotAllowed), found);
        let (answer, calls, _) = ask(&[&refuses, &asked("pod", found)]).await;
        assert!(matches!(answer, Err(RunError::NotAllowed)));
        assert_eq!(calls, [0, 0]);
    }

    #[tokio::test]
    async fn a_final_not_found_names_the_runtimes_and_their_advice() {
        let builtin = stub("builtin", Knows::No, found);
        let (answer, _, runtime) = ask(&[&builtin, &asked("exec", missing)]).await;
        let error = answer.unwrap_err();
        assert_eq!(error.describe("x:v1"), r#"function "x:v1" not found"#);
        let RunError::NotFound { asked, advice } = error else { panic!("{error:?}") };
        assert_eq!(
            (asked, advice),
            (vec!["builtin", "exec"], vec!["ask builtin again".to_owned(), "ask exec again".to_owned()])
        );
        assert_eq!(runtime, None);
    }

    #[tokio::test]
    async fn without_runtimes_nothing_is_found() {
        let (answer, ..) = ask(&[]).await;
        assert!(matches!(answer, Err(RunError::NotFound { asked, .. }) if asked.is_empty()));
    }
}
