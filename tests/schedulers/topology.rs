//! The order of the nodes as the scheduler knows the network.

use forebay_tests::{require, tree};
use serde_json::Value;

use crate::Slurm;

#[test]
fn nodes_of_one_switch_stand_beside_each_other() {
    require_slurm!();
    let slurm =
        Slurm::with_topology("SwitchName=s1 Nodes=n2\nSwitchName=s2 Nodes=n[1,3-4]\nSwitchName=top Switches=s[1-2]\n");
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let script = r#"
        "$forebay" up --export "$source" --view "$view" --topology "$1" >&2
        "$forebay" status --json
        srun --mpi=none cat "$view$source/file" >&2
        "$forebay" down >&2
    "#;
    for (topology, expected) in [("auto", ["n2", "n1", "n3", "n4"]), ("off", ["n1", "n2", "n3", "n4"])] {
        let said = slurm.batch(&script.replace("$1", topology)).good();
        let status: Value = serde_json::from_slice(&said.stdout).unwrap();
        let hosts: Vec<&str> =
            status["nodes"].as_array().unwrap().iter().map(|node| node["host"].as_str().unwrap()).collect();
        assert_eq!(hosts, expected, "--topology {topology}");
    }
}
