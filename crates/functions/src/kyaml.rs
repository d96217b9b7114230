//! What the originals share that are built on kyaml.

pub(crate) mod data;
pub(crate) mod fields;
pub(crate) mod lookup;
pub(crate) mod migration;
pub(crate) mod outcome;
pub(crate) mod setters;
