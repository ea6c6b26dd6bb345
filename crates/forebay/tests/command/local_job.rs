//! A job of several nodes on this machine, from `up` to `down`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::place::{Place, is_running, signal, wait_until};

#[test]
fn every_view_shows_the_export_and_down_leaves_nothing() {
    let Some(place) = Place::with_views() else { return };
    let up = place.json(&["up", "--local", "3", "--job", "three", "--fanout", "1", "--export", &place.source()]);
    assert_eq!(up["nodes"].as_array().unwrap().len(), 3);
    for node in up["nodes"].as_array().unwrap() {
        let source = Path::new(node["view"].as_str().unwrap()).join(place.source().trim_start_matches('/'));
        assert_eq!(fs::read_to_string(source.join("file")).unwrap(), "contents of file\n");
        assert_eq!(fs::read(source.join("below/large")).unwrap(), vec![7; 3 << 20]);
        assert!(source.join("absent").symlink_metadata().is_err());
    }

    let status = place.json(&["status", "--job", "three"]);
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| node["rank"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(nodes.iter().all(|node| node["state"] == "ready"));
    let table = place.succeeds(&["status"]);
    assert!(table.starts_with("forebay three  3/3 nodes  up ") && table.contains("\nhealthy\n"), "{table}");

    let down = place.json(&["down", "--job", "three"]);
    assert_eq!(down["ended"], serde_json::json!([0, 1, 2]));
    assert_eq!(down["missing"], serde_json::json!([]));
    place.assert_clean();
}

#[test]
fn what_a_person_reads() {
    let Some(place) = Place::with_views() else { return };
    let text = place.succeeds(&["up", "--local", "2", "--export", &place.source()]);
    assert!(text.starts_with("job default: 2 nodes ready in "), "{text}");
    assert!(text.contains("forebay down --job default") && text.contains("/view/0 to "), "{text}");
    let view = place.job("default").join("view");
    let again = place.fails(1, &["up", "--export", &place.source()]);
    assert!(again.contains("the job default is already up (process "), "{again}");
    assert!(again.contains("--job NAME"), "{again}");
    assert!(view.join("1").join(place.source().trim_start_matches('/')).join("file").exists());
    assert!(place.succeeds(&["down"]).starts_with("job default is down: 2 nodes ended, "));
    place.assert_clean();
}

#[test]
fn the_jobs_files_are_private() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "p", "--export", &place.source()]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.job("p")), 0o700);
    assert_eq!(mode(&place.job("p").join("node-0.sock")), 0o600);
    place.succeeds(&["down", "--job", "p"]);
    place.assert_clean();
}

#[test]
fn several_jobs_are_told_apart() {
    let Some(place) = Place::with_views() else { return };
    for job in ["one", "two"] {
        place.succeeds(&["up", "--job", job, "--export", &place.source()]);
    }
    assert!(place.fails(1, &["down"]).contains("several jobs are up on this host: one, two; choose one with --job"));
    let listed = place.succeeds(&["status"]);
    let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(
        words,
        [["job", "state", "nodes", "here"], ["one", "up", "1", "1"], ["two", "up", "1", "1"]],
        "{listed}"
    );
    let jobs = place.json(&["status"])["jobs"].clone();
    assert_eq!((&jobs[0]["job"], &jobs[1]["job"]), (&json!("one"), &json!("two")), "{jobs}");
    assert_eq!(jobs[1]["view"], json!(place.job("two").join("view")));
    place.kill("one", 0);
    let states = || {
        let output = place.run(&["status", "--json"]);
        let jobs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let state = |job: usize| jobs["jobs"][job]["state"].as_str().unwrap().to_owned();
        (output.status.code(), state(0), state(1))
    };
    wait_until("the job is dead", || states() == (Some(3), "dead".to_owned(), "up".to_owned()));
    assert!(place.run(&["status"]).status.code() == Some(3), "one of them is not well");
    place.succeeds(&["down", "--job", "one"]);
    assert!(place.succeeds(&["status"]).starts_with("forebay two "));
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_list_of_jobs_says_which_is_not_well() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "2", "--job", "one", "--export", &place.source()]);
    place.succeeds(&["up", "--job", "two", "--export", &place.source()]);
    place.succeeds(&["status"]);
    place.kill("one", 1);
    let shown = || {
        let output = place.run(&["status"]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    wait_until("one is blocked", || {
        let (code, text) = shown();
        code == Some(3) && text.lines().any(|line| line.split_whitespace().take(2).eq(["one", "blocked"]))
    });
    place.run(&["down", "--job", "one"]);
    place.succeeds(&["down"]);
    place.assert_clean();
}

/// A collector sees that the job is down, by the same series that were up.
#[test]
fn metrics_of_dead_nodes_have_the_labels_of_living_ones() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let mut up = place.command(&["up", "--local", "2", "--export", &source]);
    assert!(up.env("USER", "somebody").output().unwrap().status.success());
    let shown = |status: i32, arguments: &[&str]| {
        let output = place.run(&[&["metrics"], arguments].concat());
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let up = text.lines().filter(|line| line.starts_with("forebay_up{")).map(str::to_owned).collect::<Vec<_>>();
        (up, String::from_utf8(output.stderr).unwrap())
    };
    let (alive, _) = shown(0, &[]);
    assert!(alive.len() == 2 && alive[1].contains("user=\"somebody\"") && alive[1].ends_with(" 1"), "{alive:?}");
    let dead: Vec<String> = alive.iter().map(|line| line.replace("} 1", "} 0")).collect();
    [0, 1].iter().for_each(|rank| place.kill("default", *rank));
    for all in [&[][..], &["--all"]] {
        let (lines, why) = shown(3, all);
        assert_eq!(lines, dead);
        assert!(why.contains("node 0 does not answer: ") && why.contains("node 1 does not answer: "), "{why}");
    }
    place.succeeds(&["down"]);
    place.fails(1, &["metrics"]);
    place.assert_clean();
}

#[test]
fn a_job_is_as_old_as_its_start() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    let record = place.job("default").join("job.json");
    let mut job: serde_json::Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    // Its daemons are of now.
    job["started_unix_ms"] = (job["started_unix_ms"].as_u64().unwrap() - 7_200_000).into();
    fs::write(&record, job.to_string()).unwrap();
    assert!(place.succeeds(&["status"]).starts_with("forebay default  1/1 nodes  up 2 h 0 min"));
    assert!(place.json(&["status"])["job"]["uptime_ms"].as_u64().unwrap() >= 7_200_000);
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_view_of_the_users_own_is_kept_and_one_that_was_made_goes() {
    let Some(place) = Place::with_views() else { return };
    let kept = place.path("kept");
    fs::create_dir(&kept).unwrap();
    for (view, stays) in [("kept", true), ("made", false)] {
        for nodes in ["1", "2"] {
            place.succeeds(&["up", "--local", nodes, "--view", view, "--export", &place.source()]);
            assert_eq!(place.mounts().len(), nodes.parse::<usize>().unwrap());
            place.succeeds(&["down"]);
            assert_eq!(place.path(view).exists(), stays, "{view} with {nodes}");
        }
    }
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
    place.assert_clean();
}

#[test]
fn metrics_and_logs_are_written_where_they_are_wanted() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let mut arguments = vec!["up", "--local", "2", "--export", &source, "--metrics", "m.json"];
    arguments.extend(["--metrics-interval", "50ms", "--log", "debug"]);
    place.succeeds(&arguments);
    for rank in 0..2 {
        let metrics = place.path(&format!("m.{rank}.jsonl"));
        wait_until("metrics are written", || fs::read_to_string(&metrics).is_ok_and(|text| text.contains('\n')));
        let text = fs::read_to_string(&metrics).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert!(line.is_object());
        let log = fs::read_to_string(place.job("default").join(format!("logs/node-{rank}.log"))).unwrap();
        assert!(log.contains("DEBUG"), "{log}");
    }
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_daemon_ends_on_sigterm_and_cleans_up_after_itself() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "2", "--job", "t", "--export", &place.source()]);
    let pids = [0, 1].map(|rank| place.daemon("t", rank)["process"]["pid"].as_u64().unwrap());
    pids.iter().for_each(|pid| signal(*pid, Signal::TERM));
    wait_until("both daemons have ended", || pids.iter().all(|pid| !is_running(*pid)));
    // The last one out takes the job's directory with it.
    place.assert_clean();
}

#[test]
fn a_signal_to_a_daemon_ends_its_node_in_order() {
    let Some(place) = Place::with_views() else { return };
    for ends in [Signal::TERM, Signal::INT, Signal::HUP] {
        place.succeeds(&["up", "--local", "1", "--job", "t", "--export", &place.source()]);
        let record = place.daemon("t", 0);
        let [keeper, daemon] = ["process", "daemon"].map(|process| record[process]["pid"].as_u64().unwrap());
        signal(daemon, ends);
        wait_until("keeper and daemon have ended", || !is_running(daemon) && !is_running(keeper));
        place.assert_clean();
    }
}
