//! What the originals share that are made of kustomize's transformers.

pub(crate) mod entries;
pub(crate) mod field_spec;
pub(crate) mod resource_map;
