use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::{Value, json};

use super::*;
use crate::health::Overview;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

/// A status of `count` nodes, each of which has read `reads` times.
fn status(count: u64, reads: u64) -> Value {
    let node = |rank: u64| {
        let mut node = json!({
            "rank": rank, "host": format!("n{rank}"), "state": "ready", "uptime_ms": 61_000, "memory_bytes": 1 << 30,
            "budget_bytes": 4u64 << 30, "restarts": 0, "bypassed": [], "cache": {"bytes": 1 << 30},
            "kernel": {"messages": {"read": reads}, "bytes_read": reads << 20},
            "backing": {"reads": reads, "bytes": reads * 1_000_000, "errors": 0},
            "burst": {"dir": "/ckpt", "backing": "/lustre/me/ckpt", "drain": "auto", "capacity_bytes": 1u64 << 40,
                      "dirty_bytes": rank << 20, "committed_bytes": 0, "partner": null},
        });
        if rank == 0 {
            let landing =
                json!({"steps_to_land": 3, "left_bytes": 1u64 << 30, "left_files": 3, "landed_bytes": 1u64 << 30});
            node["burst"].as_object_mut().unwrap().extend(landing.as_object().unwrap().clone());
        }
        node
    };
    let slow = json!({"rank": 0, "by": "view", "kind": "read", "path": "/soft/lib\u{1b}torch.so", "inode": 7, "took_us": 920_000});
    json!({
        "job": {"nodes": count, "roots": [0]}, "nodes": (0..count).map(node).collect::<Vec<_>>(),
        "totals": {"in_flight": 2, "oldest_ms": 3200, "slowest": [slow]},
    })
}

fn answer(status: &Value) -> Input {
    Input::Answer(Box::new(Answer::of(status, Overview::of("4711", status))))
}

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A job that has answered twice, the last time after 1 s.
fn answered(count: u64) -> Top {
    let mut top = Top::new("4711".to_owned(), false, at(0));
    for second in 0..2 {
        assert_eq!(top.input(answer(&status(count, 10 + second * 5)), at(second)), Step::Continue);
    }
    top
}

fn frame(top: &mut Top, now: Duration, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(top, now, frame)).unwrap();
    let cells: Vec<&str> = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
    cells.chunks(width.into()).map(|row| row.concat().trim_end().to_owned()).collect()
}

fn press(top: &mut Top, key: Key) {
    assert_eq!(top.input(Input::Key(key), at(1)), Step::Continue);
}

#[test]
fn the_overview_fits_80_by_24() {
    let rows = frame(&mut answered(2), at(1), SIZES[0]);
    let squeezed = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = [
        "forebay 4711 2/2 nodes up 1 min 1 s",
        "landing: 1.0 GiB in 3 files",
        "READ file system 10 req/s 10 MB/s - 0 errors",
        "programs 10 req/s 10 MB/s waiting now: 2 (3 s)",
        "cache [#####...............] 2.0 of 8.0 GiB",
        "WRITE /ckpt -> /lustre/me/ckpt",
        "not landed 1.0 GiB in 3 files, and 1.0 MiB not committed yet",
        "landing [##########..........] 50 %",
        "store [....................] 0 % of 2.0 TiB",
        "NODE HOST STATE MEM READ/s TO LAND NOTE",
        "0 n0 ready 1.0 GiB 5.0 MB/s 0 B root",
        "1 n1 ready 1.0 GiB 5.0 MB/s 1.0 MiB",
        "SLOW 0.9 s read /soft/lib\\u{1b}torch.so (node 0, view)",
    ];
    assert_eq!(rows[..expected.len()].iter().map(|row| squeezed(row)).collect::<Vec<_>>(), expected, "{rows:#?}");
    assert_eq!(rows[23], "q quit  n nodes  f files to land  s slow  l log  ? help");
}

#[test]
fn the_help_fits_80_by_24() {
    let mut top = answered(1);
    press(&mut top, Key::Show(Screen::Help));
    let narrow = frame(&mut top, at(1), SIZES[0]);
    let wide = frame(&mut top, at(1), (200, 24));
    assert_eq!(narrow, wide, "no line is cut");
    assert!(narrow.iter().any(|row| row == "forebay status --json has every number."), "{narrow:#?}");
}

#[test]
fn columns_appear_as_the_width_allows() {
    let head = |size| frame(&mut answered(2), at(1), size).into_iter().find(|row| row.contains("NODE")).unwrap();
    let heads = SIZES.map(head);
    assert!(!heads[0].contains(" UP "), "{heads:#?}");
    assert!(heads[1..].iter().all(|head| head.contains(" UP ") && head.contains(" READ ")), "{heads:#?}");
}

#[test]
fn every_screen_draws_at_every_size() {
    let screens = [Screen::Overview, Screen::Nodes, Screen::Files, Screen::Slow, Screen::Log, Screen::Help];
    for size in SIZES.into_iter().chain([(1, 1), (20, 2), (40, 8), (300, 100)]) {
        for nodes in [1, 3, 400] {
            let (mut full, mut empty) = (answered(nodes), Top::new("4711".to_owned(), true, at(0)));
            for screen in screens {
                for top in [&mut full, &mut empty] {
                    top.show(screen);
                    frame(top, at(9), size);
                    press(top, Key::Last);
                    frame(top, at(9), size);
                }
            }
        }
    }
}

#[test]
fn a_thousand_nodes_cost_the_rows_of_the_screen() {
    let mut top = answered(1000);
    for size in SIZES {
        press(&mut top, Key::Show(Screen::Overview));
        press(&mut top, Key::Show(Screen::Nodes));
        let columns = |top: &mut Top| super::screens::nodes(top, size.0.into(), usize::from(size.1) - 2).len();
        assert_eq!(columns(&mut top), usize::from(size.1) - 2, "no line is formatted that is not shown");
        let page = usize::from(size.1) - 4;
        assert_eq!(frame(&mut top, at(1), size)[usize::from(size.1) - 2].trim(), format!("1 to {page} of 1,000"));
        press(&mut top, Key::PageDown);
        assert!(frame(&mut top, at(1), size)[2].starts_with(&format!("{page:>5} n{page} ")));
        press(&mut top, Key::Last);
        assert!(frame(&mut top, at(1), size).iter().any(|row| row.starts_with("  999 n999 ")));
        press(&mut top, Key::Up);
        assert!(!frame(&mut top, at(1), size).iter().any(|row| row.starts_with("  999 n999 ")));
    }
}

#[test]
fn a_silent_daemon_is_told_and_keys_go_on() {
    let mut top = answered(2);
    assert!(!frame(&mut top, at(4), SIZES[0])[1].contains("no answer"));
    assert_eq!(frame(&mut top, at(5), SIZES[0])[1], "no answer for 4 s");
    top.input(Input::Failure("no daemon answers".to_owned()), at(6));
    assert_eq!(frame(&mut top, at(6), SIZES[0])[1], "no answer for 5 s: no daemon answers");
    press(&mut top, Key::Show(Screen::Help));
    assert!(frame(&mut top, at(6), SIZES[0])[2].contains("READ"));
    top.input(answer(&status(2, 20)), at(7));
    press(&mut top, Key::Back);
    assert!(frame(&mut top, at(7), SIZES[0])[1].starts_with("landing"));
}

#[test]
fn the_nodes_with_trouble_come_first() {
    let mut status = status(40, 1);
    status["nodes"][33] = json!({"rank": 33, "host": "n33", "state": "unreachable", "why": "node 33 gave no answer"});
    let mut top = Top::new("4711".to_owned(), true, at(0));
    top.input(answer(&status), at(0));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(&mut top, at(0), frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = (0..24).find(|row| buffer[(3, *row)].symbol() == "3" && buffer[(4, *row)].symbol() == "3").unwrap();
    let rows = frame(&mut top, at(0), SIZES[0]);
    assert!(rows[usize::from(row) - 1].contains("NODE") && rows[usize::from(row)].contains("SILENT"), "{rows:#?}");
    assert!(rows[1].starts_with("BLOCKED node 33 (n33) does not answer"), "{rows:#?}");
    assert_eq!(buffer[(3, row)].fg, Color::Red);
    top.has_colour = false;
    terminal.draw(|frame| draw(&mut top, at(0), frame)).unwrap();
    assert!(terminal.backend().buffer().content().iter().all(|cell| cell.fg == Color::Reset), "NO_COLOR");
}

#[test]
fn files_to_land_are_named_before_nodes() {
    let mut top = answered(3);
    let mut status = status(3, 20);
    status["nodes"][0]["burst"]["largest_left"] = json!([{"path": "/ckpt/a\u{1b}b", "bytes": 3 << 20}, {"path": 7}]);
    top.input(answer(&status), at(1));
    press(&mut top, Key::Show(Screen::Files));
    let rows = frame(&mut top, at(1), SIZES[0]);
    let head = rows.iter().position(|row| row.contains("TO LAND")).unwrap();
    let expected = ["  3.0 MiB  /ckpt/a\\u{1b}b", "  2.0 MiB  node 2 (n2)", " 1.0 MiB  node 1 (n1)"].map(str::trim);
    assert_eq!(rows[head + 1..head + 4].iter().map(|row| row.trim()).collect::<Vec<_>>(), expected);
    press(&mut top, Key::Last);
    assert!(frame(&mut top, at(1), SIZES[0]).iter().any(|row| row.contains("node 1 (n1)")));
    // Of a long path, its end tells more.
    let long = format!("/ckpt/{}step-7.pt", "deep/".repeat(30));
    status["nodes"][0]["burst"]["largest_left"] = json!([{"path": long, "bytes": 3 << 20}]);
    top.input(answer(&status), at(1));
    let rows = frame(&mut top, at(1), SIZES[0]);
    assert!(rows.iter().any(|row| row.contains(" ~") && row.trim_end().ends_with("deep/step-7.pt")), "{rows:#?}");
    let mut without = super::tests::status(1, 1);
    without["nodes"][0].as_object_mut().unwrap().remove("burst");
    top.input(answer(&without), at(2));
    assert!(frame(&mut top, at(2), SIZES[0])[1].contains("no burst tier"));
}

#[test]
fn the_log_is_shown_from_its_end() {
    let mut top = answered(1);
    assert!(!top.wants_log());
    press(&mut top, Key::Show(Screen::Log));
    assert!(top.wants_log());
    assert!(frame(&mut top, at(1), SIZES[0]).iter().any(|row| row == "reading the logs"));
    top.input(Input::Log((0..100).map(|line| format!("line\t{line}")).collect()), at(1));
    assert_eq!(frame(&mut top, at(1), SIZES[0])[22], "line 99");
    press(&mut top, Key::Up);
    assert_eq!(frame(&mut top, at(1), SIZES[0])[22], "line 98");
    press(&mut top, Key::First);
    assert_eq!(frame(&mut top, at(1), SIZES[0])[1], "line 0");
    press(&mut top, Key::Last);
    assert_eq!(frame(&mut top, at(1), SIZES[0])[22], "line 99");
}

#[test]
fn it_ends_with_the_job_and_by_its_key() {
    let mut top = answered(1);
    assert_eq!(top.input(Input::Key(Key::Quit), at(1)), Step::Quit(None));
    assert_eq!(top.input(Input::Ended, at(1)), Step::Quit(Some("the job 4711 has ended".to_owned())));
}
