//! Programs that write checkpoints, unmodified and on all nodes at once, with files of their own and shared ones. The files that land equal those that the same
//! programs write elsewhere, byte by byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::need::SYSTEM_PYTHON;
use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::require;

use crate::bed::Bed;

const NODES: u32 = 3;

fn script() -> PathBuf {
    fs::canonicalize(file_of_tests("burst/checkpoints.py")).unwrap()
}

fn python(directory: &Path, words: &[&str]) -> Finished {
    run(Command::new(SYSTEM_PYTHON).arg("-B").arg(script()).args(words).current_dir(directory))
}

/// Runs `program` in the directory of each node, all at once, and then one by one elsewhere: both leave the same.
#[track_caller]
fn compare(bed: &Bed, what: &str, program: impl Fn(&Path, &str) -> Finished + Sync) {
    let plain = tempfile::tempdir().unwrap();
    let nodes: Vec<String> = (0..NODES).map(|node| node.to_string()).collect();
    let _ = bed.shell(&format!("mkdir {what}")).good();
    std::thread::scope(|scope| {
        let begin = |node: &String| {
            let (node, directory) = (node.clone(), bed.mount_of(node.parse().unwrap()).join(what));
            let program = &program;
            scope.spawn(move || program(&directory, &node))
        };
        let running: Vec<_> = nodes.iter().map(begin).collect();
        running.into_iter().for_each(|node| drop(node.join().unwrap().good()));
    });
    nodes.iter().for_each(|node| drop(program(plain.path(), node).good()));
    let expected = Bed::listing(plain.path());
    assert!(expected.lines().count() > 4, "{expected}");
    // As another node sees it, and as it lands.
    assert_eq!(Bed::listing(&bed.mount_of(1).join(what)), expected, "{what}");
    bed.drain();
    assert_eq!(Bed::listing(&bed.backing().join(what)), expected, "{what}");
}

#[test]
fn archives_of_python() {
    require!(Fuse, Root, PythonModule("zipfile"));
    let bed = Bed::of(NODES);
    compare(&bed, "torch", |directory, node| python(directory, &["torch", node]));
    bed.job.down();
}

/// Also arrays that are mapped into memory.
#[test]
fn arrays_of_numpy_and_files_of_hdf5() {
    require!(Fuse, Root, PythonModule("numpy"), PythonModule("h5py"));
    let bed = Bed::of(NODES);
    for kind in ["numpy", "hdf5"] {
        compare(&bed, kind, |directory, node| python(directory, &[kind, node]));
    }
    bed.job.down();
}

#[test]
fn a_program_in_cpp_that_seeks_back_and_renames() {
    require!(Fuse, Root, Command("g++"));
    let bed = Bed::of(NODES);
    let built = tempfile::tempdir().unwrap();
    let program = built.path().join("checkpoint");
    let source = file_of_tests("burst/checkpoint.cpp");
    let _ = run(Command::new("g++").args(["-std=c++17", "-O1", "-o"]).arg(&program).arg(source)).good();
    compare(&bed, "cpp", |directory, node| run(Command::new(&program).arg(node).current_dir(directory)));
    bed.job.down();
}

/// With a rollback journal on all nodes at once; with a write-ahead log, whose index is memory that processes of one host share, on one.
#[test]
fn databases_of_sqlite_that_several_processes_change() {
    require!(Fuse, Root, PythonModule("sqlite3"));
    let bed = Bed::of(NODES);
    std::thread::scope(|scope| {
        let begin = |(mode, place, node): (&'static str, u32, u32)| {
            let directory = bed.mount_of(place);
            scope.spawn(move || python(&directory, &[mode, &node.to_string()]))
        };
        let rollback = (0..NODES).map(|node| ("sqlite-rollback", node, node));
        let all = rollback.chain((0..NODES).map(|node| ("sqlite-wal", 1, node)));
        let running: Vec<_> = all.map(begin).collect();
        running.into_iter().for_each(|process| drop(process.join().unwrap().good()));
    });
    bed.drain();
    let landed = tempfile::tempdir().unwrap();
    for name in ["rollback.db", "wal.db"] {
        let bytes = fs::read(bed.backing().join(name)).unwrap();
        assert!(bytes == fs::read(bed.mount_of(2).join(name)).unwrap(), "{name}");
        fs::write(landed.path().join(name), bytes).unwrap();
        for directory in [landed.path(), &bed.mount_of(0)] {
            let _ = python(directory, &["sqlite-check", &NODES.to_string(), name]).good();
        }
    }
    bed.job.down();
}
