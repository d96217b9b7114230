//! The children of a node as serde asks for them.

use serde::de::{self, DeserializeSeed, Visitor};

use super::{Reader, merged_pairs};
use crate::error::Error;
use crate::node::Node;

pub(super) struct Items<'a> {
    reader: Reader<'a>,
    items: std::slice::Iter<'a, Node>,
}

impl<'a> Items<'a> {
    pub(super) fn new(reader: Reader<'a>, node: &'a Node) -> Self {
        Self { reader, items: node.items().iter() }
    }

    pub(super) fn empty(reader: Reader<'a>) -> Self {
        Self { reader, items: [].iter() }
    }
}

impl<'a> de::SeqAccess<'a> for Items<'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.items.next().map(|item| seed.deserialize(self.reader.child(item))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

pub(super) struct Pairs<'a> {
    reader: Reader<'a>,
    pairs: std::vec::IntoIter<(&'a Node, &'a Node)>,
    value: Option<&'a Node>,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(reader: Reader<'a>, node: &'a Node) -> Result<Self, Error> {
        let pairs = merged_pairs(node, reader.budget)?;
        Ok(Self { reader, pairs: pairs.into_iter(), value: None })
    }

    pub(super) fn empty(reader: Reader<'a>) -> Self {
        Self { reader, pairs: Vec::new().into_iter(), value: None }
    }
}

impl<'a> de::MapAccess<'a> for Pairs<'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.pairs.next() else { return Ok(None) };
        self.value = Some(value);
        let reader = self.reader.child(key);
        // An unknown field is reported by the key's reader, which cannot know its own place.
        reader.locate(seed.deserialize(reader)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        match self.value.take() {
            Some(value) => {
                let reader = self.reader.child(value);
                reader.locate(seed.deserialize(reader))
            }
            None => Err(Error::new("a value was asked for before its key")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.pairs.len())
    }
}

/// A variant named by a scalar, or by the only key of a mapping that then holds its content.
pub(super) struct Variant<'a> {
    name: Reader<'a>,
    content: Option<Reader<'a>>,
}

impl<'a> Variant<'a> {
    pub(super) fn unit(name: Reader<'a>) -> Self {
        Self { name, content: None }
    }

    pub(super) fn of_pair(reader: Reader<'a>, node: &'a Node) -> Result<Self, Error> {
        match node.pairs() {
            [pair] => Ok(Self { name: reader.child(&pair.key), content: Some(reader.child(&pair.value)) }),
            pairs => {
                Err(Error::new(format!("expected a single key that names a variant, found {}", pairs.len())))
            }
        }
    }
}

impl<'a> de::EnumAccess<'a> for Variant<'a> {
    type Error = Error;
    type Variant = Content<'a>;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Content<'a>), Error> {
        let name = self.name.locate(seed.deserialize(self.name))?;
        Ok((name, Content(self.content)))
    }
}

pub(super) struct Content<'a>(Option<Reader<'a>>);

impl<'a> Content<'a> {
    fn required(self) -> Result<Reader<'a>, Error> {
        self.0.ok_or_else(|| Error::new("expected a mapping from the variant's name to its content"))
    }
}

impl<'a> de::VariantAccess<'a> for Content<'a> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0 {
            Some(content) => de::Deserialize::deserialize(content),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.required()?)
    }

    fn tuple_variant<V: Visitor<'a>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_tuple(self.required()?, len, visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_struct(self.required()?, "", fields, visitor)
    }
}
