//! Cases of `forebay plan` that cannot be planned.

use forebay_tests::program::run;
use forebay_tests::{Finished, Sandbox, tree};
use serde_json::{Value, json};

use crate::{FAILED, WRONG_USAGE, fails};

fn good() -> Value {
    json!({
        "topology": {"torus": [2, 2]}, "link_bytes_per_s": 1e9, "link_latency_s": 1e-6, "nodes": 4,
        "io_nodes": [{"node": 0, "bytes_per_s": 1e9, "serves": [0, 3]}],
        "ranks": {"per_node": 1, "bytes": 1 << 20},
    })
}

fn plan(sandbox: &Sandbox, text: &str, more: &[&str]) -> Finished {
    let file = sandbox.source().join("case.json");
    tree::write(&file, text.as_bytes());
    run(sandbox.command().arg("plan").arg(&file).args(more))
}

#[test]
fn a_case_that_makes_sense_is_planned() {
    let sandbox = Sandbox::new();
    let plot = sandbox.source().join("plot.svg");
    let done = plan(&sandbox, &good().to_string(), &["--json", "--plot", plot.to_str().unwrap()]).good();
    let said: Value = serde_json::from_str(&done.text()).unwrap();
    let names: Vec<&str> =
        said["strategies"].as_array().unwrap().iter().map(|each| each["name"].as_str().unwrap()).collect();
    for name in ["poster", "first", "nearest", "romio", "largest", "smallest", "balanced", "joint"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(names.contains(&said["best"].as_str().unwrap()));
    for field in ["aggregators", "domains", "rounds", "c1_s", "c2_s", "total_s", "io_floor_s", "busiest_link_bytes"] {
        assert!(!said["strategies"][0][field].is_null(), "{field}");
    }
    let plot = std::fs::read_to_string(plot).unwrap();
    assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n") && plot.contains(">poster<"));
    let one = plan(&sandbox, &good().to_string(), &["--strategy", "poster"]).good().text();
    assert!(one.contains("poster") && !one.contains("nearest"), "{one}");
}

/// A plot of an earlier plan stays until there is another, and is replaced as a whole.
#[test]
fn a_plot_stays_where_there_is_no_plan() {
    let sandbox = Sandbox::new();
    let plot = sandbox.source().join("plot.svg");
    let ranks: Vec<Value> =
        (0..65).map(|node| json!({"node": node, "bytes": 1 << 20, "extents": [[0, 1 << 20]]})).collect();
    let mut too_many = good();
    for (field, value) in [
        ("topology", json!({"torus": [65]})),
        ("nodes", json!(65)),
        ("io_nodes", json!([{"node": 0, "bytes_per_s": 1e9, "serves": "any"}])),
        ("ranks", json!(ranks)),
        ("aggregators", json!(65)),
        ("rounds", json!(4096)),
        ("stripe_bytes", json!(1)),
    ] {
        too_many[field] = value;
    }
    let drawn = "drawn before, ".repeat(10_000);
    std::fs::write(&plot, &drawn).unwrap();
    let to = ["--strategy", "first", "--plot", plot.to_str().unwrap()];
    let none = plan(&sandbox, &too_many.to_string(), &to);
    fails(&sandbox, &none, FAILED, &["no plan", "65 ranks", "16777216 parts"]);
    assert_eq!(std::fs::read_to_string(&plot).unwrap(), drawn);
    let _ = plan(&sandbox, &good().to_string(), &to).good();
    let plot = std::fs::read_to_string(&plot).unwrap();
    assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n"));
}

#[test]
fn cases_that_make_no_sense() {
    let with = |field: &str, value: Value| {
        let mut case = good();
        case[field] = value;
        case.to_string()
    };
    let rank = |bytes: u64, extents: Value| json!([{"node": 0, "bytes": bytes, "extents": extents}]);
    let cases: [(String, &[&str]); 12] = [
        (String::new(), &["case.json", "not JSON", "--example"]),
        ("{\"topology\": ".to_owned(), &["case.json", "line 1"]),
        ("[]".to_owned(), &["case.json"]),
        (with("topology", json!({"torus": [3]})), &["case.json", "topology", "3 places", "4 nodes"]),
        (with("topology", json!({"ring": [4]})), &["case.json", "ring"]),
        (with("io_nodes", json!([])), &["io_nodes", "none"]),
        (with("io_nodes", json!([{"node": 0, "bytes_per_s": 1, "serves": [0, 2]}])), &["io_nodes", "node 3"]),
        (with("ranks", rank(10, json!([[0, 20]]))), &["ranks[0]", "10", "20"]),
        (with("ranks", rank(20, json!([[0, 10], [5, 10]]))), &["ranks[0]", "overlap"]),
        (with("ranks", rank(10, json!([[u64::MAX, 10]]))), &["ranks[0]", "beyond"]),
        (with("ranks", rank(0, json!([[7, 0]]))), &["ranks[0]", "no bytes"]),
        (with("rounds", json!(0)), &["rounds", "0"]),
    ];
    for (text, words) in cases {
        let sandbox = Sandbox::new();
        fails(&sandbox, &plan(&sandbox, &text, &[]), FAILED, words);
    }
}

#[test]
fn switches_that_contradict_themselves_or_lack_a_host() {
    let sandbox = Sandbox::new();
    let of_slurm = |text: &[u8], hosts: &str| {
        tree::write(&sandbox.source().join("topology.conf"), text);
        let mut case = good();
        case["topology"] = json!({"slurm": {"file": "topology.conf", "hosts": hosts}});
        plan(&sandbox, &case.to_string(), &[])
    };
    let two = b"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n";
    let done = of_slurm(two, "n[1-4]").good();
    assert!(done.text().contains("joint"), "{}", done.text());
    let cases: [(&[u8], &str, &[&str]); 6] = [
        (b"SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=m[1\n", "n[1-4]", &["topology.conf, line 2", "m[1"]),
        (b"SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\n", "n1", &["topology.conf, line 2", "switch c"]),
        (b"No topology information available\n", "n1", &["topology.conf, line 1", "KEY=VALUE"]),
        (two, "n[1-5]", &["topology.conf", "host n5"]),
        (two, "n[1-3]", &["3 places", "4 nodes"]),
        (b"SwitchName=\xff\n", "n1", &["topology.conf", "not text"]),
    ];
    for (text, hosts, words) in cases {
        fails(&sandbox, &of_slurm(text, hosts), FAILED, words);
    }
    std::fs::remove_file(sandbox.source().join("topology.conf")).unwrap();
    let mut case = good();
    case["topology"] = json!({"slurm": {"file": "topology.conf"}});
    fails(&sandbox, &plan(&sandbox, &case.to_string(), &[]), FAILED, &["topology.conf", "o such file"]);
    case["topology"] = json!({"slurm": {"file": "topology.conf", "text": "SwitchName=a Nodes=n[1-4]"}});
    fails(&sandbox, &plan(&sandbox, &case.to_string(), &[]), FAILED, &["both a text and a file"]);
}

#[test]
fn what_is_asked_for_wrongly() {
    let sandbox = Sandbox::new();
    let text = good().to_string();
    fails(&sandbox, &plan(&sandbox, &text, &["--strategy", "lucky"]), WRONG_USAGE, &["--strategy", "lucky", "poster"]);
    fails(&sandbox, &run(sandbox.command().arg("plan")), WRONG_USAGE, &["CASE"]);
    fails(
        &sandbox,
        &run(sandbox.command().args(["plan", "/nowhere/case.json"])),
        FAILED,
        &["/nowhere/case.json", "o such file"],
    );
    let unwritable = plan(&sandbox, &text, &["--plot", "/nowhere/plot.svg"]);
    fails(&sandbox, &unwritable, FAILED, &["/nowhere/plot.svg", "o such file"]);
    assert!(unwritable.stdout.is_empty(), "said before anything is planned");
    // `run` gives no input.
    fails(&sandbox, &run(sandbox.command().args(["plan", "-"])), FAILED, &["standard input", "not JSON"]);
}
