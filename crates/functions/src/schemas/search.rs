//! The search for a resource's schema, location by location.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;

use loggia_krm::Resource;

use super::folder::Folder;
use super::location::{Files, Location, Wanted, describe};
use super::{Catalog, Definitions, Schema, Strictness, json};
use crate::SchemaFiles;

/// The most bytes that the definitions of all folders may come to.
const DEFINITIONS_LIMIT: usize = 256 << 20;

/// The most locations.
const LOCATIONS_LIMIT: usize = 32;

/// Finds schemas: the first location that has one wins. What was found is kept as long as this is.
pub(crate) struct Search<'a> {
    pub(crate) catalog: Catalog,
    package: Definitions,
    places: Vec<Place>,
    files: &'a dyn SchemaFiles,
    kubernetes_version: Option<String>,
    strict: bool,
    /// Bytes that further definitions may have.
    room: Cell<usize>,
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
    /// The definitions of its folder, once they were needed.
    folder: OnceCell<Folder>,
}

// === impl Search ===

impl<'a> Search<'a> {
    /// # Errors
    /// If a location is out of reach, or a definition of the package cannot be understood.
    pub(crate) fn new(settings: Settings<'_>, files: &'a dyn SchemaFiles) -> Result<Self, String> {
        let Settings { locations, items, kubernetes_version, strictness } = settings;
        if locations.len() > LOCATIONS_LIMIT {
            return Err(format!(
                "there are {} schema locations; at most {LOCATIONS_LIMIT} are looked at",
                locations.len()
            ));
        }
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
        let places = locations.into_iter().map(|location| Place { location, folder: OnceCell::new() });
        Ok(Self {
            catalog: Catalog::new(built_in)?,
            package,
            places: places.collect(),
            files,
            kubernetes_version: kubernetes_version.map(str::to_owned),
            strict: strictness == Strictness::Strict,
            room: Cell::new(DEFINITIONS_LIMIT),
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
        let Some(path) = &files.definitions else { return Ok(None) };
        self.folder(place, path).map_err(|error| describe(&files.written, &error))?.schema(api_version, kind)
    }

    fn folder<'b>(&self, place: &'b Place, path: &str) -> Result<&'b Folder, String> {
        if let Some(folder) = place.folder.get() {
            return Ok(folder);
        }
        let mut room = self.room.get();
        let folder = Folder::read(path, self.files, &mut room)?;
        self.room.set(room);
        Ok(place.folder.get_or_init(|| folder))
    }
}

#[cfg(test)]
mod tests;
