//! Rendering a package with all the packages inside it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use loggia_function::Runtime;
use loggia_function::image::DEFAULT_PREFIX;
use loggia_krm::kptfile::{Kptfile, KptfileDocument};
use loggia_krm::package::{KPTFILE, Paths, Sources, WriteOptions, changes};
use loggia_krm::{Changes, FunctionResultList, Resource, annotation, path};

use crate::branches::{Branches, Node};
use crate::error::{Cause, RenderError};
use crate::limits::{Limits, yield_now};
use crate::pipeline::{Run, StepRecord, Stopped};
use crate::places::folder_below;
use crate::progress::Progress;
use crate::source::{Opened, Source};
use crate::status;

/// Keeps what was done up to a failure.
const SAVE_ON_FAILURE: &str = "kpt.dev/save-on-render-failure";
/// Renders parents before children.
const BREADTH_FIRST: &str = "kpt.dev/bfs-rendering";

/// How to render.
#[derive(Clone, Debug)]
pub struct Options {
    /// What goes before an image without a slash.
    pub image_prefix: String,
    /// A result of severity `error` fails the render.
    pub strict: bool,
    /// Mark resources of Config Connector as rendered, as kpt does.
    pub attribution: bool,
    /// How much a render may take.
    pub limits: Limits,
    /// Which files functions may make.
    pub paths: Paths,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            image_prefix: DEFAULT_PREFIX.to_owned(),
            strict: false,
            attribution: true,
            limits: Limits::default(),
            paths: Paths::default(),
        }
    }
}

/// Renders packages.
#[derive(Clone, Copy, Debug)]
pub struct Renderer<'a> {
    /// How.
    pub options: &'a Options,
    /// What runs the functions.
    pub runtime: &'a dyn Runtime,
}

/// What came of a render.
#[derive(Debug)]
pub struct Rendered {
    /// The resources, with paths from the root package. After a failure, what was there at that point, or nothing.
    pub resources: Vec<Resource>,
    /// One entry for each function that ran.
    pub results: FunctionResultList,
    /// Every step, also those that could not be run.
    pub steps: Vec<StepRecord>,
    /// How many functions ran well.
    pub executed: usize,
    /// How many packages were visited.
    pub packages: usize,
    /// Why it failed.
    pub error: Option<RenderError>,
    /// A failed render leaves its resources behind.
    pub saved: bool,
    sources: Sources,
    root: String,
    kptfile: KptfileDocument,
    paths: Paths,
}

// === impl Renderer ===

impl Renderer<'_> {
    /// Renders a package. Nothing is written; [`Rendered::changes`] says what has to be.
    ///
    /// # Errors
    /// If the root package cannot be opened. Any later failure is part of what was rendered.
    pub async fn render(
        &self,
        source: &Source,
        progress: &mut dyn Progress,
    ) -> Result<Rendered, RenderError> {
        let root = source.root();
        let limits = &self.options.limits;
        let opened = source.open(limits.read).map_err(|error| RenderError::other(error).in_package(&root))?;
        let document = open(&opened, "", limits).map_err(|error| error.in_package(&root))?;
        let kptfile = document.kptfile().clone();
        let is_set = |key| kptfile.annotation(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let mut run = Run {
            opened,
            options: self.options,
            runtime: self.runtime,
            progress,
            sources: Sources::default(),
            results: Vec::new(),
            steps: Vec::new(),
            reported: 0,
            configs: HashMap::new(),
            executed: 0,
            packages: 0,
        };
        let ended = if is_set(BREADTH_FIRST) {
            run.breadth_first(kptfile.clone()).await
        } else {
            run.depth_first(String::new(), kptfile.clone(), 1).await
        };
        let Run { sources, results, steps, executed, packages, .. } = run;
        let (resources, error) = match ended {
            Ok(resources) => (Some(resources), None),
            Err(Stopped { error, resources }) => {
                (resources.filter(|_| is_set(SAVE_ON_FAILURE)), Some(*error))
            }
        };
        let saved = resources.is_some() && error.is_some();
        let mut rendered = Rendered {
            resources: Vec::new(),
            results: FunctionResultList { exit_code: i32::from(error.is_some()), items: results },
            steps,
            executed,
            packages,
            error: error.map(|error| error.in_package(&root)),
            saved,
            sources,
            root,
            kptfile: document,
            paths: self.options.paths,
        };
        match self.settle(resources.unwrap_or_default(), &rendered.root) {
            Ok(resources) => rendered.resources = resources,
            Err(text) => rendered.fail(text),
        }
        Ok(rendered)
    }

    /// Makes paths those from the root package, and forgets whose resources are.
    fn settle(&self, mut resources: Vec<Resource>, root: &str) -> Result<Vec<Resource>, String> {
        for resource in &mut resources {
            let package = resource.package_path().to_owned();
            let Some(folder) = folder_below(&package, root) else {
                return Err(format!("subpackage {package:?} is not a descendant of {root:?}"));
            };
            let file = resource.path().trim_start_matches('/');
            let path = path::join(&[folder, file]);
            resource.set_path(path).map_err(|error| error.to_string())?;
            resource.remove_annotation(annotation::PACKAGE_PATH);
            if self.options.attribution {
                status::attribute(resource);
            }
        }
        Ok(resources)
    }
}

/// Opens a package: its Kptfile must be readable and make sense.
fn open(opened: &Opened<'_>, folder: &str, limits: &Limits) -> Result<KptfileDocument, RenderError> {
    let unique_path = opened.source.unique_path(folder);
    let document = opened
        .kptfile(folder)
        .map_err(|error| RenderError::new(Cause::Kptfile(error)).during("pkg.read", &unique_path))?;
    check(opened, folder, &document, limits)?;
    Ok(document)
}

/// Checks a Kptfile that was read.
fn check(
    opened: &Opened<'_>,
    folder: &str,
    document: &KptfileDocument,
    limits: &Limits,
) -> Result<(), RenderError> {
    let unique_path = opened.source.unique_path(folder);
    let read = |cause| RenderError::new(cause).during("pkg.read", &unique_path);
    let kptfile = document.kptfile();
    limits.check_pipeline(kptfile).map_err(|text| read(Cause::Other(format!("{unique_path}: {text}"))))?;
    kptfile.validate(&|file| opened.file(folder, file)).map_err(|error| read(Cause::Invalid(vec![error])))
}

// === impl Run ===

type Hydrating<'a> = Pin<Box<dyn Future<Output = Result<Vec<Resource>, Stopped>> + Send + 'a>>;

impl Run<'_> {
    /// Renders the packages inside a package, and then the package with what they became.
    /// How deep that goes is limited, so recursing is fine.
    fn depth_first(&mut self, folder: String, kptfile: Kptfile, level: usize) -> Hydrating<'_> {
        Box::pin(async move {
            let unique_path = self.opened.source.unique_path(&folder);
            yield_now().await;
            let mut resources = self.read(&folder)?;
            for (subfolder, subkptfile) in self.subpackages(&folder, level)? {
                let below = self.opened.source.unique_path(&subfolder);
                match self.depth_first(subfolder, subkptfile, level + 1).await {
                    Ok(output) => resources.extend(output),
                    Err(Stopped { error, resources: partial }) => {
                        resources.extend(partial.iter().flatten().cloned());
                        let saved = partial.is_some().then_some(resources);
                        return Err(Stopped { error, resources: saved }.during("pkg.render", &below));
                    }
                }
            }
            let ended = self.pipeline(&folder, &kptfile, resources).await;
            ended.map_err(|stopped| stopped.during("pkg.render", &unique_path))
        })
    }

    /// Renders a package before the packages inside it, level by level.
    async fn breadth_first(&mut self, kptfile: Kptfile) -> Result<Vec<Resource>, Stopped> {
        let root = self.opened.source.unique_path("");
        let mut nodes: Vec<Node> = Vec::new();
        let mut level = vec![(String::new(), kptfile)];
        let mut depth = 1;
        while !level.is_empty() {
            let mut next = Vec::new();
            for (folder, kptfile) in level {
                yield_now().await;
                let resources = self.read(&folder)?;
                next.extend(self.subpackages(&folder, depth)?);
                let unique_path = self.opened.source.unique_path(&folder);
                nodes.push(Node { folder, unique_path, kptfile, resources });
            }
            (level, depth) = (next, depth + 1);
        }
        let mut branches = Branches::of(nodes);
        for at in 0..branches.nodes.len() {
            let Node { folder, kptfile, .. } = &branches.nodes[at];
            let (folder, kptfile) = (folder.clone(), kptfile.clone());
            let input = branches.below(at);
            match self.pipeline(&folder, &kptfile, input).await {
                Ok(output) => branches.deal(at, output),
                Err(Stopped { error, resources }) => {
                    if let Some(resources) = resources {
                        branches.deal(at, resources);
                    }
                    let all = Some(branches.into_resources());
                    return Err(Stopped { error, resources: all }.during("pkg.render", &root));
                }
            }
        }
        Ok(branches.into_resources())
    }

    fn read(&mut self, folder: &str) -> Result<Vec<Resource>, Stopped> {
        self.packages += 1;
        let unique_path = self.opened.source.unique_path(folder);
        let package = self.opened.read(folder).map_err(|error| {
            let error = RenderError::other(error).during("pkg.readResources", &unique_path);
            Stopped::new(error.during("pkg.render", &unique_path), None)
        })?;
        self.sources.add_subpackage(folder, package.sources);
        Ok(package.resources)
    }

    /// The packages directly inside a package, all of which must be fine. `level` is how deep the package is.
    fn subpackages(&self, folder: &str, level: usize) -> Result<Vec<(String, Kptfile)>, Stopped> {
        let (opened, limits) = (&self.opened, &self.options.limits);
        let unique_path = opened.source.unique_path(folder);
        let stop = |error: RenderError| Stopped::new(error.during("pkg.render", &unique_path), None);
        let folders = opened
            .subpackages(folder)
            .map_err(|error| stop(RenderError::other(error).during("pkg.Subpackages", &unique_path)))?;
        if !folders.is_empty() {
            limits.check_nesting(level + 1).map_err(|text| {
                stop(
                    RenderError::other(format!("{unique_path}: {text}"))
                        .during("pkg.Subpackages", &unique_path),
                )
            })?;
        }
        let read = |subfolder: &String| {
            let below = opened.source.unique_path(subfolder);
            opened.kptfile(subfolder).map_err(|error| {
                stop(RenderError::new(Cause::Kptfile(error)).during("pkg.Subpackages", &below))
            })
        };
        // Every Kptfile is read before one is judged.
        let documents = folders.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let check = |(subfolder, document): (String, KptfileDocument)| {
            check(opened, &subfolder, &document, limits).map_err(stop)?;
            Ok((subfolder, document.kptfile().clone()))
        };
        folders.into_iter().zip(documents).map(check).collect()
    }
}

// === impl Rendered ===

impl Rendered {
    /// Fails what went well so far.
    fn fail(&mut self, text: String) {
        let root = self.root.clone();
        let error = RenderError::other(text).during("pkg.render", &root).in_package(&root);
        self.error.get_or_insert(error);
        self.results.exit_code = 1;
    }

    /// Whether the render went well.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.error.is_none()
    }

    /// What has to change in the package, the Kptfile's status included. A failed render changes only that,
    /// unless its resources were to be saved.
    ///
    /// # Errors
    /// If a resource has no place to go, or an impossible one.
    pub fn changes(&self) -> Result<Changes, RenderError> {
        let options = WriteOptions { prune: self.succeeded(), paths: self.paths, ..WriteOptions::default() };
        let failed = |text: String| RenderError::other(text).in_package(&self.root);
        let mut planned = if self.succeeded() || self.saved {
            changes(self.resources.clone(), &self.sources, &self.root, &options).map_err(|error| {
                let original = self
                    .error
                    .as_ref()
                    .map(|error| format!(" (original render error: {error})"))
                    .unwrap_or_default();
                failed(format!("failed to save resources: {error}{original}"))
            })?
        } else {
            Changes { package: self.root.clone(), paths: self.paths, ..Changes::default() }
        };
        self.add_status(&mut planned);
        Ok(planned)
    }

    /// Writes the status into the Kptfile as it will be. One that no longer fits its schema is left alone.
    fn add_status(&self, planned: &mut Changes) {
        let mut document = match planned.writes.get(KPTFILE) {
            Some(text) => match KptfileDocument::parse(text, &self.root) {
                Ok(document) => document,
                Err(_) => return,
            },
            None if planned.removals.contains(KPTFILE) => return,
            None => self.kptfile.clone(),
        };
        status::set(&mut document, self.error.as_ref(), &self.steps);
        let text = document.to_canonical_yaml();
        if self.sources.get(KPTFILE) == Some(text.as_bytes()) {
            planned.writes.remove(KPTFILE);
        } else {
            planned.writes.insert(KPTFILE.to_owned(), text);
            planned.replaces.insert(KPTFILE.to_owned());
        }
    }

    /// What the files of the package held before the render.
    #[must_use]
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// What a file held before the render, if it supplied a resource.
    #[must_use]
    pub fn source(&self, path: &str) -> Option<&[u8]> {
        self.sources.get(path)
    }
}
