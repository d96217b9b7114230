//! Where resources go that do not go back where they came from, and what else is written.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use loggia_go::printable;
use loggia_krm::package::{Paths, Sources, WriteOptions, changes};
use loggia_krm::{FunctionResultList, Resource, ResourceList};
use loggia_yaml::Fidelity;

use crate::failure::Failure;
use crate::printer::Printer;

/// What `-o` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A ResourceList on standard output.
    Stdout,
    /// Plain documents on standard output.
    Unwrap,
    /// A folder that does not exist yet.
    Folder(PathBuf),
}

impl Destination {
    pub(crate) fn parse(output: Option<&str>) -> Result<Option<Self>, Failure> {
        match output {
            None | Some("") => Ok(None),
            Some("stdout") => Ok(Some(Self::Stdout)),
            Some("unwrap") => Ok(Some(Self::Unwrap)),
            Some(folder) => new_folder(Path::new(folder)).map(|folder| Some(Self::Folder(folder))),
        }
    }

    /// Writes resources that come by way of a list, which has no place for an empty line below a header.
    pub(crate) fn write(&self, mut resources: Vec<Resource>, any_path: bool) -> Result<(), Failure> {
        resources.iter_mut().for_each(Resource::fold_header);
        match self {
            Self::Stdout => print_data(&ResourceList::new(resources).emit()),
            Self::Unwrap => print_data(&ResourceList::new(resources).emit_documents(Fidelity::Faithful)),
            Self::Folder(folder) => write_folder(folder, resources, any_path),
        }
    }
}

/// Which files of a package may be written.
pub(crate) fn paths(any_path: bool) -> Paths {
    if any_path { Paths::Any } else { Paths::Package }
}

/// A folder to be made must not be there, nor a link that leads to nothing.
pub(crate) fn new_folder(folder: &Path) -> Result<PathBuf, Failure> {
    if folder.symlink_metadata().is_ok() {
        let shown = folder.display().to_string();
        return Err(
            format!("directory {shown:?} already exists, please delete the directory and retry").into()
        );
    }
    Ok(folder.to_owned())
}

/// Makes a folder that holds the resources.
pub(crate) fn write_folder(folder: &Path, resources: Vec<Resource>, any_path: bool) -> Result<(), Failure> {
    let shown = folder.display().to_string();
    let paths = if any_path { Paths::Any } else { Paths::NewFolder };
    let options = WriteOptions { paths, ..WriteOptions::default() };
    let planned = changes(resources, &Sources::default(), &shown, &options)
        .map_err(|error| Failure::from(error.to_string()))?;
    fs::create_dir_all(folder).map_err(|error| format!("cannot make folder {shown:?}: {error}"))?;
    planned.apply_to_folder(folder).map_err(|error| error.to_string().into())
}

/// Prints text for people on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(printable(text).as_bytes())
}

/// Prints data for programs on standard output: as it is, except on a terminal, which must not obey it.
pub(crate) fn print_data(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { print(text) } else { write(text.as_bytes()) }
}

/// Writes to standard output. A reader that has had enough is no failure.
#[allow(clippy::print_stdout)]
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Makes the folder for results before anything runs.
pub(crate) fn prepare_results(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|error| {
        let shown = folder.display().to_string();
        format!("cannot read or create results dir {shown:?}: {error}").into()
    })
}

/// Puts a new file in the place of an old one. A link there is replaced, and what it leads to stays as it is.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = file.with_extension(format!("{}.tmp", std::process::id()));
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
    let done = new.write_all(content).and_then(|()| fs::rename(&temporary, file));
    if done.is_err() {
        // The reason is told already.
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// Writes what functions had to say, and says where.
pub(crate) fn write_results(
    folder: Option<&Path>,
    results: &FunctionResultList,
    printer: &mut Printer,
    before: &str,
) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let file = folder.join("results.yaml");
    replace(&file, results.to_yaml().as_bytes())
        .map_err(|error| format!("failed to save function results: {}: {error}", file.display()))?;
    printer.say(&format!("{before}For complete results, see {}\n", file.display()));
    Ok(())
}
