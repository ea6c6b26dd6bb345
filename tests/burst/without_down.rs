//! Jobs that end without `down`: each leaves a report, and a note about stores with files that have not landed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::{Finished, wait_until};
use forebay_tests::require;
use rustix::process::Signal;
use serde_json::Value;

use crate::bed::{Bed, arguments};

const PATIENCE: Duration = Duration::from_secs(30);

/// A file that is kept of the job.
fn kept(bed: &Bed, name: &str) -> PathBuf {
    bed.job.sandbox.base().join("state/forebay").join(&bed.job.sandbox.name).join(name)
}

/// Ends keepers as a scheduler does, and waits until the last has made the report.
fn end_by_signal(bed: &Bed, keepers: &[usize]) -> Value {
    keepers.iter().for_each(|node| send(bed.job.keeper(*node), Signal::TERM));
    wait_until("all processes have ended", PATIENCE, || bed.job.sandbox.processes().is_empty());
    report(bed)
}

fn report(bed: &Bed) -> Value {
    wait_until("the report is kept", PATIENCE, || kept(bed, "report.json").exists());
    let told = bed.command_without_job(&["report", "--json", &bed.job.sandbox.name]).good();
    serde_json::from_slice(&told.stdout).unwrap()
}

/// `down` says that files have not landed; the command that it names.
fn down_names_the_command(bed: &Bed) -> Vec<String> {
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    assert!(down.text().starts_with("nothing to end: "), "{down:?}");
    let (_, command) = down.stderr.trim().split_once("Land it there: forebay ").unwrap_or_else(|| panic!("{down:?}"));
    command.split(' ').map(str::to_owned).collect()
}

fn has_nothing_to_end(bed: &Bed) {
    let down: Finished = bed.command(&["down"]).good();
    assert!(down.text().starts_with("nothing to end: ") && down.stderr.is_empty(), "{down:?}");
    assert_eq!(bed.command(&["status"]).stderr.lines().count(), 1);
}

/// `down`, `status` and `report` name the store, until the command that they name has landed it.
fn is_named_until_it_lands(bed: &Bed) {
    let store = bed.job.sandbox.base().join("store").display().to_string();
    for words in [&["status"][..], &["report", &bed.job.sandbox.name]] {
        let told = match words {
            [_] => bed.command(words),
            _ => bed.command_without_job(words),
        };
        assert!(told.stderr.contains("1 file of job ") && told.stderr.contains(&store), "{told:?}");
    }
    let command = down_names_the_command(bed);
    let _ = bed.command_without_job(&command.iter().map(String::as_str).collect::<Vec<_>>()).good();
    assert_eq!(fs::read(bed.backing().join("file")).unwrap(), b"not landed\n");
    has_nothing_to_end(bed);
}

#[test]
fn files_of_a_job_that_was_ended_by_signals_are_named_until_they_land() {
    require!(Fuse, Root);
    for drain in ["end", "manual"] {
        let bed = Bed::with(2, &["--drain", drain]);
        let _ = bed.shell_on(1, "echo not landed > file").good();
        let report = end_by_signal(&bed, &[0, 1]);
        assert!(!bed.job.sandbox.runtime().join("forebay").join(&bed.job.sandbox.name).exists());
        assert_eq!((&report["verdict"], &report["nodes"]), (&"NOT ALL HAS LANDED".into(), &2.into()), "{report}");
        assert_eq!(report["not_landed"].as_array().map(Vec::len), Some(1), "{report}");
        assert!(report["findings"].to_string().contains("forebay salvage --burst-store "), "{report}");
        assert_eq!((&report["known"]["by_node"], &report["known"]["known"]), (&true.into(), &2.into()), "{report}");
        is_named_until_it_lands(&bed);
        assert!(
            !kept(&bed, "").read_dir().unwrap().any(|of| of.unwrap().file_name().to_string_lossy().starts_with("un"))
        );
        bed.job.forget();
    }
}

#[test]
fn a_job_that_ends_well_by_signals_has_a_report() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let _ = bed.shell_on(1, "echo x > x").good();
    bed.drain();
    let report = end_by_signal(&bed, &[0, 1]);
    assert_eq!((&report["verdict"], &report["is_well"]), (&"Forebay healthy".into(), &true.into()), "{report}");
    assert!(report["requests"].as_u64().is_some() && report["landed_bytes"] == 2, "{report}");
    assert!(!bed.job.sandbox.base().join("store").exists(), "nothing is left to land");
    has_nothing_to_end(&bed);
    bed.job.forget();
}

/// Finished writes that a node has not sent are in its log alone. All else has landed: the names of their files are what other stores are needed for.
#[test]
fn writes_of_a_killed_node_keep_the_names_of_their_files() {
    require!(Fuse, Root);
    for case in ["salvage", "the next job", "the leader is lost"] {
        let mut bed = Bed::of(3);
        fs::write(bed.mount().join("file"), [b'a'; 10_000]).unwrap();
        let file = fs::File::options().write(true).open(bed.mount_of(2).join("file")).unwrap();
        // From then on the standby knows that it is open.
        fs::File::create(bed.mount().join("synced")).unwrap().sync_all().unwrap();
        bed.drain();
        file.write_all_at(&[b'b'; 100], 500).unwrap();
        bed.job.kill_node(2);
        let stores = bed.job.sandbox.base().join("store");
        if case == "the leader is lost" {
            bed.job.kill_node(0);
            fs::remove_dir_all(stores.join("0")).unwrap();
            end_by_signal(&bed, &[1]);
        } else {
            end_by_signal(&bed, &[0, 1]);
        }
        drop(file);
        if case == "the next job" {
            let words = arguments(&bed.job.sandbox, 3);
            bed.job.up_again(&words.iter().map(OsStr::new).collect::<Vec<_>>());
            bed.drain();
            let _ = bed.command(&["down"]).good();
        } else {
            let (status, told) = crate::salvage::salvage(&bed.job.sandbox, "store");
            assert_eq!((status, &told["landed"]), (Some(0), &true.into()), "{case}: {told}");
            // The killed node's mounts go, too.
            let _ = bed.command(&["down"]);
        }
        let landed = fs::read(bed.backing().join("file")).unwrap();
        assert_eq!(landed.iter().filter(|byte| **byte == b'b').count(), 100, "{case}");
        assert!(!stores.exists(), "{case}");
        bed.job.forget();
    }
}

#[test]
fn a_job_that_was_killed_has_a_report_of_what_its_nodes_had_kept() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "end"]);
    let _ = bed.shell_on(1, "echo not landed > file").good();
    [0, 1].iter().for_each(|node| bed.job.kill_node(*node));
    let down = bed.command(&["down", "--no-drain"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    let said = down.text();
    assert!(
        said.contains("known of 2 of 2 nodes; as of ") && said.contains(" for node 1, which did not end"),
        "{said}"
    );
    let report = report(&bed);
    assert!(report["is_well"] == false && report["requests"].as_u64().is_some(), "{report}");
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    assert!(down.stderr.contains("forebay salvage --burst-store "), "{down:?}");
    assert_eq!(crate::salvage::salvage(&bed.job.sandbox, "store").0, Some(0));
    assert_eq!(fs::read(bed.backing().join("file")).unwrap(), b"not landed\n");
    has_nothing_to_end(&bed);
    bed.job.forget();
}

#[test]
fn the_last_node_that_ends_in_order_reports_of_those_that_were_killed() {
    require!(Fuse, Root);
    let bed = Bed::with(3, &["--drain", "end"]);
    let _ = bed.shell_on(1, "echo not landed > file").good();
    bed.job.kill_node(2);
    let report = end_by_signal(&bed, &[0, 1]);
    assert_eq!(report["known"]["killed"][0][0], 2, "{report}");
    assert_eq!((&report["known"]["nodes"], &report["is_well"]), (&3.into(), &false.into()), "{report}");
    let lines = bed.command_without_job(&["report", &bed.job.sandbox.name]).text();
    assert!(
        lines.contains("known of 3 of 3 nodes; as of ") && lines.contains(" for node 2, which was killed"),
        "{lines}"
    );
    // Files of the killed node are removed by `down`, which reports of the same.
    let down = bed.command(&["down", "--no-drain"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    assert!(down.text().contains("known of 3 of 3 nodes"), "{down:?}");
    bed.job.forget();
}
