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

#[test]
fn cases_that_make_no_sense() {
    let with = |field: &str, value: Value| {
        let mut case = good();
        case[field] = value;
        case.to_string()
    };
    let rank = |bytes: u64, extents: Value| json!([{"node": 0, "bytes": bytes, "extents": extents}]);
    let cases: [(String, &[&str]); 12] = [
        (String::new(), &["case.json", "no case"]),
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
    fails(&sandbox, &run(sandbox.command().args(["plan", "-"])), FAILED, &["standard input", "no case"]);
}
