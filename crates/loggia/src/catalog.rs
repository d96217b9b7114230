//! `loggia fn list` and `loggia fn doc`: what is built in.

use std::fmt::Write as _;

use loggia_functions::{CATALOG, Function, Role};
use serde::Serialize;

use crate::cli::{Doc, Format, List};
use crate::failure::Failure;
use crate::{output, report};

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    role: &'static str,
    purpose: &'static str,
    tags: Vec<&'static str>,
}

/// Lists the catalog.
pub(crate) fn list(arguments: &List) -> Result<(), Failure> {
    if arguments.output_format == Format::Json {
        let entries: Vec<Entry> = CATALOG
            .iter()
            .map(|function| Entry {
                name: function.name,
                role: role(function),
                purpose: function.purpose,
                tags: tags(function),
            })
            .collect();
        return report::print(&entries);
    }
    let width = CATALOG.iter().map(|function| function.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for function in CATALOG {
        let _ = writeln!(text, "{:width$}  {:9}  {}", function.name, role(function), function.purpose);
    }
    text.push_str("\nUse one by its name (`image: set-labels`), or by its image in any of the catalog's registries.\n`loggia fn doc NAME` shows its config and an example.\n");
    output::print(&text)
}

/// Shows the manual of one function.
pub(crate) fn doc(arguments: &Doc) -> Result<(), Failure> {
    let Some(name) = arguments.name.as_ref().or(arguments.image.as_ref()) else {
        return Err("image must be specified".into());
    };
    let base = name.rsplit('/').next().unwrap_or(name);
    let base = base.split([':', '@']).next().unwrap_or(base);
    let Some(function) = CATALOG.iter().find(|function| function.name == base) else {
        let near = CATALOG.iter().map(|function| function.name).filter(|known| known.contains(base));
        let near: Vec<&str> = near.collect();
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
        return Err(
            format!("function {name:?} is not built in{hint}; `loggia fn list` shows all that are").into()
        );
    };
    let manual = function.manual.trim_end();
    output::print(&format!("{manual}\n\nTags: {}\n", tags(function).join(", ")))
}

fn tags(function: &Function) -> Vec<&'static str> {
    function.versions.iter().flat_map(|version| version.tags).copied().collect()
}

fn role(function: &Function) -> &'static str {
    match function.role {
        Role::Mutator => "mutator",
        Role::Validator => "validator",
        Role::Generator => "generator",
    }
}
