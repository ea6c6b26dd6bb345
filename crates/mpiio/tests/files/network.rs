//! Where a file's network is known from, and which ranks aggregate there.

use crate::ranks::on_ranks;
use crate::{BOTH, open, row};

/// The aggregators, and where the network is known from, for 8 ranks that write the same with these hints.
fn planned(hints: &[(&str, &str)]) -> (Vec<u64>, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    let explained = on_ranks(8, |rank| {
        let number = rank.number() as u64;
        let mut file = open(rank, &path, hints, BOTH);
        let mut bytes = vec![1; 1000];
        let _ = file.write_collective(number * 1000, Some(&row(&mut bytes))).unwrap();
        file.flush().unwrap();
        let explained = file.explain();
        file.close().unwrap();
        explained
    });
    let record: serde_json::Value = serde_json::from_str(&explained[0]).unwrap();
    let ranks = record["aggregators"].as_array().unwrap().iter().map(|each| each["rank"].as_u64().unwrap());
    (ranks.collect(), record["network"].as_str().unwrap().to_owned())
}

#[test]
fn a_file_says_where_hosts_and_io_nodes_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("topology.json");
    let name = path.to_str().unwrap();
    let with = |hosts: &str| {
        let io = r#""io_nodes": [{"node": 7, "bytes_per_s": 1e9, "serves": "any"}]"#;
        std::fs::write(
            &path,
            format!(
                r#"{{"topology": {{"fat_tree": {{"levels": [{{"down": 2, "up": 2}},
            {{"down": 4}}]}}}}, {io}, "hosts": [{hosts}]}}"#
            ),
        )
        .unwrap();
        planned(&[("forebay_aggregators", "1"), ("forebay_strategy", "nearest"), ("forebay_topology", name)])
    };
    // The I/O node is on the switch of nodes 6 and 7.
    let order = r#""a", "b", "c", "d", "host0", "host1", "host2", "host3""#;
    assert_eq!(with(order), (vec![6], "file".to_owned()));
    let order = r#""host0", "host3", "host2", "a", "b", "c", "host1""#;
    assert_eq!(with(order), (vec![2], "file".to_owned()));
    // One that does not cover the job is left out, and so is one that is not there.
    assert_eq!(with(r#""host0", "host1""#), (vec![0], "one switch".to_owned()));
    let missing = [("forebay_aggregators", "1"), ("forebay_strategy", "nearest"), ("forebay_topology", "/nowhere")];
    assert_eq!(planned(&missing).1, "one switch");
    // And one that the planner would refuse.
    std::fs::write(&path, r#"{"topology": {"torus": [2]}, "hosts": ["host0", "host1", "host2", "host3"]}"#).unwrap();
    assert_eq!(planned(&[("forebay_topology", name)]).1, "one switch");
    // Slurm's switches are read from where the file lies.
    std::fs::write(&path, r#"{"topology": {"slurm": {"file": "switches"}}}"#).unwrap();
    assert_eq!(planned(&[("forebay_topology", name)]).1, "one switch", "there is no such file");
    let switches = "SwitchName=a Nodes=host[0-1]\nSwitchName=b Nodes=host[2-3]\nSwitchName=c Switches=a,b\n";
    std::fs::write(directory.path().join("switches"), switches).unwrap();
    assert_eq!(planned(&[("forebay_topology", name)]).1, "file");
}

#[test]
fn slurm_says_which_hosts_share_a_switch() {
    assert_eq!(planned(&[("slurm", "")]).1, "slurm");
    assert_eq!(planned(&[]).1, "one switch");
}
