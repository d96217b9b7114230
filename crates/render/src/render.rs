//! Rendering a package with all the packages inside it.

use std::future::Future;
use std::pin::Pin;

use loggia_function::Runtime;
use loggia_function::image::DEFAULT_PREFIX;
use loggia_krm::kptfile::{Kptfile, KptfileDocument};
use loggia_krm::package::{KPTFILE, Sources, WriteOptions, changes};
use loggia_krm::{Changes, FunctionResultList, Resource, annotation, path};

use crate::error::{Cause, RenderError};
use crate::pipeline::{Run, StepRecord, Stopped};
use crate::progress::Progress;
use crate::source::Source;
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
}

impl Default for Options {
    fn default() -> Self {
        Self { image_prefix: DEFAULT_PREFIX.to_owned(), strict: false, attribution: true }
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
}

/// A package that takes part in a breadth-first render.
struct Node {
    folder: String,
    unique_path: String,
    kptfile: Kptfile,
    resources: Vec<Resource>,
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
        let document = open(source, "").map_err(|error| error.in_package(&root))?;
        let kptfile = document.kptfile().clone();
        let is_set = |key| kptfile.annotation(key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let mut run = Run {
            source,
            options: self.options,
            runtime: self.runtime,
            progress,
            sources: Sources::default(),
            results: Vec::new(),
            steps: Vec::new(),
            executed: 0,
            packages: 0,
        };
        let ended = if is_set(BREADTH_FIRST) {
            run.breadth_first(kptfile.clone()).await
        } else {
            run.depth_first(String::new(), kptfile.clone()).await
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
            let below = package.strip_prefix(root.trim_end_matches('/'));
            let folder = below
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
                .map(|rest| rest.trim_start_matches('/'));
            let Some(folder) = folder else {
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
fn open(source: &Source, folder: &str) -> Result<KptfileDocument, RenderError> {
    let unique_path = source.unique_path(folder);
    let read = |cause| RenderError::new(cause).during("pkg.read", &unique_path);
    let document = source.kptfile(folder).map_err(|error| read(Cause::Kptfile(error)))?;
    document
        .kptfile()
        .validate(&|file| source.open(folder, file))
        .map_err(|error| read(Cause::Invalid(vec![error])))?;
    Ok(document)
}

// === impl Run ===

type Hydrating<'a> = Pin<Box<dyn Future<Output = Result<Vec<Resource>, Stopped>> + Send + 'a>>;

impl Run<'_> {
    /// Renders the packages inside a package, and then the package with what they became.
    fn depth_first(&mut self, folder: String, kptfile: Kptfile) -> Hydrating<'_> {
        Box::pin(async move {
            let unique_path = self.source.unique_path(&folder);
            let mut resources = self.read(&folder)?;
            for (subfolder, subkptfile) in self.subpackages(&folder)? {
                let below = self.source.unique_path(&subfolder);
                match self.depth_first(subfolder, subkptfile).await {
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
        let root = self.source.unique_path("");
        let mut nodes: Vec<Node> = Vec::new();
        let mut level = vec![(String::new(), kptfile)];
        while !level.is_empty() {
            let mut next = Vec::new();
            for (folder, kptfile) in level {
                let resources = self.read(&folder)?;
                next.extend(self.subpackages(&folder)?);
                let unique_path = self.source.unique_path(&folder);
                nodes.push(Node { folder, unique_path, kptfile, resources });
            }
            level = next;
        }
        for at in 0..nodes.len() {
            let (folder, kptfile) = (nodes[at].folder.clone(), nodes[at].kptfile.clone());
            let input = take_below(&nodes, &folder);
            match self.pipeline(&folder, &kptfile, input).await {
                Ok(output) => deal(&mut nodes, at, output),
                Err(Stopped { error, resources }) => {
                    if let Some(resources) = resources {
                        deal(&mut nodes, at, resources);
                    }
                    let all = nodes.into_iter().flat_map(|node| node.resources).collect();
                    return Err(Stopped { error, resources: Some(all) }.during("pkg.render", &root));
                }
            }
        }
        Ok(nodes.into_iter().flat_map(|node| node.resources).collect())
    }

    fn read(&mut self, folder: &str) -> Result<Vec<Resource>, Stopped> {
        self.packages += 1;
        let unique_path = self.source.unique_path(folder);
        let package = self.source.read(folder).map_err(|error| {
            let error = RenderError::other(error).during("pkg.readResources", &unique_path);
            Stopped::new(error.during("pkg.render", &unique_path), None)
        })?;
        self.sources.add_subpackage(folder, package.sources);
        Ok(package.resources)
    }

    /// The packages directly inside a package, all of which must be fine.
    fn subpackages(&self, folder: &str) -> Result<Vec<(String, Kptfile)>, Stopped> {
        let unique_path = self.source.unique_path(folder);
        let stop = |error: RenderError| Stopped::new(error.during("pkg.render", &unique_path), None);
        let folders = self
            .source
            .subpackages(folder)
            .map_err(|error| stop(RenderError::other(error).during("pkg.Subpackages", &unique_path)))?;
        let read = |subfolder: &String| {
            let below = self.source.unique_path(subfolder);
            self.source.kptfile(subfolder).map_err(|error| {
                stop(RenderError::new(Cause::Kptfile(error)).during("pkg.Subpackages", &below))
            })
        };
        // Every Kptfile is read before one is judged.
        let documents = folders.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let check = |(subfolder, document): (String, KptfileDocument)| {
            open(self.source, &subfolder).map_err(stop)?;
            Ok((subfolder, document.kptfile().clone()))
        };
        folders.into_iter().zip(documents).map(check).collect()
    }
}

/// The resources of a package and of all packages below it, branch by branch.
fn take_below(nodes: &[Node], folder: &str) -> Vec<Resource> {
    let mut below: Vec<&Node> = nodes.iter().filter(|node| is_below(&node.folder, folder)).collect();
    below.sort_by(|a, b| a.folder.split('/').cmp(b.folder.split('/')));
    below.iter().flat_map(|node| node.resources.iter().cloned()).collect()
}

fn is_below(folder: &str, ancestor: &str) -> bool {
    ancestor.is_empty()
        || folder.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Gives every package below the one that ran what is its own now.
fn deal(nodes: &mut [Node], at: usize, output: Vec<Resource>) {
    let folder = nodes[at].folder.clone();
    for node in nodes.iter_mut().filter(|node| is_below(&node.folder, &folder)) {
        node.resources.clear();
    }
    for resource in output {
        let owner = nodes.iter().position(|node| node.unique_path == resource.package_path()).unwrap_or(at);
        nodes[owner].resources.push(resource);
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
        let options = WriteOptions { prune: self.succeeded(), ..WriteOptions::default() };
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
            Changes { package: self.root.clone(), ..Changes::default() }
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
        }
    }

    /// What a file held before the render, if it supplied a resource.
    #[must_use]
    pub fn source(&self, path: &str) -> Option<&[u8]> {
        self.sources.get(path)
    }
}
