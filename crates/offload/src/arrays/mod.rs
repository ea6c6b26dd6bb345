//! Files of data sets as tables: HDF5 (NetCDF-4 and MATLAB 7.3 are), classic NetCDF, and arrays of NumPy; and stores of Zarr, which are
//! directories.
//!
//! A table has the data sets of one shape as its columns, and their elements as its rows; or, of one data set with two axes, its second axis
//! as columns. `ArrayTable` shows it as rows of doubles, which it unpacks as they are read: so it is cut into blocks, dealt out and summed as
//! text is, wherever the bytes of the file come from. The libraries that know the formats read through `Contents`. Zarr's formats are known
//! here (`zarr`).

mod blosc;
mod chunk_cache;
mod codecs;
mod data_set;
mod grid;
mod hdf5;
mod kind;
mod lzf;
mod netcdf;
mod npy;
mod stored;
mod streams;
mod tiles;
mod zarr;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use forebay_query::limits::FIELDS_MAX;
use forebay_query::{DOUBLE_BYTES, Finding, Kept, Schema, Words, shown_name, shown_shape};

use crate::arrays::data_set::{Found, NamedSet};
use crate::arrays::tiles::{Slab, Tiles};
use crate::contents::Contents;

pub use zarr::Store;

/// Data sets that a message names.
const NAMED_MAX: usize = 12;

/// Columns that one data set may stand for by itself: wider ones are pictures and fields, whose elements are rows.
const WIDTH_MAX: u64 = 512;

/// Bytes that may come before an HDF5 file: none, or a user block. It may be longer, and none that was met is.
const USER_BLOCKS: [usize; 9] = [0, 512, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, USER_BLOCK_MAX];
const USER_BLOCK_MAX: usize = 1 << 16;

/// A format of files that have data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayFormat {
    /// HDF5.
    Hdf5,
    /// NetCDF's own.
    NetCdf,
    /// NumPy's.
    Npy,
}

impl ArrayFormat {
    /// That of a file that begins so.
    #[must_use]
    pub fn of(beginning: &[u8]) -> Option<Self> {
        const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
        // A program's own block may come first, as MATLAB's text does.
        let mut behind_blocks = USER_BLOCKS.iter().filter_map(|bytes| beginning.get(*bytes..));
        match beginning {
            [b'C', b'D', b'F', 1 | 2 | 5, ..] => Some(Self::NetCdf),
            _ if beginning.starts_with(b"\x93NUMPY") => Some(Self::Npy),
            _ if behind_blocks.any(|behind| behind.starts_with(HDF5)) => Some(Self::Hdf5),
            _ => None,
        }
    }
}

/// The place where data sets are.
pub enum ArraySource {
    /// A file.
    File(Arc<dyn Contents + Send>),
    /// A directory of Zarr arrays.
    Store(Arc<Store>),
}

/// A table of data sets.
pub struct ArrayTable {
    origin: ArraySource,
    sets: Vec<NamedSet>,
    tiles: Tiles,
    rows: u64,
    /// Of the only data set, its second axis.
    width: Option<u64>,
    findings: Vec<Finding>,
}

impl ArrayTable {
    /// The table of a file: of data sets of the shape that those with these names have, or, if there are none, of those that together
    /// have the most elements.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or has no such data sets.
    pub fn open(origin: ArraySource, names: &[String]) -> anyhow::Result<Self> {
        let found = origin.found()?;
        let is_number = |name: &&String| name.parse::<usize>().is_err();
        let names: Vec<String> =
            names.iter().filter(is_number).map(|name| bare(name, &found.sets).to_owned()).collect();
        let choose = |sets: Vec<NamedSet>, not_numbers: &[String]| {
            let (sets, others) = chosen(sets, not_numbers, &names)?;
            // A user who names some knows of others.
            Ok((sets, if names.is_empty() { others } else { vec![] }))
        };
        Self::of(origin, found, choose)
    }

    /// The table that has exactly these data sets as its columns, as `data_sets` says.
    ///
    /// # Errors
    /// The same.
    pub fn open_again(origin: ArraySource, names: &[String]) -> anyhow::Result<Self> {
        let found = origin.found()?;
        let exactly = |mut sets: Vec<NamedSet>, _: &[String]| {
            shape_of(&sets, names)?;
            let place = |set: &NamedSet| names.iter().position(|name| *name == set.name);
            sets.retain(|set| place(set).is_some());
            sets.sort_by_key(place);
            Ok((sets, vec![]))
        };
        Self::of(origin, found, exactly)
    }

    fn of(
        origin: ArraySource,
        found: Found,
        choose: impl FnOnce(Vec<NamedSet>, &[String]) -> anyhow::Result<(Vec<NamedSet>, Vec<NamedSet>)>,
    ) -> anyhow::Result<Self> {
        let Found { sets, not_numbers, unpacked, bounded } = found;
        let (sets, others) = choose(sets, &not_numbers)?;
        let first = sets.first().context("it has no data sets")?;
        let shape = first.set.shape().to_vec();
        ensure!(!shape.contains(&0), "its data sets have no elements: {}", shown(first));
        let width = width_of(first).filter(|_| sets.len() == 1);
        let (count, most) = (sets.len(), FIELDS_MAX);
        ensure!(count <= most, "{count} data sets have one shape, and {most} are the most");
        let axes = if width.is_some() { &shape[..1] } else { &shape[..] };
        let chunk = first.set.chunk().map(|chunk| chunk[..axes.len().min(chunk.len())].to_vec());
        let tiles = Tiles::new(axes, chunk.as_deref());
        let columns = width.unwrap_or(sets.len() as u64);
        let rows = tiles.rows().filter(|rows| rows.checked_mul(columns * DOUBLE_BYTES as u64).is_some());
        let rows = rows.with_context(|| format!("a shape of {} is no file's", shown_shape(&shape)))?;
        let mut findings = vec![];
        if !others.is_empty() || shape.len() > 2 || (shape.len() == 2 && width.is_none()) {
            let others = others.iter().map(shown).collect();
            findings.push(Finding::DataSets { shape, others });
        }
        if !not_numbers.is_empty() {
            findings.push(Finding::NotNumbers(not_numbers));
        }
        let is_taken = |name: &String| sets.iter().any(|set| set.name == *name);
        for (names, finding) in [(unpacked, Finding::Unpacked as fn(_) -> _), (bounded, Finding::Bounded)] {
            let names: Vec<String> = names.into_iter().filter(is_taken).collect();
            if !names.is_empty() {
                findings.push(finding(names));
            }
        }
        Ok(Self { origin, sets, tiles, rows, width, findings })
    }

    /// The names of its data sets: with these it is opened as it is.
    #[must_use]
    pub fn data_sets(&self) -> Vec<String> {
        self.sets.iter().map(|set| set.name.clone()).collect()
    }

    /// Its columns.
    #[must_use]
    pub fn schema(&self, missing: Words) -> Schema {
        let names = match self.width {
            Some(width) => (0..width).map(|column| format!("{}[{column}]", self.sets[0].name)).collect(),
            None => self.data_sets(),
        };
        Schema::of_data_sets(names, missing, self.findings.clone())
    }

    /// Columns of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.map_or(self.sets.len(), |width| width as usize)
    }

    /// It for a pass that looks at some columns: the others are not read. Errors name the file so.
    #[must_use]
    pub fn only(self: Arc<Self>, kept: &Kept<'_>, name: String) -> Columns {
        let mut are_read = vec![false; self.columns()];
        kept.looked_at().filter(|column| *column < self.columns()).for_each(|column| are_read[column] = true);
        Columns { table: self, are_read, name }
    }

    /// Bytes of all its rows.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rows * (self.columns() * DOUBLE_BYTES) as u64
    }

    /// Some rows, one after the other, in little-endian bytes.
    fn rows(&self, first: u64, end: u64, are_read: &[bool], to: &mut [[u8; DOUBLE_BYTES]]) -> anyhow::Result<()> {
        let columns = self.columns();
        let mut begin = 0;
        for run in self.tiles.runs(first, end) {
            let part = &mut to[begin * columns..][..run.rows * columns];
            if let Some(width) = self.width {
                let Slab { start, len } = &run.slab;
                let slab = Slab { start: vec![start[0], 0], len: vec![len[0], width] };
                let values = self.read(0, &slab)?;
                let values = &values[run.skipped * columns..][..part.len()];
                part.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
            } else {
                for (column, _) in are_read.iter().enumerate().filter(|(_, is_read)| **is_read) {
                    let values = self.read(column, &run.slab)?;
                    let values = values[run.skipped..][..run.rows].iter();
                    let own = part[column..].iter_mut().step_by(columns);
                    own.zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
                }
            }
            begin += run.rows;
        }
        Ok(())
    }

    fn read(&self, set: usize, slab: &Slab) -> anyhow::Result<Vec<f64>> {
        let values = self.sets[set].set.read(slab)?;
        ensure!(values.len() as u64 == slab.elements(), "its data set {} has fewer elements", self.sets[set].name);
        Ok(values)
    }
}

impl ArraySource {
    fn found(&self) -> anyhow::Result<Found> {
        match self {
            Self::File(contents) => found(contents),
            Self::Store(store) => zarr::find(store),
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::File(contents) => contents.check(),
            Self::Store(store) => store.check(),
        }
    }
}

fn found(contents: &Arc<dyn Contents + Send>) -> anyhow::Result<Found> {
    let mut beginning = vec![0; contents.bytes().min(USER_BLOCK_MAX as u64 + 8) as usize];
    contents.read(&mut beginning, 0)?;
    match ArrayFormat::of(&beginning).context("it has no data sets")? {
        ArrayFormat::Hdf5 => hdf5::find(contents),
        ArrayFormat::NetCdf => netcdf::find(contents),
        ArrayFormat::Npy => npy::find(contents),
    }
}

/// The name of a data set, as a user may write it: behind a slash, or with one of its columns.
fn bare<'a>(name: &'a str, sets: &[NamedSet]) -> &'a str {
    let is_set = |name: &str| sets.iter().any(|set| set.name == name);
    let name = name.strip_prefix('/').unwrap_or(name);
    match name.rsplit_once('[') {
        Some((set, _)) if !is_set(name) && is_set(set) => set,
        _ => name,
    }
}

/// A data set as a message shows it.
fn shown(set: &NamedSet) -> String {
    format!("{} ({})", shown_name(&set.name), shown_shape(set.set.shape()))
}

/// The shape that all those with these names have.
fn shape_of(sets: &[NamedSet], names: &[String]) -> anyhow::Result<Vec<u64>> {
    let mut first: Option<&NamedSet> = None;
    for name in names {
        let Some(set) = sets.iter().find(|set| set.name == *name) else {
            let all: Vec<String> = sets.iter().map(shown).take(NAMED_MAX).collect();
            bail!("it has no data set {name:?} with numbers; it has {}", all.join(", "));
        };
        let first = first.get_or_insert(set);
        if first.set.shape() != set.set.shape() {
            let (first, other) = (shown(first), shown(set));
            bail!("{first} and {other} have different shapes, and make no table; ask for each by itself");
        }
    }
    Ok(first.context("no data set is named")?.set.shape().to_vec())
}

/// The shape of which the data sets have the most elements together; the first of several that have as many.
fn most_elements(sets: &[NamedSet]) -> Vec<u64> {
    let elements = |shape: &[u64]| shape.iter().fold(1_u64, |all, len| all.saturating_mul(*len));
    let mut by_shape: BTreeMap<&[u64], u64> = BTreeMap::new();
    for set in sets {
        let all = by_shape.entry(set.set.shape()).or_default();
        *all = all.saturating_add(elements(set.set.shape()));
    }
    let shapes = sets.iter().rev().map(|set| set.set.shape());
    shapes.max_by_key(|shape| by_shape[shape]).unwrap_or_default().to_vec()
}

/// Those of one shape, and the others.
fn chosen(
    sets: Vec<NamedSet>,
    not_numbers: &[String],
    names: &[String],
) -> anyhow::Result<(Vec<NamedSet>, Vec<NamedSet>)> {
    match (&sets[..], not_numbers) {
        ([], []) => bail!("it has no data sets"),
        ([], [first, ..]) => bail!("none of its data sets has numbers that can be read: {}", shown_name(first)),
        _ => {}
    }
    // The name of each stands before the reason.
    let is_named =
        |left: &&String| names.iter().any(|name| left.strip_prefix(&**name).is_some_and(|of| of.starts_with(" (")));
    if let Some(left) = not_numbers.iter().find(is_named) {
        bail!("a data set that is named has no numbers that can be read: {}", shown_name(left));
    }
    let shape = if names.is_empty() { most_elements(&sets) } else { shape_of(&sets, names)? };
    let is_alone = |set: &NamedSet| names == [set.name.as_str()] && width_of(set).is_some();
    // One with two axes is a table by itself.
    let alone = sets.iter().any(is_alone);
    let is_chosen = |set: &NamedSet| if alone { is_alone(set) } else { set.set.shape() == shape };
    Ok(sets.into_iter().partition(is_chosen))
}

/// The columns of a data set that is a table by itself.
fn width_of(set: &NamedSet) -> Option<u64> {
    match set.set.shape() {
        [_, width @ 1..=WIDTH_MAX] if set.set.may_be_table() => Some(*width),
        _ => None,
    }
}

/// A table of data sets, as a pass reads it.
pub struct Columns {
    table: Arc<ArrayTable>,
    are_read: Vec<bool>,
    /// The file.
    name: String,
}

impl Columns {
    fn rows(&self, first: u64, end: u64, to: &mut [[u8; DOUBLE_BYTES]]) -> anyhow::Result<()> {
        self.table.rows(first, end, &self.are_read, to).with_context(|| self.name.clone())
    }

    /// Bytes of a single row.
    fn read_of_row(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let columns = self.table.columns();
        let width = (columns * DOUBLE_BYTES) as u64;
        let mut row = vec![[0; DOUBLE_BYTES]; columns];
        self.rows(offset / width, offset / width + 1, &mut row)?;
        buffer.copy_from_slice(&row.as_flattened()[(offset % width) as usize..][..buffer.len()]);
        Ok(())
    }
}

impl Contents for Columns {
    fn bytes(&self) -> u64 {
        self.table.bytes()
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<()> {
        if !self.are_read.iter().all(|is_read| *is_read) {
            buffer.fill(0);
        }
        let width = (self.table.columns() * DOUBLE_BYTES) as u64;
        let end = offset + buffer.len() as u64;
        let (first, last) = (offset.next_multiple_of(width).min(end), end - end % width);
        // The rows in which the bytes begin and end may lie in others' bytes as well.
        let (begun, rest) = buffer.split_at_mut((first - offset) as usize);
        self.read_of_row(begun, offset)?;
        if last < first {
            return Ok(());
        }
        let (rows, ended) = rest.split_at_mut((last - first) as usize);
        self.rows(first / width, last / width, rows.as_chunks_mut().0)?;
        self.read_of_row(ended, last)
    }

    fn check(&self) -> anyhow::Result<()> {
        self.table.origin.check()
    }
}
