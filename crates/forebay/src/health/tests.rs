use super::*;
use serde_json::json;

/// A node of a job with a burst tier; `of` changes it.
fn node(rank: u64, of: impl FnOnce(&mut Value)) -> Value {
    let mut node = json!({
        "rank": rank, "host": format!("n{rank}"), "state": "ready", "uptime_ms": 61_000, "memory_bytes": 1 << 30,
        "budget_bytes": 4u64 << 30, "restarts": 0, "bypassed": [], "last_death": null,
        "cache": {"bytes": 1 << 30, "chunks": {"hits": 3, "misses": 1}},
        "kernel": {"messages": {"read": 5, "lookup": 2}, "bytes_read": 4096},
        "overlay": {"bytes_sent": 1024, "refused": 0, "checksum_failures": 0},
        "backing": {"opens": 3, "reads": 4, "bytes": 2048, "errors": 0, "absent_names": 19},
        "burst": {
            "dir": "/ckpt", "backing": "/lustre/me/ckpt", "drain": "auto", "capacity_bytes": 1u64 << 40,
            "dirty_bytes": 0, "committed_bytes": 0, "waiting_writers": 0, "refused_ms_ago": null, "partner": null,
            "uncopied_bytes": null, "steps_to_land": 0, "why": null, "changes_refused_ms": null,
        },
    });
    if rank == 0 {
        let landing = json!({"left_bytes": 0, "left_files": 0, "landed_bytes": 0, "drain_bytes_per_s": 0,
                             "time_left_ms": 0, "lost_bytes": 0, "ends_in_ms": null, "is_in_time": null});
        node["burst"].as_object_mut().unwrap().extend(landing.as_object().unwrap().clone());
    }
    of(&mut node);
    node
}

fn overview(nodes: &[Value]) -> Overview {
    Overview::of("train", &json!({"job": {"nodes": nodes.len(), "roots": [0]}, "nodes": nodes}))
}

fn shown(overview: &Overview) -> Vec<String> {
    shown::lines(overview, &|rank| format!("/logs/node-{rank}.log"))
}

fn silent(rank: u64) -> Value {
    json!({"rank": rank, "host": "n9", "state": "unreachable", "why": format!("node {rank} gave no answer within 2 s")})
}

#[test]
fn views_that_run_alone_shows_are_a_remark() {
    let hidden = |node: &mut Value| node["view_made_by"] = "mount(2) in a user namespace".into();
    let job = overview(&[node(0, |_| {}), node(1, hidden)]);
    assert!(job.is_well());
    let shown = shown(&job);
    assert_eq!(shown[1], "healthy");
    let words: Vec<&str> = shown[2..4].iter().flat_map(|line| line.split_whitespace()).collect();
    let told = "the view of node 1 (n1) can be seen under forebay run alone; install fuse3 for others";
    assert!(words.join(" ").contains(told), "{shown:?}");
    assert_eq!(job.verdict.json()["why"], job.verdict.remark.clone().unwrap());
    assert!(overview(&[node(0, |_| {})]).verdict.remark.is_none());
}

#[test]
fn a_slow_node_is_a_remark() {
    let finds = |node: &mut Value| node["slow"] = json!([1]);
    let job = overview(&[node(0, finds), node(1, |_| {}), node(2, finds)]);
    assert!(job.is_well());
    let remark = job.verdict.remark.clone().unwrap();
    let told = "node 1 (n1) takes far longer than others for chunks: 2 nodes ask others in its place; see what else uses its link";
    assert!(remark.starts_with(told), "{remark}");
    assert_eq!(job.verdict.json()["why"], remark);
}

#[test]
fn a_healthy_job_takes_a_dozen_lines_of_80_columns() {
    let shown = shown(&overview(&[node(0, |_| {}), node(1, |_| {})]));
    let expected = [
        "forebay train  2/2 nodes  up 1 min 1 s",
        "healthy",
        "READ   file system  14 requests   4.0 KiB   0 errors (38 absent names)",
        "       programs     14 requests   8.0 KiB read   2.0 KiB between nodes",
        "       cache        [#####...............] 2.0 of 8.0 GiB   75 % hits",
        "WRITE  /ckpt -> /lustre/me/ckpt",
        "       not landed   nothing",
        "       store        [....................] 0 % of 2.0 TiB",
        "NODE  HOST  STATE  UP         MEM      READ     TO LAND  NOTE",
        "   0  n0    ready  1 min 1 s  1.0 GiB  2.0 KiB  0 B      root",
        "   1  n1    ready  1 min 1 s  1.0 GiB  2.0 KiB  0 B",
    ];
    let squeezed = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected: Vec<String> = expected.iter().map(|line| squeezed(&(*line).to_owned())).collect();
    assert_eq!(shown.iter().map(squeezed).collect::<Vec<_>>(), expected);
    assert!(shown.iter().all(|line| line.chars().count() <= 80), "{shown:#?}");
}

#[test]
fn a_job_that_lands_says_how_much_how_fast_and_how_long() {
    let overview = overview(&[node(0, |node| {
        let burst = &mut node["burst"];
        burst["steps_to_land"] = 3.into();
        burst["left_bytes"] = (38u64 << 30).into();
        burst["left_files"] = 3.into();
        burst["landed_bytes"] = (42u64 << 30).into();
        burst["drain_bytes_per_s"] = 2_100_000_000u64.into();
        burst["time_left_ms"] = 18_400.into();
        burst["ends_in_ms"] = 6_422_000.into();
        burst["is_in_time"] = true.into();
    })]);
    assert_eq!((overview.verdict.state, overview.is_well()), (State::Landing, true));
    let shown = shown(&overview).join("\n");
    assert!(shown.contains("forebay train  1/1 nodes  up 1 min 1 s  ends in 1 h 47 min\nlanding: 38 GiB in 3 files, 2.1 GB/s, 18 s left\n"), "{shown}");
    assert!(
        shown.contains("landing      [##########..........] 52 %   2.1 GB/s   18 s left   in time: yes\n"),
        "{shown}"
    );
}

/// Why the first trouble of a job of these nodes is one, and what to do.
fn trouble(nodes: &[Value]) -> (String, String) {
    let overview = overview(nodes);
    assert!(overview.verdict.state == State::Blocked && !overview.is_well(), "{overview:#?}");
    let json = overview.verdict.json();
    assert_eq!(json["state"], "blocked");
    (json["why"].as_str().unwrap().to_owned(), json["do"].as_str().unwrap().to_owned())
}

#[test]
fn what_is_blocked_says_why_and_what_to_do() {
    let with = |pointer: &str, value: Value| node(0, |node| *node.pointer_mut(pointer).unwrap() = value);
    let (why, todo) = trouble(&[node(0, |_| {}), silent(1)]);
    assert_eq!(why, "node 1 (n9) does not answer");
    assert!(todo.contains("host n9"), "{todo}");
    let dead =
        json!({"rank": 1, "host": "n9", "state": "unreachable", "why": "node 1: Connection refused (os error 111)"});
    let (why, todo) = trouble(&[node(0, |_| {}), dead]);
    assert_eq!(why, "node 1 (n9) does not answer");
    assert!(todo.starts_with("the daemon of node 1 has ended: its log on n9 says why; forebay down ends"), "{todo}");
    assert!(todo.contains("forebay salvage") && !todo.contains("CONT"), "{todo}");
    let (why, todo) = trouble(&[node(0, |node| {
        node["burst"]["steps_to_land"] = 1.into();
        node["burst"]["why"] = "cannot create /lustre/me/ckpt/f: Permission denied".into();
    })]);
    assert_eq!(why, "nothing lands: cannot create /lustre/me/ckpt/f: Permission denied");
    assert!(todo.starts_with("make /lustre/me/ckpt writable"), "{todo}");
    let (why, _) = trouble(&[with("/burst/waiting_writers", 2.into())]);
    assert_eq!(why, "store full: writes wait on node 0");
    let (why, todo) = trouble(&[node(0, |node| {
        node["burst"]["refused_ms_ago"] = 500.into();
        node["burst"]["drain"] = "manual".into();
    })]);
    assert_eq!(why, "store full: writes fail with ENOSPC on node 0");
    assert!(todo.starts_with("forebay drain"), "{todo}");
    let (why, _) = trouble(&[node(0, |node| {
        node["burst"]["refused_ms_ago"] = 30_000.into();
        node["burst"]["free_bytes"] = (20u64 << 30).into();
    })]);
    assert_eq!(why, "store full: writes fail with ENOSPC on node 0", "there is still no room");
    let (why, _) = trouble(&[node(0, |node| {
        node["burst"]["partner"] = 1.into();
        node["burst"]["uncopied_bytes"] = 4096.into();
        node["burst"]["copies_refused_ms_ago"] = 30_000.into();
    })]);
    assert_eq!(why, "partners have no room for copies: fsync fails with ENOSPC on node 0");
    assert_eq!(
        trouble(&[with("/burst/partner", 1.into())]).0,
        "partners do not copy the writes of node 0: they do not answer"
    );
    assert_eq!(trouble(&[with("/burst/lost_bytes", 3.into())]).0, "3 B are only in stores that do not answer");
    let (why, _) = trouble(&[node(0, |node| {
        node["burst"]["is_in_time"] = false.into();
        node["burst"]["ends_in_ms"] = 60_000.into();
        node["burst"]["time_left_ms"] = 90_000.into();
    })]);
    assert_eq!(why, "the time limit is too near: 1 min 30 s to land, and 1 min 0 s left");
    let (why, todo) = trouble(&[node(0, |node| {
        node["restarts"] = 7.into();
        node["uptime_ms"] = 400.into();
        node["last_death"] = json!({"at_unix_ms": 1, "signal": 9, "exit_status": null});
    })]);
    assert_eq!(why, "daemons of node 0 (n0) die repeatedly (7 times, the last one killed by SIGKILL)");
    assert!(todo.contains("out-of-memory"), "{todo}");
}

/// The node that leads alone knows what has landed, and programs' nodes what they have not committed.
#[test]
fn what_has_not_landed_is_said_as_far_as_it_is_known() {
    let row = |of: &dyn Fn(&mut Value)| {
        let overview = overview(&[node(0, |node| of(&mut node["burst"]))]);
        let shown = shown(&overview);
        shown.iter().find_map(|line| line.trim().strip_prefix("not landed")).unwrap().trim().to_owned()
    };
    let without_leader = |burst: &mut Value| drop(burst.as_object_mut().unwrap().remove("landed_bytes"));
    assert_eq!(row(&|_| {}), "nothing");
    assert_eq!(row(&without_leader), "not known: the node that leads does not answer");
    let with_bytes = |burst: &mut Value| {
        without_leader(burst);
        burst["committed_bytes"] = 2048.into();
    };
    assert_eq!(row(&with_bytes), "not known: the node that leads does not answer; 2.0 KiB in the stores that do");
    let open = |burst: &mut Value| burst["dirty_bytes"] = 1024.into();
    assert_eq!(row(&open), "1.0 KiB not committed yet");
    let both = |burst: &mut Value| {
        open(burst);
        (burst["left_bytes"], burst["left_files"], burst["steps_to_land"]) = (4096.into(), 1.into(), 2.into());
    };
    assert_eq!(row(&both), "4.0 KiB in 1 file, and 1.0 KiB not committed yet");
}

#[test]
fn what_is_no_trouble_is_none() {
    let is_well = |node: Value| overview(&[node]).verdict;
    let manual = is_well(node(0, |node| {
        node["burst"]["drain"] = "manual".into();
        node["burst"]["steps_to_land"] = 2.into();
        node["burst"]["left_bytes"] = (1 << 20).into();
    }));
    assert_eq!(manual.state, State::Healthy);
    assert_eq!(manual.remark.unwrap(), "2 changes (1.0 MiB) wait for forebay drain (--drain manual)");
    let refused_before = is_well(node(0, |node| node["burst"]["refused_ms_ago"] = 100_000.into()));
    assert_eq!(refused_before.state, State::Healthy);
    let with_room_again = is_well(node(0, |node| {
        node["burst"]["refused_ms_ago"] = 30_000.into();
        node["burst"]["free_bytes"] = (500u64 << 30).into();
    }));
    assert_eq!(with_room_again.state, State::Healthy);
    let restarted_once = is_well(node(0, |node| node["restarts"] = 1.into()));
    assert_eq!(restarted_once.state, State::Healthy);
    let without_burst = node(0, |node| drop(node.as_object_mut().unwrap().remove("burst")));
    assert_eq!(overview(std::slice::from_ref(&without_burst)).writes, None);
    assert_eq!(is_well(without_burst).state, State::Healthy);
    let missing = overview(&[node(0, |_| {}), json!({"rank": 1, "host": "b", "state": "missing", "why": "no"})]);
    assert_eq!((missing.verdict.state, missing.is_well()), (State::Healthy, false), "the exit status says it");
}

#[test]
fn a_node_whose_daemon_died_says_how_when_and_for_how_long() {
    let death = json!({"at_unix_ms": 83_800_000, "signal": 9, "exit_status": null, "back_after_ms": 25});
    let of = |restarts: u64, death: Value| {
        let overview = overview(&[
            node(0, |_| {}),
            node(1, |node| {
                node["restarts"] = restarts.into();
                node["last_death"] = death;
            }),
        ]);
        assert_eq!(overview.nodes[0].rank, 1, "it comes first");
        let shown = shown(&overview);
        (shown.last().unwrap().clone(), overview.nodes[0].note())
    };
    let (story, note) = of(1, death.clone());
    assert_eq!(
        story,
        "node 1: killed by SIGKILL at 23:16:40 UTC (out of memory?), back after 25 ms; log: /logs/node-1.log"
    );
    assert_eq!(note, "daemon restarted, SIGKILL 23:16:40");
    let (story, _) =
        of(2, json!({"at_unix_ms": 83_800_000, "signal": null, "exit_status": 101, "back_after_ms": 2500}));
    assert_eq!(
        story,
        "node 1: restarted 2 times, last ended by a panic at 23:16:40 UTC, back after 2 s; log: /logs/node-1.log"
    );
    assert!(of(1, Value::Null).0.starts_with("node 1: its daemon died and was started again once"), "an older daemon");
}

#[test]
fn a_thousand_nodes_are_one_line_but_for_those_with_trouble() {
    let mut nodes: Vec<Value> = (0..1000).map(|rank| node(rank, |_| {})).collect();
    assert_eq!(
        shown(&overview(&nodes)).last().unwrap(),
        "1,000 nodes   1000 ready   1.0 GiB memory at most   2.0 MiB read"
    );
    nodes[700] = silent(700);
    nodes[300]["restarts"] = 1.into();
    let shown = shown(&overview(&nodes));
    let table: Vec<&String> = shown.iter().skip_while(|line| !line.starts_with("NODE")).collect();
    assert!(table[1].trim_start().starts_with("700") && table[1].contains("SILENT"), "{table:#?}");
    assert!(table[2].trim_start().starts_with("300"), "{table:#?}");
    assert!(table[3].starts_with("998 more nodes   998 ready"), "{table:#?}");
    assert_eq!(table[4], "node 700: gave no answer within 2 s");
    assert!(shown.len() < 20, "{shown:#?}");
}
