//! `loggia fn render`: a package's functions, in place or aside.

use std::path::{Path, PathBuf};

use loggia_function::image::check_prefix;
use loggia_go::quote;
use loggia_krm::kptfile::KptfileError;
use loggia_render::{Limits, Options, Rendered, Renderer, Source};

use crate::cli::{Containers, Format, Render};
use crate::diff;
use crate::failure::Failure;
use crate::output::{self, Destination};
use crate::printer::Printer;
use crate::report;
use crate::runtimes;

pub(crate) fn run(arguments: Render) -> Result<(), Failure> {
    let Render {
        package,
        ignored: _,
        allow_exec,
        allow_network: _,
        output,
        results_dir,
        diff,
        allow_any_path,
        max_package_depth,
        max_pipeline_steps,
        limits,
        containers,
        runtimes,
    } = arguments;
    let Containers { image_pull_policy: _, image_prefix, allow_alpha_wasm } = containers;
    refuse_wasm(allow_alpha_wasm)?;
    let json = runtimes.output_format == Format::Json;
    let mut printer = if json { Printer::quiet() } else { Printer::stderr() };
    let destination = Destination::parse(output.as_deref())?;
    if json && destination.as_ref().is_some_and(|to| !matches!(to, Destination::Folder(_))) {
        return Err("--output-format json writes to standard output itself; use -o DIR with it".into());
    }
    let image_prefix = check_prefix(&image_prefix).map_err(|error| error.to_string())?;
    let folder = resolve_folder(package.as_deref().unwrap_or(Path::new(".")), &mut printer)?;
    output::prepare_results(results_dir.as_deref())?;

    let limits = Limits { nesting: max_package_depth.into(), steps: max_pipeline_steps, ..limits.render() };
    let paths = output::paths(allow_any_path);
    let (strict, attribution) = (runtimes.strict, attribution_wanted());
    let options = Options { image_prefix, strict, attribution, limits, paths };
    let runtime = runtimes::assemble(&runtimes, allow_exec)?;
    let renderer = Renderer { options: &options, runtime: &runtime };
    let source = Source::Folder(folder.clone());
    let rendered = runtimes::block_on(renderer.render(&source, &mut printer))??;
    let any_path = allow_any_path;
    let job = Job { rendered, folder, destination, results_dir, json, any_path, printer };
    if diff { job.show_diff() } else { job.finish() }
}

/// A render that is done, and what is to become of it.
struct Job {
    rendered: Rendered,
    folder: PathBuf,
    destination: Option<Destination>,
    results_dir: Option<PathBuf>,
    json: bool,
    any_path: bool,
    printer: Printer,
}

impl Job {
    fn finish(mut self) -> Result<(), Failure> {
        let mut written = None;
        match &self.destination {
            Some(destination) if self.rendered.succeeded() => {
                let resources = std::mem::take(&mut self.rendered.resources);
                destination.write(resources, self.any_path)?;
            }
            Some(_) => {}
            None => {
                let changes = self.rendered.changes()?;
                changes
                    .apply_to_folder(&self.folder)
                    .map_err(|error| Failure::from(format!("failed to save resources: {error}")))?;
                self.sum_up();
                written = Some(changes);
            }
        }
        let before = "";
        output::write_results(
            self.results_dir.as_deref(),
            &self.rendered.results,
            &mut self.printer,
            before,
        )?;
        if self.json {
            report::render(&self.rendered, written.as_ref())?;
        }
        self.rendered.error.map_or(Ok(()), |error| Err(error.into()))
    }

    fn show_diff(self) -> Result<(), Failure> {
        let changes = self.rendered.changes()?;
        if self.json {
            report::render(&self.rendered, Some(&changes))?;
        } else {
            diff::print(&self.rendered, &changes)?;
        }
        self.rendered.error.map_or(Ok(()), |error| Err(error.into()))
    }

    fn sum_up(&mut self) {
        let Rendered { executed, packages, saved, .. } = &self.rendered;
        let text = match (self.rendered.succeeded(), *executed) {
            (true, _) => format!("Successfully executed {executed} function(s) in {packages} package(s).\n"),
            (false, _) if !saved => return,
            (false, 0) => format!("Failed to execute any functions in {packages} package(s).\n"),
            (false, _) => format!("Partially executed {executed} function(s) in {packages} package(s).\n"),
        };
        self.printer.say(&text);
    }
}

/// The folder itself, free of links, with a warning if the path was one.
pub(crate) fn resolve_folder(path: &Path, printer: &mut Printer) -> Result<PathBuf, Failure> {
    let absolute = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
            no_package(&shown)
        }
        _ => Failure::from(format!("{}: {error}", path.display())),
    })?;
    if path.is_symlink() {
        let target = shown_target(path);
        printer.say(&format!(
            "[WARN] resolved symlink {} to {}, please note that the symlinks within the package are ignored\n",
            quote(&path.display().to_string()),
            quote(&target)
        ));
    }
    Ok(absolute)
}

fn no_package(folder: &str) -> Failure {
    let missing = KptfileError::Missing { folder: folder.to_owned() };
    Failure::Plain(missing.to_string())
}

/// Where a link leads, cleaned, as seen from here.
fn shown_target(link: &Path) -> String {
    let target = std::fs::read_link(link).unwrap_or_default();
    let parent = link.parent().map(Path::to_owned).unwrap_or_default();
    let joined = if target.is_absolute() { target } else { parent.join(target) };
    loggia_krm::path::clean(&joined.to_string_lossy())
}

pub(crate) fn refuse_wasm(asked: bool) -> Result<(), Failure> {
    if asked {
        return Err("--allow-alpha-wasm: functions in WebAssembly are not supported".into());
    }
    Ok(())
}

fn attribution_wanted() -> bool {
    std::env::var_os("KRM_DISABLE_ATTRIBUTION").is_none_or(|value| value.is_empty())
}
