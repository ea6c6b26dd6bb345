//! A start-up's contents as the daemon sends them ahead: cut into parcels in the order of first use, compressed, in a pack
//! that the roots read. The first parcel only says which of the others brings what.
//!
//! The cores ask for parcels, join, forward and count them (`ReadPath::start_prefill`); here is what a parcel holds and
//! costs. A parcel of the model stands for as many real ones as a chunk of a large file does.

use forebay_node::ParcelChunk;
use forebay_types::{CHUNK_BYTES, ChunkIndex, ViewPath, chunk_bytes, limits};
use forebay_wire::ParcelPlace;

use super::bodies::Handle;
use super::files::{Ask, Files, Script, Weight};
use super::stated::Workload;

/// What the first parcel says of a chunk, bytes: a number of 64 bits and that of its parcel.
const PLACE_BYTES: u64 = 12;

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
    /// Chunks that it brings.
    pub chunks: Vec<ParcelChunk<Handle>>,
    /// Where all chunks are to be found, in the first one.
    pub places: Vec<ParcelPlace>,
}

impl Pack {
    /// Cuts what a script asks for.
    pub fn of(workload: &Workload, files: &Files, script: &Script, things: u32) -> Self {
        let mut parcels = vec![Parcel::default(), Parcel::default()];
        let mut of_step = Vec::new();
        for step in &script.steps {
            let bytes = match &step.ask {
                Ask::Read { extent, weight, .. } => extent.len_bytes * u64::from(*weight) / u64::from(things),
                _ => 0,
            };
            if parcels.last().is_some_and(|last| last.bytes + bytes > limits::PARCEL_BYTES && last.bytes > 0) {
                parcels.push(Parcel::default());
            }
            of_step.push(parcels.len() as u32 - 1);
            let Some(parcel) = parcels.last_mut() else { continue };
            parcel.bytes += bytes;
            match &step.ask {
                Ask::Directory { path, .. } => parcel.dirs.push(path.clone()),
                Ask::Read { path, extent, weight, .. } => {
                    parcel.chunks.extend(chunk(files, path, extent.offset_bytes, *weight));
                }
                Ask::Lookup { .. } => {}
            }
        }
        for parcel in &mut parcels {
            parcel.packed_bytes = ((parcel.bytes as f64 * workload.image_share.value) as u32).max(1);
        }
        tell_places(&mut parcels, things);
        Self { parcels, of_step, weight: Weight { things, in_turn: 1 } }
    }
}

fn chunk(files: &Files, file: &ViewPath, offset_bytes: u64, weight: u32) -> Option<ParcelChunk<Handle>> {
    let (generation, index) = (files.generation(file)?, ChunkIndex(offset_bytes / CHUNK_BYTES));
    let bytes = chunk_bytes(generation.size_bytes, index) as u32;
    // No body that grows has this number: it is whole.
    let body = Handle { body: u32::MAX, bytes, weight };
    Some(ParcelChunk { file: file.clone(), generation, index, body })
}

/// Writes the first parcel.
fn tell_places(parcels: &mut [Parcel], things: u32) {
    let brought = (0..).zip(parcels.iter()).flat_map(|(number, parcel)| parcel.chunks.iter().map(move |c| (number, c)));
    let place = |(number, chunk): (u32, &ParcelChunk<_>)| ParcelPlace::new(&chunk.file, chunk.index, number);
    let places: Vec<ParcelPlace> = brought.clone().map(place).take(limits::PARCEL_PLACES_MAX).collect();
    let real: u64 = brought.map(|(_, chunk)| u64::from(chunk.body.weight)).sum();
    if let Some(first) = parcels.first_mut() {
        first.packed_bytes = ((real * PLACE_BYTES / u64::from(things)) as u32).max(1);
        first.places = places;
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
            let (files, script) = files_and_script(&TORCH, grain, AURORA.daemon.kernel_read);
            let Pack { parcels, of_step, .. } = Pack::of(&TORCH, &files, &script, grain.large);
            let bytes: u64 = parcels.iter().map(|parcel| parcel.bytes * u64::from(grain.large)).sum();
            assert!((0.99..1.01).contains(&(bytes as f64 / script.bytes as f64)), "{bytes} of {}", script.bytes);
            assert_eq!(of_step.len(), script.steps.len());
            assert!(of_step.is_sorted() && parcels.len() <= limits::PARCELS_MAX as usize);
            assert!(parcels.iter().all(|parcel| parcel.bytes <= 2 * limits::PARCEL_BYTES));
            let reads = script.steps.iter().filter(|step| matches!(step.ask, Ask::Read { .. })).count();
            assert_eq!(parcels.iter().map(|parcel| parcel.chunks.len()).sum::<usize>(), reads);
            assert!(parcels[0].chunks.is_empty() && parcels[0].places.len() == reads);
        }
    }
}
