//! A single function on a list of resources, outside of any pipeline.

use loggia_function::{FunctionRef, Runtime};
use loggia_krm::kptfile::Selector;
use loggia_krm::{FunctionResult, FunctionResultList, Resource};
use loggia_yaml::Node;

use crate::call::{Called, Caller, Failed, explain};
use crate::error::{Cause, RenderError};
use crate::limits::Limits;
use crate::progress::Progress;
use crate::select::{self, Selection};

/// A function to run on its own.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// What runs it.
    pub runtime: &'a dyn Runtime,
    /// The function.
    pub function: FunctionRef,
    /// The function config.
    pub config: Option<Node>,
    /// What a resource must have to be given to it; empty for any.
    pub selector: Selector,
    /// What a resource must not have; empty for nothing.
    pub exclusion: Selector,
    /// A result of severity `error` is a failure.
    pub strict: bool,
    /// How much it may take.
    pub limits: Limits,
}

/// What came of it.
#[derive(Debug)]
pub struct Evaluated {
    /// What there is to know of the call.
    pub results: FunctionResultList,
    /// All resources as they are now, or why it failed.
    pub resources: Result<Vec<Resource>, RenderError>,
}

impl Evaluation<'_> {
    /// Runs the function.
    pub async fn run(&self, mut resources: Vec<Resource>, progress: &mut dyn Progress) -> Evaluated {
        let selectors = [self.selector.clone()];
        let exclusions = [self.exclusion.clone()];
        let is_everything = self.selector.is_empty() && self.exclusion.is_empty();
        let selection = Selection { selectors: &selectors, exclusions: &exclusions };
        let refuse = |text: String| Evaluated {
            results: FunctionResultList { exit_code: 1, items: Vec::new() },
            resources: Err(RenderError::other(text)),
        };
        if let Err(error) = self.runtime.check(&self.function) {
            return refuse(explain(&self.function, &error));
        }
        let selected = if is_everything {
            resources.clone()
        } else {
            match selection.take(&mut resources) {
                Ok(selected) => selected,
                Err(error) => return refuse(error.to_string()),
            }
        };
        let caller = Caller {
            runtime: self.runtime,
            function: &self.function,
            package: None,
            validator: false,
            strict: self.strict,
            counted: !is_everything,
            limits: &self.limits,
            places: None,
        };
        let Called { result, ended } = caller.call(selected.clone(), self.config.clone(), progress).await;
        let items: Vec<FunctionResult> = result.into_iter().collect();
        let results = FunctionResultList { exit_code: i32::from(ended.is_err()), items };
        let resources = match ended {
            Ok(output) if is_everything => Ok(output),
            Ok(output) => {
                let mut merged = select::merge(resources, &selected, output);
                select::unmark(&mut merged);
                Ok(merged)
            }
            Err(Failed::ByItself) => Err(RenderError::new(Cause::FunctionFailed)),
            Err(Failed::Because(text)) => Err(RenderError::other(text)),
        };
        Evaluated { results, resources }
    }
}
