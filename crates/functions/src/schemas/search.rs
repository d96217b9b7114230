//! The search for a resource's schema, location by location.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use loggia_krm::{Resource, ResourceList, StreamOptions};

use super::location::{Files, Location, Wanted, describe};
use super::{Catalog, Definitions, Schema, Strictness, json};
use crate::SchemaFiles;

/// The most that the definitions of one folder may come to.
const FOLDER_LIMIT: usize = 256 << 20;

/// Finds schemas: the first location that has one wins. What was found is kept as long as this is.
pub(crate) struct Search<'a> {
    pub(crate) catalog: Catalog,
    package: Definitions,
    places: Vec<Place>,
    files: &'a dyn SchemaFiles,
    kubernetes_version: Option<String>,
    strict: bool,
    found: RefCell<HashMap<(String, String), Option<Schema>>>,
}

/// What to search, and how.
pub(crate) struct Settings<'a> {
    pub(crate) locations: Vec<Location>,
    /// The list's own resources, which may be definitions.
    pub(crate) items: &'a [Resource],
    pub(crate) kubernetes_version: Option<&'a str>,
    pub(crate) strictness: Strictness,
}

/// A location, and what is known of it.
struct Place {
    location: Location,
    /// The documents of its folder that may be definitions: path and text.
    texts: OnceCell<Vec<(String, String)>>,
}

// === impl Search ===

impl<'a> Search<'a> {
    /// # Errors
    /// If a location is out of reach, or a definition of the package cannot be understood.
    pub(crate) fn new(settings: Settings<'_>, files: &'a dyn SchemaFiles) -> Result<Self, String> {
        let Settings { locations, items, kubernetes_version, strictness } = settings;
        let has = |wanted: &Location| locations.iter().any(|location| location == wanted);
        let mut package = Definitions::default();
        if has(&Location::Package) {
            package.learn(items)?;
        }
        for location in &locations {
            if let Location::Files(location) = location {
                files.check(&location.base).map_err(|error| describe(&location.written, &error))?;
            }
        }
        // Folders may be of a version that is not built in.
        let built_in = kubernetes_version.filter(|_| has(&Location::Kubernetes));
        let places = locations.into_iter().map(|location| Place { location, texts: OnceCell::new() });
        Ok(Self {
            catalog: Catalog::new(built_in)?,
            package,
            places: places.collect(),
            files,
            kubernetes_version: kubernetes_version.map(str::to_owned),
            strict: strictness == Strictness::Strict,
            found: RefCell::default(),
        })
    }

    /// The schema of a kind, if any location has it.
    ///
    /// # Errors
    /// If a file with it cannot be read or understood.
    pub(crate) fn schema(&self, api_version: &str, kind: &str) -> Result<Option<Schema>, String> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(found) = self.found.borrow().get(&key) {
            return Ok(found.clone());
        }
        let mut found = None;
        for place in &self.places {
            found = match &place.location {
                Location::Kubernetes => self.catalog.schema(api_version, kind),
                Location::Package => self.package.schema(api_version, kind),
                Location::Files(files) => self.in_files(place, files, api_version, kind)?,
            };
            if found.is_some() {
                break;
            }
        }
        self.found.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    fn in_files(
        &self,
        place: &Place,
        files: &Files,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Schema>, String> {
        let kubernetes_version = self.kubernetes_version.as_deref();
        let path = files.path(Wanted { api_version, kind, kubernetes_version, strict: self.strict });
        let failed = |error: String| format!("schema `{path}` of {api_version} {kind}: {error}");
        if let Some(content) = self.files.read(&path).map_err(failed)? {
            return json::parse(&content).map(Some).map_err(failed);
        }
        let Some(folder) = &files.definitions else { return Ok(None) };
        let texts = match place.texts.get() {
            Some(texts) => texts,
            None => {
                let texts = self.texts(folder).map_err(|error| describe(&files.written, &error))?;
                place.texts.get_or_init(|| texts)
            }
        };
        in_texts(texts, api_version, kind)
    }

    /// The documents in a folder that may be definitions.
    fn texts(&self, folder: &str) -> Result<Vec<(String, String)>, String> {
        let mut texts = Vec::new();
        let mut size = 0;
        let is_yaml = |path: &String| [".yaml", ".yml"].iter().any(|ending| path.ends_with(ending));
        for path in self.files.list(folder)?.into_iter().filter(is_yaml) {
            let content = self.files.read(&path).map_err(|error| format!("`{path}`: {error}"))?;
            let Some(text) = content.and_then(|content| String::from_utf8(content).ok()) else { continue };
            if !text.contains("CustomResourceDefinition") {
                continue;
            }
            size += text.len();
            if size > FOLDER_LIMIT {
                return Err(format!("its definitions are larger than {} MiB together", FOLDER_LIMIT >> 20));
            }
            texts.push((path, text));
        }
        Ok(texts)
    }
}

/// Reads only what may be about the kind: a folder may hold hundreds of definitions.
fn in_texts(texts: &[(String, String)], api_version: &str, kind: &str) -> Result<Option<Schema>, String> {
    let Some((group, _)) = api_version.split_once('/').filter(|_| !kind.is_empty()) else { return Ok(None) };
    for (path, text) in texts.iter().filter(|(_, text)| text.contains(kind) && text.contains(group)) {
        let failed =
            |error: &dyn std::fmt::Display| format!("schema `{path}` of {api_version} {kind}: {error}");
        let list =
            ResourceList::parse(text.as_bytes(), StreamOptions::default()).map_err(|error| failed(&error))?;
        let mut definitions = Definitions::default();
        definitions.learn(&list.items).map_err(|error| failed(&error))?;
        if let Some(schema) = definitions.schema(api_version, kind) {
            return Ok(Some(schema));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
