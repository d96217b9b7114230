//! Container images made without a container engine.
//!
//! An [`Image`] is the files of one layer and the config that a runtime reads. [`Image::write`] turns it into
//! an OCI image layout, a folder that every registry client can push. Equal images give equal bytes: the output
//! does not depend on the clock, on the order in which files were added or on the machine.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

mod authorities;
mod layer;
mod layout;

pub use authorities::authorities;
pub use layout::Written;

#[derive(Debug, Clone, Default)]
pub struct Image {
    pub entries: Entries,
    pub config: Config,
    pub platform: Platform,
    /// What the layout calls the image, as in `oci:FOLDER:TAG`.
    pub tag: Option<String>,
}

/// What runs, and as which user; the fields are named as in a container file.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    pub env: Vec<String>,
    pub user: Option<String>,
    pub working_dir: Option<String>,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
}

/// The files of an image by their absolute paths. Parent folders are added implicitly.
#[derive(Debug, Clone, Default)]
pub struct Entries(BTreeMap<PathBuf, Entry>);

#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Folder {
        mode: u32,
    },
    File {
        mode: u32,
        source: PathBuf,
    },
    Text {
        mode: u32,
        content: Vec<u8>,
    },
    /// A hard link. It carries the mode of its target, because unpacking the link sets the mode again.
    Link {
        mode: u32,
        target: PathBuf,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` is no absolute path without `..`", .0.display())]
    NotAbsolute(PathBuf),
    #[error("`{}`: it is a link to `{}`, which is no file of the image", .path.display(), .target.display())]
    LinkToNowhere { path: PathBuf, target: PathBuf },
    #[error("`{}` cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be written", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("`{0}` is no platform; write OS/ARCHITECTURE, as in `linux/amd64`")]
    NotAPlatform(String),
}

// === impl Image ===

impl Image {
    /// Writes the image as an OCI image layout into `folder`, in place of the one that may be there.
    pub fn write(&self, folder: &Path) -> Result<Written, Error> {
        layout::write(self, folder)
    }
}

// === impl Entries ===

impl Entries {
    pub fn folder(&mut self, path: impl Into<PathBuf>, mode: u32) -> Result<(), Error> {
        self.add(path.into(), Entry::Folder { mode })
    }

    /// Adds a file, or everything in a folder. Without a mode, files are 0755 if the source is executable, else
    /// 0644.
    pub fn file(&mut self, path: impl Into<PathBuf>, source: &Path, mode: Option<u32>) -> Result<(), Error> {
        let path = path.into();
        let unreadable = |error| Error::Unreadable { path: source.to_owned(), source: error };
        let metadata = fs::metadata(source).map_err(unreadable)?;
        if !metadata.is_dir() {
            let runs = metadata.permissions().mode() & 0o111 != 0;
            let mode = mode.unwrap_or(if runs { 0o755 } else { 0o644 });
            return self.add(path, Entry::File { mode, source: source.to_owned() });
        }
        self.folder(&path, 0o755)?;
        for entry in fs::read_dir(source).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            self.file(path.join(entry.file_name()), &entry.path(), mode)?;
        }
        Ok(())
    }

    pub fn text(
        &mut self,
        path: impl Into<PathBuf>,
        content: impl Into<Vec<u8>>,
        mode: u32,
    ) -> Result<(), Error> {
        self.add(path.into(), Entry::Text { mode, content: content.into() })
    }

    /// Adds a hard link to a file that was added before.
    pub fn link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Result<(), Error> {
        let (path, target) = (path.into(), target.into());
        match self.0.get(&target) {
            Some(&(Entry::File { mode, .. } | Entry::Text { mode, .. })) => {
                self.add(path, Entry::Link { mode, target })
            }
            _ => Err(Error::LinkToNowhere { path, target }),
        }
    }

    fn add(&mut self, path: PathBuf, entry: Entry) -> Result<(), Error> {
        use std::path::Component::{Normal, RootDir};
        if !path.is_absolute() || !path.components().all(|part| matches!(part, RootDir | Normal(_))) {
            return Err(Error::NotAbsolute(path));
        }
        let above: Vec<PathBuf> =
            path.ancestors().skip(1).filter(|each| each.parent().is_some()).map(Path::to_owned).collect();
        for folder in above {
            self.0.entry(folder).or_insert(Entry::Folder { mode: 0o755 });
        }
        self.0.insert(path, entry);
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_path(), entry))
    }
}

// === impl Platform ===

impl Default for Platform {
    /// The platform that this program was built for.
    fn default() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned() }
    }
}

impl std::str::FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once('/') {
            Some((os, architecture)) if !os.is_empty() && !architecture.is_empty() => {
                Ok(Self { os: os.to_owned(), architecture: architecture.to_owned() })
            }
            _ => Err(Error::NotAPlatform(text.to_owned())),
        }
    }
}
