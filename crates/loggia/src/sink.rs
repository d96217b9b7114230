//! `loggia fn sink`: a stream as files of a new folder.

use std::io::Read as _;

use loggia_krm::{Resource, ResourceList, StreamOptions};

use crate::cli::Sink;
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(arguments: &Sink) -> Result<(), Failure> {
    let Some(folder) = arguments.folders.first() else {
        return Err("requires at least 1 arg(s), only received 0".into());
    };
    let folder = output::new_folder(folder)?;
    output::write_folder(&folder, read_stream()?)
}

/// Reads the resources of standard input.
pub(crate) fn read_stream() -> Result<Vec<Resource>, Failure> {
    let mut input = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut input)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    let list = ResourceList::parse(&input, StreamOptions { sequence_style: true });
    list.map(|list| list.items).map_err(|error| error.to_string().into())
}
