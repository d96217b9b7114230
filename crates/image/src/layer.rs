//! The one layer of an image: a tar file of its entries, compressed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use flate2::{Compression, GzBuilder, write::GzEncoder};
use ring::digest;
use tar::{Builder, EntryType, Header};

use crate::{Entries, Entry, Error};

pub(crate) struct Layer {
    pub(crate) compressed: Vec<u8>,
    /// The digest of the layer before compression, by which a config names it.
    pub(crate) diff_id: String,
}

/// Writes to `inner`, and digests what it wrote.
struct Digesting<W> {
    inner: W,
    context: digest::Context,
}

pub(crate) fn make(entries: &Entries) -> Result<Layer, Error> {
    let encoder = GzBuilder::new().write(Vec::new(), Compression::default());
    let digesting = Digesting { inner: encoder, context: digest::Context::new(&digest::SHA256) };
    let mut builder = Builder::new(digesting);
    // A link comes after its target: some readers make the links as they read.
    let (links, others): (Vec<_>, Vec<_>) =
        entries.iter().partition(|(_, entry)| matches!(entry, Entry::Link { .. }));
    for (path, entry) in others.into_iter().chain(links) {
        append(&mut builder, path, entry)?;
    }
    let (compressed, context) = finish(builder).map_err(in_memory)?;
    Ok(Layer { compressed, diff_id: sha256(context.finish()) })
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    sha256(digest::digest(&digest::SHA256, bytes))
}

fn sha256(digest: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", HEXLOWER.encode(digest.as_ref()))
}

fn append(builder: &mut Builder<impl Write>, path: &Path, entry: &Entry) -> Result<(), Error> {
    let name = path.strip_prefix("/").unwrap_or(path);
    match entry {
        Entry::Folder { mode } => {
            let mut header = header(EntryType::Directory, *mode, 0);
            builder.append_data(&mut header, name.join(""), io::empty()).map_err(in_memory)
        }
        Entry::Text { mode, content } => {
            let mut header = header(EntryType::Regular, *mode, content.len() as u64);
            builder.append_data(&mut header, name, content.as_slice()).map_err(in_memory)
        }
        Entry::File { mode, source } => {
            let unreadable = |error| Error::Unreadable { path: source.clone(), source: error };
            let file = File::open(source).map_err(unreadable)?;
            let size = file.metadata().map_err(unreadable)?.len();
            builder.append_data(&mut header(EntryType::Regular, *mode, size), name, file).map_err(unreadable)
        }
        Entry::Link { mode, target } => {
            let target = target.strip_prefix("/").unwrap_or(target);
            builder.append_link(&mut header(EntryType::Link, *mode, 0), name, target).map_err(in_memory)
        }
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn finish(builder: Builder<Digesting<GzEncoder<Vec<u8>>>>) -> io::Result<(Vec<u8>, digest::Context)> {
    let Digesting { inner, context } = builder.into_inner()?;
    Ok((inner.finish()?, context))
}

fn in_memory(source: io::Error) -> Error {
    Error::Unwritable { path: PathBuf::from("layer"), source }
}

// === impl Digesting ===

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.context.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
