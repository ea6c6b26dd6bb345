//! Files that do not land within the epilogue: of a lost node, and of a full backing file system. They stay, are named, and
//! `salvage` lands them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use forebay_tests::program::{Finished, run, wait_until};
use forebay_tests::{Sandbox, require};
use rustix::process::{Pid, Signal, kill_process};

use crate::stores::{JOB, NAMES, Stores};

/// Every node writes a file and makes it durable.
const WRITE: &str = r#"bring_up
srun sh -c 'hostname | dd of="$mount/$(hostname)" conv=fsync 2>/dev/null; echo written >>"$log"; exec sleep 600'
"#;

impl Stores {
    /// Kills everything that runs on a node, and its Slurm first: what has its host name is on it.
    fn kill_node(&self, node: &str) {
        let slurmd = fs::read_to_string(self.slurm.state().join(format!("run/slurmd.{node}.pid"))).unwrap();
        let host = |pid: &str| fs::read_link(Path::new("/proc").join(pid).join("ns/uts")).ok();
        let of_node = host(slurmd.trim()).unwrap();
        assert_ne!(Some(&of_node), host("self").as_ref());
        let others = || {
            let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let pids = entries.filter(|name| name.parse::<i32>().is_ok());
            pids.filter(|pid| host(pid).as_ref() == Some(&of_node)).collect::<Vec<String>>()
        };
        let kill = |pid: &str| {
            // It may have ended by itself.
            let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
        };
        // Slurm first, which would tell of the end of the others.
        kill(slurmd.trim());
        wait_until("nothing of the node runs", JOB, || {
            let pids = others();
            pids.iter().for_each(|pid| kill(pid));
            pids.is_empty()
        });
    }

    /// `salvage` of these stores, on this machine.
    fn salvage(&self, stores: &[PathBuf]) -> Finished {
        let mut salvage = Program::new(&self.slurm.command);
        self.slurm.surround(&mut salvage);
        salvage.arg("salvage").args(stores.iter().flat_map(|store| [Path::new("--burst-store"), store]));
        run(&mut salvage)
    }
}

/// One job keeps copies (`--partner all`) and lands in its epilogue without the node; of the other one, what was on the node alone is
/// named, and lands when its disk is back.
#[test]
fn files_of_a_dead_node_alone_are_named_and_land_when_its_disk_is_back() {
    require_slurm!();
    let stores = Stores::with("FOREBAY_EPILOG_MEET=20s", &[("FB_SLURM_SLURMD_TIMEOUT", "20".into())]);
    let alone = stores.submit("alone", "", "--drain end", WRITE);
    let copied = stores.submit("copied", "", "--drain end --partner all", WRITE);
    for batch in [&alone, &copied] {
        wait_until("all nodes have written", JOB, || batch.log().matches("written").count() == 4 || batch.is_over());
        assert_eq!(batch.log().matches("written").count(), 4, "{}: {}", batch.state(), batch.said());
    }
    stores.kill_node("n4");
    for batch in [&alone, &copied] {
        batch.wait_for_end("NODE_FAIL", JOB);
    }
    // The first node lands; the stores of the two others have met there and have gone, or wait for the lost one.
    stores.wait_for_epilogues(&copied.id, 3, 0);
    assert_eq!(stores.landed("copied"), NAMES, "{}", stores.said());
    for node in NAMES {
        assert_eq!(fs::read_to_string(stores.backing("copied").join(node)).unwrap(), format!("{node}\n"));
    }
    assert_eq!(stores.left(&copied.id), ["n4"], "{}", stores.said());

    let of_first = |line: &str| line.contains(&format!("job {}: ", alone.id)) && line.contains(" on n1 (status 3)");
    wait_until("the first node's epilogue ends", JOB, || stores.said().lines().any(of_first));
    let said = stores.said();
    assert!(said.contains("backing-alone/n4: 3B of nodes [3], [(0, 3)]"), "{said}");
    assert_eq!(
        stores.landed("alone").iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>(),
        ["n1", "n2", "n3"],
        "{said}"
    );
    // The disk of the lost node is back.
    let kept = NAMES
        .into_iter()
        .filter(|node| stores.left(&alone.id).contains(node))
        .map(|node| stores.store(node, &alone.id));
    let met = stores.backing("alone").join(format!(".forebay-salvage-{}", alone.id));
    let kept: Vec<PathBuf> = kept.chain(met.exists().then_some(met)).collect();
    let done = stores.salvage(&kept);
    assert!(done.status.success(), "{kept:?}: {} {}", done.text(), done.stderr);
    assert_eq!(stores.landed("alone"), NAMES);
    assert_eq!(fs::read_to_string(stores.backing("alone").join("n4")).unwrap(), "n4\n");
    assert_eq!(stores.left(&alone.id), [""; 0]);
    stores.remove_directories(&[&alone.id, &copied.id]);
}

/// Slurm gives the nodes to others when the limit is over. No file appears in part.
#[test]
fn files_beyond_the_limit_of_the_epilogue_stay_and_are_named() {
    require_slurm!();
    let disk = Sandbox::new();
    let place = disk.base().join("full");
    fs::create_dir(&place).unwrap();
    // Before Slurm starts: its nodes have copies of this machine's mounts, of the same file system.
    let _ = run(Program::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&place)).good();
    let mounted = Mounted(place.clone());
    let stores = Stores::with_epilogue("FOREBAY_EPILOG_MEET=2s FOREBAY_EPILOG_TIMEOUT=2s");
    std::os::unix::fs::symlink(&place, stores.backing("full")).unwrap();
    let batch = stores.submit(
        "full",
        "",
        "--drain end",
        r#"bring_up
        srun sh -c 'head -c 4194304 /dev/urandom >"$mount/$(hostname)"; echo written >>"$log"'
        srun -N1 -n1 sh -c 'cd "$mount"; sha256sum n*' >"$log"
        "#,
    );
    batch.wait_for_end("COMPLETED", JOB);
    let all_said = || stores.said().lines().filter(|line| line.contains("(status ")).count() == 4;
    wait_until("the epilogue of each node has ended", JOB, all_said);
    let said = stores.said();
    for node in NAMES {
        let store = stores.slurm.state().join(format!("local/stores/forebay-{} of root on {node}", batch.id));
        assert!(said.contains(&format!("{} (status ", store.display())), "{said}");
    }
    assert!(!said.contains("(status 0)") && said.contains("o space"), "{said}");
    assert_eq!(stores.left(&batch.id), NAMES, "{said}");
    assert_eq!(stores.landed("full"), [""; 0], "no part of anything stays on the full disk: {said}");
    stores.assert_nothing_runs(&batch.id);

    let _ = run(Program::new("mount").args(["-o", "remount,size=64m"]).arg(&place)).good();
    let kept: Vec<PathBuf> = NAMES.iter().map(|node| stores.store(node, &batch.id)).collect();
    let done = stores.salvage(&kept);
    assert!(done.status.success(), "{} {}", done.text(), done.stderr);
    let sums = stores.slurm.sandbox.base().join("full.log");
    assert_eq!(fs::read_to_string(&sums).unwrap().lines().count(), 4);
    let _ = run(Program::new("sha256sum").arg("--check").arg(sums).current_dir(&place)).good();
    assert_eq!(stores.left(&batch.id), [""; 0]);
    drop(stores);
    drop(mounted);
}

/// Gone when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run(Program::new("umount").arg("--lazy").arg(&self.0));
    }
}
