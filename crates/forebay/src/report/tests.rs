use serde_json::{Value, json};

use super::*;

fn status(change: impl FnOnce(&mut Value)) -> Value {
    let node = |rank: u64| {
        json!({
            "rank": rank, "host": format!("n{rank}"), "state": "ready", "uptime_ms": 61_000, "memory_bytes": 1 << 30,
            "budget_bytes": 1000, "restarts": 0, "parents": [1 - rank], "cache": {"bytes": 950, "chunks": {"hits": 900, "misses": 100}},
            "kernel": {"messages": {"read": 2000}, "bytes_read": 4096}, "backing": {"reads": 10, "bytes": 2048, "absent_names": 3},
        })
    };
    let latency = |count: u64, sum_us: u64| json!({"count": count, "p50_us": 5, "p99_us": 9, "max_us": 20, "sum_us": sum_us, "buckets": [1]});
    let mut status = json!({
        "job": {"nodes": 2, "roots": [0]}, "nodes": [node(0), node(1)],
        "totals": {
            "latency": {"view": {"read": latency(4000, 2_000_000)}, "backing": {"read": latency(20, 20_000)}},
            "slowest": [{"rank": 1, "by": "view", "kind": "read", "path": "/soft/lib.so", "took_us": 900_000}],
        },
    });
    change(&mut status);
    figures::trimmed(status)
}

fn report(change: impl FnOnce(&mut Value)) -> Report {
    let end = End { ended: 2, is_staged_out: true, ..End::default() };
    Report {
        version: "0.1.0".to_owned(),
        job: "train".to_owned(),
        ended_unix_ms: 951_782_400_000,
        start: None,
        end,
        status: Some(status(change)),
        known: None,
    }
}

fn todo(report: &Report) -> String {
    report.findings().first().map(|finding| finding.todo.clone()).unwrap_or_default()
}

#[test]
fn a_report_takes_eight_lines() {
    let expected = [
        "Forebay report, job train: 2 nodes, 1 min 1 s",
        "  Reads     4,000 requests answered, 20 reached the file system (1 in 200)",
        "            8.0 KiB read by programs, 4.0 KiB from the file system",
        "  Waited    2.0 s by all programs together; by a model, at least 4.0 s without Forebay",
        "  Trouble   0 daemon restarts, 0 errors, 6 absent names",
        "  Verdict   Forebay healthy",
        "  Kept      /r.html",
    ];
    assert_eq!(lines(&report(|_| {}), "/r.html"), expected);
    let burst = json!({"dir": "/c", "backing": "/l", "landed_bytes": 2048, "left_bytes": 0, "steps_to_land": 0});
    let with_burst = lines(&report(|status| status["nodes"][0]["burst"] = burst), "");
    assert_eq!((with_burst.len(), with_burst[3].as_str()), (8, "  Writes    2.0 KiB landed in /l, nothing left"));
    let unknown = Report { status: None, ..report(|_| {}) };
    assert_eq!(lines(&unknown, "").len(), 3);
    assert!(!unknown.verdict().0 && unknown.json()["requests"].is_null());
    let both = side_by_side(&[&report(|_| {}), &unknown]);
    assert!(both[3].starts_with("requests") && both[3].ends_with('-'), "{both:#?}");
    let unmeasured = report(|status| status["totals"]["latency"]["backing"]["read"]["count"] = 7.into());
    assert_eq!(unmeasured.figures().unwrap().directly, None);
}

#[test]
fn restarts_that_are_over_are_named_by_a_good_verdict() {
    let restarts = |counts: [u64; 2]| {
        report(|status| {
            for (node, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let death = json!({"at_unix_ms": 9, "signal": 9, "back_after_ms": 150 * count});
                (status["nodes"][node]["restarts"], status["nodes"][node]["last_death"]) = ((*count).into(), death);
            }
        })
        .verdict()
    };
    for (counts, verdict) in [
        ([0, 0], "Forebay healthy"),
        ([0, 1], "ended well; daemon of node 1 restarted once, programs waited at least 150.0 ms"),
        ([0, 2], "ended well; daemon of node 1 restarted 2 times, programs waited at least 300.0 ms"),
        ([1, 2], "ended well; daemons of nodes 0, 1 restarted 3 times, programs waited at least 300.0 ms"),
    ] {
        assert_eq!(restarts(counts), (true, verdict.to_owned()));
    }
}

#[test]
fn a_page_has_no_markup_of_hostile_paths() {
    let hostile = "/a/<script>alert(1)</script>\"'&\u{1b}[2J\u{202e}";
    let page = page(&report(|status| {
        status["totals"]["slowest"][0]["path"] = hostile.into();
        status["nodes"][1]["host"] = hostile.into();
    }));
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert!(page.contains("/a/&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\u{1b}[2J\\u{202e}"));
    assert!(
        page.contains("<html lang=\"en\">")
            && page.contains("default-src 'none'")
            && page.contains("ended 2000-02-29 00:00:00")
    );
    assert!(page.contains("aria-labelledby=\"tree-title\"") && !page.contains("http://") && !page.contains("https://"));
}

#[test]
fn a_page_names_the_files_that_are_read_most() {
    let page = page(&report(|status| {
        status["totals"]["most_read"] = json!([{"path": "/soft/<lib>.so", "amount": 3 << 20}]);
    }));
    assert!(
        page.contains("Files read most") && page.contains(">/soft/&lt;lib&gt;.so</th><td class=\"n\">3.0 MiB</td>"),
        "{page}"
    );
}

#[test]
fn a_page_of_thousands_of_nodes_is_short() {
    let page = page(&report(|status| {
        let node = status["nodes"][0].clone();
        status["nodes"] = (0..5000).map(|_| node.clone()).collect();
    }));
    assert!(page.len() < 200_000 && page.contains("4,744 more nodes"), "{}", page.len());
}

#[test]
fn a_page_shows_the_start_traffic_and_landing_over_time() {
    let without = page(&report(|_| {}));
    assert!(!without.contains("over time") && !without.contains("Start-up"));
    let with_history = |slots: &[[u64; 8]]| {
        let slots = json!({"slot_ms": 2000, "from_unix_ms": 951_782_000_000_u64, "slots": slots});
        report(|status| status["totals"]["history"] = slots)
    };
    let read_only = page(&with_history(&[[400, 4, 2_000_000, 20_000, 0, 0, 0, 2], [0; 8], [0; 8]]));
    assert!(read_only.contains("Traffic over time") && read_only.contains("answered: at most 200/s, first after 0 s"));
    assert!(read_only.contains("read by programs: at most 1.0 MB/s") && !read_only.contains("Landing over time"));
    assert!(read_only.contains("Times count from 23:53:20 UTC. Each step is 2 s long."), "{read_only}");
    assert!(!read_only.contains("class=\"gap\""), "slots that have only begun are no gaps");
    let slot = [0, 0, 0, 0, 8_000_000, 2_000_000, 6 << 20, 1];
    let mut both = with_history(&[slot, [0; 8], slot]);
    let slowest = Some(forebay_launch::Slowest { rank: forebay_types::NodeRank(1), took_ms: 90 });
    both.start = Some(forebay_launch::StartTimes { prepare_us: 2000, launch_us: 30_000, gather_us: 68_000, slowest });
    let both = page(&both);
    assert!(
        both.contains(
            "The job was up after 100.0 ms. The slowest node, 1, took 90.0 ms from the start of its process."
        )
    );
    assert!(both.contains("prepare: 2.0 ms; launch: 30.0 ms; until all were ready: 68.0 ms"));
    assert!(both.contains("landed: at most 1.0 MB/s") && both.contains("committed, not landed: at most 6.0 MiB"));
    assert!(both.contains("Grey: times of which") && !both.contains("Traffic over time"));
}

#[test]
fn a_page_says_which_part_of_the_history_is_not_known() {
    let slots: Vec<[u64; 8]> = [1, 2, 1, 2, 1].map(|nodes| [9, 0, 0, 0, 0, 0, 0, nodes]).to_vec();
    let of = |nodes: u64| {
        let history = json!({"slot_ms": 250, "from_unix_ms": 0, "slots": slots});
        page(&report(|status| {
            status["job"]["nodes"] = nodes.into();
            status["totals"]["history"] = history;
        }))
    };
    // Nodes come and go at the start and at the end.
    assert!(of(2).contains("For 20 % of the time, some nodes have none") && !of(2).contains("nodes have figures"));
    assert!(of(3).contains("2 of 3 nodes have figures."));
}

#[test]
fn findings_name_the_change_to_try_first() {
    assert_eq!(report(|_| {}).findings(), []);
    let hits = report(|status| status["nodes"][0]["cache"]["chunks"] = json!({"hits": 100, "misses": 900}));
    assert_eq!(todo(&hits), "Give them more memory: --budget.");
    assert!(
        todo(&report(|status| status["nodes"][0]["backing"]["absent_names"] = 1200.into()))
            .starts_with("Shorten search")
    );
    assert!(todo(&report(|status| status["nodes"][0]["backing"]["reads"] = 3000.into())).contains("--export"));
    let searched = |path: &str, libraries: u64, python: u64| {
        report(|status| {
            status["totals"]["kernel"]["messages"]["lookup"] = 2000.into();
            let of = json!({"path": path, "amount": 800, "libraries": libraries, "python": python});
            status["totals"]["absent_in"] = json!([of, {"path": "/other", "amount": 100}]);
        })
    };
    let python = searched("/old/site-packages", 10, 700);
    assert!(todo(&python).starts_with("Remove /old/site-packages from PYTHONPATH"), "{}", todo(&python));
    let why = "/old/site-packages got 40 % of all lookups (800 of 2,000) and does not have the names.";
    assert_eq!(python.findings()[0].why, why);
    let page = super::page(&python);
    assert!(page.contains(">/old/site-packages</th><td class=\"n\">800</td><td class=\"n\">40 %</td>"), "{page}");
    assert!(todo(&searched("/l", 500, 0)).starts_with("Remove /l from LD_LIBRARY_PATH"));
    assert!(todo(&searched("/bin", 0, 0)).starts_with("Remove /bin from PATH"));
    let seldom = report(|status| {
        status["totals"]["kernel"]["messages"]["lookup"] = 20_000.into();
        status["totals"]["absent_in"] = json!([{"path": "/l", "amount": 800}]);
    });
    assert_eq!(seldom.findings(), []);
    // The job has ended: a remedy that it needed then is none.
    let burst = |change: &dyn Fn(&mut Value)| {
        report(|status| {
            let mut burst = json!({"dir": "/c", "backing": "/l", "landed_bytes": 1, "left_bytes": 1, "steps_to_land": 1,
                                   "drain": "auto"});
            change(&mut burst);
            status["nodes"][0]["burst"] = burst;
        })
    };
    let full = burst(&|burst| burst["waiting_writers"] = 1.into());
    assert_eq!(todo(&full), "choose a larger --burst-capacity or a higher --drain-rate");
    assert_eq!(
        burst(&|burst| burst["why"] = "Permission denied".into()).findings(),
        [],
        "the end says what has not landed"
    );
    let denied = report(|status| status["nodes"][0]["backing"]["errors_by_kind"] = json!({"EACCES": 3}));
    assert!(todo(&denied).contains("may read"));
    let killed = report(|status| {
        status["nodes"][1]["restarts"] = 1.into();
        status["nodes"][1]["last_death"] = json!({"at_unix_ms": 1, "signal": 9, "exit_status": null});
    });
    assert!(todo(&killed).contains("--budget") && super::page(&killed).contains("killed by SIGKILL"));
    let mut left = report(|_| {});
    left.end.not_landed.push("/f: 3 bytes".to_owned());
    left.end.kept = Some("Land it: forebay salvage".to_owned());
    assert!(!left.verdict().0 && todo(&left).contains("forebay salvage"));
}
