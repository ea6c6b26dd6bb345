//! Arrays of NumPy (`.npy`): a line that says type, order and shape, and the elements behind it.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use crate::arrays::data_set::{DataSet, Found, NamedSet};
use crate::arrays::kind::Kind;
use crate::arrays::tiles::Slab;
use crate::contents::Contents;

/// Bytes of a header: NumPy's own limit.
const HEADER_BYTES_MAX: u64 = 10_000;

/// An array.
struct Array {
    contents: Arc<dyn Contents + Send>,
    begins: u64,
    kind: Kind,
    shape: Vec<u64>,
    /// The first axis is the fastest, of two.
    is_by_columns: bool,
}

/// The array of a file.
///
/// # Errors
/// It cannot be read, or its elements are no numbers.
pub fn find(contents: &Arc<dyn Contents + Send>) -> anyhow::Result<Found> {
    let mut head = [0; 12];
    ensure!(contents.bytes() >= 12, "the file ends in its header");
    contents.read(&mut head, 0)?;
    let (begins, len) = match head[6] {
        1 => (10, u64::from(u16::from_le_bytes([head[8], head[9]]))),
        2 | 3 => (12, u64::from(u32::from_le_bytes([head[8], head[9], head[10], head[11]]))),
        version => bail!("version {version} of the format is not known"),
    };
    ensure!(len <= HEADER_BYTES_MAX && begins + len <= contents.bytes(), "its header is too long");
    let mut text = vec![0; len as usize];
    contents.read(&mut text, begins)?;
    let text = String::from_utf8(text).context("its header is no text")?;
    let kind = kind_of(field(&text, "descr")?)?;
    let is_fortran = field(&text, "fortran_order")?.starts_with("True");
    let mut shape = shape_of(field(&text, "shape")?)?;
    let is_by_columns = is_fortran && shape.len() == 2;
    if is_fortran && !is_by_columns {
        // As it is stored: the last axis fastest.
        shape.reverse();
    }
    let begins = begins + len;
    let bytes = shape.iter().try_fold(kind.bytes as u64, |bytes, len| bytes.checked_mul(*len));
    let is_there = bytes.and_then(|bytes| bytes.checked_add(begins)).is_some_and(|end| end <= contents.bytes());
    ensure!(is_there, "the file is shorter than its array of shape {shape:?}");
    let array = Array { contents: Arc::clone(contents), begins, kind, shape, is_by_columns };
    Ok(Found { sets: vec![NamedSet { name: "array".to_owned(), set: Box::new(array) }], ..Found::default() })
}

/// The text behind a key of the header, which is a Python dictionary.
fn field<'a>(header: &'a str, key: &str) -> anyhow::Result<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let behind = quoted.iter().find_map(|key| header.split_once(key.as_str()));
    let (_, behind) = behind.with_context(|| format!("its header has no {key}"))?;
    Ok(behind.trim_start().strip_prefix(':').with_context(|| format!("its header has no {key}"))?.trim_start())
}

fn shape_of(text: &str) -> anyhow::Result<Vec<u64>> {
    let inner = text.strip_prefix('(').and_then(|text| text.split_once(')')).context("its shape is no tuple")?.0;
    let lens = inner.split(',').map(str::trim).filter(|len| !len.is_empty());
    lens.map(|len| len.parse().with_context(|| format!("its shape has {len:?}"))).collect()
}

/// The type of the elements.
fn kind_of(text: &str) -> anyhow::Result<Kind> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        bail!("its elements are records; write a column by itself: numpy.save(OUT, array['NAME'])");
    };
    let descr = text[1..].split(quote).next().unwrap_or_default();
    Kind::of(descr).with_context(|| {
        format!("its elements are of type {descr:?}, no numbers; write numbers: numpy.save(OUT, array.astype(float))")
    })
}

impl Array {
    /// Elements that are stored one after the other.
    fn run(&self, first: u64, count: u64, values: &mut Vec<f64>) -> anyhow::Result<()> {
        let width = self.kind.bytes;
        let mut stored = vec![0; count as usize * width];
        self.contents.read(&mut stored, self.begins + first * width as u64)?;
        self.kind.each(&stored, (0, 1), count as usize, |value| values.push(value));
        Ok(())
    }
}

impl DataSet for Array {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn chunk(&self) -> Option<Vec<u64>> {
        None
    }

    fn may_be_table(&self) -> bool {
        true
    }

    fn read(&self, slab: &Slab) -> anyhow::Result<Vec<f64>> {
        let mut values = vec![];
        if self.is_by_columns {
            for column in slab.start[1]..slab.start[1] + slab.len[1] {
                self.run(column * self.shape[0] + slab.start[0], slab.len[0], &mut values)?;
            }
            let rows = slab.len[0] as usize;
            let columns = slab.len[1] as usize;
            return Ok((0..rows * columns).map(|at| values[at % columns * rows + at / columns]).collect());
        }
        // Tiles of what is stored in one piece are one run.
        let first = slab.start.iter().zip(&self.shape).fold(0, |first, (start, len)| first * len + start);
        self.run(first, slab.elements(), &mut values)?;
        Ok(values)
    }
}
