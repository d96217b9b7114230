//! Refusing what cannot be an image before anybody looks for it.

use loggia_evaluator::{Call, Error, Evaluation, Evaluator};
use loggia_registry::Reference;

/// An evaluator that is only asked for what is an image reference.
#[derive(Debug)]
pub(crate) struct Checked<E>(pub(crate) E);

// === impl Checked ===

impl<E: Evaluator> Evaluator for Checked<E> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn evaluate<'a>(&'a self, call: &'a Call) -> Evaluation<'a> {
        match call.image.parse::<Reference>() {
            Ok(_) => self.0.evaluate(call),
            Err(error) => {
                let refused = Error::InvalidImage { image: call.image.clone(), reason: error.to_string() };
                Box::pin(std::future::ready(Err(refused)))
            }
        }
    }
}
