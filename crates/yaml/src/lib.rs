//! YAML documents as people wrote them.
//!
//! Comments, key order, quotes, flow and block style survive reading, editing and writing. Reading
//! and writing follow go-yaml v3 as kyaml uses it, byte for byte, because teams diff the result.
//!
//! ```
//! let mut documents = loggia_yaml::parse_all("# the app\nname: web # short\nports: [80]\n")?;
//! let root = &mut documents[0].root;
//! root.set("name", loggia_yaml::Node::string("api"));
//! root.entry_sequence("ports").push(loggia_yaml::Node::int(443));
//! let text = loggia_yaml::to_string(&documents);
//! assert_eq!(text, "# the app\nname: api # short\nports: [80, 443]\n");
//! # Ok::<(), loggia_yaml::Error>(())
//! ```
//!
//! - Reading: [`parse_all`], [`parse_first`] and their `_with` forms for bytes and options.
//! - The tree: [`Document`], [`Node`], [`Pair`], with [`Text`] for strings.
//! - Writing: [`to_string`], [`node_to_string`], [`Emitter`], [`detect_sequence_style`], [`to_json`].
//! - Types: [`from_str`], [`from_node`], [`to_node`] through serde.
//!
//! Hostile input costs an error: depth is limited, nothing recurses over a tree, aliases stay nodes,
//! and what expands them counts.

mod de;
mod emit;
mod error;
mod input;
mod json;
mod node;
mod number;
mod parse;
mod resolve;
mod scan;
mod sequence_style;
mod ser;
mod text;

pub use de::{from_node, from_str};
pub use emit::{
    EmitOptions, Emitter, Fidelity, SequenceStyle, node_to_string, node_to_string_with,
    node_to_string_within, to_string, to_string_with,
};
pub use error::Error;
pub use json::{to_compact_json, to_json, to_json_within};
pub use node::{Comments, Document, Kind, Node, Pair, ScalarStyle, Tag, reads_as_non_string};
pub use parse::{ParseOptions, parse_all, parse_all_with, parse_first, parse_first_with};
pub use resolve::{Resolved, is_yaml11_bool, resolve};
pub use sequence_style::detect_sequence_style;
pub use ser::{natural_order, to_node};
pub use text::Text;
