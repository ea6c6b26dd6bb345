//! Several files, dealt out to all nodes at the same time.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::wait_until;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bed::{ALL, Bed, parted, plain_table, quoted_table, read_bytes, stray_table};

const PATIENCE: Duration = Duration::from_secs(60);

/// Queries of which one is answered by all nodes: on a busy machine some may be done before others have begun.
const TRIALS: usize = 20;

/// Queries of which a device is stopped.
const STOPS: usize = 5;

/// A large file on each of these devices.
fn on_devices(bed: &Bed, devices: &[usize], table: &str) -> Vec<PathBuf> {
    let file = |device: &usize| {
        let file = bed.file(*device, &format!("{device}.csv"));
        fs::write(&file, table).unwrap();
        file
    };
    devices.iter().map(file).collect()
}

/// The answer about several files, and which nodes made how much.
fn answer(bed: &Bed, files: &[PathBuf], place: &str) -> (Value, Value) {
    let more: Vec<&str> = files[1..].iter().map(|file| file.to_str().unwrap()).collect();
    bed.answer(&files[0], place, &[&["--on-error", "skip"], &more[..]].concat())
}

/// Bytes that a node made, or, for null, this host.
fn made_by(by: &Value, node: &Value) -> u64 {
    let by = by.as_array().unwrap().iter().find(|by| by["node"] == *node);
    by.map_or(0, |by| by["bytes"].as_u64().unwrap())
}

fn begun(bed: &Bed, files: &[PathBuf]) -> Child {
    let more: Vec<&str> = files[1..].iter().map(|file| file.to_str().unwrap()).collect();
    let mut command = bed.command(ALL, &files[0], &[&["--json", "--where", "data"], &more[..]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[track_caller]
fn ended(child: Child) -> (Value, Value, String) {
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    let (answer, by) = parted(&done.stdout);
    (answer, by, said)
}

/// A device stands still in the middle of the first file, and the others make all of theirs meanwhile.
#[test]
fn devices_make_their_files_at_the_same_time() {
    let bed = Bed::of_devices();
    // Node 0's daemon carries the requests, so another one stands still.
    let files = on_devices(&bed, &[1, 0, 2, 3], &plain_table(1_000_000).repeat(4));
    let bytes = fs::metadata(&files[0]).unwrap().len();
    let (here, _) = answer(&bed, &files, "host");
    let devices: Vec<u32> = (0..4).map(|rank| bed.job.daemon(rank).unwrap()).collect();
    let was_met = (0..STOPS).any(|_| {
        let before: Vec<u64> = devices.iter().map(|device| read_bytes(*device)).collect();
        let read = |device: usize| read_bytes(devices[device]) - before[device];
        let mut child = begun(&bed, &files);
        wait_until("the first device reads", PATIENCE, || read(1) > 1 << 20);
        send(devices[1], Signal::STOP);
        // A busy machine may be over with a file before its time has come.
        let mut is_met = read(1) < bytes / 2 && child.try_wait().unwrap().is_none();
        if is_met {
            let others = [0, 2, 3];
            wait_until("the other devices have read", PATIENCE, || others.iter().all(|device| read(*device) >= bytes));
            // Not after this host has made the first file in place of a device that it takes for lost.
            is_met = read_bytes(child.id()) < bytes / 4;
        }
        send(devices[1], Signal::CONT);
        let (there, by, said) = ended(child);
        assert_eq!(there, here);
        // One that stood still for long may have been taken for lost.
        let made = |node: Value| made_by(&by, &node);
        assert_eq!([0, 2, 3].map(|node| made(json!(node))), [bytes; 3], "{by}: {said}");
        assert_eq!(made(json!(1)) + made(Value::Null), bytes, "{by}: {said}");
        is_met
    });
    assert!(was_met, "in none of {STOPS} queries the others read while a device stood still");
    bed.job.down();
}

#[test]
fn files_of_devices_and_of_this_host_alone_give_the_same_bits() {
    let bed = Bed::of_devices();
    let mut files = on_devices(&bed, &[3, 1], &quoted_table(60_000));
    files.extend(on_devices(&bed, &[0, 2], &stray_table(400_000)));
    let elsewhere = bed.job.sandbox.base().join("elsewhere.csv");
    fs::write(&elsewhere, quoted_table(60_000)).unwrap();
    let (here, _) = answer(&bed, &files, "host");
    for place in ["data", "split", "auto"] {
        let (there, by) = answer(&bed, &files, place);
        assert_eq!(there, here, "{place}");
        let made: u64 = by.as_array().map_or(0, |by| by.iter().map(|by| by["bytes"].as_u64().unwrap()).sum());
        let all: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!(made == all || place == "auto", "{place}: {by}");
    }
    // A file that no node holds is this host's, and an empty one nobody's.
    let empty = bed.file(1, "empty.csv");
    fs::write(&empty, "a,note,b\n").unwrap();
    files.splice(1..1, [elsewhere, empty]);
    let (here, _) = answer(&bed, &files, "host");
    assert_eq!(answer(&bed, &files, "auto").0, here);
    bed.job.down();
}

#[test]
fn all_nodes_make_parts_of_files_on_the_backing_file_system() {
    let bed = Bed::of_nodes(4, 1);
    let source = bed.job.sandbox.source();
    let files: Vec<PathBuf> = (0..2).map(|index| source.join(format!("{index}.csv"))).collect();
    files.iter().for_each(|file| fs::write(file, plain_table(1_500_000)).unwrap());
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    let (here, _) = answer(&bed, &files, "host");
    let reads = || bed.job.status()["totals"]["backing"]["bytes"].as_u64().unwrap();
    let by_all = (0..TRIALS).any(|_| {
        let before = reads();
        let (there, by) = answer(&bed, &files, "data");
        assert_eq!(there, here);
        // The end of a row that begins in a block is read with the next block, too.
        let read = reads() - before;
        assert!((bytes..bytes + bytes / 16).contains(&read), "{read} bytes were read of {bytes}");
        let by = by.as_array().unwrap();
        assert_eq!(by.iter().map(|by| by["bytes"].as_u64().unwrap()).sum::<u64>(), bytes);
        by.iter().map(|by| by["node"].as_u64()).eq([0, 1, 2, 3].map(Some))
    });
    assert!(by_all, "4 nodes, of which one reads for programs, share none of {TRIALS} queries");
    bed.job.down();
}

#[test]
fn a_device_lost_midway_costs_only_its_own_files() {
    let bed = Bed::of_devices();
    let files = on_devices(&bed, &[0, 2, 3], &plain_table(1_000_000).repeat(4));
    let bytes = fs::metadata(&files[0]).unwrap().len();
    let (here, _) = answer(&bed, &files, "host");
    let device = bed.job.daemon(2).unwrap();
    let before = read_bytes(device);
    let child = begun(&bed, &files);
    wait_until("the device reads", PATIENCE, || read_bytes(device) > before + (1 << 20));
    send(device, Signal::KILL);
    let (there, by, said) = ended(child);
    assert_eq!(there, here);
    assert_eq!(said.matches("note: node 2 on").count(), 1, "{said}");
    let made = |node: Value| made_by(&by, &node);
    assert_eq!((made(json!(0)), made(json!(3))), (bytes, bytes), "{by}");
    assert!(made(Value::Null) > 0 && made(Value::Null) + made(json!(2)) == bytes, "the host made the rest of it: {by}");
    bed.job.down();
}

#[test]
fn a_file_that_changes_is_named_among_others() {
    let bed = Bed::of_devices();
    let files = on_devices(&bed, &[0, 2, 3], &plain_table(1_000_000).repeat(4));
    let device = bed.job.daemon(2).unwrap();
    let changed = (0..TRIALS).any(|_| {
        let before = read_bytes(device);
        let mut child = begun(&bed, &files);
        wait_until("the device reads", PATIENCE, || read_bytes(device) > before + (1 << 20));
        send(device, Signal::STOP);
        let is_over = child.try_wait().unwrap().is_some();
        if !is_over {
            fs::OpenOptions::new().append(true).open(&files[1]).unwrap().set_len(1 << 20).unwrap();
        }
        send(device, Signal::CONT);
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let is_named = said.contains("2.csv changed while it was read") || said.contains("2.csv became shorter");
        assert_eq!(done.status.success(), is_over, "{said}");
        assert!(is_over || (is_named && done.stdout.is_empty()), "{said}");
        !is_over
    });
    assert!(changed, "no query of {TRIALS} was met while it was under way");
    bed.job.down();
}

/// More files than one request names, and than are kept open.
#[test]
fn thousands_of_files_are_shared_by_all_nodes() {
    const FILES: u32 = 3000;
    let bed = Bed::of_nodes(4, 1);
    let directory = bed.job.sandbox.source().join("run");
    fs::create_dir(&directory).unwrap();
    let text = |rank: u32| format!("a,b\n{rank},{}\n", rank % 7);
    (0..FILES).for_each(|rank| fs::write(directory.join(format!("rank{rank:04}.csv")), text(rank)).unwrap());
    let pattern = [directory.join("*.csv")];
    let (here, _) = answer(&bed, &pattern, "host");
    let (there, by) = answer(&bed, &pattern, "data");
    assert_eq!(there, here);
    assert_eq!((&here["files"], &here["rows"]), (&json!(FILES), &json!(FILES)));
    let nodes: Vec<_> = by.as_array().unwrap().iter().map(|by| by["node"].as_u64()).collect();
    assert_eq!(nodes, [0, 1, 2, 3].map(Some), "{by}");
    bed.job.down();
}
