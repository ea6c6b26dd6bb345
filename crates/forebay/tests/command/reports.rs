//! The report of a job, at its end and afterwards.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::place::{Place, signal, wait_until};

#[test]
fn down_prints_the_report_and_keeps_it() {
    let Some(place) = Place::with_views() else { return };
    let (source, kept) = (place.source(), place.path("state/forebay/seen/report.json"));
    // A busy host may not answer in 200 ms; the report then says so.
    let mut said = String::new();
    wait_until("a job answers before its end", || {
        place.succeeds(&["up", "--job", "seen", "--export", &source]);
        fs::read(place.job("seen").join("view").join(source.trim_start_matches('/')).join("file")).unwrap();
        said = place.succeeds(&["down", "--job", "seen"]);
        wait_until("the report is kept", || kept.exists());
        said.contains("reached the file system")
    });
    let report: Vec<&str> =
        said.lines().skip_while(|line| !line.starts_with("Forebay report, job seen: 1 node")).collect();
    assert!(said.starts_with("job seen is down: 1 node ended") && (5..=8).contains(&report.len()), "{said}");
    let again = place.succeeds(&["report", "seen"]);
    assert_eq!(again.lines().take(report.len() - 1).collect::<Vec<_>>(), report[..report.len() - 1]);
    let html = place.succeeds(&["report", "--html"]);
    assert!(fs::read_to_string(html.trim()).unwrap().starts_with("<!DOCTYPE html>"));
    let json = place.json(&["report"]);
    assert!(json["requests"].as_u64().unwrap() > 0 && json["is_well"] == true, "{json}");
    assert!(place.succeeds(&["report", "seen", "seen"]).contains("from file system"));
    assert!(place.fails(1, &["report", "other"]).contains("no report of job other"));
    place.succeeds(&["up", "--job", "mute", "--export", &source]);
    assert_eq!(place.succeeds(&["down", "--job", "mute", "--report", "off"]).lines().count(), 1);
    assert!(!place.path("state/forebay/mute/report.html").exists());
    assert!(place.fails(3, &["report", "mute"]).contains("it has no report"));
    let reports = place.path("reports").display().to_string();
    place.succeeds(&["up", "--job", "away", "--report", &reports, "--export", &source]);
    assert_eq!(place.succeeds(&["down", "-q", "--job", "away"]).lines().count(), 1);
    wait_until("it is kept there", || place.path("reports/away/report.html").exists());
    place.assert_clean();
}

#[test]
fn a_job_that_was_killed_says_that_its_figures_are_not_known() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "dead", "--export", &place.source()]);
    place.kill("dead", 0);
    let down = place.run(&["down", "--job", "dead"]);
    let said = String::from_utf8(down.stdout).unwrap();
    assert!(said.contains("no daemon answered, so no figures are known"), "{said}");
    wait_until("the report is kept", || place.path("state/forebay/dead/report.json").exists());
    assert!(place.succeeds(&["report", "dead"]).contains("not known: no daemon answered before the end"));
    place.assert_clean();
}

#[test]
fn a_report_shows_the_whole_history_of_a_job_whose_daemon_died() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let read = |job: &str| {
        fs::read(place.job(job).join("view/0").join(source.trim_start_matches('/')).join("file")).unwrap();
        place.json(&["status", "--job", job])
    };
    let sum = |status: &Value, column: usize| -> u64 {
        let slots = status["totals"]["history"]["slots"].as_array().unwrap();
        slots.iter().map(|slot| slot[column].as_u64().unwrap()).sum()
    };
    place.succeeds(&["up", "--job", "old", "--local", "2", "--export", &source]);
    let before = read("old");
    let counted = |status: &Value| -> u64 {
        let kinds = status["totals"]["kernel"]["messages"].as_object().unwrap();
        kinds.values().filter_map(Value::as_u64).sum()
    };
    assert!(sum(&before, 0) > 0 && sum(&before, 0).abs_diff(counted(&before)) < 8, "{before}");
    assert!(before["nodes"].as_array().unwrap().iter().all(|node| node.get("history").is_none()));
    // So that the file has it.
    let kept = place.job("old").join("metrics-0.history");
    let has = |requests: u64| {
        let history: Value = serde_json::from_slice(&fs::read(&kept).unwrap_or_default()).unwrap_or_default();
        let slots = history["slots"].as_array().cloned().unwrap_or_default();
        slots.iter().filter_map(|slot| slot[0].as_u64()).sum::<u64>() >= requests
    };
    let requests =
        before["nodes"][0]["kernel"]["messages"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    wait_until("the history is kept", || has(requests));
    let daemon = place.daemon("old", 0)["daemon"]["pid"].as_u64().unwrap();
    signal(daemon, Signal::KILL);
    wait_until("the next daemon serves", || place.json(&["status", "--job", "old"])["nodes"][0]["restarts"] == 1);
    let after = read("old");
    assert!(counted(&after) < sum(&after, 0), "the counters began again, the history goes on: {after}");
    assert!(sum(&after, 0) >= sum(&before, 0));
    let down = place.succeeds(&["down", "--job", "old"]);
    if !down.contains("no figures are known") {
        let page = place.path("state/forebay/old/report.html");
        wait_until("the report is kept", || page.exists());
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("Traffic over time") && page.contains("Phases of the start"), "{page}");
    }
    place.assert_clean();
}
