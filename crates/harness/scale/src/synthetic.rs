//! A workload told as files and a script: packages of small files, absent names, and some large files.

use forebay_types::{CHUNK_BYTES, Kind, ViewPath};

use super::files::{Files, Script, Weight, Writer};
use super::parameters::MODEL;
use super::stated::{Stated, Workload};

/// A large file of the model has so many chunks at least: what is read ahead grows with what was read in order, and a file
/// of few chunks would be read as if that were not so.
const CHUNKS_MIN: u64 = 90;

/// How coarsely the model tells a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grain {
    /// Small files and directories that one of the model stands for.
    pub small: u32,
    /// Chunks of large files that one of the model stands for.
    pub large: u32,
}

impl Grain {
    /// Each file, directory and chunk by itself.
    pub const FINE: Self = Self { small: 1, large: 1 };

    /// The grain of the scenarios.
    pub const OF_SCENARIOS: Self =
        Self { small: MODEL.small_grain.count() as u32, large: MODEL.large_grain.count() as u32 };
}

/// Files below `export`, and what a program does with them. Names of one kind (`__pycache__`, `pyc`) are there for the
/// cores to learn from, as they learn from Python's.
pub(super) fn files_and_script(workload: &Workload, grain: Grain, kernel_read: Stated) -> (Files, Script) {
    let directories = (workload.directories.count() / grain.small as usize).max(3);
    let small_files = (workload.small_files.count() / grain.small as usize).max(directories);
    let small = Weight {
        things: (workload.small_files.count() / small_files) as u32,
        in_turn: (workload.small_files.count() / small_files) as u32,
    };
    let large = Weight { things: grain.large, in_turn: 1 };
    let file_bytes = (workload.small.value / workload.small_files.value) as u64;
    let large_bytes = workload.large.value / f64::from(grain.large);
    let large_files =
        ((large_bytes / (CHUNKS_MIN * CHUNK_BYTES) as f64) as usize).clamp(1, workload.large_files.count());
    let large_bytes = large_bytes as u64 / large_files as u64;
    let mut files = Files::new();
    let dir = |number: usize| format!("env/p{number:03}/__pycache__");
    for number in 0..small_files {
        // Sizes from a half to three halves of the mean, in turns.
        let size_bytes = file_bytes / 2 + file_bytes * (number as u64 % 11) / 10;
        let path = format!("{}/m{number:04}.pyc", dir(number % directories));
        files.add(path_of(&path), Kind::File, size_bytes.max(1), small);
    }
    for number in 0..large_files {
        files.add(path_of(&format!("env/lib/lib{number:02}.so")), Kind::File, large_bytes, large);
    }
    files.finish();
    let mut writer = Writer::new(&files, kernel_read);
    let absent = workload.absent_names.count() / grain.small as usize;
    // Large files are read in between, evenly: in as many goes as there are for real.
    let goes = workload.large_files.count();
    let mut large = (0..goes).map(|go| go_of(go, goes, large_files, large_bytes)).enumerate().peekable();
    let mut read_large = |writer: &mut Writer<'_>, until: usize| {
        while let Some((_, (path, end_bytes))) = large.next_if(|(go, _)| go * small_files < until * goes) {
            writer.read_until(&path, end_bytes);
        }
    };
    // Packages one after the other, and of each its files.
    let in_order = (0..directories)
        .flat_map(|package| (package..small_files).step_by(directories).map(move |file| (package, file)));
    for (number, (package, file)) in in_order.enumerate() {
        let dir = dir(package);
        writer.list(&path_of(&dir));
        for name in number * absent / small_files..(number + 1) * absent / small_files {
            writer.find(&path_of(&format!("{dir}/no{name:04}.so")));
        }
        writer.read(&path_of(&format!("{dir}/m{file:04}.pyc")));
        read_large(&mut writer, number);
    }
    read_large(&mut writer, small_files);
    let script = writer.finish(workload.computing.value);
    (files, script)
}

/// A go at large files: which one, and until where. A file of the model stands for several, each read in goes of its own.
fn go_of(go: usize, goes: usize, large_files: usize, large_bytes: u64) -> (ViewPath, u64) {
    let (file, of_file) = (go * large_files / goes, go * large_files % goes);
    let part = ((of_file + large_files) as u64 * large_bytes / goes as u64).next_multiple_of(CHUNK_BYTES);
    (path_of(&format!("env/lib/lib{file:02}.so")), part)
}

fn path_of(text: &str) -> ViewPath {
    ViewPath::new(text.as_bytes()).expect("the model's own paths are paths")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Ask, Step};
    use crate::parameters::{AURORA, TORCH};

    fn large_bytes_of(step: &Step) -> u64 {
        match &step.ask {
            Ask::Read { path, extent, .. } if path.as_bytes().ends_with(b".so") => extent.len_bytes,
            _ => 0,
        }
    }

    #[test]
    fn a_coarser_script_stands_for_the_same_files_and_bytes() {
        let (_, fine) = files_and_script(&TORCH, Grain::FINE, AURORA.daemon.kernel_read);
        let (_, coarse) = files_and_script(&TORCH, Grain { small: 4, large: 16 }, AURORA.daemon.kernel_read);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
        assert!(near(fine.files as f64, TORCH.small_files.value + TORCH.large_files.value), "{}", fine.files);
        assert!(near(fine.bytes as f64, TORCH.small.value + TORCH.large.value), "{}", fine.bytes);
        assert!(near(fine.bytes as f64, coarse.bytes as f64), "{} and {}", fine.bytes, coarse.bytes);
        assert!(near(fine.messages as f64, coarse.messages as f64), "{} and {}", fine.messages, coarse.messages);
        assert!(coarse.steps.len() * 4 < fine.steps.len());
        // In either, half of the large files' bytes come in the first half of all.
        for script in [&fine, &coarse] {
            let bytes = |steps: &[Step]| steps.iter().map(large_bytes_of).sum::<u64>() as f64;
            let half = bytes(&script.steps[..script.steps.len() / 2]) / bytes(&script.steps);
            assert!((0.4..0.6).contains(&half), "{half}");
        }
    }
}
