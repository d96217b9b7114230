//! Typed reading: a tree as a serde deserializer, with go-yaml's decoding rules.
//!
//! Null stands for the zero value of what is expected, any scalar can be read as a string, `yes` and
//! `no` as booleans, merge keys are merged, and keys that occur twice are refused. Unlike go-yaml,
//! a number with a fraction does not silently lose it. Aliases are followed, within the limits that
//! go-yaml sets.

mod access;
mod expand;

#[cfg(test)]
mod tests;

use serde::de::{self, DeserializeOwned, Unexpected, Visitor};

use self::access::{Items, Pairs, Variant};
pub(crate) use self::expand::{Budget, duplicate_keys_in, follow_alias, merged_pairs, resolve_by_tag};
use crate::error::Error;
use crate::node::{Kind, Node, Tag};
use crate::parse::parse_first;
use crate::resolve::{Resolved, yaml11_bool};

/// How deep typed values may nest: their readers recurse.
const MAX_DEPTH: usize = 80;

/// Reads the first document of a text into a type. No document at all reads as null.
///
/// # Errors
/// On a syntax error, a key that occurs twice, or a value that does not fit the type.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let document = parse_first(text)?.unwrap_or_default();
    from_node(&document.root)
}

/// Reads a node into a type.
///
/// # Errors
/// On a key that occurs twice or a value that does not fit the type.
pub fn from_node<T: DeserializeOwned>(node: &Node) -> Result<T, Error> {
    let budget = Budget::default();
    let value = T::deserialize(Reader { node, budget: &budget, depth: 0, in_alias: false });
    // A mapping with one duplicate key may have more: name them all.
    value.map_err(|error| budget.met_duplicates().then(|| duplicate_keys_in(node)).flatten().unwrap_or(error))
}

/// A place in the tree that serde reads from.
#[derive(Clone, Copy)]
struct Reader<'a> {
    node: &'a Node,
    budget: &'a Budget,
    depth: usize,
    in_alias: bool,
}

/// A node with its alias, if it was one, followed.
#[derive(Clone, Copy)]
enum Value<'a> {
    Scalar(Resolved, &'a str),
    Sequence(&'a Node),
    Mapping(&'a Node),
}

impl<'a> Reader<'a> {
    fn child(&self, node: &'a Node) -> Self {
        Self { node, depth: self.depth + 1, ..*self }
    }

    /// Counts the node, follows its alias and looks what it is.
    fn open(&mut self) -> Result<Value<'a>, Error> {
        if self.depth > MAX_DEPTH {
            return Err(Error::complete(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.budget.spend(self.in_alias)?;
        while self.node.kind() == Kind::Alias {
            self.node = follow_alias(self.node)?;
            self.in_alias = true;
            self.budget.spend(true)?;
        }
        Ok(match self.node.kind() {
            Kind::Mapping => Value::Mapping(self.node),
            Kind::Sequence => Value::Sequence(self.node),
            Kind::Scalar | Kind::Alias => {
                let text = self.node.scalar().unwrap_or_default();
                self.budget.copy(text, self.in_alias)?;
                Value::Scalar(expand::resolve_by_tag(self.node, text)?, text)
            }
        })
    }

    /// Adds the place to an error that has none yet.
    fn locate<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| error.located(self.node.line(), self.node.column()))
    }

    fn visit<V: Visitor<'a>>(&self, value: Value<'a>, visitor: V) -> Result<V::Value, Error> {
        match value {
            Value::Mapping(node) => Pairs::new(*self, node).and_then(|pairs| visitor.visit_map(pairs)),
            Value::Sequence(node) => visitor.visit_seq(Items::new(*self, node)),
            Value::Scalar(_, text) if self.node.tag() == Tag::Binary => {
                visitor.visit_byte_buf(expand::decode_base64(text)?)
            }
            Value::Scalar(resolved, text) => match resolved {
                Resolved::Null => visitor.visit_unit(),
                Resolved::Bool(value) => visitor.visit_bool(value),
                Resolved::Int(value) => visitor.visit_i64(value),
                Resolved::Uint(value) => visitor.visit_u64(value),
                Resolved::Float(value) => visitor.visit_f64(value),
                Resolved::Timestamp | Resolved::Str => visitor.visit_str(text),
            },
        }
    }
}

/// Whole numbers: null is zero, a float without fraction counts.
macro_rules! whole_numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
            let value = self.open()?;
            let result = match value {
                Value::Scalar(Resolved::Null, _) => visitor.visit_u64(0),
                Value::Scalar(Resolved::Float(float), _) if float.fract() == 0.0 && float.abs() < 9e18 => {
                    visitor.visit_i64(float as i64)
                }
                value => self.visit(value, visitor),
            };
            self.locate(result)
        }
    )*};
}

impl<'a> de::Deserializer<'a> for Reader<'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let value = self.open();
        let result = value.and_then(|value| {
            if self.node.tag() == Tag::Binary
                && let Value::Scalar(_, text) = value
            {
                return match String::from_utf8(expand::decode_base64(text)?) {
                    Ok(text) => visitor.visit_string(text),
                    Err(error) => visitor.visit_byte_buf(error.into_bytes()),
                };
            }
            self.visit(value, visitor)
        });
        self.locate(result)
    }

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_f32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let result = match self.open()? {
            Value::Scalar(Resolved::Null, _) => visitor.visit_f64(0.0),
            value => self.visit(value, visitor),
        };
        self.locate(result)
    }

    fn deserialize_bool<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let result = match self.open()? {
            Value::Scalar(Resolved::Null, _) => visitor.visit_bool(false),
            Value::Scalar(Resolved::Str, text) => match yaml11_bool(text) {
                Some(value) => visitor.visit_bool(value),
                None => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
            },
            value => self.visit(value, visitor),
        };
        self.locate(result)
    }

    fn deserialize_str<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let result = match self.open()? {
            Value::Scalar(_, text) if self.node.tag() == Tag::Binary => {
                expand::decode_base64(text).and_then(|bytes| match String::from_utf8(bytes) {
                    Ok(text) => visitor.visit_string(text),
                    Err(error) => {
                        Err(de::Error::invalid_value(Unexpected::Bytes(error.as_bytes()), &visitor))
                    }
                })
            }
            Value::Scalar(Resolved::Null, _) => visitor.visit_str(""),
            Value::Scalar(_, text) => visitor.visit_str(text),
            value => self.visit(value, visitor),
        };
        self.locate(result)
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let before = self;
        match self.open()? {
            Value::Scalar(Resolved::Null, _) => visitor.visit_none(),
            _ => visitor.visit_some(before),
        }
    }

    fn deserialize_unit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'a>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let result = match self.open()? {
            Value::Scalar(Resolved::Null, _) => visitor.visit_seq(Items::empty(self)),
            value => self.visit(value, visitor),
        };
        self.locate(result)
    }

    fn deserialize_tuple<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let result = match self.open()? {
            Value::Scalar(Resolved::Null, _) => visitor.visit_map(Pairs::empty(self)),
            value => self.visit(value, visitor),
        };
        self.locate(result)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        mut self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let result = match self.open()? {
            Value::Scalar(..) => visitor.visit_enum(Variant::unit(self)),
            Value::Mapping(node) => {
                Variant::of_pair(self, node).and_then(|variant| visitor.visit_enum(variant))
            }
            Value::Sequence(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
        };
        self.locate(result)
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}
