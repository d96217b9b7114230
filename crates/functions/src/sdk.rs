//! What the originals share that are built on the Go SDK for functions.

pub(crate) mod config;
pub(crate) mod depends_on;
pub(crate) mod list;
pub(crate) mod object;
pub(crate) mod report;
pub(crate) mod scope;
