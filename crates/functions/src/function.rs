//! What a function of the catalog is, and how it runs.

use loggia_krm::ResourceList;

use crate::failure::Failure;
use crate::framework::Framework;
use crate::schemas::files::{NoSchemaFiles, SchemaFiles};

/// A function of the catalog.
#[derive(Debug)]
pub struct Function {
    /// The last part of its image's name.
    pub name: &'static str,
    /// One line: what it is for.
    pub purpose: &'static str,
    /// What it does to a package.
    pub role: Role,
    /// Its manual, in Markdown: config, behaviour, one example.
    pub manual: &'static str,
    /// Whether it runs programs that its config contains, and so needs a process of its own with limits.
    pub guarded: bool,
    /// What runs for which tags. No tag is in two of them.
    pub versions: &'static [Version],
}

/// What a function does to a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It changes resources.
    Mutator,
    /// It checks resources and changes nothing.
    Validator,
    /// It makes resources.
    Generator,
}

/// Versions of a function that behave alike.
#[derive(Debug)]
pub struct Version {
    /// The image tags that mean this behaviour.
    pub tags: &'static [&'static str],
    /// What the original is built on, which decides how it reads, writes and fails.
    pub framework: Framework,
    /// What runs; [`Version::run`] is how.
    pub(crate) run: Run,
}

/// A function's code. It edits the items and sets the results.
#[derive(Debug)]
pub(crate) enum Run {
    /// All it needs is in the list.
    List(fn(&mut ResourceList) -> Result<(), Failure>),
    /// Its config may name files with schemas.
    WithSchemas(fn(&mut ResourceList, &dyn SchemaFiles) -> Result<(), Failure>),
}

/// What a function's process would have left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The list, as text.
    pub stdout: String,
    /// What it writes to standard error.
    pub stderr: String,
    /// 0, or 1 if it failed.
    pub exit_code: i32,
}

// === impl Version ===

impl Version {
    /// Runs the function on a list, with no files beside it.
    ///
    /// # Errors
    /// As [`Version::run_with`].
    pub fn run(&self, list: &mut ResourceList) -> Result<(), Failure> {
        self.run_with(list, &NoSchemaFiles)
    }

    /// Runs the function on a list.
    ///
    /// # Errors
    /// If the original would end with exit code 1. The list then holds what it would have written: its
    /// results, and the changes made so far.
    pub fn run_with(&self, list: &mut ResourceList, files: &dyn SchemaFiles) -> Result<(), Failure> {
        self.framework.prepare(list);
        let outcome = match self.run {
            Run::List(run) => run(list),
            Run::WithSchemas(run) => run(list, files),
        };
        self.framework.finish(list);
        outcome
    }

    /// Runs the function on a list as text, as its program would, with no files beside it.
    #[must_use]
    pub fn filter(&self, stdin: &[u8]) -> Output {
        self.filter_with(stdin, &NoSchemaFiles)
    }

    /// Runs the function on a list as text, as its program would.
    #[must_use]
    pub fn filter_with(&self, stdin: &[u8], files: &dyn SchemaFiles) -> Output {
        self.filter_list(stdin, files).unwrap_or_else(|Failure { stderr }| Output {
            stdout: String::new(),
            stderr,
            exit_code: 1,
        })
    }

    /// Fails where the program would end before it writes.
    fn filter_list(&self, stdin: &[u8], files: &dyn SchemaFiles) -> Result<Output, Failure> {
        let mut list = self.framework.read(stdin)?;
        let spellings = self.framework.read_spellings(&mut list)?;
        let (stderr, exit_code) = match self.run_with(&mut list, files) {
            Ok(()) => (std::mem::take(&mut list.printed), 0),
            Err(failure) => (failure.stderr, 1),
        };
        self.framework.restore_spellings(&mut list, spellings)?;
        Ok(Output { stdout: self.framework.write(&list), stderr, exit_code })
    }
}
