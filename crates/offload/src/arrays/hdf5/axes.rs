//! Axes that data sets share, and that may grow, as NetCDF has them: such an axis is as long as its longest data set.
//!
//! HDF5's dimension scales tell which data set has which axes: a scale is a data set, and others refer to its address.

use std::collections::BTreeMap;

use hdf5_reader::Dataset;

/// How long the axes are, by the addresses of their scales.
#[derive(Debug, Default)]
pub struct Axes(BTreeMap<u64, u64>);

impl Axes {
    /// Takes the lengths of a data set's axes.
    pub fn note(&mut self, set: &Dataset) {
        for (axis, scale) in growing(set) {
            let longest = self.0.entry(scale).or_default();
            *longest = (*longest).max(set.shape()[axis]);
        }
    }

    /// The shape of a data set when its axes are as long as those of others.
    pub fn shape(&self, set: &Dataset) -> Vec<u64> {
        let mut shape = set.shape().to_vec();
        for (axis, scale) in growing(set) {
            shape[axis] = shape[axis].max(self.0.get(&scale).copied().unwrap_or_default());
        }
        shape
    }
}

/// The axes of a data set that may grow and have a scale, with its address.
fn growing(set: &Dataset) -> Vec<(usize, u64)> {
    let may_grow = |axis: &usize| set.max_dims().is_some_and(|most| most.get(*axis) == Some(&u64::MAX));
    let axes: Vec<usize> = (0..set.ndim()).filter(may_grow).collect();
    if axes.is_empty() {
        return vec![];
    }
    if set.attribute("DIMENSION_LIST").is_ok() {
        return axes.into_iter().filter_map(|axis| Some((axis, scale(set, axis)?))).collect();
    }
    let class = set.attribute("CLASS").ok().and_then(|class| class.read_string().ok());
    let is_scale = class.is_some_and(|class| class.trim_end_matches('\0') == "DIMENSION_SCALE");
    axes.into_iter().filter(|axis| is_scale && *axis == 0).map(|axis| (axis, set.address())).collect()
}

/// The address of the scale of an axis.
fn scale(set: &Dataset, axis: usize) -> Option<u64> {
    let list = set.attribute("DIMENSION_LIST").ok()?;
    let bytes = set.vlen_reference_size();
    let reference = list.raw_data.chunks_exact(bytes).nth(axis)?;
    // Between them a length and a number, of four bytes each, have an address.
    let address_bytes = bytes - 8;
    let scales = set.resolve_vlen_reference_bytes(reference, address_bytes).ok()?;
    let mut address = [0; 8];
    address.get_mut(..address_bytes)?.copy_from_slice(scales.get(..address_bytes)?);
    Some(u64::from_le_bytes(address))
}
