//! A folder of custom resource definitions in YAML.
//!
//! It may hold hundreds of them, and a list may ask for kinds without end. So a file is parsed only if it is about a kind
//! that was asked for, and once.

use std::cell::OnceCell;
use std::collections::HashMap;

use loggia_krm::{ResourceList, StreamOptions};

use super::{Definitions, Schema};
use crate::SchemaFiles;

/// How many words behind `kind` may be its value: there may be a tag or an anchor before it.
const WORDS: usize = 3;

/// The files that have definitions in them.
#[derive(Default)]
pub(super) struct Folder {
    files: Vec<File>,
    /// Positions of the files that may be about a kind, in order.
    by_kind: HashMap<String, Vec<usize>>,
}

struct File {
    path: String,
    text: String,
    definitions: OnceCell<Result<Definitions, String>>,
}

// === impl Folder ===

impl Folder {
    /// Reads a folder, and takes what its definitions come to off `room`.
    ///
    /// # Errors
    /// If a file cannot be read, or there is not enough room.
    pub(super) fn read(path: &str, files: &dyn SchemaFiles, room: &mut usize) -> Result<Self, String> {
        let mut folder = Self::default();
        let is_yaml = |path: &String| [".yaml", ".yml"].iter().any(|ending| path.ends_with(ending));
        for path in files.list(path)?.into_iter().filter(is_yaml) {
            let content = files.read(&path).map_err(|error| format!("`{path}`: {error}"))?;
            let Some(text) = content.and_then(|content| String::from_utf8(content).ok()) else { continue };
            if text.contains("CustomResourceDefinition") {
                *room = room
                    .checked_sub(text.len())
                    .ok_or("there are too many definitions; name fewer folders")?;
                folder.add(path, text);
            }
        }
        Ok(folder)
    }

    fn add(&mut self, path: String, text: String) {
        let at = self.files.len();
        for (found, keyword) in text.match_indices("kind") {
            let behind = text.get(found + keyword.len()..).unwrap_or_default();
            for word in words(behind).take(WORDS) {
                let positions = self.by_kind.entry(word.to_owned()).or_default();
                if positions.last() != Some(&at) {
                    positions.push(at);
                }
            }
        }
        self.files.push(File { path, text, definitions: OnceCell::new() });
    }

    /// What the first definition of a kind says.
    ///
    /// # Errors
    /// If a file that may have it is not YAML.
    pub(super) fn schema(&self, api_version: &str, kind: &str) -> Result<Option<Schema>, String> {
        let positions = self.by_kind.get(kind).map_or(&[][..], Vec::as_slice);
        for file in positions.iter().filter_map(|at| self.files.get(*at)) {
            let failed = |error: &String| format!("schema `{}` of {api_version} {kind}: {error}", file.path);
            let definitions = file.definitions.get_or_init(|| parse(&file.text)).as_ref().map_err(failed)?;
            if let Some(schema) = definitions.schema(api_version, kind) {
                return Ok(Some(schema));
            }
        }
        Ok(None)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn parse(text: &str) -> Result<Definitions, String> {
    let list =
        ResourceList::parse(text.as_bytes(), StreamOptions::default()).map_err(|error| error.to_string())?;
    let mut definitions = Definitions::default();
    definitions.learn(&list.items)?;
    Ok(definitions)
}
