//! Several evaluators, one after another.

use std::sync::Arc;

use crate::{Call, Error, Evaluation, Evaluator, context};

/// Asks each evaluator in turn; only one that does not have the function lets the next one try.
#[derive(Clone, Debug, Default)]
pub struct Multi {
    evaluators: Vec<Arc<dyn Evaluator>>,
}

// === impl Multi ===

impl Multi {
    /// Asks these, in this order.
    pub fn new(evaluators: Vec<Arc<dyn Evaluator>>) -> Self {
        Self { evaluators }
    }
}

impl Evaluator for Multi {
    fn name(&self) -> &'static str {
        "multi"
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(async move {
            let mut asked = Vec::with_capacity(self.evaluators.len());
            for evaluator in &self.evaluators {
                context::note(|noted| noted.evaluator = Some(evaluator.name()));
                match evaluator.evaluate(call).await {
                    Err(Error::NotFound { .. }) => asked.push(evaluator.name()),
                    answer => return answer,
                }
            }
            context::note(|noted| noted.evaluator = None);
            Err(Error::NotFound { image: call.image.clone(), asked })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Answer;

    /// Gives the same answer every time, and counts.
    #[derive(Debug)]
    struct Stub {
        name: &'static str,
        answer: fn(&Call) -> Result<Answer, Error>,
        calls: AtomicUsize,
    }

    fn stub(name: &'static str, answer: fn(&Call) -> Result<Answer, Error>) -> Arc<Stub> {
        Arc::new(Stub { name, answer, calls: AtomicUsize::new(0) })
    }

    impl Evaluator for Stub {
        fn name(&self) -> &'static str {
            self.name
        }

        fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { (self.answer)(call) })
        }
    }

    fn missing(call: &Call) -> Result<Answer, Error> {
        Err(Error::NotFound { image: call.image.clone(), asked: vec![] })
    }

    fn found(_: &Call) -> Result<Answer, Error> {
        Ok(Answer { log: "found".into(), ..Answer::default() })
    }

    fn broken(_: &Call) -> Result<Answer, Error> {
        Err(Error::Unavailable("broken"))
    }

    async fn ask(stubs: &[&Arc<Stub>]) -> (Result<Answer, Error>, Vec<usize>) {
        let multi = Multi::new(stubs.iter().map(|stub| Arc::clone(stub) as Arc<dyn Evaluator>).collect());
        let call = Call { image: "x:v1".into(), resource_list: "".into(), deadline: None };
        let answer = multi.evaluate(&call).await;
        (answer, stubs.iter().map(|stub| stub.calls.load(Ordering::Relaxed)).collect())
    }

    #[tokio::test]
    async fn not_found_alone_goes_on_to_the_next() {
        let (answer, calls) =
            ask(&[&stub("builtin", missing), &stub("exec", found), &stub("pod", found)]).await;
        assert_eq!(answer.unwrap().log, "found");
        assert_eq!(calls, [1, 1, 0]);
    }

    #[tokio::test]
    async fn any_other_error_is_final() {
        let (answer, calls) = ask(&[&stub("exec", broken), &stub("pod", found)]).await;
        assert!(matches!(answer, Err(Error::Unavailable("broken"))));
        assert_eq!(calls, [1, 0]);
    }

    #[tokio::test]
    async fn a_final_not_found_names_the_image_and_who_was_asked() {
        let (answer, calls) = ask(&[&stub("builtin", missing), &stub("exec", missing)]).await;
        let error = answer.unwrap_err();
        assert_eq!(error.to_string(), r#"function "x:v1" not found"#);
        assert!(matches!(error, Error::NotFound { asked, .. } if asked == ["builtin", "exec"]));
        assert_eq!(calls, [1, 1]);
    }

    #[tokio::test]
    async fn without_evaluators_nothing_is_found() {
        let (answer, _) = ask(&[]).await;
        assert!(matches!(answer, Err(Error::NotFound { asked, .. }) if asked.is_empty()));
    }
}
