//! `loggia fn source`: the resources of a folder as a stream.

use std::path::{Path, PathBuf};

use loggia_krm::package::{Limits, ReadOptions};
use loggia_krm::{Package, ResourceList, StreamOptions};
use loggia_yaml::{Fidelity, Node};

use crate::cli::Source;
use crate::failure::Failure;
use crate::{file, output};

pub(crate) fn run(arguments: &Source) -> Result<(), Failure> {
    let Source { folders, output: form, fn_config, limits } = arguments;
    if !matches!(form.as_str(), "stdout" | "unwrap") {
        return Err(
            format!("invalid input for --output flag {form:?}, must be \"stdout\" or \"unwrap\"").into()
        );
    }
    if folders.len() > 1 {
        return Err(format!("accepts at most 1 arg(s), received {}", folders.len()).into());
    }
    let here = PathBuf::from(".");
    let folder = folders.first().unwrap_or(&here);
    let options = ReadOptions { subpackages: true, limits: limits.read(), ..ReadOptions::default() };
    let package = Package::from_folder(folder, &options).map_err(|error| error.to_string())?;
    let function_config = fn_config.as_deref().map(|file| read_config(file, limits.read())).transpose()?;
    let list = ResourceList { function_config, ..ResourceList::new(package.resources) };
    output::print_data(&if form == "unwrap" { list.emit_documents(Fidelity::Faithful) } else { list.emit() })
}

fn read_config(file: &Path, limits: Limits) -> Result<Node, Failure> {
    let content = file::read(file, limits).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut list = ResourceList::parse(&content, StreamOptions::default())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    list.remove_stream_annotations();
    match <[_; 1]>::try_from(list.items) {
        Ok([mut only]) => {
            // It was read as a stream, which leaves empty annotations behind.
            let _ = only.drop_empty_metadata();
            Ok(only.into_document().root)
        }
        Err(items) => Err(format!("expected exactly 1 functionConfig, found {}", items.len()).into()),
    }
}
