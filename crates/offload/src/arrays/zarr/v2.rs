//! Version 2 of the format: `.zarray`, with `.zattrs` beside it.

use anyhow::{Context, anyhow, ensure};
use serde_json::{Map, Value};

use crate::arrays::codecs::Codec;
use crate::arrays::kind::Kind;
use crate::arrays::zarr::json;
use crate::arrays::zarr::layout::{Keys, Layout, Refused, shape_of, text_of, unknown};

/// The array of a document.
///
/// # Errors
/// It is damaged, or not understood.
pub fn layout(document: &Map<String, Value>, attributes: &Map<String, Value>) -> Result<Layout, Refused> {
    let version = document.get("zarr_format");
    ensure_version(version)?;
    let (shape, chunk) = (shape_of(document, "shape")?, shape_of(document, "chunks")?);
    let kind = kind(document.get("dtype").context("it has no dtype")?)?;
    let mut codecs = vec![];
    if let Some(compressor) = document.get("compressor").filter(|codec| !codec.is_null()) {
        codecs.push(codec(compressor, kind)?);
    }
    if let Some(filters) = document.get("filters").and_then(Value::as_array) {
        for filter in filters.iter().rev() {
            codecs
                .extend(Some(filter).filter(|filter| !is_none(filter)).map(|filter| codec(filter, kind)).transpose()?);
        }
    }
    let axes = 0..shape.len();
    let order = match document.get("order").and_then(Value::as_str) {
        Some("C") | None => axes.collect(),
        Some("F") => axes.rev().collect(),
        Some(other) => return Err(anyhow!("its order is {other:?}").into()),
    };
    let separator = match document.get("dimension_separator").and_then(Value::as_str) {
        Some(".") | None => '.',
        Some("/") => '/',
        Some(other) => return Err(anyhow!("its dimension_separator is {other:?}").into()),
    };
    let has_axes = attributes.get("_ARRAY_DIMENSIONS").is_some_and(Value::is_array);
    let fill = match document.get("fill_value") {
        None | Some(Value::Null) => None,
        Some(fill) => Some(json::number(fill).with_context(|| format!("its fill_value is {fill}"))?),
    };
    Layout {
        shape,
        chunk,
        keys: Keys { has_prefix: false, separator },
        kind,
        order,
        codecs,
        shards: None,
        fill: kind.rounded(fill.unwrap_or_default()),
        // xarray has no other place for it in this version.
        fill_is_missing: has_axes && fill.is_some(),
        has_axes,
    }
    .checked()
}

fn ensure_version(version: Option<&Value>) -> anyhow::Result<()> {
    ensure!(version.and_then(Value::as_u64) == Some(2), "its zarr_format is not 2");
    Ok(())
}

/// The type that NumPy writes so.
fn kind(dtype: &Value) -> Result<Kind, Refused> {
    let Some(text) = dtype.as_str() else { return unknown("records") };
    let bare = text.trim_start_matches(['<', '>', '|', '=']);
    match (Kind::of(text), bare.chars().next()) {
        (Some(kind), _) => Ok(kind),
        (None, Some('M' | 'm')) => unknown("dates or times"),
        (None, Some('S' | 'U' | 'O' | 'a')) => unknown("text, or rows of different lengths"),
        (None, Some('c')) => unknown("complex numbers"),
        (None, _) => unknown(format!("elements of type {text}")),
    }
}

/// Whether a filter leaves bytes as they are when they are read.
fn is_none(filter: &Value) -> bool {
    filter.get("id").and_then(Value::as_str) == Some("bitround")
}

fn codec(configuration: &Value, kind: Kind) -> Result<Codec, Refused> {
    codec_of(configuration.as_object().context("a codec is no object")?, kind)
}

/// The codec of a configuration of numcodecs, for elements of a type.
///
/// # Errors
/// It is not known, or its configuration is damaged.
pub fn codec_of(configuration: &Map<String, Value>, kind: Kind) -> Result<Codec, Refused> {
    let id = text_of(configuration, "id")?;
    if let Some(codec) = bytes_codec(id, configuration, kind) {
        return Ok(codec?);
    }
    let number =
        |name: &str| configuration.get(name).and_then(json::number).with_context(|| format!("{id} has no {name}"));
    let of = |name: &str| match configuration.get(name).or_else(|| configuration.get("dtype")) {
        Some(Value::String(text)) => Ok(Kind::of(text)),
        _ => Err(anyhow!("{id} has no {name}")),
    };
    let is_plain = |kind: &Kind| (kind.letter, kind.bytes) != (b'f', 2) && kind.letter != b'b';
    match (id, of("dtype").ok().flatten().filter(is_plain), of("astype").ok().flatten().filter(is_plain)) {
        ("delta", Some(kind), Some(stored)) if kind.letter == b'f' || stored.letter != b'f' => {
            Ok(Codec::Delta(kind, stored))
        }
        ("fixedscaleoffset", Some(kind), Some(stored)) => {
            Ok(Codec::Scaled { kind, stored, offset: number("offset")?, scale: number("scale")? })
        }
        ("delta" | "fixedscaleoffset", ..) => unknown(format!("its codec {id} is of types that are not known")),
        _ => unknown(format!("its codec {id} is not known")),
    }
}

/// A codec of bytes from bytes, by its name in numcodecs; None if that is none.
pub fn bytes_codec(id: &str, configuration: &Map<String, Value>, kind: Kind) -> Option<anyhow::Result<Codec>> {
    Some(Ok(match id {
        "blosc" => Codec::Blosc,
        "gzip" => Codec::Gzip,
        "zlib" => Codec::Zlib,
        "zstd" => Codec::Zstd,
        "lz4" => Codec::Lz4,
        "crc32c" => Codec::Crc32c,
        "shuffle" => {
            let element = configuration.get("elementsize").map_or(Some(kind.bytes as u64), Value::as_u64);
            match element {
                Some(element @ 1..=256) => Codec::Shuffle(element as usize),
                _ => return Some(Err(anyhow!("its codec shuffle has no elementsize"))),
            }
        }
        _ => return None,
    }))
}
