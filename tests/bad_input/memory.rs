//! Less memory than the budget: the daemon gives caches up before the kernel takes the daemon.

use std::fs;

use forebay_tests::{Job, Sandbox, require};

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
