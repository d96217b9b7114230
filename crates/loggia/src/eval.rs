//! `loggia fn eval`: one function on a folder or a stream.
//!
//! The command line becomes a [`Plan`], the plan is carried out, and then the function is saved if that is wanted.

mod function_config;
mod plan;
mod save;

use std::path::{Path, PathBuf};

use loggia_go::quote;
use loggia_krm::package::{Limits, ReadOptions, WriteError, WriteErrorKind, WriteOptions, changes};
use loggia_krm::{Changes, Package, Resource};
use loggia_render::{Evaluated, Evaluation};
use loggia_yaml::Node;

use crate::cli::{Eval, Format};
use crate::failure::Failure;
use crate::output::{self, Destination};
use crate::printer::Printer;
use crate::render::resolve_folder;
use crate::{report, runtimes, sink};
use plan::{Input, Machine, Plan, Save};

pub(crate) fn run(arguments: Eval) -> Result<(), Failure> {
    let json = arguments.runtimes.output_format == Format::Json;
    let mut printer = if json { Printer::quiet() } else { Printer::stderr() };
    let plan = Plan::of(arguments, &mut ThisMachine { printer: &mut printer })?;
    execute(&plan, &mut printer)?;
    if let Some(Save { folder, function, role }) = plan.save {
        printer.say(&save::save_function(&folder, function, role)?);
    }
    Ok(())
}

/// Runs the function, writes the resources and reports the results, those of a failure too.
fn execute(plan: &Plan, printer: &mut Printer) -> Result<(), Failure> {
    let runtime = runtimes::assemble(&plan.runtimes, true)?;
    let evaluation = Evaluation {
        runtime: &runtime,
        function: plan.function.clone(),
        config: Some(plan.config.clone()),
        selector: plan.selector.clone(),
        exclusion: plan.exclusion.clone(),
        strict: plan.runtimes.strict,
        limits: plan.limits.render(),
    };
    let mut package = match &plan.input {
        Input::Folder(folder) => read_folder(folder, plan.limits.read())?,
        Input::Stream => {
            Package { resources: sink::read_stream(plan.limits.max_package_size)?, ..Package::default() }
        }
    };
    let config = take_out(&mut package.resources, plan.config_path.as_deref());
    let resources = std::mem::take(&mut package.resources);
    let Evaluated { results, resources } = runtimes::block_on(evaluation.run(resources, printer))?;
    let ended = resources.map_err(explain).and_then(|mut resources| {
        resources.extend(config);
        write(plan, resources, &package)
    });
    output::write_results(plan.results_dir.as_deref(), &results, printer, "\n")?;
    if plan.json {
        let error = ended.as_ref().err().map(|failure| failure.text(false));
        report::eval(&results, error, ended.as_ref().ok().and_then(Option::as_ref))?;
    }
    ended?;
    Ok(())
}

fn read_folder(folder: &Path, limits: Limits) -> Result<Package, Failure> {
    let options = ReadOptions { subpackages: true, limits, ..ReadOptions::default() };
    Package::from_folder(folder, &options).map_err(|error| error.to_string().into())
}

/// Takes the function config out of the resources, if it is one of them: it is not an input.
fn take_out(resources: &mut Vec<Resource>, config_path: Option<&str>) -> Vec<Resource> {
    let Some(path) = config_path else { return Vec::new() };
    resources.extract_if(.., |resource| resource.path() == path).collect()
}

fn write(plan: &Plan, resources: Vec<Resource>, package: &Package) -> Result<Option<Changes>, Failure> {
    match (&plan.destination, &plan.input) {
        (Some(destination), _) => destination.write(resources, plan.any_path).map(|()| None),
        (None, Input::Stream) => Destination::Stdout.write(resources, plan.any_path).map(|()| None),
        (None, Input::Folder(folder)) => {
            let options = WriteOptions { paths: output::paths(plan.any_path), ..WriteOptions::default() };
            let failed = |error: WriteError| match &*error.kind {
                // These are what the function wanted; the others are as users of kpt know them.
                WriteErrorKind::NotResourceFile(_)
                | WriteErrorKind::Hidden(_)
                | WriteErrorKind::Unprintable(_)
                | WriteErrorKind::NotRead(_)
                | WriteErrorKind::ThroughLink { .. }
                | WriteErrorKind::InGitFolder(_)
                | WriteErrorKind::PathTooLong { .. } => {
                    format!("function {}: {error}", quote(plan.function.name()))
                }
                _ => error.to_string(),
            };
            let planned = changes(resources, &package.sources, &package.name, &options).map_err(failed)?;
            planned.apply_to_folder(folder).map_err(failed)?;
            Ok(Some(planned))
        }
    }
}

/// Failures outside of a render begin in lower case.
fn explain(error: loggia_render::RenderError) -> Failure {
    match error.cause {
        loggia_render::Cause::FunctionFailed => Failure::Told,
        cause => Failure::Plain(cause.to_string()),
    }
}

/// The machine that the program runs on.
struct ThisMachine<'a> {
    printer: &'a mut Printer,
}

// === impl ThisMachine ===

impl Machine for ThisMachine<'_> {
    fn destination(&mut self, output: Option<&str>) -> Result<Option<Destination>, Failure> {
        Destination::parse(output)
    }

    fn read_config(&mut self, file: &Path, limits: Limits) -> Result<Node, Failure> {
        function_config::read(file, limits)
    }

    fn resolve_folder(&mut self, path: &Path) -> Result<PathBuf, Failure> {
        resolve_folder(path, self.printer)
    }

    fn resolve_file(&mut self, file: &Path) -> PathBuf {
        file.canonicalize().unwrap_or_else(|_| file.to_owned())
    }

    fn make_results_folder(&mut self, folder: Option<&Path>) -> Result<(), Failure> {
        output::prepare_results(folder)
    }
}
