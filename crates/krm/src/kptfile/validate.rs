//! What the schema cannot say about a pipeline. The texts are kpt's.

use std::collections::HashMap;
use std::fmt;

use loggia_go::quote;

use super::{Function, Kptfile, image};
use crate::document::{self, Reading};
use crate::path::clean;
use crate::resource::Resource;

/// A field that cannot stay as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ValidateError {
    /// Which field.
    pub field: String,
    /// What it says; empty if that does not matter.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ValidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, reason } = self;
        writeln!(f, "Kptfile is invalid:\nField: `{field}`")?;
        if !value.is_empty() {
            writeln!(f, "Value: {}", quote(value))?;
        }
        writeln!(f, "Reason: {reason}")
    }
}

/// A text that is not an image reference. Displayed in kpt's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("function image reference {} is invalid: {reason}", quote(.reference))]
pub struct InvalidImage {
    reference: String,
    reason: &'static str,
}

/// Checks that an image reference follows the grammar.
///
/// # Errors
/// If it does not.
pub fn check_image(reference: &str) -> Result<(), InvalidImage> {
    image::check(reference).map_err(|reason| InvalidImage { reference: reference.to_owned(), reason })
}

impl Kptfile {
    /// Checks each function of the pipeline, mutators first, up to the first problem.
    ///
    /// `open` gives the content of a file of the package by its path, or the reason why there is none as kpt
    /// would word it (`open /pkg/fn.yaml: no such file or directory`). It is called once for each path.
    ///
    /// # Errors
    /// With the first field that cannot stay as it is.
    pub fn validate(&self, open: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<(), ValidateError> {
        let mut configs = Configs { open, checked: HashMap::new() };
        self.steps().try_for_each(|(list, index, function)| {
            function.problem(&mut configs).map_or(Ok(()), |(suffix, value, reason)| {
                Err(ValidateError { field: format!("pipeline.{list}s[{index}]{suffix}"), value, reason })
            })
        })
    }

    /// Checks that every `configPath` is among the package's own resources, given as a question.
    ///
    /// # Errors
    /// With each that is not.
    pub fn check_config_paths(&self, is_own: &dyn Fn(&str) -> bool) -> Result<(), Vec<ValidateError>> {
        let missing: Vec<ValidateError> = self
            .steps()
            .filter(|(_, _, function)| !function.config_path.is_empty() && !is_own(&clean(&function.config_path)))
            .map(|(list, index, function)| {
                let path = &function.config_path;
                let (name, quoted) = (quote(function.display_name()), quote(path));
                ValidateError {
                    field: format!("pipeline.{list}s[{index}].configPath"),
                    value: path.clone(),
                    reason: format!(
                        "functionConfig resource for {list} {name} is missing from path {quoted}, this also occurs if {quoted} is part of a subpackage"
                    ),
                }
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Every function with `mutator` or `validator` and its place.
    fn steps(&self) -> impl Iterator<Item = (&'static str, usize, &Function)> {
        let pipeline = self.pipeline.iter();
        pipeline.flat_map(|pipeline| {
            let list = |name, functions: &'_ [Function]| -> Vec<_> {
                (0..functions.len()).map(|index| (name, index)).collect()
            };
            let mutators = list("mutator", &pipeline.mutators).into_iter().zip(&pipeline.mutators);
            let validators = list("validator", &pipeline.validators).into_iter().zip(&pipeline.validators);
            mutators.chain(validators).map(|((name, index), function)| (name, index, function))
        })
    }
}

type Problem = (&'static str, String, String);

/// The files with function configs, each read and checked once however many steps share it.
struct Configs<'a> {
    open: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    checked: HashMap<String, Result<(), String>>,
}

impl Configs<'_> {
    fn check(&mut self, path: &str) -> Result<(), String> {
        if let Some(known) = self.checked.get(path) {
            return known.clone();
        }
        let outcome = check_path(path).and_then(|()| check_config(path, self.open));
        self.checked.insert(path.to_owned(), outcome.clone());
        outcome
    }
}

impl Function {
    fn problem(&self, configs: &mut Configs<'_>) -> Option<Problem> {
        let here = |reason: &str| Some(("", String::new(), reason.to_owned()));
        if self.image.is_empty() && self.exec.is_empty() {
            return here("must specify a functon (`image` or `exec`) to execute");
        }
        if !self.image.is_empty() && !self.exec.is_empty() {
            return here("must not specify both `image` and `exec` at the same time");
        }
        if !self.image.is_empty()
            && let Err(error) = check_image(&self.image)
        {
            return Some((".image", self.image.clone(), error.to_string()));
        }
        if !self.config_map.is_empty() && !self.config_path.is_empty() {
            return here(
                "functionConfig must not specify both `configMap` and `configPath` at the same time",
            );
        }
        if self.config_path.is_empty() {
            return None;
        }
        configs.check(&self.config_path).err().map(|reason| (".configPath", self.config_path.clone(), reason))
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let cleaned = clean(path);
    if path.trim().is_empty() {
        Err("path must not be empty".to_owned())
    } else if cleaned.starts_with('/') {
        Err("path must be relative".to_owned())
    } else if cleaned.contains("..") {
        Err("path must not be outside the package".to_owned())
    } else {
        Ok(())
    }
}

fn check_config(path: &str, open: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<(), String> {
    let quoted = quote(path);
    let content =
        open(path).map_err(|cause| format!("failed to open functionConfig from path {quoted}: {cause}"))?;
    let resources = document::read(&content, &Reading::default())
        .map_err(|error| format!("failed to read functionConfig {quoted}: {error}"))?;
    match resources.as_slice() {
        [] => Err(format!("functionConfig {quoted} must contain one config, got 0")),
        [only] => check_krm(only).map_err(|missing| format!("functionConfig {quoted}: {missing}")),
        more => {
            let count = more.len();
            Err(format!("functionConfig {quoted} must not contain more than one config, got {count}"))
        }
    }
}

fn check_krm(resource: &Resource) -> Result<(), String> {
    resource.check_krm().map_err(|missing| missing.to_string())
}
