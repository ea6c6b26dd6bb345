//! Version 3 of the format: `zarr.json`, with chunks below `c`, and files that share several chunks (shards).

use anyhow::{Context, anyhow, ensure};
use serde_json::{Map, Value};

use crate::arrays::codecs::Codec;
use crate::arrays::kind::Kind;
use crate::arrays::zarr::json;
use crate::arrays::zarr::layout::{Keys, Layout, Refused, Shards, shape_of, text_of, unknown};
use crate::arrays::zarr::v2;

/// The members of a document that are known. Others have to be understood, unless they say that they need not be.
const MEMBERS: [&str; 11] = [
    "zarr_format",
    "node_type",
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "dimension_names",
    "storage_transformers",
];

/// The array of a document.
///
/// # Errors
/// It is damaged, or not understood.
pub fn layout(document: &Map<String, Value>) -> Result<Layout, Refused> {
    let is_needed = |(name, value): &(&String, &Value)| {
        !MEMBERS.contains(&name.as_str()) && value.get("must_understand") != Some(&Value::Bool(false))
    };
    if let Some((name, _)) = document.iter().find(is_needed) {
        return unknown(format!("its {name} is not known"));
    }
    if document.get("storage_transformers").and_then(Value::as_array).is_some_and(|them| !them.is_empty()) {
        return unknown("its storage_transformers are not known");
    }
    let shape = shape_of(document, "shape")?;
    let (grid, configuration) = named(document.get("chunk_grid").context("it has no chunk_grid")?)?;
    if grid != "regular" {
        return unknown(format!("its chunk grid {grid} is not known"));
    }
    let chunk = shape_of(configuration, "chunk_shape")?;
    if chunk.len() != shape.len() || chunk.contains(&0) {
        return Err(anyhow!("its chunks of shape {chunk:?} do not fit its shape {shape:?}").into());
    }
    let mut kind = kind(document.get("data_type").context("it has no data_type")?)?;
    let fill = document.get("fill_value").context("it has no fill_value")?;
    let fill = fill_of(fill, kind).with_context(|| format!("its fill_value is {fill}"))?;
    let names = document.get("dimension_names").and_then(Value::as_array);
    let has_axes = names.is_some_and(|names| names.iter().any(Value::is_string));
    let codecs = document.get("codecs").and_then(Value::as_array).context("it has no codecs")?;
    let pipeline = pipeline(codecs, &chunk, &mut kind)?;
    let keys = keys(document.get("chunk_key_encoding").context("it has no chunk_key_encoding")?)?;
    let Pipeline { chunk, order, codecs, shards } = pipeline;
    Layout { shape, chunk, keys, kind, order, codecs, shards, fill, fill_is_missing: false, has_axes }.checked()
}

/// The name of an extension, and its configuration.
fn named(extension: &Value) -> anyhow::Result<(&str, &Map<String, Value>)> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    if let Some(name) = extension.as_str() {
        return Ok((name, &NONE));
    }
    let name = extension.get("name").and_then(Value::as_str).context("an extension has no name")?;
    Ok((name, extension.get("configuration").and_then(Value::as_object).unwrap_or(&NONE)))
}

/// The type of that name, with the least significant byte first.
fn kind(data_type: &Value) -> Result<Kind, Refused> {
    let (name, _) = named(data_type)?;
    let (letter, bytes) = match name {
        "bool" => (b'b', 1),
        "int8" => (b'i', 1),
        "int16" => (b'i', 2),
        "int32" => (b'i', 4),
        "int64" => (b'i', 8),
        "uint8" => (b'u', 1),
        "uint16" => (b'u', 2),
        "uint32" => (b'u', 4),
        "uint64" => (b'u', 8),
        "float16" => (b'f', 2),
        "float32" => (b'f', 4),
        "float64" => (b'f', 8),
        "complex64" | "complex128" => return unknown("complex numbers"),
        "string" | "fixed_length_utf32" | "null_terminated_bytes" | "variable_length_bytes" | "bytes" => {
            return unknown("text, or rows of different lengths");
        }
        "numpy.datetime64" | "numpy.timedelta64" => return unknown("dates or times"),
        "struct" | "structured" => return unknown("records"),
        other => return unknown(format!("elements of type {other}")),
    };
    Ok(Kind { letter, bytes, is_big: false })
}

/// A number, or the bits of one as text (`0x7fc00000`).
fn fill_of(fill: &Value, kind: Kind) -> Option<f64> {
    let bits = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(|bits| kind.value(bits));
    json::number(fill).or_else(|| bits(fill.as_str()?)).map(|fill| kind.rounded(fill))
}

fn keys(encoding: &Value) -> Result<Keys, Refused> {
    let (name, configuration) = named(encoding)?;
    let (has_prefix, usual) = match name {
        "default" => (true, '/'),
        "v2" => (false, '.'),
        other => return unknown(format!("its chunk key encoding {other} is not known")),
    };
    let separator = match configuration.get("separator").map(Value::as_str) {
        None => usual,
        Some(Some("/")) => '/',
        Some(Some(".")) => '.',
        Some(other) => return Err(anyhow!("its separator is {other:?}").into()),
    };
    Ok(Keys { has_prefix, separator })
}

/// The steps from an array to bytes.
struct Pipeline {
    chunk: Vec<u64>,
    order: Vec<usize>,
    codecs: Vec<Codec>,
    shards: Option<Shards>,
}

/// The steps of a file with one chunk of a shape, or with several.
fn pipeline(codecs: &[Value], file: &[u64], kind: &mut Kind) -> Result<Pipeline, Refused> {
    let (order, to_bytes, rest) = transposed(codecs, file.len())?;
    let (name, configuration) = named(to_bytes)?;
    if name != "sharding_indexed" {
        kind.is_big = is_big(name, configuration, *kind)?;
        return Ok(Pipeline { chunk: file.to_vec(), order, codecs: bytes_codecs(rest, *kind)?, shards: None });
    }
    if !rest.is_empty() {
        return unknown("its shards are packed as a whole");
    }
    let list = |name: &str| {
        configuration.get(name).and_then(Value::as_array).with_context(|| format!("its shards have no {name}"))
    };
    // Along the axes as they are stored.
    let inner = shape_of(configuration, "chunk_shape")?;
    if inner.len() != file.len() || inner.contains(&0) {
        return Err(anyhow!("its chunks of shape {inner:?} do not fit its shards of shape {file:?}").into());
    }
    let mut chunk = vec![0; file.len()];
    order.iter().zip(&inner).for_each(|(axis, len)| chunk[*axis] = *len);
    if file.iter().zip(&chunk).any(|(file, chunk)| !file.is_multiple_of(*chunk)) {
        return Err(anyhow!("its chunks of shape {chunk:?} do not fit its shards of shape {file:?}").into());
    }
    let (inner_order, to_bytes, rest) = transposed(list("codecs")?, file.len())?;
    let (name, inner_configuration) = named(to_bytes)?;
    if name == "sharding_indexed" {
        return unknown("its shards have shards");
    }
    kind.is_big = is_big(name, inner_configuration, *kind)?;
    let codecs = bytes_codecs(rest, *kind)?;
    let (index_kind, index_codecs) = index(list("index_codecs")?)?;
    let is_at_end = match configuration.get("index_location").map(Value::as_str) {
        None | Some(Some("end")) => true,
        Some(Some("start")) => false,
        Some(other) => return Err(anyhow!("its index_location is {other:?}").into()),
    };
    let chunks = file.iter().zip(&chunk).map(|(file, chunk)| file / chunk).collect();
    let inner_order = inner_order.into_iter().map(|axis| order[axis]).collect();
    let shards = Shards { chunks, order, is_at_end, kind: index_kind, codecs: index_codecs };
    Ok(Pipeline { chunk, order: inner_order, codecs, shards: Some(shards) })
}

/// The order of axes behind all steps that change it, the step that makes bytes, and those behind it.
fn transposed(codecs: &[Value], axes: usize) -> Result<(Vec<usize>, &Value, &[Value]), Refused> {
    let mut order: Vec<usize> = (0..axes).collect();
    let mut rest = codecs;
    loop {
        let (codec, behind) = rest.split_first().context("its codecs make no bytes")?;
        let (name, configuration) = named(codec)?;
        if name != "transpose" {
            return Ok((order, codec, behind));
        }
        let by = shape_of(configuration, "order")?;
        let mut sorted = by.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..axes as u64) {
            return Err(anyhow!("its codec transpose has the order {by:?}").into());
        }
        order = by.into_iter().map(|axis| order[axis as usize]).collect();
        rest = behind;
    }
}

/// Whether the most significant byte of elements comes first.
fn is_big(name: &str, configuration: &Map<String, Value>, kind: Kind) -> Result<bool, Refused> {
    if name != "bytes" {
        return unknown(format!("its codec {name} is not known"));
    }
    match configuration.get("endian").and_then(Value::as_str) {
        Some("little") => Ok(false),
        Some("big") => Ok(true),
        None if kind.bytes == 1 => Ok(false),
        other => Err(anyhow!("its codec bytes has the endian {other:?}").into()),
    }
}

/// Steps from bytes to bytes, the last one first.
fn bytes_codecs(codecs: &[Value], kind: Kind) -> Result<Vec<Codec>, Refused> {
    let codec = |codec: &Value| {
        let (name, configuration) = named(codec)?;
        let id = name.strip_prefix("numcodecs.").unwrap_or(name);
        match v2::bytes_codec(id, configuration, kind) {
            Some(codec) => Ok(codec?),
            None => unknown(format!("its codec {name} is not known")),
        }
    };
    codecs.iter().rev().map(codec).collect()
}

/// How a shard's index is stored. Its size has to be known before it is read, so it is not compressed.
fn index(codecs: &[Value]) -> Result<(Kind, Vec<Codec>), Refused> {
    let (to_bytes, rest) = codecs.split_first().context("its shards have no index_codecs")?;
    let (name, configuration) = named(to_bytes)?;
    let mut kind = Kind { letter: b'u', bytes: 8, is_big: false };
    kind.is_big = is_big(name, configuration, kind)?;
    let codecs = bytes_codecs(rest, kind)?;
    match codecs.iter().all(|codec| *codec == Codec::Crc32c) {
        true => Ok((kind, codecs)),
        false => unknown("the index of its shards is packed"),
    }
}

/// Whether a document is of an array; else it is of a group.
///
/// # Errors
/// It is neither.
pub fn is_array(document: &Map<String, Value>) -> anyhow::Result<bool> {
    ensure!(document.get("zarr_format").and_then(Value::as_u64) == Some(3), "its zarr_format is not 3");
    match text_of(document, "node_type")? {
        "array" => Ok(true),
        "group" => Ok(false),
        other => Err(anyhow!("its node_type is {other:?}")),
    }
}
