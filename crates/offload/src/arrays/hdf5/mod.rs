//! Data sets of HDF5 files, and so of NetCDF-4 and of MATLAB 7.3.
//!
//! The library finds groups, data sets and attributes, and reads data in one piece. Chunks are found and kept here (`chunks`), and so are the
//! meanings of types (`types`).

mod axes;
mod chunks;
mod header;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context;
use hdf5_reader::error::Error;
use hdf5_reader::filters::FilterRegistry;
use hdf5_reader::group::Group;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::dataspace::DataspaceType;
use hdf5_reader::messages::datatype::Datatype;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::{Attribute, Dataset, H5Type, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem};

use crate::arrays::chunk_cache::ChunkCache;
use crate::arrays::data_set::{DEPTH_MAX, DataSet, Found, NamedSet, SETS_MAX, StoredAs};
use crate::arrays::grid::Grid;
use crate::arrays::hdf5::axes::Axes;
use crate::arrays::hdf5::chunks::{CHUNK_BYTES_MAX, Chunks, OpenFile};
use crate::arrays::hdf5::types::{Element, Stored};
use crate::arrays::stored;
use crate::arrays::tiles::Slab;
use crate::arrays::{blosc, codecs, lzf, streams};
use crate::contents::Contents;

/// The number of h5py's filter, and where it notes the bytes of a chunk.
const LZF: (u16, usize) = (32000, 2);

/// The same of Blosc's.
const BLOSC: (u16, usize) = (32001, 3);

/// Bytes that a filter before LZF, such as scale-offset, may have added to a chunk.
const ADDED_MAX: usize = 64;

/// The numbers of those of zstd and LZ4, which note none.
const ZSTD: u16 = 32015;
const LZ4: u16 = 32004;

/// A data set of numbers.
struct Numbers {
    set: Dataset,
    stored: Stored,
    shape: Vec<u64>,
    /// None if it is stored in one piece.
    chunks: Option<(Grid, Chunks)>,
    has_axes: bool,
    packing: StoredAs,
}

/// The data sets of a file.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn find(contents: &Arc<dyn Contents + Send>) -> anyhow::Result<Found> {
    let options = OpenOptions::default().with_max_chunk_bytes(CHUNK_BYTES_MAX).with_filter_registry(filters());
    let file = Hdf5File::from_storage_with_options(Arc::new(stored::Stored(Arc::clone(contents))), options)?;
    let root = file.root_group()?;
    let open = Arc::new(OpenFile { file, cache: ChunkCache::default(), filters: filters() });
    let mut walk = Walk {
        open,
        seen: BTreeSet::from([root.address()]),
        found: Found::default(),
        sets: vec![],
        axes: Axes::default(),
    };
    walk.enter(&root, "", DEPTH_MAX)?;
    let Walk { mut found, sets, axes, .. } = walk;
    for (name, set) in sets {
        let set = set.padded(&axes);
        found.sets.push(NamedSet { name, set: Box::new(set) });
    }
    Ok(found)
}

/// The filters that chunks may have passed: the library's, h5py's own, and those of its plugins that Zarr has, too.
fn filters() -> FilterRegistry {
    let mut filters = FilterRegistry::new();
    let len = |filter: &FilterDescription, at: usize| {
        let len = filter.client_data.get(at).map(|len| *len as usize).filter(|len| *len > 0);
        len.map_or(CHUNK_BYTES_MAX, |len| len.min(CHUNK_BYTES_MAX))
    };
    let unpack = move |filter: &FilterDescription, packed: &[u8], _: usize| {
        let damaged = || Error::FilterError("a chunk that LZF compressed is damaged".to_owned());
        let len_max = (len(filter, LZF.1) + ADDED_MAX).min(CHUNK_BYTES_MAX);
        lzf::unpacked(packed, len_max).ok_or_else(damaged)
    };
    filters.register(LZF.0, Box::new(unpack));
    let error = |error: anyhow::Error| Error::FilterError(format!("{error:#}"));
    let unpack = move |filter: &FilterDescription, packed: &[u8], _: usize| {
        blosc::unpacked(packed, len(filter, BLOSC.1)).map_err(error)
    };
    filters.register(BLOSC.0, Box::new(unpack));
    let unpack =
        move |_: &FilterDescription, packed: &[u8], _: usize| streams::zstd(packed, CHUNK_BYTES_MAX).map_err(error);
    filters.register(ZSTD, Box::new(unpack));
    // The library takes chunks of several blocks for damaged ones.
    let unpack = move |_: &FilterDescription, packed: &[u8], _: usize| {
        codecs::lz4_blocks(packed, CHUNK_BYTES_MAX).map_err(error)
    };
    filters.register(LZ4, Box::new(unpack));
    filters
}

/// A walk through the groups of a file.
struct Walk {
    open: Arc<OpenFile>,
    /// Addresses of groups.
    seen: BTreeSet<u64>,
    found: Found,
    sets: Vec<(String, Numbers)>,
    axes: Axes,
}

impl Walk {
    /// Adds the data sets of a group, which has a path, and of those below it, each once.
    fn enter(&mut self, group: &Group, above: &str, depth: usize) -> anyhow::Result<()> {
        let (groups, sets) = group.members().with_context(|| format!("its group /{above} cannot be read"))?;
        for set in sets {
            anyhow::ensure!(self.sets.len() < SETS_MAX, "it has more than {SETS_MAX} data sets");
            self.add(set, above)?;
        }
        for below in groups {
            let name = format!("{above}{}/", below.name());
            match self.seen.insert(below.address()) {
                true if depth > 0 => self.enter(&below, &name, depth - 1)?,
                true => self.found.leave_group(&name),
                false => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, set: Dataset, above: &str) -> anyhow::Result<()> {
        let name = format!("{above}{}", set.name());
        self.axes.note(&set);
        match numbers(&self.open, set, &name) {
            Ok(Some(set)) => {
                self.found.note(&name, &set.packing);
                let kind = set.stored.kind.element();
                let set = if set.has_axes { Numbers { packing: set.packing.with_fill(kind), ..set } } else { set };
                self.sets.push((name, set));
            }
            // An axis without values.
            Ok(None) => {}
            Err(Refused::Unknown(reason)) => self.found.not_numbers.push(format!("{name} ({reason})")),
            Err(Refused::Damaged(error)) => return Err(unreadable(error, &name)),
        }
        Ok(())
    }
}

/// A data set that is no column.
enum Refused {
    /// It has no numbers, for this reason.
    Unknown(&'static str),
    /// It cannot be read.
    Damaged(anyhow::Error),
}

impl From<&'static str> for Refused {
    fn from(reason: &'static str) -> Self {
        Self::Unknown(reason)
    }
}

/// A data set, if its elements are numbers; else what they are. None if it is an axis that stands for none.
fn numbers(open: &Arc<OpenFile>, set: Dataset, name: &str) -> Result<Option<Numbers>, Refused> {
    let message = set.raw_datatype().map_err(|error| Refused::Damaged(error.into()))?;
    let stored = Stored::of(set.dtype(), &message)?;
    let text = |name: &str| set.attribute(name).ok()?.read_string().ok();
    if text("NAME").is_some_and(|name| name.starts_with("This is a netCDF dimension but not a netCDF variable")) {
        return Ok(None);
    }
    if is_empty(open, &set).map_err(Refused::Damaged)? {
        return Err(Refused::Unknown("no elements"));
    }
    let has = |name: &str| set.attribute(name).is_ok();
    let has_axes = has("DIMENSION_LIST") || has("_Netcdf4Dimid") || has("_Netcdf4Coordinates");
    let packing = packing(&set, stored)?;
    let shape = set.shape().to_vec();
    let chunks = Chunks::of(open, &set, name, stored).map_err(Refused::Damaged)?.map(|chunks| {
        let chunk: Vec<u64> = set.chunks().into_iter().flatten().map(u64::from).take(shape.len()).collect();
        let axes = 0..chunk.len();
        (Grid::new(chunk, axes, stored.kind, fill(&set, stored)), chunks)
    });
    Ok(Some(Numbers { set, stored, shape, chunks, has_axes, packing }))
}

/// Whether a data set has no elements, whatever its shape says: not even one, or those of an empty array of MATLAB, which are its shape.
fn is_empty(open: &OpenFile, set: &Dataset) -> anyhow::Result<bool> {
    let header = open.file.get_or_parse_header(set.address())?;
    let is_null = |message: &HdfMessage| match message {
        HdfMessage::Dataspace(space) => space.dataspace_type == DataspaceType::Null,
        _ => false,
    };
    let matlab = set.attribute("MATLAB_empty").ok().and_then(|attribute| numbers_of(&attribute));
    Ok(header.messages.iter().any(is_null) || matlab.is_some_and(|said| said.iter().any(|said| *said != 0.0)))
}

/// The meaning of a data set's values, as its attributes have it.
fn packing(set: &Dataset, stored: Stored) -> Result<StoredAs, &'static str> {
    let attributes = set.attributes();
    let numbers = |name: &str| {
        let has_no_numbers = "an attribute that says what its values are has no numbers";
        let Some(attribute) = attributes.iter().find(|attribute| attribute.name == name) else { return Ok(vec![]) };
        let messages = set.raw_attributes().map_err(|_| has_no_numbers)?;
        let message = messages.iter().find(|attribute| attribute.name() == name).ok_or(has_no_numbers)?;
        let is_whole = Stored::of(&attribute.datatype, message.raw_datatype()).is_ok_and(Stored::is_whole);
        numbers_of(attribute).filter(|_| is_whole).ok_or(has_no_numbers)
    };
    let said = set.attribute("_Unsigned").ok().and_then(|attribute| attribute.read_string().ok());
    let is_unsigned = said.is_some_and(|said| said.eq_ignore_ascii_case("true"));
    StoredAs::of(stored.kind.element(), numbers, is_unsigned)
}

/// The number that stands where none was written.
fn fill(set: &Dataset, stored: Stored) -> f64 {
    let mut bytes = set.fill_value().and_then(|fill| fill.value.clone()).unwrap_or_default();
    if bytes.len() != stored.kind.bytes {
        return 0.0;
    }
    stored.widen(&mut bytes);
    stored.kind.value(stored.kind.bits(&bytes))
}

/// The numbers of an attribute; None if it has others.
fn numbers_of(attribute: &Attribute) -> Option<Vec<f64>> {
    fn read<T: H5Type>(attribute: &Attribute, value: impl Fn(T) -> f64) -> Option<Vec<f64>> {
        Some(attribute.read_1d::<T>().ok()?.into_iter().map(value).collect())
    }
    match &attribute.datatype {
        Datatype::FixedPoint { size: 1, signed: true, .. } => read::<i8>(attribute, f64::from),
        Datatype::FixedPoint { size: 1, signed: false, .. } => read::<u8>(attribute, f64::from),
        Datatype::FixedPoint { size: 2, signed: true, .. } => read::<i16>(attribute, f64::from),
        Datatype::FixedPoint { size: 2, signed: false, .. } => read::<u16>(attribute, f64::from),
        Datatype::FixedPoint { size: 4, signed: true, .. } => read::<i32>(attribute, f64::from),
        Datatype::FixedPoint { size: 4, signed: false, .. } => read::<u32>(attribute, f64::from),
        Datatype::FixedPoint { size: 8, signed: true, .. } => read::<i64>(attribute, |value| value as f64),
        Datatype::FixedPoint { size: 8, signed: false, .. } => read::<u64>(attribute, |value| value as f64),
        Datatype::FloatingPoint { size: 4, .. } => read::<f32>(attribute, f64::from),
        Datatype::FloatingPoint { size: 8, .. } => read::<f64>(attribute, |value| value),
        _ => None,
    }
}

impl Numbers {
    /// It as long as the axes that it shares: what was not written there is missing, or what the data set has for such elements.
    fn padded(self, axes: &Axes) -> Self {
        let Self { chunks: Some((grid, chunks)), .. } = self else { return self };
        let shape = axes.shape(&self.set);
        let grid = grid.of_stored(self.set.shape().to_vec());
        Self { shape, chunks: Some((grid, chunks)), ..self }
    }

    /// Elements of one that is stored in one piece.
    fn piece<const BYTES: usize>(&self, slice: &SliceInfo) -> anyhow::Result<Vec<f64>> {
        let elements = self.set.read_slice::<Element<BYTES>>(slice)?;
        let elements = elements.into_raw_vec_and_offset().0.into_iter();
        let mut bytes: Vec<[u8; BYTES]> = elements.map(|Element(bytes)| bytes).collect();
        self.stored.widen(bytes.as_flattened_mut());
        let mut values = Vec::with_capacity(bytes.len());
        self.stored.kind.each(bytes.as_flattened(), (0, 1), bytes.len(), |value| values.push(value));
        Ok(values)
    }
}

/// The error of a data set.
fn unreadable(error: anyhow::Error, name: &str) -> anyhow::Error {
    let is_filter = matches!(error.downcast_ref(), Some(Error::UnsupportedFilter(_)));
    let error = error.context(format!("its data set {name} cannot be read"));
    // There is a way out.
    match is_filter {
        true => error.context("h5repack -f GZIP=4 FILE OUT writes it as it can be read"),
        false => error,
    }
}

impl DataSet for Numbers {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn chunk(&self) -> Option<Vec<u64>> {
        Some(self.chunks.as_ref()?.0.chunk().to_vec())
    }

    fn may_be_table(&self) -> bool {
        !self.has_axes
    }

    fn read(&self, slab: &Slab) -> anyhow::Result<Vec<f64>> {
        let values = match &self.chunks {
            Some((grid, chunks)) => grid.read(slab, |place| chunks.at(place)),
            None => {
                let along =
                    |(start, len): (&u64, &u64)| SliceInfoElem::Slice { start: *start, end: start + len, step: 1 };
                let slice = SliceInfo { selections: slab.start.iter().zip(&slab.len).map(along).collect() };
                match self.stored.kind.bytes {
                    1 => self.piece::<1>(&slice),
                    2 => self.piece::<2>(&slice),
                    4 => self.piece::<4>(&slice),
                    _ => self.piece::<8>(&slice),
                }
            }
        };
        let mut values = values.map_err(|error| unreadable(error, self.set.name()))?;
        self.packing.unpack(&mut values);
        Ok(values)
    }
}
