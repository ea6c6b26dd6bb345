//! A node whose memory spoils what it passes on: whoever asked it notices, and asks elsewhere.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use forebay_tests::{Job, Sandbox, require};

/// As many bytes as no others of a process are like.
const MARK_BYTES: usize = 64;

/// How much of a process's memory is looked at together.
const WINDOW_BYTES: usize = 4 << 20;

/// Bytes that occur nowhere else.
fn noise(len: usize) -> Vec<u8> {
    let mut state = u64::from(std::process::id());
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Changes a byte of each copy of `mark` in the memory of a process: how many there were.
fn spoil(pid: u32, mark: &[u8]) -> usize {
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let region = |line: &str| {
        let (addresses, rest) = line.split_once(' ')?;
        let (begin, end) = addresses.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        rest.starts_with("rw").then_some((address(begin)?, address(end)?))
    };
    let mut count = 0;
    let mut bytes = vec![0; WINDOW_BYTES + mark.len()];
    for (begin, end) in maps.lines().filter_map(region) {
        for at in (begin..end).step_by(WINDOW_BYTES) {
            let len = bytes.len().min((end - at) as usize);
            // A page that is mapped and not there cannot be read.
            let Ok(len) = memory.read_at(&mut bytes[..len], at) else { continue };
            for place in
                bytes[..len].windows(mark.len()).enumerate().filter(|(_, seen)| *seen == mark).map(|(at, _)| at)
            {
                memory.write_all_at(&[mark[0] ^ 0x10], at + place as u64).unwrap();
                count += 1;
            }
        }
    }
    count
}

#[test]
fn spoilt_bytes_are_noticed_below_and_fetched_elsewhere() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let file = sandbox.source().join("file");
    let contents = noise(300_000);
    fs::write(&file, &contents).unwrap();
    let source = sandbox.source();
    let job = Job::up_local(sandbox, 7, &source, &["--roots", "1", "--fanout", "2", "--prefetch", "false"]);
    let status = job.status();
    let first_asked = |rank: usize| status["nodes"][rank]["parents"][0].as_u64().map(|rank| rank as usize);
    let (leaf, inner) =
        (1..7).find_map(|leaf| Some((leaf, first_asked(leaf).filter(|rank| *rank != 0)?))).expect("a second level");
    assert!(fs::read(job.path(inner, &file)).unwrap() == contents, "it has the file from now on");
    let mark = &contents[150_000..150_000 + MARK_BYTES];
    assert!(spoil(job.daemon(inner).unwrap(), mark) > 0, "it keeps the file in memory");
    assert!(fs::read(job.path(leaf, &file)).unwrap() == contents, "wrong bytes at node {leaf}");
    let overlay = |rank: usize, what: &str| job.status()["nodes"][rank]["overlay"][what].as_u64().unwrap();
    assert!(overlay(leaf, "checksum_failures") > 0, "node {leaf} was sent spoiled bytes by node {inner}");
    assert_eq!(overlay(leaf, "corrupt_frames"), 0);
    job.down();
}
