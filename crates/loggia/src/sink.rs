//! `loggia fn sink`: a stream as files of a new folder.

use loggia_krm::{Resource, ResourceList, StreamOptions};

use crate::cli::Sink;
use crate::failure::Failure;
use crate::{file, output};

pub(crate) fn run(arguments: &Sink) -> Result<(), Failure> {
    let Some(folder) = arguments.folders.first() else {
        return Err("requires at least 1 arg(s), only received 0".into());
    };
    let folder = output::new_folder(folder)?;
    let resources = read_stream(arguments.max_package_size)?;
    output::write_folder(&folder, resources, arguments.allow_any_path)
}

/// Reads the resources of standard input.
pub(crate) fn read_stream(limit: u64) -> Result<Vec<Resource>, Failure> {
    let input = file::read_up_to(std::io::stdin().lock(), limit)
        .map_err(|error| format!("cannot read standard input: {error}"))?
        .ok_or_else(|| format!("standard input has more than {limit} bytes (--max-package-size)"))?;
    let list = ResourceList::parse(&input, StreamOptions { sequence_style: true });
    list.map(|list| list.items).map_err(|error| error.to_string().into())
}
