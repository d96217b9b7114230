//! Files that the command line names: read whole, but never without end.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use loggia_krm::package::Limits;
use rustix::fs::OFlags;

/// Reads a file, which is a regular one. A pipe is read only under the names that a shell gives to those it makes
/// (`--fn-config <(command)`): any other could wait forever.
pub(crate) fn read(file: &Path, limits: Limits) -> Result<Vec<u8>, String> {
    let shown = file.to_string_lossy();
    let by_shell = ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"].iter().any(|name| shown.starts_with(name));
    let mut options = OpenOptions::new();
    options.read(true);
    if !by_shell {
        // Opening a pipe does not wait for its other end then.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    let opened = options.open(file).map_err(|error| error.to_string())?;
    let metadata = opened.metadata().map_err(|error| error.to_string())?;
    if metadata.is_dir() || !(metadata.is_file() || by_shell) {
        return Err("not a regular file".to_owned());
    }
    let limit = limits.file_bytes;
    read_up_to(opened, limit)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("has more than {limit} bytes (--max-file-size)"))
}

/// Reads to the end; none if there is more than allowed.
pub(crate) fn read_up_to(from: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let read = from.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    Ok((read as u64 <= limit).then_some(content))
}
