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
}

/// The meaning of stored values, as attributes of a data set say it (CF conventions, section 8.1).
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAs {
    /// Stored values that stand for missing ones.
    pub missing: Vec<f64>,
    /// A value is the stored one times this,
    pub scale: f64,
    /// and this added.
    pub offset: f64,
}

impl Default for StoredAs {
    fn default() -> Self {
        Self { missing: vec![], scale: 1.0, offset: 0.0 }
    }
}

impl StoredAs {
    /// That which the numbers of attributes say.
    pub fn of(attribute: impl Fn(&str) -> Vec<f64>) -> Self {
        let one = |name: &str| attribute(name).first().copied();
        let missing = attribute("_FillValue").into_iter().chain(attribute("missing_value")).collect();
        Self { missing, scale: one("scale_factor").unwrap_or(1.0), offset: one("add_offset").unwrap_or(0.0) }
    }

    /// Whether stored values are the values.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The values of stored ones.
    pub fn unpack(&self, stored: &mut [f64]) {
        if self.is_none() {
            return;
        }
        for value in stored {
            *value = match self.missing.contains(value) {
                true => f64::NAN,
                false => *value * self.scale + self.offset,
            };
        }
    }
}
