//! Less memory than the budget: the daemon gives caches up before the kernel takes the daemon.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use forebay_testkit::model::{Model, Parameters};
use forebay_tests::program::wait_until;
use forebay_tests::{Job, Sandbox, require};

const PATIENCE: Duration = Duration::from_secs(60);

const MIB: u64 = 1 << 20;
const FILES: u64 = 12;
const NODES: u32 = 3;

#[test]
fn a_daemon_sheds_its_caches_before_it_is_killed() {
    require!(Fuse, Root, MemoryGroups);
    // The pages that readers of the view fill are this process's, outside of the group.
    let sandbox = Sandbox::with_memory(256 * MIB);
    let source = sandbox.source();
    let file = |number: u64| source.join(format!("file{number}"));
    let bytes_of = |number: u64| vec![number as u8 + 1; 32 * MIB as usize];
    (0..FILES).for_each(|number| fs::write(file(number), bytes_of(number)).unwrap());
    let job = Job::up_local(sandbox, NODES, &source, &["--fanout", "1", "--budget", "1GiB"]);
    for number in 0..FILES {
        let bytes = fs::read(job.path(NODES as usize - 1, &file(number))).unwrap();
        assert!(bytes == bytes_of(number), "file {number}");
    }
    let status = job.status();
    assert_eq!(job.sandbox.memory_kills(), 0);
    let allowed: Vec<_> = (0..NODES as usize).map(|rank| status["nodes"][rank]["allowed_bytes"].as_u64()).collect();
    assert!(allowed.iter().flatten().any(|allowed| *allowed < 1 << 30), "nobody shed anything: {allowed:?}");
}

/// A scheduler gives a job part of a node. Version 1 and 2 of control groups say so in files of other names.
#[test]
fn the_default_budget_is_part_of_what_the_control_group_allows() {
    require!(Fuse, Root, MemoryGroups);
    let sandbox = Sandbox::with_memory(1000 * MIB);
    let source = sandbox.source();
    let job = Job::up_local(sandbox, 2, &source, &[]);
    let status = job.status();
    let budgets: Vec<_> = (0..2).map(|rank| status["nodes"][rank]["budget_bytes"].as_u64()).collect();
    assert_eq!(budgets, [Some(50 * MIB); 2], "a tenth, shared");
    job.down();
}

/// The budget of the nodes below.
const BUDGET: u64 = 64 * MIB;

/// The memory that a daemon and the others of its group need beside the budget, in a build with debug assertions too.
const BESIDE: u64 = 96 * MIB;

/// The exports give 100 MB a second.
const LINK: Parameters =
    Parameters { metadata_us: 0, at_once: 64, link_bits_per_second: 800_000_000, client_ttl_ms: 60_000 };

/// A node that reads nothing for so long has nothing to read.
const QUIET: Duration = Duration::from_secs(2);

/// Nodes that take nothing. A kernel asks for 64 chunks at once.
const CHILDREN: u32 = 6;

/// Chunks that their programs ask for at once.
const CHUNKS: u64 = 60 * CHILDREN as u64;

/// Chunks are held until a child has taken them, also when they have left the caches: children that take nothing do not
/// make the node above them hold more than its budget.
#[test]
fn children_that_take_nothing_do_not_drive_the_node_above_over_its_budget() {
    require!(Fuse, Root, MemoryGroups);
    let place = tempfile::tempdir().unwrap();
    let [kept, export] = ["kept", "export"].map(|name| place.path().canonicalize().unwrap().join(name));
    for dir in [&kept, &export] {
        fs::create_dir(dir).unwrap();
    }
    fs::File::create(kept.join("file")).unwrap().set_len(CHUNKS * MIB).unwrap();
    let model = Model::new(&kept, LINK).unwrap();
    let mount = model.mount(&export).unwrap();
    // Of the tree of the one root: with homes each node would keep a share, and all have one limit here.
    let options = ["--roots", "1", "--budget", &BUDGET.to_string()];
    let job = Job::up_local(Sandbox::with_memory(2 * BUDGET + BESIDE), CHILDREN + 1, &export, &options);
    let children = || 1..=CHILDREN as usize;
    let view = |chunk: u64| job.path(1 + chunk as usize % CHILDREN as usize, &export.join("file"));
    (0..CHUNKS).for_each(|chunk| assert_eq!(fs::metadata(view(chunk)).unwrap().len(), CHUNKS * MIB));
    let stop = || children().map(|rank| job.stop_node(rank)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let stopped = stop();
        let reading = |chunk: u64| {
            let view = view(chunk);
            move || fs::File::open(view).unwrap().read_exact_at(&mut [0], chunk * MIB).unwrap()
        };
        let readers: Vec<_> = (0..CHUNKS).map(|chunk| scope.spawn(reading(chunk))).collect();
        let sent = || model.traffic().sent_bytes;
        let before = sent();
        drop(stopped);
        wait_until("the children have asked", PATIENCE, || sent() > before + 8 * MIB);
        let stopped = stop();
        let mut last = (sent(), Instant::now());
        wait_until("the node above reads no more", PATIENCE, || {
            if sent() != last.0 {
                last = (sent(), Instant::now());
            }
            last.1.elapsed() > QUIET
        });
        let held = resident_bytes(job.pid(0));
        drop(stopped);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(held < BUDGET + BESIDE / 2, "{} MiB are resident", held / MIB);
    });
    assert_eq!(job.sandbox.memory_kills(), 0);
    job.down();
    drop(mount);
}

/// Memory of a process that is in RAM, bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
