//! What a function of the catalog is, and how it runs.

use loggia_krm::{ResourceList, ResultItem, Results, Severity};

use crate::catalog::CATALOG;
use crate::failure::Failure;
use crate::framework::Framework;
use crate::limits::{Excess, Limits, Scope};
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
    /// As [`Version::run_within`].
    pub fn run(&self, list: &mut ResourceList) -> Result<(), Failure> {
        self.run_within(list, &NoSchemaFiles, Limits::GENEROUS)
    }

    /// Runs the function on a list.
    ///
    /// # Errors
    /// If the original would end with exit code 1. The list then holds what it would have written: its
    /// results, and the changes made so far. If it met a limit, the list holds a result about that and no items.
    pub fn run_within(
        &self,
        list: &mut ResourceList,
        files: &dyn SchemaFiles,
        limits: Limits,
    ) -> Result<(), Failure> {
        let scope = Scope::new(limits, None);
        self.run_in(&scope, list, files)
    }

    /// Runs the function on a list as text, as its program would, with no files beside it.
    #[must_use]
    pub fn filter(&self, stdin: &[u8]) -> Output {
        self.filter_within(stdin, &NoSchemaFiles, Limits::GENEROUS)
    }

    /// Runs the function on a list as text, as its program would.
    #[must_use]
    pub fn filter_within(&self, stdin: &[u8], files: &dyn SchemaFiles, limits: Limits) -> Output {
        self.filter_list(stdin, files, limits).unwrap_or_else(|Failure { stderr }| Output {
            stdout: String::new(),
            stderr,
            exit_code: 1,
        })
    }

    /// Fails where the program would end before it writes.
    fn filter_list(&self, stdin: &[u8], files: &dyn SchemaFiles, limits: Limits) -> Result<Output, Failure> {
        let scope = Scope::new(limits, Some(stdin.len()));
        let mut list = self.framework.read(stdin)?;
        let spellings = self.framework.read_spellings(&mut list)?;
        let (stderr, exit_code) = match self.run_in(&scope, &mut list, files) {
            Ok(()) => (std::mem::take(&mut list.printed), 0),
            Err(failure) => (failure.stderr, 1),
        };
        self.framework.restore_spellings(&mut list, spellings)?;
        let stdout = self.framework.write(&list, limits.output);
        let stdout = stdout.ok_or_else(|| self.over(&Excess::of_output(limits)))?;
        Ok(Output { stdout, stderr, exit_code })
    }

    fn run_in(&self, scope: &Scope, list: &mut ResourceList, files: &dyn SchemaFiles) -> Result<(), Failure> {
        self.framework.prepare(list);
        let outcome = match self.run {
            Run::List(run) => run(list),
            Run::WithSchemas(run) => run(list, files),
        };
        self.framework.finish(list);
        let Some(excess) = scope.excess() else { return outcome };
        let failure = self.over(&excess);
        list.items.clear();
        list.printed.clear();
        list.set_results(&Results(vec![ResultItem::new(Severity::Error, failure.stderr.as_str())]));
        Err(failure)
    }

    /// The failure of a call that met a limit.
    fn over(&self, excess: &Excess) -> Failure {
        let is_own =
            |function: &&&Function| function.versions.iter().any(|version| std::ptr::eq(version, self));
        let name = CATALOG.iter().find(is_own).map_or("", |function| function.name);
        Failure { stderr: format!("function `{name}`: {excess}") }
    }
}
