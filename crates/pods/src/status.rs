//! The code of a call that gets no instance.

use loggia_function::Code;

use crate::pool::Cause;
use crate::pool::state::Refusal;

// === impl Refusal ===

impl Refusal {
    /// The code that the caller gets. Porch's runner reports what went wrong with a pod as a plain error, which gRPC sends as
    /// UNKNOWN; only what callers can act on has a code of its own.
    pub(crate) fn code(&self) -> Code {
        match self {
            Refusal::QueueFull { .. } | Refusal::NoPlace { .. } => Code::ResourceExhausted,
            Refusal::NoInstance(failure) => match failure.cause {
                Cause::TimedOut => Code::DeadlineExceeded,
                Cause::Defect => Code::Internal,
                Cause::Image
                | Cause::Template
                | Cause::Cluster
                | Cause::Crowded
                | Cause::Failed
                | Cause::Misrouted => Code::Unknown,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pool::Failure;

    #[test]
    fn only_what_a_caller_can_act_on_has_a_code_of_its_own() {
        let of = |cause| Refusal::NoInstance(Arc::new(Failure::lasting(cause, ""))).code();
        assert_eq!(Refusal::QueueFull { waiting: 1 }.code(), Code::ResourceExhausted);
        assert_eq!(Refusal::NoPlace { most: 1 }.code(), Code::ResourceExhausted);
        assert_eq!(of(Cause::TimedOut), Code::DeadlineExceeded);
        assert_eq!(of(Cause::Defect), Code::Internal);
        for cause in [Cause::Image, Cause::Template, Cause::Cluster, Cause::Crowded, Cause::Failed] {
            assert_eq!(of(cause), Code::Unknown);
        }
    }
}
