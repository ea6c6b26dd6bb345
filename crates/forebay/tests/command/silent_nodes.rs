//! Commands when some daemons are dead and others silent: no other node is hidden, no command waits long.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, signal};

/// Each level of silent nodes costs a second, and two of them are silent here.
const SOON: Duration = Duration::from_secs(4);

/// The time that `down` waits for a silent daemon, where it does not notice the silence.
const DOWN_TIMEOUT: Duration = Duration::from_secs(12);

/// Does something that others on the machine may delay, until it has taken no longer than it may: three times at most.
fn soon<T>(mut act: impl FnMut() -> T) -> T {
    let mut times = Vec::new();
    while times.len() < 3 {
        let began = Instant::now();
        let outcome = act();
        times.push(began.elapsed());
        if times.last() < Some(&SOON) {
            return outcome;
        }
    }
    panic!("{times:?}, each time");
}

/// Seven nodes with fan-out 2: the root 0, the inner nodes 2 and 4, the leaves 1, 3, 5 and 6.
fn up(place: &Place) {
    place.succeeds(&["up", "--local", "7", "--fanout", "2", "--job", "s", "--export", &place.source()]);
}

fn stop(place: &Place, rank: u32) {
    signal(place.daemon("s", rank)["daemon"]["pid"].as_u64().unwrap(), Signal::STOP);
}

/// The state of each node by rank, from a `status` that says that not all is well.
fn states(place: &Place) -> Vec<(u64, String)> {
    let output = place.run(&["status", "--job", "s", "--json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let state = |node: &Value| (node["rank"].as_u64().unwrap(), node["state"].as_str().unwrap().to_owned());
    status["nodes"].as_array().unwrap().iter().map(state).collect()
}

fn all_but(lost: &[u64]) -> Vec<(u64, String)> {
    let state = |rank| if lost.contains(&rank) { "unreachable" } else { "ready" };
    (0..7).map(|rank| (rank, state(rank).to_owned())).collect()
}

#[test]
fn a_dead_inner_node_does_not_hide_those_below_it() {
    let Some(place) = Place::with_views() else { return };
    up(&place);
    place.kill("s", 2);
    assert_eq!(soon(|| states(&place)), all_but(&[2]));
    let down = place.json(&["down", "--job", "s"]);
    assert_eq!(down["ended"], json!([0, 1, 3, 4, 5, 6]));
    place.assert_clean();
}

#[test]
fn a_stopped_root_and_a_dead_inner_node_hide_nobody() {
    let Some(place) = Place::with_views() else { return };
    up(&place);
    stop(&place, 0);
    place.kill("s", 2);
    assert_eq!(soon(|| states(&place)), all_but(&[0, 2]));
    let began = Instant::now();
    let down = place.json(&["down", "--job", "s"]);
    assert_eq!(down["ended"], json!([1, 3, 4, 5, 6]), "{down}");
    assert!(began.elapsed() < DOWN_TIMEOUT, "{:?}", began.elapsed());
    place.assert_clean();
}

#[test]
fn a_stopped_inner_node_is_ended_too() {
    let Some(place) = Place::with_views() else { return };
    up(&place);
    stop(&place, 2);
    assert_eq!(states(&place), all_but(&[2]));
    let down = place.json(&["down", "--job", "s"]);
    assert_eq!(down["ended"], json!([0, 1, 3, 4, 5, 6]));
    assert!(down["notes"][0].as_str().unwrap().contains("ended 2 processes (0 had to be killed)"), "{down}");
    place.assert_clean();
}

#[test]
fn explain_names_who_does_not_answer_and_goes_on() {
    let Some(place) = Place::with_views() else { return };
    up(&place);
    stop(&place, 2);
    place.kill("s", 0);
    let path = format!("{}/file", place.source());
    // Once: afterwards the node knows who is lost.
    let began = Instant::now();
    let steps = place.json(&["explain", "--job", "s", "--rank", "3", &path]);
    assert!(began.elapsed() < DOWN_TIMEOUT, "{:?}", began.elapsed());
    let step = |step: &Value| (step["rank"].as_u64().unwrap(), step["state"].as_str().unwrap_or("there").to_owned());
    let steps: Vec<(u64, String)> = steps.as_array().unwrap().iter().map(step).collect();
    let named = |rank, state: &str| (rank, state.to_owned());
    assert_eq!(steps[..4], [named(3, "there"), named(2, "unreachable"), named(0, "unreachable"), named(4, "there")]);
    place.succeeds(&["down", "--job", "s"]);
    place.assert_clean();
}
