//! Nodes that never come up: the start fails and says why, or the job goes on without them.

use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::{Place, wait_until};

/// The time that a start without a silent node may take beyond its limit on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// Nodes on this machine, started by a remote shell that does something else for some of them.
struct Site {
    place: Place,
    shell: String,
}

impl Site {
    fn new(count: usize, instead: &str) -> Option<Self> {
        let place = Place::with_views()?;
        let hosts: String = free_ports(count).iter().map(|port| format!("127.0.0.1:{port}\n")).collect();
        fs::write(place.path("hosts"), hosts).unwrap();
        let shell = remote_shell_that(&place, &format!("case \"$*\" in {instead} esac\nexec \"$@\""));
        Some(Self { place, shell })
    }

    fn up(&self, more: &[&str]) -> Output {
        let Self { place, shell } = self;
        let source = place.source();
        let hosts = ["up", "--hostfile", "hosts", "--remote-shell", shell, "--job", "m", "--view", "view"];
        place.run(&[&hosts[..], &["--export", &source], more].concat())
    }

    fn read(&self, rank: u32) -> String {
        let file = self.place.path(&format!("view/{rank}{}/file", self.place.source()));
        fs::read_to_string(file).unwrap()
    }

    /// The nodes by rank, of which one does not answer.
    fn nodes(&self) -> Vec<Value> {
        let output = self.place.run(&["status", "--job", "m", "--json"]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        status["nodes"].as_array().unwrap().clone()
    }

    fn down(&self, ended: &Value) {
        let began = Instant::now();
        let down = self.place.json(&["down", "--job", "m"]);
        assert_eq!(&down["ended"], ended, "{down}");
        assert_eq!(down["missing"], json!([]), "what never came is not missed");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        self.place.assert_clean();
    }
}

/// The output of an `up` that was asked to go on: that it does so is no failure, and it is said.
fn up_json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the job goes on without 1 of its "), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

const UNREACHABLE: &str = "*'--rank 2'*) echo 'no route to that' >&2; exit 255;;";

#[test]
fn a_job_goes_on_without_a_host_that_cannot_be_reached() {
    let Some(site) = Site::new(7, UNREACHABLE) else { return };
    let began = Instant::now();
    let up = up_json(&site.up(&["--on-missing", "continue", "--fanout", "2", "--json"]));
    assert!(began.elapsed() < SOON, "nobody waits for what has failed: {:?}", began.elapsed());
    assert_eq!(up["nodes"].as_array().unwrap().len(), 6);
    assert_eq!(up["missing"][0]["rank"], 2);
    assert!(up["missing"][0]["why"].as_str().unwrap().contains("no route to that"), "{up}");
    for rank in [0, 1, 3, 4, 5, 6] {
        assert_eq!(site.read(rank), "contents of file\n", "node {rank}");
    }
    let nodes = site.nodes();
    assert_eq!(nodes[2]["state"], "missing");
    assert_eq!(nodes.iter().filter(|node| node["state"] == "ready").count(), 6);
    let mut children = nodes.iter().filter(|node| node["parents"][0] == 2).peekable();
    assert!(children.peek().is_some());
    children.for_each(|child| assert_eq!(child["bypassed"], json!([2]), "it asks somebody else"));
    let table = site.place.run(&["status", "--job", "m"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("6/7 nodes") && table.contains("node 2: it failed to start: "), "{table}");
    site.down(&json!([0, 1, 3, 4, 5, 6]));
}

#[test]
fn a_person_reads_which_host_is_missing_and_why() {
    let Some(site) = Site::new(3, UNREACHABLE) else { return };
    // By its names of before.
    let output = site.up(&["--missing", "go-on"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (told, warned) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(told.starts_with("job m: 2 of 3 nodes ready in "), "{told}");
    let goes_on = "the job goes on without 1 of its 3 nodes (--on-missing continue):\n  node 2: ";
    assert!(warned.contains(goes_on) && warned.contains("no route"), "{warned}");
    site.down(&json!([0, 1]));
}

#[test]
fn a_job_goes_on_without_its_first_node() {
    let Some(site) = Site::new(5, "*'--rank 0'*) echo 'no route to that' >&2; exit 255;;") else { return };
    let up = up_json(&site.up(&["--on-missing", "continue", "--json"]));
    assert_eq!(up["missing"][0]["rank"], 0);
    for rank in 1..5 {
        assert_eq!(site.read(rank), "contents of file\n", "node {rank}");
    }
    assert_eq!(site.nodes()[0]["state"], "missing");
    site.down(&json!([1, 2, 3, 4]));
}

/// A host that neither answers nor fails is waited for as long as was said, and no longer.
const SILENT: &str = "*'node '*'--rank 1'*) echo 'asking that host' >&2; exec sleep 600;;";

#[test]
fn a_silent_host_is_given_up_when_the_time_is_up() {
    let Some(site) = Site::new(4, SILENT) else { return };
    let began = Instant::now();
    let up = up_json(&site.up(&["--on-missing", "continue", "--fanout", "1", "--wait-timeout", "3s", "--json"]));
    assert!((Duration::from_secs(3)..Duration::from_secs(3) + SOON).contains(&began.elapsed()), "{up}");
    let why = up["missing"][0]["why"].as_str().unwrap();
    for part in ["not ready after 3s (--wait-timeout)", "node 2 cannot reach it", "onnection refused"] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(site.read(3), "contents of file\n");
    site.down(&json!([0, 2, 3]));
}

/// The process that starts the node outlives the remote shell, as on a host that is slow and not dead.
#[test]
fn a_node_that_comes_up_after_all_is_used() {
    let late = r#"*'node '*'--rank 2'*)
        exec 3<&0
        setsid sh -c 'until [ -e go ]; do sleep 0.02; done; exec "$@"' sh "$@" <&3 >late.log 2>&1 &
        exec sleep 600;;"#;
    let Some(site) = Site::new(4, late) else { return };
    let up = up_json(&site.up(&["--on-missing", "continue", "--wait-timeout", "2s", "--json"]));
    assert_eq!(up["missing"][0]["rank"], 2);
    assert_eq!(site.nodes()[2]["state"], "missing");
    fs::write(site.place.path("go"), "").unwrap();
    wait_until("all nodes answer", || site.place.run(&["status", "--job", "m"]).status.success());
    assert_eq!(site.read(2), "contents of file\n");
    site.down(&json!([0, 1, 2, 3]));
}

#[test]
fn a_silent_host_ends_the_start_unless_told_otherwise() {
    let Some(site) = Site::new(4, SILENT) else { return };
    let output = site.up(&["--fanout", "1", "--wait-timeout", "3s"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["1 of 4 nodes did not start; 3 were ready", "node 1: not ready after 3s", "node 2 cannot reach it"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    site.place.assert_clean();
}

#[test]
fn a_job_of_which_nothing_comes_up_does_not_go_on() {
    let Some(site) = Site::new(2, "*'--rank '*) echo 'no route to that' >&2; exit 255;;") else { return };
    let output = site.up(&["--on-missing", "continue"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("2 of 2 nodes did not start") && message.contains("no route"), "{message}");
    site.place.assert_clean();
}

#[test]
fn a_local_node_that_fails_is_gone_without_too() {
    let Some(place) = Place::with_views() else { return };
    fs::create_dir_all(place.path("view/2/mine")).unwrap();
    let source = place.source();
    let arguments = ["up", "--local", "4", "--job", "l", "--view", "view", "--export", &source];
    let failed = place.fails(1, &arguments);
    assert!(failed.contains("node 2: ") && failed.contains("not empty"), "{failed}");
    let warned = place.fails(0, &[&arguments[..], &["--on-missing", "continue"]].concat());
    assert!(
        warned.contains("without 1 of its 4 nodes (--on-missing continue):\n  node 2: ")
            && warned.contains("not empty"),
        "{warned}"
    );
    let down = place.json(&["down", "--job", "l"]);
    assert_eq!(down["ended"], json!([0, 1, 3]));
    fs::remove_dir_all(place.path("view")).unwrap();
    place.assert_clean();
}

#[test]
fn meanings_of_missing_are_checked() {
    let place = Place::new();
    let message = place.fails(2, &["up", "--missing", "perhaps"]);
    assert!(message.contains("'perhaps' is neither fail nor continue"), "{message}");
}
