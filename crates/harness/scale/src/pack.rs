//! A start-up's contents as the daemon sends them ahead: cut into parcels in the order of first use, compressed, in a pack
//! that the roots read. The first parcel only says which of the others brings what.
//!
//! The cores ask for parcels, join, forward and count them (`ReadPath::start_prefill`), `builder` makes them and `filling`
//! takes them apart; here is what a parcel holds. A parcel of the model stands for as many real ones as a chunk of a large file
//! does.

use std::collections::BTreeSet;

use forebay_read::ParcelChunk;
use forebay_types::{CHUNK_BYTES, ChunkIndex, ViewPath, chunk_bytes, limits};
use forebay_wire::ParcelPlace;

use super::bodies::Handle;
use super::files::{Ask, Files, LISTING_MESSAGES, Script, Weight};

/// Bytes of a chunk's entry in the first parcel: a number of 64 bits and that of its parcel.
const PLACE_BYTES: u64 = 12;

/// How large a pack is.
#[derive(Clone, Copy, Debug)]
pub(super) enum PackSize {
    /// A share of the contents.
    Share(f64),
    /// So many bytes.
    Bytes(u64),
}

/// The parcels of a script.
pub(super) struct Pack {
    /// The contents of each.
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
    /// Names that the walker looks at: the step of the program that asks for each, and the kernel's messages.
    pub names: Vec<(u32, u32)>,
    /// Chunks that it brings.
    pub chunks: Vec<ParcelChunk<Handle>>,
    /// The step of the program that reads each.
    pub readers: Vec<u32>,
    /// Where all chunks are to be found, in the first one.
    pub places: Vec<ParcelPlace>,
}

impl Pack {
    /// Cuts what a script asks for. Chunks are packed whole, however little of them is read.
    pub fn of(size: PackSize, files: &Files, script: &Script, things: u32) -> Self {
        let mut parcels = vec![Parcel::default(), Parcel::default()];
        let mut of_step = Vec::new();
        let mut listed = BTreeSet::new();
        for (number, step) in (0..).zip(&script.steps) {
            let bytes = match &step.ask {
                Ask::Read { path, extent, weight, .. } => {
                    let whole = chunk_bytes(files.size_bytes(path), ChunkIndex(extent.offset_bytes / CHUNK_BYTES));
                    whole as u64 * u64::from(*weight) / u64::from(things)
                }
                _ => 0,
            };
            if parcels.last().is_some_and(|last| last.bytes + bytes > limits::PARCEL_BYTES && last.bytes > 0) {
                parcels.push(Parcel::default());
            }
            of_step.push(parcels.len() as u32 - 1);
            let Some(parcel) = parcels.last_mut() else { continue };
            parcel.bytes += bytes;
            match &step.ask {
                Ask::Read { path, extent, weight, .. } => {
                    let chunk = chunk(files, path, extent.offset_bytes, *weight);
                    parcel.readers.extend(chunk.as_ref().map(|_| number));
                    parcel.chunks.extend(chunk);
                }
                // To find a name in a directory, a node lists that.
                Ask::Directory { path: dir, .. } | Ask::Lookup { dir, .. } => {
                    if listed.insert(dir.clone()) {
                        parcel.dirs.push(dir.clone());
                        parcel.names.push((number, LISTING_MESSAGES * files.weight_of(dir).things));
                    }
                    let is_absent = matches!(step.ask, Ask::Lookup { finds: None, .. });
                    parcel.names.extend(is_absent.then_some((number, step.messages)));
                }
            }
        }
        let all: u64 = parcels.iter().map(|parcel| parcel.bytes * u64::from(things)).sum();
        let share = match size {
            PackSize::Share(share) => share,
            PackSize::Bytes(bytes) => bytes as f64 / all.max(1) as f64,
        };
        for parcel in &mut parcels {
            parcel.packed_bytes = ((parcel.bytes as f64 * share) as u32).max(1);
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
            let Pack { parcels, of_step, .. } =
                Pack::of(PackSize::Share(TORCH.image_share.value), &files, &script, grain.large);
            let bytes: u64 = parcels.iter().map(|parcel| parcel.bytes * u64::from(grain.large)).sum();
            // The last chunk of a go at a large file is packed whole.
            assert!((0.99..1.05).contains(&(bytes as f64 / script.bytes as f64)), "{bytes} of {}", script.bytes);
            assert_eq!(of_step.len(), script.steps.len());
            assert!(of_step.is_sorted() && parcels.len() <= limits::PARCELS_MAX as usize);
            assert!(parcels.iter().all(|parcel| parcel.bytes <= 2 * limits::PARCEL_BYTES));
            let reads = script.steps.iter().filter(|step| matches!(step.ask, Ask::Read { .. })).count();
            assert_eq!(parcels.iter().map(|parcel| parcel.chunks.len()).sum::<usize>(), reads);
            assert!(parcels[0].chunks.is_empty() && parcels[0].places.len() == reads);
        }
    }
}
