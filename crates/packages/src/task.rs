//! What a package server does around a render: after a task, a patch of the Kptfile, or replaced contents.
//!
//! A [`TaskHandler`] takes the files of a package and gives a [`Handled`]: files to store, what to do with them,
//! and the [`RenderStatus`] to show. A render that failed is a `Handled` with a message. Anything that fails
//! before the render, a builtin function above all, is a [`TaskError`]: then there is nothing to store.
//!
//! Messages are Porch's. Nothing here reads or writes anything but the files it is given.

mod context;
mod heal;
mod merge_key;
mod mutation;
mod patch;
mod status;
#[cfg(test)]
mod tests;

use loggia_function::Runtime;
use loggia_go::quote;
use loggia_krm::Files;
use loggia_krm::package::{MAX_DEPTH, MAX_PATH, Package, ReadError, ReadOptions, WriteOptions};
use loggia_krm::path;
use loggia_render::{Options, Progress};

pub use self::context::PackageConfig;
use self::mutation::Mutated;
pub use self::patch::KptfilePatch;
use self::patch::Manner;
pub use self::status::RenderStatus;

/// The one lifecycle in which a package may be changed.
const DRAFT: &str = "Draft";

/// Handles packages.
#[derive(Clone, Copy, Debug)]
pub struct TaskHandler<'a> {
    /// How to render. A result of severity `error` fails a render here, whatever this says.
    pub options: &'a Options,
    /// What runs the functions.
    pub runtime: &'a dyn Runtime,
}

/// A package that a task has just made.
#[derive(Clone, Debug, Default)]
pub struct Creation {
    /// The tasks, of which there must be one: `init`, `clone`, `edit` or `upgrade`.
    pub tasks: Vec<String>,
    /// What the package server knows of the package.
    pub package: PackageConfig,
    /// What to add to the Kptfile. Labels and annotations that it does not mention stay.
    pub patch: KptfilePatch,
    /// Push the package even if it cannot be rendered.
    pub push_on_failure: bool,
}

/// A change of what the Kptfile says about a package.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// What to say instead.
    pub patch: KptfilePatch,
    /// The lifecycle before the change; anything but a draft is left alone. Empty for a draft.
    pub lifecycle: String,
    /// Push the package even if it cannot be rendered.
    pub push_on_failure: bool,
}

/// Contents to put in the place of others.
#[derive(Clone, Debug, Default)]
pub struct Replacement {
    /// What the package held.
    pub old: Files,
    /// What it is to hold.
    pub new: Files,
    /// The lifecycle; only a draft can be changed. Empty for a draft.
    pub lifecycle: String,
    /// Push the package even if it cannot be rendered.
    pub push_on_failure: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Handled {
    /// What to do with the files.
    pub disposition: Disposition,
    /// The files of the package; empty if there is nothing to store.
    pub files: Files,
    /// What the functions did; nothing if none ran and nothing failed, so that an older status stays.
    pub status: Option<RenderStatus>,
    /// Why the render failed, in the words for the user.
    pub failure: Option<String>,
    /// What went wrong without harm.
    pub warnings: Vec<String>,
    /// The type of the one task to record. Builtin functions leave no trace here.
    pub task: String,
}

/// What to do with the files of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Store and push them.
    Push,
    /// Keep them in the draft, and do not push it.
    Keep,
    /// Store nothing; take back what the task has done so far.
    Discard,
    /// Nothing was done.
    Unchanged,
}

/// Why a package was not even rendered. Nothing is to be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is not just one task.
    #[error("task list must contain exactly 1 task")]
    TaskCount,
    /// The task is none that makes a package.
    #[error("task of type {} not supported", quote(.0))]
    UnsupportedTask(String),
    /// The package is not a draft.
    #[error("cannot update a package revision with lifecycle value {}; package must be Draft", quote(.0))]
    NotDraft(String),
    /// A file has a name that cannot be one.
    #[error("resource path {} {reason}; write a relative slash path such as `dir/file.yaml`", quote(.path))]
    BadPath {
        /// The name.
        path: String,
        /// What about it.
        reason: &'static str,
    },
    /// The package context could not be made.
    #[error(
        "failed to generate deployment context: failed to evaluate function \"builtins/gen-pkg-context\": {0}"
    )]
    Context(String),
    /// The Kptfile of a new package could not be changed.
    #[error("failed to {action} Kptfile: {reason}")]
    Metadata {
        /// `parse`, `apply metadata to`.
        action: &'static str,
        /// Why not.
        reason: String,
    },
    /// The Kptfile could not be patched.
    #[error("{step}: {reason}")]
    Patch {
        /// `parse Kptfile`, `convert new condition`.
        step: &'static str,
        /// Why not.
        reason: String,
    },
    /// Comments could not be put back into new contents.
    #[error("failed to heal resources: {0}")]
    Heal(String),
}

/// How a message about a failed render begins.
#[derive(Clone, Copy, Debug)]
enum Spelling {
    Capital,
    Small,
}

// === impl TaskHandler ===

impl TaskHandler<'_> {
    /// Completes and renders a package that a task has made.
    ///
    /// # Errors
    /// If the task is not one, or a builtin function failed.
    pub async fn apply_task(
        &self,
        mut files: Files,
        creation: &Creation,
        progress: &mut dyn Progress,
    ) -> Result<Handled, TaskError> {
        let [task] = creation.tasks.as_slice() else { return Err(TaskError::TaskCount) };
        if !matches!(task.as_str(), "init" | "clone" | "edit" | "upgrade") {
            return Err(TaskError::UnsupportedTask(task.clone()));
        }
        check_paths(&files)?;
        let mut warnings = Vec::new();
        if task == "clone" && creation.package.deployment {
            context::generate(&mut files, &creation.package).map_err(TaskError::Context)?;
        }
        if matches!(task.as_str(), "clone" | "upgrade")
            && let Err(reason) = merge_key::ensure(&mut files)
        {
            warnings.push(format!("failed to add merge-key directive: {reason}"));
        }
        creation.patch.apply_to_files(&mut files, Manner::Upsert).map_err(|error| TaskError::Metadata {
            action: if error.unreadable { "parse" } else { "apply metadata to" },
            reason: error.reason,
        })?;
        let mutated = self.mutate(files, progress).await;
        let otherwise = Disposition::Discard;
        let mut handled = finish(mutated, Spelling::Capital, creation.push_on_failure, otherwise);
        handled.warnings.splice(0..0, warnings);
        handled.task.clone_from(task);
        Ok(handled)
    }

    /// Patches the Kptfile of a draft and renders it.
    ///
    /// # Errors
    /// If the Kptfile cannot be read, or the patch says what it cannot hold.
    pub async fn update(
        &self,
        mut files: Files,
        update: &Update,
        progress: &mut dyn Progress,
    ) -> Result<Handled, TaskError> {
        check_paths(&files)?;
        if !is_draft(&update.lifecycle) {
            return Ok(Handled::unchanged());
        }
        update.patch.apply_to_files(&mut files, Manner::Replace).map_err(|error| TaskError::Patch {
            step: if error.unreadable { "parse Kptfile" } else { "convert new condition" },
            reason: error.reason,
        })?;
        let mutated = self.mutate(files, progress).await;
        Ok(finish(mutated, Spelling::Capital, update.push_on_failure, Disposition::Discard))
    }

    /// Replaces the contents of a draft, puts back the comments that clients lose, and renders it.
    ///
    /// # Errors
    /// If this is not a draft, or new contents are not YAML.
    pub async fn replace(
        &self,
        replacement: Replacement,
        progress: &mut dyn Progress,
    ) -> Result<Handled, TaskError> {
        let Replacement { old, mut new, lifecycle, push_on_failure } = replacement;
        if !is_draft(&lifecycle) {
            return Err(TaskError::NotDraft(lifecycle));
        }
        check_paths(&new)?;
        check_paths(&old)?;
        heal::heal(&old, &mut new).map_err(TaskError::Heal)?;
        let mutated = self.mutate(new, progress).await;
        Ok(finish(mutated, Spelling::Small, push_on_failure, Disposition::Keep))
    }

    /// Renders a package as it is.
    ///
    /// # Errors
    /// If a file has a name that cannot be one.
    pub async fn render(
        &self,
        files: Files,
        push_on_failure: bool,
        progress: &mut dyn Progress,
    ) -> Result<Handled, TaskError> {
        check_paths(&files)?;
        let mutated = self.mutate(files, progress).await;
        Ok(finish(mutated, Spelling::Capital, push_on_failure, Disposition::Discard))
    }

    async fn mutate(&self, files: Files, progress: &mut dyn Progress) -> Mutated {
        let options = Options { strict: true, ..self.options.clone() };
        mutation::render(files, &options, self.runtime, progress).await
    }
}

/// What follows from a render: with a failure, the files are for the draft at most, unless the user wants otherwise.
fn finish(mutated: Mutated, spelling: Spelling, push_on_failure: bool, otherwise: Disposition) -> Handled {
    let Mutated { files, status, failed, warnings } = mutated;
    let disposition = if failed && !push_on_failure { otherwise } else { Disposition::Push };
    Handled {
        disposition,
        files: if disposition == Disposition::Discard { Files::new() } else { files },
        failure: failed.then(|| spelling.failure(push_on_failure, &status.error)),
        status: (!status.is_empty()).then_some(status),
        warnings,
        task: "render".to_owned(),
    }
}

fn is_draft(lifecycle: &str) -> bool {
    lifecycle.is_empty() || lifecycle == DRAFT
}

/// Files have clean relative names, so that none can stand for another.
fn check_paths(files: &Files) -> Result<(), TaskError> {
    let reason = |path: &str| {
        if path.is_empty() {
            Some("is empty")
        } else if path.starts_with('/') {
            Some("is absolute")
        } else if path.contains('\0') {
            Some("has a NUL in it")
        } else if path.len() > MAX_PATH || path.split('/').count() > MAX_DEPTH {
            Some("is longer than 4096 bytes or has more than 256 parts")
        } else if path::clean(path) != path || path == ".." || path.starts_with("../") || path == "." {
            Some("is not in its shortest form inside the package")
        } else {
            None
        }
    };
    match files.keys().find_map(|path| reason(path).map(|reason| (path, reason))) {
        Some((path, reason)) => {
            let path = path.chars().take(MAX_PATH).collect();
            Err(TaskError::BadPath { path, reason })
        }
        None => Ok(()),
    }
}

/// Whether builtin functions look into a file.
fn is_yaml(path: &str) -> bool {
    path.ends_with(".yaml") || path.ends_with(".yml") || path::base_name(path) == loggia_krm::package::KPTFILE
}

/// The resources of a single file.
fn read_file(path: &str, content: &[u8]) -> Result<Package, ReadError> {
    let options = ReadOptions { subpackages: true, json: false, ..ReadOptions::default() };
    Package::from_files(&Files::from([(path.to_owned(), content.to_owned())]), &options)
}

/// The text of a single file; `None` if it is what was read.
fn write_file(package: Package, path: &str) -> Result<Option<Vec<u8>>, String> {
    let options = WriteOptions { prune: false, ..WriteOptions::default() };
    let mut changes = package.changes(&options).map_err(|error| error.to_string())?;
    Ok(changes.writes.remove(path).map(String::into_bytes))
}

// === impl Handled ===

impl Handled {
    fn unchanged() -> Self {
        Self {
            disposition: Disposition::Unchanged,
            files: Files::new(),
            status: None,
            failure: None,
            warnings: Vec::new(),
            task: String::new(),
        }
    }
}

// === impl Spelling ===

impl Spelling {
    /// Porch writes its message with a capital in one place and without in another, and clients look for either.
    fn failure(self, pushed: bool, details: &str) -> String {
        let initial = match self {
            Self::Capital => 'E',
            Self::Small => 'e',
        };
        let rest = if pushed {
            "Package pushed to remote despite render failure."
        } else {
            "Package NOT pushed to remote. Fix locally (until 'kpt fn render' succeeds) and retry."
        };
        format!("{initial}rror rendering package in kpt function pipeline. {rest} Details: {details}")
    }
}
