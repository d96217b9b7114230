//! The module `runner` of a program that only serves its metrics: it counts, looks at and sends nothing.

use std::convert::Infallible;

use loggia_function::{Context, Trace};
use loggia_grpc::Ended;
use prometheus_client::registry::Registry;

use crate::Telemetry;
use crate::http::Answer;

#[derive(Debug)]
pub(crate) struct Runner;

// === impl Runner ===

impl Runner {
    pub(crate) fn new(_: &'static str, _: &mut Registry) -> Self {
        Self
    }

    pub(crate) fn placed(&self, context: Context) -> Context {
        context
    }

    pub(crate) fn inside(&self, _: Option<&Trace>) -> Option<Trace> {
        None
    }

    pub(crate) fn evaluated(&self, _: &loggia_function::Ended<'_>) {}

    pub(crate) fn served(&self, _: &Ended<'_>) {}

    pub(crate) fn denied(&self, _: Option<&str>) {}

    pub(crate) async fn snapshot(&self) -> Option<Infallible> {
        None
    }

    pub(crate) fn look(&self, _: Option<&Infallible>) {}
}

pub(crate) async fn page(_: &Telemetry, _: &str) -> Option<Answer> {
    None
}

pub mod push {
    use crate::environment::{Refusal, Variables};

    /// Where metrics are sent: nowhere.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Settings {}

    pub(crate) fn settings(
        _: Option<&str>,
        _: Variables<'_>,
        _: &mut Vec<String>,
    ) -> Result<Option<Settings>, Refusal> {
        Ok(None)
    }
}
