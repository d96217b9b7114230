//! Where a function may leave resources.

use loggia_krm::package::{Paths, Reader, Sources, WriteErrorKind, check_new_file};
use loggia_krm::{Resource, path};

/// What the package held before functions ran.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) reader: &'a Reader<'a>,
    pub(crate) sources: &'a Sources,
    pub(crate) paths: Paths,
    /// The absolute path of the root package.
    pub(crate) root: &'a str,
}

impl std::fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").field("root", &self.root).field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Places<'_> {
    /// Checks that each resource goes to a file that was read, or to a new one that would be.
    pub(crate) fn check(&self, resources: &[Resource]) -> Result<(), String> {
        let mut last = String::new();
        for resource in resources {
            let Some(folder) = folder_below(resource.package_path(), self.root) else { continue };
            let file = path::join(&[folder, resource.path().trim_start_matches('/')]);
            if file == last || self.sources.was_read(&file) {
                continue;
            }
            check_new_file(&file, self.paths).map_err(|error| error.to_string())?;
            if self.paths != Paths::Any && self.reader.exists(&file) {
                return Err(WriteErrorKind::NotRead(file).to_string());
            }
            last = file;
        }
        Ok(())
    }
}

/// The path of a package below the root; none if it is not there.
pub(crate) fn folder_below<'p>(package: &'p str, root: &str) -> Option<&'p str> {
    let rest = package.strip_prefix(root.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}
