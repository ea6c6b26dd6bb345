//! Variables of classic NetCDF files. Those of NetCDF-4 are data sets of HDF5.

use std::sync::Arc;

use netcdf_reader::{NcAttrValue, NcFile, NcSliceInfo, NcSliceInfoElem, NcType};

use crate::arrays::data_set::{DataSet, Element, Found, NamedSet, StoredAs};
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
        let Some(element) = element_of(variable.dtype()) else {
            found.not_numbers.push(format!("{name} (no numbers)"));
            continue;
        };
        let attribute = |name: &str| variable.attribute(name).map(|attribute| &attribute.value);
        let numbers = |name: &str| attribute(name).map_or(Ok(vec![]), |value| value.as_f64_vec().ok_or(()));
        let said = attribute("_Unsigned").and_then(NcAttrValue::as_string);
        let is_unsigned = said.is_some_and(|said| said.eq_ignore_ascii_case("true"));
        let Ok(packing) = StoredAs::of(element, numbers, is_unsigned) else {
            found.not_numbers.push(format!("{name} (an attribute that says what its values are has no numbers)"));
            continue;
        };
        found.note(&name, &packing);
        let packing = packing.with_fill(element);
        let (file, shape) = (Arc::clone(&file), variable.shape());
        let set = Variable { file, name: name.clone(), shape, packing };
        found.sets.push(NamedSet { name, set: Box::new(set) });
    }
    Ok(found)
}

/// The type of a variable's elements, if they are numbers.
fn element_of(kind: &NcType) -> Option<Element> {
    Some(match kind {
        NcType::Byte => Element::Integer(1, true),
        NcType::UByte => Element::Integer(1, false),
        NcType::Short => Element::Integer(2, true),
        NcType::UShort => Element::Integer(2, false),
        NcType::Int => Element::Integer(4, true),
        NcType::UInt => Element::Integer(4, false),
        NcType::Int64 => Element::Integer(8, true),
        NcType::UInt64 => Element::Integer(8, false),
        NcType::Float => Element::Double(4),
        NcType::Double => Element::Double(8),
        _ => return None,
    })
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
