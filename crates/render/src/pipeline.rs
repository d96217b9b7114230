//! The pipeline of one package: mutators, then validators, up to the first failure.

use std::collections::{BTreeMap, HashMap, HashSet};

use loggia_function::{FunctionRef, Runtime, image};
use loggia_krm::kptfile::{Function, Kptfile, StepResult};
use loggia_krm::package::Sources;
use loggia_krm::{FunctionResult, Resource, path};
use loggia_yaml::{Node, Pair, parse_first_with};

use crate::call::{Called, Caller, Failed, Owner, check_krm, errors, explain};
use crate::error::{Cause, RenderError};
use crate::limits::report_size;
use crate::location;
use crate::places::Places;
use crate::progress::Progress;
use crate::render::Options;
use crate::select::{self, Selection};
use crate::source::Opened;

/// What is kept of one step for the Kptfile's status.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// It was a validator.
    pub validator: bool,
    /// What came of it.
    pub step: StepResult,
}

/// A render on its way.
pub(crate) struct Run<'a> {
    pub(crate) opened: Opened<'a>,
    pub(crate) options: &'a Options,
    pub(crate) runtime: &'a dyn Runtime,
    pub(crate) progress: &'a mut dyn Progress,
    /// What the files of all packages held, by path from the root.
    pub(crate) sources: Sources,
    /// One for each function that ran.
    pub(crate) results: Vec<FunctionResult>,
    pub(crate) steps: Vec<StepRecord>,
    /// How many bytes the results take.
    pub(crate) reported: usize,
    /// The function configs of the package whose pipeline runs, by path.
    pub(crate) configs: HashMap<String, Node>,
    /// Functions that ran well.
    pub(crate) executed: usize,
    /// Packages that were visited.
    pub(crate) packages: usize,
}

/// A pipeline that stopped.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) error: Box<RenderError>,
    /// What there was at that point; none if that would be no whole package.
    pub(crate) resources: Option<Vec<Resource>>,
}

impl Stopped {
    pub(crate) fn new(error: RenderError, resources: Option<Vec<Resource>>) -> Self {
        Self { error: Box::new(error), resources }
    }

    pub(crate) fn during(self, operation: &'static str, path: &str) -> Self {
        Self { error: Box::new(self.error.during(operation, path)), ..self }
    }
}

/// A step with everything looked up.
struct Prepared<'a> {
    step: &'a Function,
    function: FunctionRef,
    config: Option<Node>,
    validator: bool,
}

impl Run<'_> {
    /// Runs the pipeline of a package on its resources and those below it.
    pub(crate) async fn pipeline(
        &mut self,
        folder: &str,
        kptfile: &Kptfile,
        input: Vec<Resource>,
    ) -> Result<Vec<Resource>, Stopped> {
        let (unique_path, display_path) =
            (self.opened.source.unique_path(folder), self.opened.source.display_path(folder));
        self.progress.package(&display_path);
        if kptfile.has_empty_pipeline() {
            return match check_krm(&input) {
                Ok(()) => Ok(input),
                Err(text) => {
                    let text = format!("input resource list must contain only KRM resources: {text}");
                    Err(Stopped::new(RenderError::other(text), Some(input)))
                }
            };
        }
        self.configs.clear();
        let own = input.iter().filter(|resource| resource.package_path() == unique_path);
        let own: HashSet<&str> = own.map(Resource::path).collect();
        let checked = kptfile.check_config_paths(&|path: &str| own.contains(path));
        if let Err(errors) = checked {
            let error = RenderError::new(Cause::Invalid(errors));
            return Err(Stopped::new(error, Some(input)));
        }
        let disk_folder = self.opened.source.disk_folder(folder);
        let owner =
            Owner { unique_path: &unique_path, display_path: &display_path, folder: disk_folder.as_deref() };
        let (mut resources, stopped) = self.mutate(folder, kptfile, input, owner).await;
        let ended = match stopped {
            Ok(()) => self.validate(folder, kptfile, &resources, owner).await,
            stopped => stopped,
        };
        if let Err(error) = ended {
            location::unmark(&mut resources);
            let error = error.during("pipeline.run", &unique_path);
            return Err(Stopped::new(error, Some(resources)));
        }
        self.progress.pipeline_ended();
        Ok(resources)
    }

    /// Runs the mutators. The resources are those after the last that went well.
    async fn mutate(
        &mut self,
        folder: &str,
        kptfile: &Kptfile,
        mut resources: Vec<Resource>,
        owner: Owner<'_>,
    ) -> (Vec<Resource>, Result<(), RenderError>) {
        let steps = kptfile.pipeline.as_ref().map_or(&[][..], |pipeline| &pipeline.mutators);
        // All of them are looked up before the first runs.
        let prepared: Result<Vec<Prepared<'_>>, RenderError> =
            steps.iter().map(|step| self.prepare(folder, step, false)).collect();
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return (resources, Err(error)),
        };
        for prepared in prepared {
            let selection = prepared.selection();
            let ended = if selection.is_everything() {
                self.call(&prepared, resources.clone(), &resources, owner).await
            } else {
                let selected = match selection.take(&mut resources) {
                    Ok(selected) => selected,
                    Err(error) => return (resources, Err(RenderError::other(error))),
                };
                let ended = self.call(&prepared, selected.clone(), &resources, owner).await;
                ended.and_then(|output| {
                    let merged = select::merge(resources.clone(), &selected, output);
                    let checked = self.options.limits.check_output(prepared.function.name(), &merged);
                    checked.map(|()| merged).map_err(RenderError::other)
                })
            };
            match ended {
                Ok(output) => resources = output,
                Err(error) => return (resources, Err(error)),
            }
            if !selection.is_everything() {
                select::unmark(&mut resources);
            }
        }
        (resources, Ok(()))
    }

    /// Runs the validators, each on what the mutators left, and throws away what they write.
    async fn validate(
        &mut self,
        folder: &str,
        kptfile: &Kptfile,
        resources: &[Resource],
        owner: Owner<'_>,
    ) -> Result<(), RenderError> {
        let steps = kptfile.pipeline.as_ref().map_or(&[][..], |pipeline| &pipeline.validators);
        for step in steps {
            let prepared = self.prepare(folder, step, true)?;
            let selection = prepared.selection();
            let selected = resources.iter().filter(|resource| selection.matches(resource)).cloned().collect();
            self.call(&prepared, selected, resources, owner).await?;
        }
        Ok(())
    }

    /// Looks up everything that a step needs. What is missing is a step that could not be run.
    fn prepare<'s>(
        &mut self,
        folder: &str,
        step: &'s Function,
        validator: bool,
    ) -> Result<Prepared<'s>, RenderError> {
        let config = self.config(folder, step)?;
        let function = if step.image.is_empty() {
            Ok(FunctionRef::Command(step.exec.as_str().into()))
        } else {
            let known = |image: &str| self.runtime.tags(image);
            image::of_step(&step.image, &step.tag, &self.options.image_prefix, known)
                .map(FunctionRef::Image)
                .map_err(|error| error.to_string())
        };
        let checked = function.and_then(|function| match self.runtime.check(&function) {
            Ok(()) => Ok(function),
            Err(error) => Err(explain(&function, &error)),
        });
        match checked {
            Ok(function) => Ok(Prepared { step, function, config, validator }),
            Err(text) => {
                self.remember(validator, step, None, Some(text.clone()));
                Err(RenderError::other(text))
            }
        }
    }

    fn config(&mut self, folder: &str, step: &Function) -> Result<Option<Node>, RenderError> {
        let path = &step.config_path;
        if path.is_empty() {
            return Ok((!step.config_map.is_empty()).then(|| config_map(&step.config_map)));
        }
        if let Some(known) = self.configs.get(path) {
            return Ok(Some(known.clone()));
        }
        let missing = |_| RenderError::other(format!("missing function config {path:?}"));
        let content = self.opened.file(folder, path).map_err(missing)?;
        let invalid = |error: &dyn std::fmt::Display| {
            RenderError::other(format!("invalid function config {path:?} {error}"))
        };
        let document = parse_first_with(&content, loggia_yaml::ParseOptions::default())
            .map_err(|error| invalid(&error))?
            .ok_or_else(|| invalid(&"EOF"))?;
        self.configs.insert(path.clone(), document.root.clone());
        Ok(Some(document.root))
    }

    /// Calls a function. Its config is the resource of the package as it is now.
    async fn call(
        &mut self,
        prepared: &Prepared<'_>,
        input: Vec<Resource>,
        all: &[Resource],
        owner: Owner<'_>,
    ) -> Result<Vec<Resource>, RenderError> {
        let config_path = path::clean(&prepared.step.config_path);
        let root = self.opened.source.root();
        let current = all
            .iter()
            .find(|resource| resource.path() == config_path && resource.package_path() == owner.unique_path);
        let config = current.map(|resource| resource.node().clone()).or_else(|| prepared.config.clone());
        let caller = Caller {
            runtime: self.runtime,
            function: &prepared.function,
            package: Some(owner),
            validator: prepared.validator,
            strict: self.options.strict,
            counted: !prepared.selection().is_everything(),
            limits: &self.options.limits,
            places: Some(Places {
                reader: &self.opened.reader,
                sources: &self.sources,
                paths: self.options.paths,
                root: &root,
            }),
        };
        let Called { result, ended } = caller.call(input, config, self.progress).await;
        self.reported = self.reported.saturating_add(result.as_ref().map_or(0, report_size));
        let name = prepared.function.name();
        if let Err(text) = self.options.limits.check_reports(name, self.reported) {
            self.remember(prepared.validator, prepared.step, None, Some(text.clone()));
            return Err(RenderError::other(text));
        }
        let because = match &ended {
            Err(Failed::Because(text)) => Some(text.clone()),
            _ => None,
        };
        let mut step = prepared.step.clone();
        match &prepared.function {
            FunctionRef::Image(image) => image.name().clone_into(&mut step.image),
            FunctionRef::Command(command) => step.exec = command.to_string(),
        }
        self.remember(prepared.validator, &step, result.as_ref(), because);
        self.results.extend(result);
        match ended {
            Ok(output) => {
                self.executed += 1;
                Ok(output)
            }
            Err(Failed::ByItself) => Err(RenderError::new(Cause::FunctionFailed)),
            Err(Failed::Because(text)) => Err(RenderError::other(text)),
        }
    }

    fn remember(
        &mut self,
        validator: bool,
        step: &Function,
        result: Option<&FunctionResult>,
        execution_error: Option<String>,
    ) {
        let results = result.map_or(&[][..], |result| &result.results.0);
        let step = StepResult {
            name: step.name.clone(),
            image: step.image.clone(),
            exec: step.exec.clone(),
            execution_error: execution_error.unwrap_or_default(),
            stderr: result.map(|result| result.stderr.clone()).unwrap_or_default(),
            exit_code: result.map_or(1, |result| result.exit_code),
            results: results.to_vec(),
            error_results: errors(results),
        };
        self.steps.push(StepRecord { validator, step });
    }
}

// === impl Prepared ===

impl Prepared<'_> {
    fn selection(&self) -> Selection<'_> {
        Selection { selectors: &self.step.selectors, exclusions: &self.step.exclusions }
    }
}

/// The function config that a `configMap` stands for.
pub(crate) fn config_map(data: &BTreeMap<String, String>) -> Node {
    let pair = |key: &str, value: Node| Pair { key: Node::verbatim(key), value };
    let entries = data.iter().map(|(key, value)| Pair {
        key: Node::string_for_field(key.as_str()),
        value: Node::string_for_field(value.as_str()),
    });
    let mut data = Node::from_pairs(entries.collect());
    data.set_flow(true);
    Node::from_pairs(vec![
        pair("apiVersion", Node::verbatim("v1")),
        pair("kind", Node::verbatim("ConfigMap")),
        pair("metadata", Node::from_pairs(vec![pair("name", Node::verbatim("function-input"))])),
        pair("data", data),
    ])
}
