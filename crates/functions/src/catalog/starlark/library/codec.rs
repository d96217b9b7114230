//! Modules that turn values into text and back, and `hash`.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, Encoding, HEXLOWER};
use loggia_yaml::{EmitOptions, Node, node_to_string_within, parse_first};
use md5::{Digest, Md5};
use serde::Serialize;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::{AllocList, ListRef};
use starlark::values::tuple::UnpackTuple;
use starlark::values::{Heap, Value};

use crate::catalog::starlark::value::{Reader, Writer, measure};

/// Bytes of a text that a value becomes.
const MAX_TEXT: usize = 64 << 20;

#[starlark_module]
pub(in crate::catalog::starlark) fn base64(builder: &mut GlobalsBuilder) {
    fn encode(src: &str, #[starlark(default = "standard")] encoding: &str) -> anyhow::Result<String> {
        Ok(named(encoding)?.encode(src.as_bytes()))
    }

    fn decode(src: &str, #[starlark(default = "standard")] encoding: &str) -> anyhow::Result<String> {
        let bytes = named(encoding)?
            .decode(src.as_bytes())
            .map_err(|error| anyhow::anyhow!("illegal base64 data at input byte {}", error.position))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn named(encoding: &str) -> anyhow::Result<Encoding> {
    Ok(match encoding {
        "standard" => BASE64,
        "standard_raw" => BASE64_NOPAD,
        "url" => BASE64URL,
        "url_raw" => BASE64URL_NOPAD,
        other => anyhow::bail!("unsupported encoding format: \"{other}\""),
    })
}

#[starlark_module]
pub(in crate::catalog::starlark) fn json(builder: &mut GlobalsBuilder) {
    /// The value in one line; keys in order of their bytes.
    fn encode<'v>(#[starlark(require = pos)] x: Value<'v>) -> anyhow::Result<String> {
        measure(x).map_err(anyhow::Error::msg)?;
        let mut value = x.to_json_value()?;
        value.sort_all_objects();
        Ok(value.to_string())
    }

    fn decode<'v>(#[starlark(require = pos)] x: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let value: serde_json::Value = serde_json::from_str(x)
            .map_err(|error| anyhow::anyhow!("json.decode: at offset {}, {error}", error.column()))?;
        Ok(heap.alloc(value))
    }

    fn indent(
        #[starlark(require = pos)] x: &str,
        #[starlark(require = named, default = "")] prefix: &str,
        #[starlark(require = named, default = "\t")] indent: &str,
    ) -> anyhow::Result<String> {
        let value: serde_json::Value = serde_json::from_str(x)?;
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        value.serialize(&mut serializer)?;
        Ok(String::from_utf8(bytes)?.replace('\n', &format!("\n{prefix}")))
    }
}

#[starlark_module]
pub(in crate::catalog::starlark) fn yaml(builder: &mut GlobalsBuilder) {
    fn loads<'v>(source: &str, heap: Heap<'v>) -> anyhow::Result<Value<'v>> {
        let document = parse_first(source)?;
        let node = document.map(|document| document.root).unwrap_or_default();
        Reader::new(heap).value(&node, 0).map_err(anyhow::Error::msg)
    }

    fn dumps<'v>(#[starlark(args)] objects: UnpackTuple<Value<'v>>) -> anyhow::Result<String> {
        let mut documents = Vec::new();
        for object in objects.items {
            let node: Node = Writer::fresh().node(object, None, 0).map_err(anyhow::Error::msg)?;
            let text = node_to_string_within(&node, EmitOptions::default(), MAX_TEXT);
            documents.push(text.ok_or_else(|| anyhow::anyhow!("yaml.dumps: more than {MAX_TEXT} bytes"))?);
        }
        Ok(documents.join("---\n"))
    }
}

#[starlark_module]
pub(in crate::catalog::starlark) fn hash(builder: &mut GlobalsBuilder) {
    fn md5(#[starlark(require = pos)] string: &str) -> anyhow::Result<String> {
        Ok(HEXLOWER.encode(&Md5::digest(string)))
    }
    fn sha1(#[starlark(require = pos)] string: &str) -> anyhow::Result<String> {
        Ok(HEXLOWER.encode(&sha1::Sha1::digest(string)))
    }
    fn sha256(#[starlark(require = pos)] string: &str) -> anyhow::Result<String> {
        Ok(HEXLOWER.encode(&sha2::Sha256::digest(string)))
    }
}

// CSV as Go's `encoding/csv` reads and writes it. The `csv` crate does neither: its delimiter and comment mark are
// bytes where Go's are characters, it leaves a field with a leading space unquoted, and it accepts a quoted field
// that never ends.
#[starlark_module]
pub(in crate::catalog::starlark) fn csv(builder: &mut GlobalsBuilder) {
    fn read_all<'v>(
        source: &str,
        #[starlark(default = ",")] comma: &str,
        #[starlark(default = "")] comment: &str,
        #[starlark(default = 0)] skip: i32,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        let rows = read_rows(source, single(comma)?, comment.chars().next())?;
        let skip = usize::try_from(skip).unwrap_or_default();
        let rows: Vec<Value<'v>> =
            rows.into_iter().skip(skip).map(|row| heap.alloc(AllocList(row))).collect();
        Ok(heap.alloc(AllocList(rows)))
    }

    fn write_all<'v>(source: Value<'v>, #[starlark(default = ",")] comma: &str) -> anyhow::Result<String> {
        let comma = single(comma)?;
        let rows = ListRef::from_value(source)
            .ok_or_else(|| anyhow::anyhow!("expected value to be an array type"))?;
        let mut text = String::new();
        for (at, row) in rows.iter().enumerate() {
            let row =
                ListRef::from_value(row).ok_or_else(|| anyhow::anyhow!("row {at} is not an array type"))?;
            let fields: Vec<String> = row.iter().map(|field| quoted(&field.to_str(), comma)).collect();
            text.push_str(&fields.join(&comma.to_string()));
            text.push('\n');
        }
        Ok(text)
    }
}

fn single(comma: &str) -> anyhow::Result<char> {
    let mut characters = comma.chars();
    match (characters.next(), characters.next()) {
        (Some(comma), None) => Ok(comma),
        _ => anyhow::bail!("expected comma param to be a single-character string"),
    }
}

fn quoted(field: &str, comma: char) -> String {
    let plain = !field.contains([comma, '"', '\n', '\r']) && !field.starts_with(' ');
    if plain { field.to_owned() } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}

fn read_rows(source: &str, comma: char, comment: Option<char>) -> anyhow::Result<Vec<Vec<String>>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut characters = source.chars().peekable();
    let mut inside = false;
    while let Some(character) = characters.next() {
        match character {
            '"' if inside && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' if inside => inside = false,
            '"' if field.is_empty() => inside = true,
            '\r' if !inside && characters.peek() == Some(&'\n') => {}
            '\n' if !inside => {
                if !(row.is_empty() && field.is_empty()) {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
            }
            other if other == comma && !inside => row.push(std::mem::take(&mut field)),
            other if Some(other) == comment && !inside && row.is_empty() && field.is_empty() => {
                while characters.next_if(|&next| next != '\n').is_some() {}
            }
            other => field.push(other),
        }
    }
    if inside {
        anyhow::bail!("extraneous or missing \" in quoted-field");
    }
    if !(row.is_empty() && field.is_empty()) {
        row.push(field);
        rows.push(row);
    }
    Ok(rows)
}
