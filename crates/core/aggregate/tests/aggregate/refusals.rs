//! Cases that make no sense are refused by name, before anything is computed.

use forebay_aggregate::{Case, CaseDescription};
use serde_json::{Value, json};

fn good() -> Value {
    json!({
        "topology": {"torus": [2, 2]}, "link_bytes_per_s": 1e9, "link_latency_s": 1e-6, "nodes": 4,
        "io_nodes": [{"node": 0, "bytes_per_s": 1e9, "serves": [0, 3]}],
        "ranks": [{"node": 0, "bytes": 10, "extents": [[0, 10]]}, {"node": 3, "bytes": 10, "extents": [[10, 10]]}],
    })
}

/// The message about the good case with one field changed.
fn refused(field: &str, value: Value) -> String {
    let mut case = good();
    case[field] = value;
    match serde_json::from_value::<CaseDescription>(case) {
        Ok(description) => Case::new(description).expect_err(field).to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_good_case_is_good() {
    let case = Case::new(serde_json::from_value(good()).unwrap()).unwrap();
    assert_eq!((case.rank_count(), case.bytes(), case.io_of_node(3), case.io_of_node(1)), (2, 20, Some(0), None));
}

/// Fields, wrong values of them, and what the refusals name.
type Wrong = Vec<(&'static str, Value, &'static [&'static str])>;

#[track_caller]
fn all_refused(wrong: Wrong) {
    for (field, value, words) in wrong {
        let said = refused(field, value.clone());
        for word in words {
            assert!(said.contains(word), "{field} = {value}: does not name `{word}`: {said}");
        }
    }
}

#[test]
fn networks_and_io_nodes() {
    let matrix = |rates: Value| json!({"matrix": {"latency_s": [[0, 1], [1, 0]], "bytes_per_s": rates}});
    let io = |node: usize, serves: Value| json!([{"node": node, "bytes_per_s": 1e9, "serves": serves}]);
    all_refused(vec![
        ("topology", json!({"torus": [3]}), &["topology", "3 places", "4 nodes"]),
        ("topology", json!({"torus": []}), &["torus: dimensions", "0"]),
        ("topology", json!({"torus": [4, 0]}), &["torus", "0"]),
        ("topology", json!({"torus": [4294967296u64, 4294967296u64, 4]}), &["torus", "more than"]),
        ("topology", json!({"dragonfly": {"groups": 2, "routers": 0, "nodes": 2}}), &["dragonfly", "0"]),
        ("topology", json!({"dragonfly": {"groups": 2, "router": 2, "nodes": 2}}), &["router"]),
        ("topology", json!({"fat_tree": {"levels": []}}), &["fat_tree: levels"]),
        (
            "topology",
            json!({"fat_tree": {"levels": [{"down": 2, "up": 1 << 30}, {"down": 2}]}}),
            &["fat_tree", "links"],
        ),
        ("topology", json!({"ring": 4}), &["ring", "torus"]),
        ("topology", matrix(json!([[0, 1], [1]])), &["bytes_per_s", "2 nodes"]),
        ("topology", matrix(json!([[0, 1], [0, 0]])), &["bytes_per_s", "above 0"]),
        ("link_bytes_per_s", json!(0), &["link_bytes_per_s", "above 0"]),
        ("link_latency_s", json!(-1), &["link_latency_s", "-1"]),
        ("nodes", json!(0), &["nodes", "0"]),
        ("nodes", json!(-4), &["-4"]),
        ("io_nodes", json!([]), &["io_nodes", "none"]),
        ("io_nodes", io(4, json!("any")), &["io_nodes[0]", "node 4"]),
        ("io_nodes", io(0, json!([0, 4])), &["io_nodes[0]", "[0, 4]"]),
        ("io_nodes", io(0, json!([3, 0])), &["io_nodes[0]", "[3, 0]"]),
        ("io_nodes", io(0, json!([0, 2])), &["io_nodes", "node 3"]),
        ("io_nodes", io(0, json!("all")), &["serves", "any"]),
        ("io_nodes", json!([{"node": 0, "bytes_per_s": 0, "serves": "any"}]), &["io_nodes: bytes_per_s"]),
    ]);
}

#[test]
fn switches_and_hosts() {
    let slurm = |text: &str, hosts: &str| json!({"slurm": {"text": text, "hosts": hosts}});
    let names = |pattern: &str, hosts: &str| json!({"host_names": {"pattern": pattern, "hosts": hosts}});
    let two = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n";
    let wide = json!({"slurm": {"text": two, "oversubscription": 0}});
    all_refused(vec![
        ("topology", slurm("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=m[\n", "n1"), &["slurm, line 2", "'m['"]),
        ("topology", slurm("SwitchName=a Nodes=n1\nSwitchName=b Switches=c\n", "n1"), &["line 2", "switch c"]),
        ("topology", slurm("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "n1"), &["line 1", "below itself"]),
        ("topology", slurm("", "n1"), &["slurm", "no switch"]),
        ("topology", slurm(two, "n[1-5]"), &["slurm", "host n5", "no switch"]),
        ("topology", slurm(two, "n[1-2],n[2-3]"), &["n2", "twice"]),
        ("topology", slurm(two, "n[1-"), &["hosts", "not closed"]),
        ("topology", slurm(two, "n[1-3]"), &["3 places", "4 nodes"]),
        ("topology", wide, &["oversubscription", "above 0"]),
        ("topology", json!({"slurm": {"test": two}}), &["test"]),
        ("topology", names("r#n#", "r1n[1-4]"), &["pattern r#n#", "/"]),
        ("topology", names("r#/n#", "r1n[1-3],login1"), &["login1", "r#/n#"]),
        ("topology", names("r#/n#", "r1n[1-3]x"), &["r1n1x", "r#/n#"]),
    ]);
}

#[test]
fn ranks_and_their_extents() {
    let huge = i64::MAX as u64;
    let rank = |bytes: u64, extents: Value| json!([{"node": 0, "bytes": bytes, "extents": extents}]);
    all_refused(vec![
        ("ranks", json!([]), &["ranks", "0"]),
        ("ranks", json!([{"node": 4, "bytes": 1}]), &["ranks[0]", "node 4"]),
        ("ranks", rank(10, json!([[0, 4]])), &["ranks[0]", "10", "4"]),
        ("ranks", rank(0, json!([[5, 0]])), &["ranks[0]", "at 5", "no bytes"]),
        ("ranks", rank(20, json!([[0, 10], [9, 10]])), &["ranks[0]", "[0, 10]", "[9, 10]", "overlap"]),
        ("ranks", rank(10, json!([[huge, 10]])), &["ranks[0]", "beyond"]),
        ("ranks", rank(10, json!([[u64::MAX, 10]])), &["ranks[0]", "beyond"]),
        ("ranks", rank(10, json!([[-5, 10]])), &["-5"]),
        ("ranks", json!([{"node": 0, "bytes": huge}, {"node": 0, "bytes": huge}]), &["ranks", "beyond"]),
        (
            "ranks",
            json!([{"node": 0, "bytes": 1}, {"node": 0, "bytes": 1, "extents": [[0, 1]]}]),
            &["ranks[0]", "ranks[1]"],
        ),
        ("ranks", json!([{"node": 0, "byte": 1}]), &["byte"]),
        ("ranks", json!({"per_node": 0, "bytes": 1}), &["per_node", "0"]),
        ("ranks", json!({"per_node": 1u64 << 40, "bytes": 1}), &["per_node"]),
        ("ranks", json!({"per_node": 2, "bytes": 1, "map": [0, 1, 2]}), &["map", "3", "8 ranks"]),
        ("ranks", json!({"per_node": 1, "bytes": 1, "map": [0, 1, 2, 4]}), &["ranks[3]", "node 4"]),
        ("ranks", json!("many"), &["list of ranks"]),
    ]);
}

#[test]
fn numbers_and_names() {
    all_refused(vec![
        ("aggregators", json!(0), &["aggregators", "0"]),
        ("rounds", json!(1 << 30), &["rounds"]),
        ("buffers", json!(0), &["buffers"]),
        ("buffer_bytes", json!(0), &["buffer_bytes"]),
        ("aggregator_memory_bytes", json!(0), &["aggregator_memory_bytes"]),
        ("stripe_bytes", json!(0), &["stripe_bytes"]),
        ("nvme", json!({"write_bytes_per_s": 0, "read_bytes_per_s": 1}), &["nvme: write_bytes_per_s"]),
        ("bufers", json!(2), &["bufers"]),
    ]);
}
