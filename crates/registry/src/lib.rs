//! Images: what their names mean.

mod reference;

pub use reference::{ParseError, Reference};
