//! One call of a function, with everything that surrounds it: checks before and after, ids, comments, paths.

use std::path::Path;
use std::time::Instant;

use loggia_function::{Budget, Call, FunctionRef, Guarded, Outcome, Payload, Record, RunError, Runtime};
use loggia_go::quote;
use loggia_krm::package::KPTFILE;
use loggia_krm::{
    FunctionResult, Resource, ResourceList, ResultItem, Results, Severity, StreamOptions, set_default_paths,
};
use loggia_yaml::Node;

use crate::limits::{Limits, yield_now};
use crate::location::{self, Inputs};
use crate::places::Places;
use crate::progress::{Ending, Progress};

/// A function with all that its calls have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) runtime: &'a dyn Runtime,
    pub(crate) function: &'a FunctionRef,
    /// The package whose pipeline it is; none outside of a render.
    pub(crate) package: Option<Owner<'a>>,
    /// The output is thrown away.
    pub(crate) validator: bool,
    /// A result of severity `error` is a failure.
    pub(crate) strict: bool,
    /// Say how many resources it gets.
    pub(crate) counted: bool,
    pub(crate) limits: &'a Limits,
    /// Where it may leave resources; anywhere outside of a render, where nothing is written here.
    pub(crate) places: Option<Places<'a>>,
}

/// A package while its pipeline runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) unique_path: &'a str,
    pub(crate) display_path: &'a str,
    pub(crate) folder: Option<&'a Path>,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Called {
    /// What is kept of it, if the function ran.
    pub(crate) result: Option<FunctionResult>,
    pub(crate) ended: Result<Vec<Resource>, Failed>,
}

/// What a function that ran wrote, as a list.
struct Listed {
    list: ResourceList,
    stderr: String,
    exit_code: i32,
    /// It wrote text, and not a byte of it.
    said_nothing: bool,
}

/// What all calls of a render have in common; how much a function may write is a matter of the render's limits.
const BUDGET: Budget = Budget { deadline: None, output: 1 << 30 };

/// Why there is no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The function said so, by its exit code.
    ByItself,
    /// It could not be run, or did what it must not.
    Because(String),
}

impl Caller<'_> {
    /// Calls the function on resources, and says so.
    pub(crate) async fn call(
        &self,
        input: Vec<Resource>,
        config: Option<Node>,
        progress: &mut dyn Progress,
    ) -> Called {
        let name = self.function.name();
        let package = self.package.map(|package| package.display_path);
        progress.started(name, self.counted.then_some(input.len()), package);
        yield_now().await;
        let start = Instant::now();
        let called = self.run(input, config).await;
        let ending = Ending {
            took: start.elapsed(),
            result: called.result.as_ref(),
            passed: called.ended.is_ok(),
            exited: matches!(called.ended, Err(Failed::ByItself)),
        };
        progress.ended(name, &ending);
        called
    }

    async fn run(&self, mut input: Vec<Resource>, config: Option<Node>) -> Called {
        let refuse = |text: String| Called { result: None, ended: Err(Failed::Because(text)) };
        if let Err(text) = check_krm(&input) {
            return refuse(format!("input resource list must contain only KRM resources: {text}"));
        }
        let inputs = match Inputs::mark(&mut input) {
            Ok(inputs) => inputs,
            Err(text) => return refuse(text),
        };
        let config_path = config.as_ref().map(|config| Resource::new(config.clone()).path().to_owned());
        let had_kptfile = self.has_kptfile(&input);
        let function_config = config.map(|config| same_resource(&input, &config).unwrap_or(config));
        let list = ResourceList { function_config, ..ResourceList::new(input) };
        let call = Call {
            function: self.function.clone(),
            input: Payload::List(list),
            directory: self.package.and_then(|package| package.folder).map(Path::to_owned),
            budget: Budget { output: self.limits.output, ..BUDGET },
            record: Record::default(),
        };
        let ended = self.runtime.run(&call).await.map_err(|error| explain(self.function, &error));
        drop(call);
        let outcome = match ended.and_then(|outcome| self.read(outcome)) {
            Ok(outcome) => outcome,
            Err(text) => {
                let result = Some(self.record(String::new(), 1, Results::default()));
                return Called { result, ended: Err(Failed::Because(text)) };
            }
        };
        self.judge(outcome, &inputs, config_path.as_deref().unwrap_or_default(), had_kptfile)
    }

    /// What a function wrote, as a list. One that failed may have written anything; its failure counts.
    fn read(&self, outcome: Outcome) -> Result<Listed, String> {
        let Outcome { output, stderr, exit, .. } = outcome;
        let mut stderr = stderr.text();
        if let (FunctionRef::Image(_), Some(signal)) = (self.function, exit.signal()) {
            stderr.push_str(&format!("ended by signal {signal}\n"));
        }
        let exit_code = exit.code();
        let bytes = match output {
            Payload::List(list) => return Ok(Listed { list, stderr, exit_code, said_nothing: false }),
            Payload::Bytes(bytes) => bytes,
        };
        let said_nothing = bytes.trim_ascii().is_empty();
        let list = match ResourceList::parse(&bytes, StreamOptions::default()) {
            Ok(list) => list,
            Err(_) if exit_code != 0 => ResourceList::default(),
            Err(error) => {
                let line = error.line.map(|line| format!(" (line {line} of its output)")).unwrap_or_default();
                let name = quote(self.function.name());
                return Err(format!("function {name}: output is no ResourceList: {error}{line}"));
            }
        };
        Ok(Listed { list, stderr, exit_code, said_nothing })
    }

    fn judge(&self, outcome: Listed, inputs: &Inputs, config_path: &str, had_kptfile: bool) -> Called {
        let Listed { list, stderr, exit_code, said_nothing } = outcome;
        let name = self.function.name();
        let results = match list.results() {
            Ok(results) => results,
            Err(_) if exit_code != 0 => Results::default(),
            Err(error) => {
                let text = format!("function {}: {error}", quote(name));
                return Called { result: None, ended: Err(Failed::Because(text)) };
            }
        };
        if exit_code != 0 {
            let result = Some(self.record(stderr, exit_code, results));
            return Called { result, ended: Err(Failed::ByItself) };
        }
        if said_nothing {
            let text = format!(
                "function {} ended well but wrote nothing to standard output; a function writes the resources that are to stay, so nothing was changed",
                quote(name)
            );
            let result = Some(self.record(stderr, 1, results));
            return Called { result, ended: Err(Failed::Because(text)) };
        }
        let mut output = list.items;
        if let Err(text) = self.limits.check_output(name, &output) {
            // What it reports may be just as large.
            let result = Some(self.record(String::new(), 1, Results::default()));
            return Called { result, ended: Err(Failed::Because(text)) };
        }
        if let Err(text) = self.accept(&mut output, inputs, config_path) {
            return Called { result: None, ended: Err(Failed::Because(text)) };
        }
        if had_kptfile && !self.validator && !self.has_kptfile(&output) {
            let package = self.package.map_or("", |package| package.display_path);
            let text = format!(
                "function {} removed the Kptfile of package {}; without it there is no package, so nothing was changed",
                quote(name),
                quote(package)
            );
            return Called { result: None, ended: Err(Failed::Because(text)) };
        }
        let errors = results.0.iter().filter(|item| item.severity == Some(Severity::Error)).count();
        if self.strict && errors > 0 {
            let text = format!("function {} reported {errors} result(s) of severity error", quote(name));
            let result = Some(self.record(stderr, 1, results));
            return Called { result, ended: Err(Failed::Because(text)) };
        }
        Called { result: Some(self.record(stderr, 0, results)), ended: Ok(output) }
    }

    /// Checks what a function wrote, and completes it.
    fn accept(&self, output: &mut [Resource], inputs: &Inputs, config_path: &str) -> Result<(), String> {
        set_default_paths(output, location::default_folder(config_path))
            .map_err(|error| error.to_string())?;
        if self.validator {
            location::unmark(output);
        } else {
            inputs.reconcile(output)?;
            inputs.mend(output);
        }
        if let Some(package) = self.package {
            location::set_owner(output, package.unique_path).map_err(|error| error.to_string())?;
            location::check_owners(output, package.unique_path)?;
        }
        location::check_places(output)?;
        if let Some(places) = self.places.filter(|_| !self.validator) {
            places
                .check(output)
                .map_err(|text| format!("function {}: {text}", quote(self.function.name())))?;
        }
        check_krm(output)
            .map_err(|text| format!("output resource list must contain only KRM resources: {text}"))
    }

    fn record(&self, mut stderr: String, exit_code: i32, results: Results) -> FunctionResult {
        let (image, exec) = match self.function {
            FunctionRef::Image(image) => {
                // kpt reads what a container says line by line, and by that loses the last line end.
                if stderr.ends_with('\n') {
                    stderr.pop();
                }
                (image.name().to_owned(), String::new())
            }
            FunctionRef::Command(command) => (String::new(), command.to_string()),
        };
        FunctionResult { image, exec, stderr, exit_code, results }
    }

    /// Whether the package's own Kptfile is there; always false outside of a render.
    fn has_kptfile(&self, resources: &[Resource]) -> bool {
        self.package.is_some_and(|package| {
            resources
                .iter()
                .any(|resource| resource.path() == KPTFILE && resource.package_path() == package.unique_path)
        })
    }
}

/// Why a function has no outcome, in the words that users of kpt know.
pub(crate) fn explain(function: &FunctionRef, error: &RunError) -> String {
    let name = function.name();
    match (function, error) {
        (_, RunError::NotFound { advice, .. }) => {
            let advice: String = advice.iter().map(|advice| format!("; {advice}")).collect();
            format!("function {} not found{advice}", quote(name))
        }
        (_, RunError::NotAllowed | RunError::InvalidCommand(_)) => error.describe(name),
        (FunctionRef::Command(_), RunError::OverTime { limit, flag }) => {
            let seconds = limit.as_secs();
            format!("unexpected function error: it ran for longer than {seconds}s ({flag}) and was stopped")
        }
        (FunctionRef::Command(_), RunError::NotStarted { reason, .. }) => {
            format!("unexpected function error: {reason}")
        }
        (FunctionRef::Command(_), RunError::TooMuchOutput { limit, .. }) => format!(
            "unexpected function error: wrote more than {limit} bytes on standard output and was stopped; raise --max-package-size"
        ),
        (FunctionRef::Command(_), error) => format!("unexpected function error: {}", error.describe(name)),
        (_, RunError::Guarded(Guarded::NotRun(reason))) => {
            format!("function {} could not be run: {reason}", quote(name))
        }
        (_, RunError::Guarded(guarded)) => format!("function {} {guarded}", quote(name)),
        (_, RunError::Panicked) => format!(
            "KRM function panicked: {name} is built in and met something unforeseen; please report it"
        ),
        (_, error) => format!("func eval {} failed: {}", quote(name), error.describe(name)),
    }
}

pub(crate) fn check_krm(resources: &[Resource]) -> Result<(), String> {
    resources.iter().try_for_each(|resource| {
        resource.check_krm().map_err(|missing| format!("{}: {missing}", resource.path()))
    })
}

/// A config that is among the items is one of them, ids included.
fn same_resource(items: &[Resource], config: &Node) -> Option<Node> {
    let config = Resource::new(config.clone());
    let place = |resource: &Resource| (resource.package_path().to_owned(), resource.path().to_owned());
    if config.path().is_empty() {
        return None;
    }
    let wanted = place(&config);
    items.iter().find(|item| place(item) == wanted).map(|item| item.node().clone())
}

/// What of the results is an error.
pub(crate) fn errors(results: &[ResultItem]) -> Vec<ResultItem> {
    results.iter().filter(|item| item.severity == Some(Severity::Error)).cloned().collect()
}
