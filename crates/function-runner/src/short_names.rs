//! Images by their short names.

use loggia_evaluator::{Call, Error, Evaluation, Evaluator};
use loggia_registry::with_default_prefix;

/// An evaluator that is asked for an image as it was written, and then below the default prefix.
#[derive(Debug)]
pub(crate) struct ShortNames<E> {
    pub(crate) prefix: String,
    pub(crate) evaluator: E,
}

// === impl ShortNames ===

impl<E: Evaluator> Evaluator for ShortNames<E> {
    fn name(&self) -> &'static str {
        self.evaluator.name()
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        Box::pin(async move {
            let resolved = with_default_prefix(&self.prefix, &call.image);
            match self.evaluator.evaluate(call).await {
                Err(Error::NotFound { .. }) if resolved != call.image => {
                    let resolved = Call { image: resolved.into_owned(), ..call.clone() };
                    self.evaluator.evaluate(&resolved).await
                }
                answer => answer,
            }
        })
    }
}
