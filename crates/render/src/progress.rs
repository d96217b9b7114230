//! What happens during a render, told while it happens.

use std::time::Duration;

use loggia_krm::FunctionResult;

/// Hears what happens. Every method may do nothing.
pub trait Progress: Send {
    /// A package's pipeline begins, even if it is empty.
    fn package(&mut self, display_path: &str) {
        let _ = display_path;
    }

    /// A function starts. The count is given if it does not get all resources.
    fn started(&mut self, function: &str, resources: Option<usize>, package: Option<&str>) {
        let _ = (function, resources, package);
    }

    /// The function that started last has ended.
    fn ended(&mut self, function: &str, ending: &Ending<'_>) {
        let _ = (function, ending);
    }

    /// A pipeline that is not empty has come to its end.
    fn pipeline_ended(&mut self) {}
}

/// How a function ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending<'a> {
    /// How long it took.
    pub took: Duration,
    /// What it left, if it ran.
    pub result: Option<&'a FunctionResult>,
    /// It passed.
    pub passed: bool,
    /// It failed by itself: its exit code tells.
    pub exited: bool,
}

/// Hears everything and says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {}
