//! A start-up's contents as the daemon sends them ahead: cut into parcels in the order of first use, compressed, in a pack
//! that the roots read.
//!
//! The cores ask for parcels, join, forward and count them (`ReadPath::start_prefill`); here is what a parcel holds and
//! costs. A parcel of the model stands for as many real ones as a chunk of a large file does.

use forebay_types::{ViewPath, limits};

use super::files::{Ask, Script, Weight};
use super::stated::Workload;

/// What the parcels of a script are.
pub(super) struct Pack {
    /// What is in each.
    pub parcels: Vec<Parcel>,
    /// The parcel that brings what a step asks for.
    pub of_step: Vec<u32>,
    pub weight: Weight,
}

/// A parcel.
#[derive(Default)]
pub(super) struct Parcel {
    /// Bytes before compression, as the model counts them.
    pub bytes: u64,
    /// The same, compressed.
    pub packed_bytes: u32,
    /// Directories whose listings it brings, by which the reader of the pack checks that it is current.
    pub dirs: Vec<ViewPath>,
}

impl Pack {
    /// Cuts what a script asks for.
    pub fn of(workload: &Workload, script: &Script, things: u32) -> Self {
        let mut pack =
            Self { parcels: vec![Parcel::default()], of_step: Vec::new(), weight: Weight { things, in_turn: 1 } };
        for step in &script.steps {
            let bytes = match &step.ask {
                Ask::Read { extent, weight, .. } => extent.len_bytes * u64::from(*weight) / u64::from(things),
                _ => 0,
            };
            if pack.parcels.last().is_some_and(|last| last.bytes + bytes > limits::PARCEL_BYTES && last.bytes > 0) {
                pack.parcels.push(Parcel::default());
            }
            pack.of_step.push(pack.parcels.len() as u32 - 1);
            let Some(parcel) = pack.parcels.last_mut() else { continue };
            parcel.bytes += bytes;
            if let Ask::Directory { path, .. } = &step.ask {
                parcel.dirs.push(path.clone());
            }
        }
        for parcel in &mut pack.parcels {
            parcel.packed_bytes = ((parcel.bytes as f64 * workload.image_share.value) as u32).max(1);
        }
        pack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{AURORA, TORCH};
    use crate::synthetic::{Grain, files_and_script};

    #[test]
    fn parcels_hold_all_that_is_read_once() {
        for grain in [Grain::FINE, Grain { small: 16, large: 16 }] {
            let (_, script) = files_and_script(&TORCH, grain, AURORA.daemon.kernel_read);
            let pack = Pack::of(&TORCH, &script, grain.large);
            let bytes: u64 = pack.parcels.iter().map(|parcel| parcel.bytes * u64::from(grain.large)).sum();
            assert!((0.99..1.01).contains(&(bytes as f64 / script.bytes as f64)), "{bytes} of {}", script.bytes);
            assert_eq!(pack.of_step.len(), script.steps.len());
            assert!(pack.of_step.is_sorted() && pack.parcels.len() <= limits::PARCELS_MAX as usize);
            assert!(pack.parcels.iter().all(|parcel| parcel.bytes <= 2 * limits::PARCEL_BYTES));
        }
    }
}
