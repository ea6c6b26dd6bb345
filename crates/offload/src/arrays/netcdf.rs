//! Variables of classic NetCDF files. Those of NetCDF-4 are data sets of HDF5.

use std::sync::Arc;

use netcdf_reader::{NcFile, NcSliceInfo, NcSliceInfoElem, NcType};

use crate::arrays::data_set::{DataSet, Found, NamedSet, StoredAs};
use crate::arrays::stored::Stored;
use crate::arrays::tiles::Slab;
use crate::contents::Contents;

/// A variable.
struct Variable {
    file: Arc<NcFile>,
    name: String,
    shape: Vec<u64>,
    packing: StoredAs,
}

/// The variables of a file.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn find(contents: &Arc<dyn Contents + Send>) -> anyhow::Result<Found> {
    let file = Arc::new(NcFile::from_storage(Arc::new(Stored(Arc::clone(contents))))?);
    let mut found = Found::default();
    for variable in file.variables()? {
        let name = variable.name().to_owned();
        if matches!(variable.dtype(), NcType::Char | NcType::String) {
            found.not_numbers.push(format!("{name} (text)"));
            continue;
        }
        let attribute = |name: &str| variable.attribute(name).and_then(|found| found.value.as_f64_vec());
        let packing = StoredAs::of(|name| attribute(name).unwrap_or_default());
        if !packing.is_none() {
            found.unpacked.push(name.clone());
        }
        let (file, shape) = (Arc::clone(&file), variable.shape());
        let set = Variable { file, name: name.clone(), shape, packing };
        found.sets.push(NamedSet { name, set: Box::new(set) });
    }
    Ok(found)
}

impl DataSet for Variable {
    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn chunk(&self) -> Option<Vec<u64>> {
        None
    }

    fn may_be_table(&self) -> bool {
        false
    }

    fn read(&self, slab: &Slab) -> anyhow::Result<Vec<f64>> {
        let along = |(start, len): (&u64, &u64)| NcSliceInfoElem::Slice { start: *start, end: start + len, step: 1 };
        let selections = slab.start.iter().zip(&slab.len).map(along).collect();
        let values = self.file.read_variable_slice_as_f64(&self.name, &NcSliceInfo { selections })?;
        let mut values: Vec<f64> = values.into_iter().collect();
        self.packing.unpack(&mut values);
        Ok(values)
    }
}
