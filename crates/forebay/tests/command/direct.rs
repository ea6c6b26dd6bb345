//! A job that does not come up, or a node that is lost, costs a program its speed alone where that is asked for.

use crate::place::{Place, is_running};

#[test]
fn a_program_runs_without_a_job() {
    let place = Place::new();
    let file = format!("{}/file", place.source());
    for job in [&[][..], &["--job", "none"]] {
        let arguments = [&["run", "--or-direct"], job, &["--", "cat", &file]].concat();
        let output = place.run(&arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && output.stdout == b"contents of file\n", "{message}");
        assert!(
            message.contains("the command runs on the file system itself") && message.contains("no job"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    place.fails(125, &["run", "--", "cat", &file]);
    assert!(place.fails(125, &["run", "--or-direct", "--image", "/i", "--", "true"]).contains("no job"));
    place.fails(127, &["run", "--or-direct", "--", "no-such-command"]);
    let prefix = place.succeeds(&["run", "--or-direct", "--view", "--", "sh", "-c", "echo $FOREBAY_PREFIX"]);
    assert_eq!(prefix, "/\n");
    place.assert_clean();
}

/// The ranks of a launcher on one host say it once.
#[test]
fn one_rank_of_a_host_says_so() {
    let place = Place::new();
    let said = |rank: &str| {
        let mut command = place.command(&["run", "--or-direct", "--", "true"]);
        String::from_utf8(command.env("SLURM_LOCALID", rank).output().unwrap().stderr).unwrap()
    };
    assert_eq!((said("0").lines().count(), said("1").as_str()), (1, ""));
}

#[test]
fn a_program_of_a_lost_node_runs_without_it() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    let file = format!("{}/file", place.source());
    let direct = ["run", "--or-direct", "--", "cat", &file];
    let served = place.run(&direct);
    assert!(served.status.success() && served.stderr.is_empty(), "{served:?}");
    place.kill("default", 0);
    place.fails(125, &["run", "--", "cat", &file]);
    let output = place.run(&direct);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout == b"contents of file\n", "{message}");
    assert!(message.contains("node 0 of the job default does not answer"), "{message}");
    place.run(&["down"]);
    place.assert_clean();
}

#[test]
fn a_lost_node_with_a_burst_tier_is_not_passed_by() {
    let Some(place) = Place::with_views() else { return };
    let tier = ["--burst", "source/below", "--burst-store", "store", "--burst-capacity", "256MiB"];
    place.succeeds(&[&["up", "--export", &place.source()][..], &tier].concat());
    place.succeeds(&["run", "--or-direct", "--", "true"]);
    place.kill("default", 0);
    let message = place.fails(125, &["run", "--or-direct", "--", "true"]);
    assert!(message.contains("--or-direct is for exports alone, and this job has a burst tier"), "{message}");
    place.run(&["down", "--no-drain"]);
    let _ = std::fs::remove_dir_all(place.path("store"));
    place.assert_clean();
}

#[test]
fn a_start_that_fails_costs_the_job_its_speed_alone() {
    let place = Place::new();
    let up = ["up", "--export", "/nonexistent", "--on-failure", "direct"];
    let output = place.run(&up);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{message}");
    assert!(message.contains("cannot export /nonexistent") && message.lines().count() == 1, "{message}");
    let file = format!("{}/file", place.source());
    let run = place.run(&["run", "--", "cat", &file]);
    let message = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && run.stdout == b"contents of file\n", "{message}");
    assert!(message.contains("the job default did not come up") && message.lines().count() == 1, "{message}");
    let message = place.fails(1, &["status"]);
    assert!(message.contains("its start failed, and forebay run uses the file system itself"), "{message}");
    assert!(place.json(&up)["direct"].as_bool().unwrap());
    place.succeeds(&["down"]);
    place.fails(125, &["run", "--", "cat", &file]);
    place.assert_clean();
}

/// Its hosts share the home directory, and `up` has written nowhere else there.
#[test]
fn other_hosts_of_an_allocation_know_that_its_start_failed() {
    let place = Place::new();
    let on_host = |directory: &str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("FOREBAY_DIRECTORY", place.path(directory)).env("XDG_STATE_HOME", place.path("state"));
        command.env("LSB_JOBID", "77").env("LSB_DJOB_HOSTFILE", "/nonexistent").output().unwrap()
    };
    let up = on_host("one", &["up", "--export", "/nonexistent", "--on-failure", "direct"]);
    assert!(up.status.success(), "{up:?}");
    assert!(on_host("other", &["run", "--", "true"]).status.success());
    assert!(on_host("one", &["down"]).status.success());
    assert_eq!(on_host("other", &["run", "--", "true"]).status.code(), Some(125));
    assert!(!place.path("one").exists());
}

/// Such a start would fail on every node, and at every try.
#[test]
fn a_start_that_is_wrong_usage_does_not_go_direct() {
    let place = Place::new();
    let source = place.source();
    let tier = ["--burst", "source/below", "--burst-store", "store"];
    let direct = ["--on-failure", "direct"];
    for (arguments, part) in [
        ([&direct[..], &["--burst-store", "store"]].concat(), "--burst-store needs --burst DIR=BACKING"),
        ([&direct[..], &["--data", "/tmp"]].concat(), "--data is for devices"),
        (
            [&direct[..], &["--local", "2", "--metrics-listen", "9464"]].concat(),
            "2 nodes on one host cannot share a port",
        ),
        ([&direct[..], &["--interface", "10.0.0.0/99"]].concat(), "'10.0.0.0/99' is not a network"),
        (vec!["--burst", "source/below"], "--burst needs --burst-store DIR"),
        ([&tier[..], &["--partner", "all"]].concat(), "this job has one node"),
        ([&tier[..], &["--local", "2", "--partner", "/elsewhere"]].concat(), "/elsewhere is not below"),
        ([&tier[..], &["--time-limit", "@5"]].concat(), "--time-limit @5: this time was"),
        ([&tier[..], &["--time-limit", "1h", "--drain", "manual"]].concat(), "give only one of them"),
        ([&tier[..], &["--burst", "source"]].concat(), "this version has one burst tier"),
    ] {
        let message = place.fails(2, &[&["up", "--export", &source][..], &arguments].concat());
        assert!(message.lines().last().unwrap().contains(part), "{arguments:?}: {message}");
        place.assert_clean();
        place.fails(125, &["run", "--", "true"]);
        assert!(!place.path("store").exists());
    }
}

#[test]
fn the_end_of_a_start_that_went_direct_says_what_is_so_then() {
    let place = Place::new();
    for as_json in [false, true] {
        place.succeeds(&["up", "--export", "/nonexistent", "--on-failure", "direct"]);
        let told = match as_json {
            true => place.json(&["down"])["notes"][0].as_str().unwrap().to_owned(),
            false => place.succeeds(&["down"]),
        };
        assert!(
            told.contains("the job default did not come up") && told.contains("from now on forebay run does not use"),
            "{told}"
        );
        place.fails(125, &["run", "--", "true"]);
    }
    assert!(place.succeeds(&["down"]).contains("no job is up on this host"));
    place.assert_clean();
}

#[test]
fn a_start_that_goes_direct_spares_what_is_up_and_refuses_a_burst_tier() {
    let Some(place) = Place::with_views() else { return };
    let tier = ["--burst", "source/below", "--burst-store", "store"];
    let message = place.fails(2, &[&["up", "--on-failure", "direct"][..], &tier].concat());
    assert!(message.contains("--on-failure direct is for exports alone"), "{message}");
    place.fails(2, &["up", "--on-failure", "never"]);
    let up = ["up", "--export", &place.source(), "--on-failure", "direct"];
    place.succeeds(&up);
    assert!(place.fails(1, &up).contains("is already up"));
    let daemon = place.daemon("default", 0)["process"]["pid"].as_u64().unwrap();
    assert!(is_running(daemon));
    place.succeeds(&["down"]);
    place.assert_clean();
}
