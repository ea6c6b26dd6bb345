//! One data set of numbers, as the formats have it.

use crate::arrays::tiles::Slab;

/// A data set.
pub trait DataSet: Send + Sync {
    /// Elements along each axis.
    fn shape(&self) -> &[u64];

    /// The same of the pieces in which it is stored; None if it is one.
    fn chunk(&self) -> Option<Vec<u64>>;

    /// Whether its second axis stands for columns, where a reader has to choose.
    fn may_be_table(&self) -> bool;

    /// The elements of a slab, the last axis fastest; NaN where one is missing.
    ///
    /// # Errors
    /// They cannot be read, or not unpacked.
    fn read(&self, slab: &Slab) -> anyhow::Result<Vec<f64>>;
}

/// Data sets of a file.
pub const SETS_MAX: usize = 1 << 16;

/// Groups within each other; deeper ones are left out.
pub const DEPTH_MAX: usize = 32;

/// A data set with its name: the path in the file, without the first slash.
pub struct NamedSet {
    /// The path.
    pub name: String,
    /// It.
    pub set: Box<dyn DataSet>,
}

/// The data sets of a file.
#[derive(Default)]
pub struct Found {
    /// Those of numbers.
    pub sets: Vec<NamedSet>,
    /// Names of those that have no numbers, each with the reason.
    pub not_numbers: Vec<String>,
    /// Names of those whose values are not as they are stored.
    pub unpacked: Vec<String>,
    /// Names of those whose attributes bound their values, which are taken nevertheless.
    pub bounded: Vec<String>,
}

impl Found {
    /// Names a data set whose attributes say more of its values.
    pub fn note(&mut self, name: &str, stored: &StoredAs) {
        self.unpacked.extend((!stored.is_none()).then(|| name.to_owned()));
        self.bounded.extend(stored.has_bounds.then(|| name.to_owned()));
    }

    /// Names a group that is too deep, by the first one above it.
    pub fn leave_group(&mut self, path: &str) {
        let first = path.split('/').next().unwrap_or(path);
        let said = format!("{first}/... (groups within {DEPTH_MAX} others)");
        if !self.not_numbers.contains(&said) {
            self.not_numbers.push(said);
        }
    }
}

/// The type of a stored element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// An integer of so many bytes, with a sign or without one.
    Integer(u8, bool),
    /// A number with a fraction, of so many bytes.
    Double(u8),
}

/// The value that NetCDF's libraries write where a program has written none.
const NETCDF_FILL: f64 = 9.969_209_968_386_869e36;

/// The meaning of stored values, as attributes of a data set say it (CF conventions, section 8.1; `_Unsigned` as NetCDF's users' guide has it).
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAs {
    /// Stored values that stand for missing ones.
    missing: Vec<f64>,
    /// Added to stored values below 0, which stand for others.
    wrap: Option<f64>,
    /// A value is the stored one times this,
    scale: f64,
    /// and this added.
    offset: f64,
    /// Whether they say which values are valid: libraries do not agree on whether others are missing.
    has_bounds: bool,
}

impl Default for StoredAs {
    fn default() -> Self {
        Self { missing: vec![], wrap: None, scale: 1.0, offset: 0.0, has_bounds: false }
    }
}

impl StoredAs {
    /// That which attributes say: `numbers` has those of one, none where there is none; `is_unsigned` is what `_Unsigned` says.
    ///
    /// # Errors
    /// `numbers` fails where an attribute has no numbers: then nobody knows the values.
    pub fn of<E>(
        element: Element,
        numbers: impl Fn(&str) -> Result<Vec<f64>, E>,
        is_unsigned: bool,
    ) -> Result<Self, E> {
        let one = |name: &str| numbers(name).map(|numbers| numbers.first().copied());
        let mut missing = numbers("_FillValue")?;
        missing.extend(numbers("missing_value")?);
        if element == Element::Double(4) {
            // An attribute may have more digits than elements have.
            missing.iter_mut().for_each(|value| *value = f64::from(*value as f32));
        }
        let wrap = match element {
            Element::Integer(bytes, true) if is_unsigned => Some((8.0 * f64::from(bytes)).exp2()),
            _ => None,
        };
        let (scale, offset) = (one("scale_factor")?.unwrap_or(1.0), one("add_offset")?.unwrap_or(0.0));
        let bounds = |name: &str| numbers(name).map_or(true, |bounds| !bounds.is_empty());
        let has_bounds = ["valid_range", "valid_min", "valid_max"].into_iter().any(bounds);
        Ok(Self { missing, wrap, scale, offset, has_bounds })
    }

    /// The same for a file of NetCDF: what was never written is missing.
    #[must_use]
    pub fn with_fill(mut self, element: Element) -> Self {
        if matches!(element, Element::Double(_)) {
            self.missing.push(NETCDF_FILL);
        }
        self
    }

    /// Whether stored values are the values.
    pub fn is_none(&self) -> bool {
        let Self { missing, wrap, scale, offset, has_bounds: _ } = self;
        missing.is_empty() && wrap.is_none() && (*scale, *offset) == (1.0, 0.0)
    }

    /// The values of stored ones.
    pub fn unpack(&self, stored: &mut [f64]) {
        if self.is_none() {
            return;
        }
        for value in stored {
            if self.missing.contains(value) {
                *value = f64::NAN;
                continue;
            }
            let wrapped = self.wrap.filter(|_| *value < 0.0).map_or(*value, |wrap| *value + wrap);
            *value = wrapped * self.scale + self.offset;
        }
    }
}
