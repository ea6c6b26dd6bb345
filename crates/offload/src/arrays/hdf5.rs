//! Data sets of HDF5 files, and so of NetCDF-4 and of MATLAB 7.3.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use hdf5_reader::error::Error;
use hdf5_reader::filters::FilterRegistry;
use hdf5_reader::group::Group;
use hdf5_reader::messages::datatype::Datatype;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::{Attribute, Dataset, H5Type, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem};

use crate::arrays::data_set::{DataSet, Element, Found, NamedSet, SETS_MAX, StoredAs};
use crate::arrays::stored::Stored;
use crate::arrays::tiles::Slab;
use crate::arrays::{blosc, codecs, lzf, streams};
use crate::contents::Contents;

/// Groups within each other; deeper ones are not looked at.
const DEPTH_MAX: usize = 32;

/// Bytes of chunks that are kept unpacked: those that threads read at once, as the file is cut.
const CACHE_BYTES: usize = 32 << 20;

/// Bytes of one chunk. A file may say that it has larger ones, and have none.
const CHUNK_BYTES_MAX: usize = 1 << 30;

/// The number of h5py's filter, and where it notes the bytes of a chunk.
const LZF: (u16, usize) = (32000, 2);

/// The same of Blosc's.
const BLOSC: (u16, usize) = (32001, 3);

/// The numbers of those of zstd and LZ4, which note none.
const ZSTD: u16 = 32015;
const LZ4: u16 = 32004;

/// A data set of numbers.
struct Numbers {
    set: Dataset,
    kind: Element,
    shape: Vec<u64>,
    has_axes: bool,
    packing: StoredAs,
}

/// The data sets of a file.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn find(contents: &Arc<dyn Contents + Send>) -> anyhow::Result<Found> {
    let options = OpenOptions::default().with_chunk_cache_bytes(CACHE_BYTES).with_max_chunk_bytes(CHUNK_BYTES_MAX);
    let options = options.with_filter_registry(filters());
    let file = Hdf5File::from_storage_with_options(Arc::new(Stored(Arc::clone(contents))), options)?;
    let mut found = Found::default();
    let root = file.root_group()?;
    let mut seen = BTreeSet::from([root.address()]);
    walk(&root, "", DEPTH_MAX, &mut seen, &mut found)?;
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
        lzf::unpacked(packed, len(filter, LZF.1)).ok_or_else(damaged)
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

/// Adds the data sets of a group and of those below it, each once.
fn walk(group: &Group, above: &str, depth: usize, seen: &mut BTreeSet<u64>, found: &mut Found) -> anyhow::Result<()> {
    let (groups, sets) = group.members().with_context(|| format!("its group /{above} cannot be read"))?;
    for set in sets {
        anyhow::ensure!(found.sets.len() < SETS_MAX, "it has more than {SETS_MAX} data sets");
        let name = format!("{above}{}", set.name());
        match numbers(set) {
            Ok(Some(set)) => {
                if !set.packing.is_none() {
                    found.unpacked.push(name.clone());
                }
                let set = if set.has_axes { Numbers { packing: set.packing.with_fill(set.kind), ..set } } else { set };
                found.sets.push(NamedSet { name, set: Box::new(set) });
            }
            // An axis without values.
            Ok(None) => {}
            Err(reason) => found.not_numbers.push(format!("{name} ({reason})")),
        }
    }
    for below in groups {
        if depth > 0 && seen.insert(below.address()) {
            walk(&below, &format!("{above}{}/", below.name()), depth - 1, seen, found)?;
        }
    }
    Ok(())
}

/// A data set, if its elements are numbers; else what they are. None if it is an axis that stands for none.
fn numbers(set: Dataset) -> Result<Option<Numbers>, &'static str> {
    let kind = match set.dtype() {
        Datatype::FixedPoint { size: size @ (1 | 2 | 4 | 8), signed, .. } => Element::Integer(*size, *signed),
        Datatype::FloatingPoint { size: size @ (4 | 8), .. } => Element::Double(*size),
        Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. } => return Err("numbers of an odd size"),
        Datatype::String { .. } | Datatype::VarLen { .. } => return Err("text, or rows of different lengths"),
        Datatype::Compound { .. } => return Err("records"),
        Datatype::Enum { .. } => return Err("words"),
        _ => return Err("no numbers"),
    };
    let text = |name: &str| set.attribute(name).ok()?.read_string().ok();
    if text("NAME").is_some_and(|name| name.starts_with("This is a netCDF dimension but not a netCDF variable")) {
        return Ok(None);
    }
    let has = |name: &str| set.attribute(name).is_ok();
    let has_axes = has("DIMENSION_LIST") || has("_Netcdf4Dimid") || has("_Netcdf4Coordinates");
    let attributes = set.attributes();
    let attribute = |name: &str| attributes.iter().find(|attribute| attribute.name == name);
    let numbers = |name: &str| {
        let has_no_numbers = "an attribute that says what its values are has no numbers";
        attribute(name).map_or(Ok(vec![]), |attribute| numbers_of(attribute).ok_or(has_no_numbers))
    };
    let is_unsigned = text("_Unsigned").is_some_and(|said| said.eq_ignore_ascii_case("true"));
    let packing = StoredAs::of(kind, numbers, is_unsigned)?;
    let shape = set.shape().to_vec();
    Ok(Some(Numbers { set, kind, shape, has_axes, packing }))
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
    fn values<T: H5Type>(&self, slice: &SliceInfo, value: impl Fn(T) -> f64) -> anyhow::Result<Vec<f64>> {
        let values = self.set.read_slice::<T>(slice).map_err(|error| told(error, self.set.name()))?;
        Ok(values.into_iter().map(value).collect())
    }
}

/// An error with the way out, if there is one.
fn told(error: Error, name: &str) -> anyhow::Error {
    let is_filter = matches!(error, Error::UnsupportedFilter(_));
    let error = anyhow!(error).context(format!("its data set {name} cannot be read"));
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
        Some(self.set.chunks()?.into_iter().map(u64::from).collect())
    }

    fn may_be_table(&self) -> bool {
        !self.has_axes
    }

    fn read(&self, slab: &Slab) -> anyhow::Result<Vec<f64>> {
        let along = |(start, len): (&u64, &u64)| SliceInfoElem::Slice { start: *start, end: start + len, step: 1 };
        let slice = SliceInfo { selections: slab.start.iter().zip(&slab.len).map(along).collect() };
        let mut values = match self.kind {
            Element::Integer(1, true) => self.values::<i8>(&slice, f64::from),
            Element::Integer(1, false) => self.values::<u8>(&slice, f64::from),
            Element::Integer(2, true) => self.values::<i16>(&slice, f64::from),
            Element::Integer(2, false) => self.values::<u16>(&slice, f64::from),
            Element::Integer(4, true) => self.values::<i32>(&slice, f64::from),
            Element::Integer(4, false) => self.values::<u32>(&slice, f64::from),
            Element::Integer(_, true) => self.values::<i64>(&slice, |value| value as f64),
            Element::Integer(_, false) => self.values::<u64>(&slice, |value| value as f64),
            Element::Double(4) => self.values::<f32>(&slice, f64::from),
            Element::Double(_) => self.values::<f64>(&slice, |value| value),
        }?;
        self.packing.unpack(&mut values);
        Ok(values)
    }
}
