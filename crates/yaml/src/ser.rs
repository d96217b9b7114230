//! Typed writing: a structure as a tree, with the quotes go-yaml would give it.
//!
//! Fields keep the order of the structure. Maps are sorted the way go-yaml sorts them, numbers inside
//! names by value; a structure with flattened parts is not taken for a map.

mod build;
mod order;

pub use self::order::natural_order;

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::ser::{self, SerializeMap, SerializeStruct};

use self::build::{Fields, Items};
use crate::error::Error;
use crate::node::{Node, Pair};

/// Turns a structure into a node.
///
/// # Errors
/// If the structure's own `Serialize` fails, or it holds a number of more than 64 bits.
pub fn to_node<T: Serialize + ?Sized>(value: &T) -> Result<Node, Error> {
    value.serialize(Builder)
}

struct Builder;

impl ser::Serializer for Builder {
    type Ok = Node;
    type Error = Error;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    fn serialize_bool(self, value: bool) -> Result<Node, Error> {
        Ok(Node::bool(value))
    }

    fn serialize_i8(self, value: i8) -> Result<Node, Error> {
        Ok(Node::int(value.into()))
    }

    fn serialize_i16(self, value: i16) -> Result<Node, Error> {
        Ok(Node::int(value.into()))
    }

    fn serialize_i32(self, value: i32) -> Result<Node, Error> {
        Ok(Node::int(value.into()))
    }

    fn serialize_i64(self, value: i64) -> Result<Node, Error> {
        Ok(Node::int(value))
    }

    fn serialize_u8(self, value: u8) -> Result<Node, Error> {
        Ok(Node::uint(value.into()))
    }

    fn serialize_u16(self, value: u16) -> Result<Node, Error> {
        Ok(Node::uint(value.into()))
    }

    fn serialize_u32(self, value: u32) -> Result<Node, Error> {
        Ok(Node::uint(value.into()))
    }

    fn serialize_u64(self, value: u64) -> Result<Node, Error> {
        Ok(Node::uint(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Node, Error> {
        // The shortest digits of the smaller type, not those of its exact value.
        let digits = value.to_string().parse().unwrap_or(f64::from(value));
        Ok(Node::float(digits))
    }

    fn serialize_f64(self, value: f64) -> Result<Node, Error> {
        Ok(Node::float(value))
    }

    fn serialize_char(self, value: char) -> Result<Node, Error> {
        Ok(Node::string(value.to_string()))
    }

    fn serialize_str(self, value: &str) -> Result<Node, Error> {
        Ok(Node::string(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Node, Error> {
        Ok(value.iter().map(|&byte| Node::uint(byte.into())).collect())
    }

    fn serialize_none(self) -> Result<Node, Error> {
        Ok(Node::null())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Node, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Node, Error> {
        Ok(Node::null())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Node, Error> {
        Ok(Node::null())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Node, Error> {
        Ok(Node::string(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Node, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Node, Error> {
        Ok(Node::from_pairs(vec![Pair::new(variant, to_node(value)?)]))
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Items, Error> {
        Ok(Items::new(length, None))
    }

    fn serialize_tuple(self, length: usize) -> Result<Items, Error> {
        Ok(Items::new(Some(length), None))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Items, Error> {
        Ok(Items::new(Some(length), None))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Items, Error> {
        Ok(Items::new(Some(length), Some(variant)))
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Fields, Error> {
        // Structures with flattened fields come as maps of unknown length.
        Ok(Fields::new(None, length.is_some()))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields, Error> {
        Ok(Fields::new(None, false))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Fields, Error> {
        Ok(Fields::new(Some(variant), false))
    }
}

impl SerializeMap for Fields {
    type Ok = Node;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = Some(to_node(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        match self.key.take() {
            Some(key) => {
                self.pairs.push(Pair { key, value: to_node(value)? });
                Ok(())
            }
            None => Err(Error::new("a value was given before its key")),
        }
    }

    fn end(self) -> Result<Node, Error> {
        Ok(self.finish())
    }
}

impl SerializeStruct for Fields {
    type Ok = Node;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.pairs.push(Pair::new(key, to_node(value)?));
        Ok(())
    }

    fn end(self) -> Result<Node, Error> {
        Ok(self.finish())
    }
}

impl ser::SerializeStructVariant for Fields {
    type Ok = Node;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        SerializeStruct::serialize_field(self, key, value)
    }

    fn end(self) -> Result<Node, Error> {
        Ok(self.finish())
    }
}

impl ser::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}
