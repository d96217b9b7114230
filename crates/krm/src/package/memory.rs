//! Files in memory as a tree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::walk::{Entry, EntryKind, Tree};
use super::{Files, ReadErrorKind};
use crate::path;

/// The files with what each folder holds, made once.
#[derive(Debug)]
pub(super) struct Index<'a> {
    files: &'a Files,
    folders: BTreeMap<&'a str, BTreeSet<(&'a str, bool)>>,
}

impl<'a> Index<'a> {
    pub(super) fn new(files: &'a Files) -> Self {
        let mut folders: BTreeMap<&str, BTreeSet<(&str, bool)>> = BTreeMap::new();
        for path in files.keys() {
            let (mut inner, mut is_folder) = (path.as_str(), false);
            loop {
                let parent = path::folder(inner);
                let new = folders.entry(parent).or_default().insert((path::base_name(inner), is_folder));
                if parent.is_empty() || !new {
                    break;
                }
                (inner, is_folder) = (parent, true);
            }
        }
        Self { files, folders }
    }
}

impl Tree for Index<'_> {
    fn list(&self, folder: &str, _: usize) -> Result<Vec<Entry>, ReadErrorKind> {
        let entries = self.folders.get(folder).into_iter().flatten();
        Ok(entries
            .map(|&(name, is_folder)| Entry {
                name: name.to_owned(),
                kind: if is_folder { EntryKind::Folder } else { EntryKind::File },
                is_utf8: true,
            })
            .collect())
    }

    fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn read(&self, path: &str, _: EntryKind, limit: u64) -> Result<Option<Cow<'_, [u8]>>, ReadErrorKind> {
        let Some(content) = self.files.get(path) else { return Ok(None) };
        let size = content.len() as u64;
        if size > limit {
            return Err(ReadErrorKind::FileTooLarge { size, limit });
        }
        Ok(Some(Cow::Borrowed(content)))
    }
}
