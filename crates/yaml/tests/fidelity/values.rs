//! Decoded values as canonical JSON, the oracle's `values` form; decoding goes through serde as our own types do.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Any decoded value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    Seq(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Writes the value on one line: keys sorted and always strings, a whole number as such.
    pub(crate) fn canonical(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => out.push_str(&value.to_string()),
            Self::Float(value) => out.push_str(&number(*value)),
            Self::Str(text) => quote(out, text),
            Self::Seq(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    item.canonical(out);
                }
                out.push(']');
            }
            Self::Map(pairs) => {
                let sorted: BTreeMap<String, &Value> =
                    pairs.iter().map(|(key, value)| (key.key_text(), value)).collect();
                out.push('{');
                for (at, (key, value)) in sorted.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    quote(out, &key);
                    out.push(':');
                    value.canonical(out);
                }
                out.push('}');
            }
        }
    }

    fn key_text(&self) -> String {
        match self {
            Self::Str(text) => text.clone(),
            other => {
                let mut out = String::new();
                other.canonical(&mut out);
                out
            }
        }
    }
}

/// Writes a JSON string that escapes only quotes, backslashes and control characters.
pub(crate) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn number(value: f64) -> String {
    if value.is_nan() {
        return "\".nan\"".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "\".inf\"".into() } else { "\"-.inf\"".into() };
    }
    if value.trunc() == value && value.abs() < 1e15 {
        return format!("{:.0}", value + 0.0);
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.to_owned()))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Str(String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {digits}")
        })))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = access.next_entry()? {
            pairs.push(pair);
        }
        Ok(Value::Map(pairs))
    }
}
