//! The report of a job, at its end and afterwards.

use std::fs;

use crate::place::{Place, wait_until};

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
