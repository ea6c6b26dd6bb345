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
        !said.contains("no daemon answered")
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
    let both = place.run(&["report", "other", "seen"]);
    assert_eq!(both.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&both.stderr).contains("no report of job other is in "));
    assert!(String::from_utf8_lossy(&both.stdout).starts_with("Forebay report, job seen: 1 node"));
    place.succeeds(&["up", "--job", "mute", "--export", &source]);
    assert_eq!(place.succeeds(&["down", "--job", "mute", "--report", "off"]).lines().count(), 1);
    assert!(!place.path("state/forebay/mute/report.html").exists());
    assert!(place.fails(3, &["report", "mute"]).contains("has no report"));
    // Each has its own reason.
    fs::create_dir(place.path("state/forebay/torn")).unwrap();
    ["report.html", "report.json"]
        .iter()
        .for_each(|file| fs::write(place.path("state/forebay/torn").join(file), "{").unwrap());
    let all = place.run(&["report", "--json", "mute", "torn", "other", "seen"]);
    let (told, shown) = (String::from_utf8_lossy(&all.stderr), String::from_utf8_lossy(&all.stdout));
    assert_eq!((all.status.code(), told.lines().count()), (Some(3), 3), "{told}");
    assert!(
        told.contains("job mute has no report")
            && told.contains("torn/report.json is not a report")
            && told.contains("job other")
    );
    let shown: Vec<Value> = serde_json::from_str(&shown).unwrap();
    assert!(shown.len() == 1 && shown[0]["job"] == "seen", "{shown:?}");
    fs::remove_dir_all(place.path("state/forebay/torn")).unwrap();
    let reports = place.path("reports").display().to_string();
    place.succeeds(&["up", "--job", "away", "--report", &reports, "--export", &source]);
    assert_eq!(place.succeeds(&["down", "-q", "--job", "away"]).lines().count(), 1);
    wait_until("it is kept there", || place.path("reports/away/report.html").exists());
    place.assert_clean();
}

/// The requests in the last status that a node has kept.
fn kept_requests(place: &Place, job: &str) -> u64 {
    let kept = fs::read(place.job(job).join("node-0.status")).unwrap_or_default();
    let kept: Value = serde_json::from_slice(&kept).unwrap_or_default();
    kept["node"]["kernel"]["messages"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

#[test]
fn a_report_of_a_job_that_was_killed_has_the_figures_that_its_node_had_kept() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    place.succeeds(&["up", "--job", "dead", "--export", &source]);
    fs::read(place.job("dead").join("view").join(source.trim_start_matches('/')).join("file")).unwrap();
    wait_until("the last status is kept", || kept_requests(&place, "dead") > 0);
    place.kill("dead", 0);
    let down = place.run(&["down", "--job", "dead"]);
    let said = String::from_utf8(down.stdout).unwrap();
    assert!(said.contains("no daemon answered; made of") && said.contains("known of 1 of 1 node; as of "), "{said}");
    wait_until("the report is kept", || place.path("state/forebay/dead/report.json").exists());
    let report = place.json(&["report", "dead"]);
    assert!(report["requests"].as_u64().unwrap() > 0 && report["is_well"] == false, "{report}");
    place.assert_clean();
}

#[test]
fn an_up_that_finds_a_dead_job_of_its_name_makes_the_report_of_that() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    place.succeeds(&["up", "--job", "again", "--export", &source]);
    wait_until("the last status is kept", || place.job("again").join("node-0.status").exists());
    place.kill("again", 0);
    place.succeeds(&["up", "--job", "again", "--export", &source]);
    let of_dead = || {
        let kept = fs::read_dir(place.path("state/forebay")).unwrap().flatten();
        kept.filter(|entry| entry.file_name().to_string_lossy().starts_with("again.")).count()
    };
    wait_until("the report of the dead job is set aside", || of_dead() == 1);
    place.succeeds(&["down", "--job", "again"]);
    place.assert_clean();
}

#[test]
fn a_home_directory_that_is_no_absolute_path_is_called_so() {
    let place = Place::new();
    let report = |home: Option<&str>| {
        let mut command = place.command(&["report"]);
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        String::from_utf8(done.stderr).unwrap()
    };
    assert!(report(Some("rel")).contains("HOME is no absolute path (rel)"));
    assert!(report(Some("")).contains("HOME is empty, not an absolute path"));
    assert!(report(None).contains("HOME is not set"));
}

/// Root could make it.
#[test]
fn a_home_directory_that_is_not_the_users_stays_as_it_is() {
    let Some(place) = Place::with_views() else { return };
    let (absent, of_other) = (place.path("absent"), place.path("other"));
    fs::create_dir(&of_other).unwrap();
    std::os::unix::fs::chown(&of_other, Some(65_534), None).unwrap();
    for (home, why) in [(&absent, "does not exist"), (&of_other, "is of another user")] {
        let run = |arguments: &[&str]| {
            let mut command = place.command(arguments);
            for name in ["XDG_STATE_HOME", "XDG_CACHE_HOME", "FOREBAY_PROFILE", "FOREBAY_PROFILE_DIR"] {
                command.env_remove(name);
            }
            command.env("HOME", home).output().unwrap()
        };
        let up = run(&["up", "--job", "homeless", "--export", &place.source()]);
        let said = String::from_utf8_lossy(&up.stderr);
        assert!(up.status.success() && said.contains("no profile: ") && said.contains(why), "{up:?}");
        let down = run(&["down", "--job", "homeless"]);
        let said = String::from_utf8_lossy(&down.stdout);
        assert!(
            down.status.success() && said.contains("Kept      not kept: the home directory ") && said.contains(why),
            "{down:?}"
        );
        assert!(!absent.exists() && fs::read_dir(&of_other).unwrap().next().is_none(), "{why}");
    }
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

/// Names that a directory on a search path does not have, as Python looks for them.
#[test]
fn a_report_names_the_directory_that_costs_most_lookups_in_vain() {
    let Some(place) = Place::with_views() else { return };
    let (source, kept) = (place.source(), place.path("state/forebay/vain/report.json"));
    let mut said = String::new();
    // A busy host may not answer in 200 ms; the report then says so.
    wait_until("a job answers before its end", || {
        place.succeeds(&["up", "--job", "vain", "--export", &source]);
        let view = place.job("vain").join("view").join(source.trim_start_matches('/'));
        for module in 0..1500 {
            fs::metadata(view.join(format!("below/module{module}.py"))).unwrap_err();
        }
        fs::read(view.join("below/large")).unwrap();
        said = place.succeeds(&["down", "--job", "vain"]);
        wait_until("the report is kept", || kept.exists());
        !said.contains("no daemon answered")
    });
    let report = place.json(&["report", "vain"]);
    let first = &report["findings"][0];
    let remove = format!("Remove {source}/below from PYTHONPATH");
    assert!(first["do"].as_str().unwrap().starts_with(&remove), "{report}");
    assert!(first["why"].as_str().unwrap().contains("(1,500 of 1,5"), "{report}");
    let page = fs::read_to_string(report["page"].as_str().unwrap()).unwrap();
    assert!(page.contains(&format!("{source}/below/large</th><td class=\"n\">3.0 MiB</td>")), "{page}");
    place.assert_clean();
}

/// Two nodes with a burst tier that lands nothing by itself; node 1 has written a file.
fn with_unlanded_file(place: &Place, job: &str) {
    let backing = place.path("backing");
    fs::create_dir_all(&backing).unwrap();
    let tier = format!("{}={}", place.path("tier").display(), backing.display());
    let store = place.path("store").display().to_string();
    let burst = ["--burst", &tier, "--burst-store", &store, "--burst-capacity", "256MiB", "--drain", "manual"];
    place.succeeds(&[&["up", "--job", job, "--local", "2", "--export", &place.source()], &burst[..]].concat());
    fs::write(place.burst_mount(1).join("result"), vec![7; 1 << 20]).unwrap();
}

#[test]
fn a_report_of_a_job_that_lost_a_node_with_unlanded_files_says_what_is_not_landed() {
    let Some(place) = Place::with_views() else { return };
    with_unlanded_file(&place, "lost");
    place.kill("lost", 1);
    let down = place.run(&["down", "--job", "lost"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    wait_until("the report is kept", || place.path("state/forebay/lost/report.json").exists());
    let report = place.json(&["report", "lost"]);
    assert!(report["is_well"] == false && report["verdict"].as_str().unwrap().contains("LANDED"), "{report}");
    let finding = &report["findings"][0];
    assert!(finding["do"].as_str().unwrap().contains("forebay salvage --burst-store"), "{report}");
    let page = fs::read_to_string(report["page"].as_str().unwrap()).unwrap();
    assert!(page.contains("forebay salvage") && page.contains("class=\"verdict bad\""));
    place.assert_clean();
}

#[test]
fn a_report_of_a_job_whose_processes_were_all_killed_says_that_landing_is_not_known() {
    let Some(place) = Place::with_views() else { return };
    with_unlanded_file(&place, "dead");
    (0..2).for_each(|rank| place.kill("dead", rank));
    let down = place.run(&["down", "--job", "dead"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    wait_until("the report is kept", || place.path("state/forebay/dead/report.json").exists());
    let report = place.json(&["report", "dead"]);
    assert!(report["is_well"] == false && report["verdict"].as_str().unwrap().contains("LANDED"), "{report}");
    let findings = report["findings"].to_string();
    assert!(findings.contains("forebay salvage --burst-store") && findings.contains("no daemon answered"), "{report}");
    place.assert_clean();
}

/// A job's view whose daemon is stopped is a file system that does not answer.
#[test]
fn a_directory_for_reports_that_does_not_answer_holds_no_down_up() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    place.succeeds(&["up", "--job", "hung", "--export", &source]);
    place.succeeds(&["up", "--job", "quick", "--export", &source]);
    let reports = place.job("hung").join("view").join(source.trim_start_matches('/')).join("below/reports");
    let daemon = place.daemon("hung", 0)["daemon"]["pid"].as_u64().unwrap();
    signal(daemon, Signal::STOP);
    let said = place.succeeds(&["down", "--job", "quick", "--report", reports.to_str().unwrap()]);
    assert!(said.contains("not yet: the file system of ") && said.contains("does not answer"), "{said}");
    assert!(!place.job("quick").exists());
    signal(daemon, Signal::CONT);
    place.succeeds(&["down", "--job", "hung"]);
    place.assert_clean();
}
