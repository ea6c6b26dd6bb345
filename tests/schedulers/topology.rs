//! The order of the nodes as the scheduler knows the network, and what follows from it.

use std::fs;

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

#[test]
fn partners_are_on_other_switches() {
    require_slurm!();
    let slurm = Slurm::with_topology(
        "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=top Switches=s[1-2]\n",
    );
    let (backing, local) = (slurm.sandbox.base().join("backing"), slurm.state().join("local"));
    fs::create_dir(&backing).unwrap();
    let script = format!(
        r#"
        srun --mpi=none mkdir -p "{local}/stores"
        "$forebay" up --export "$source" --view "$view" --burst /ckpt={backing} --burst-store "{local}/stores/forebay-$SLURM_JOB_ID" \
            --burst-capacity 256MiB --partner all --topology "$1" >&2
        "$forebay" status --json
        "$forebay" down >&2
    "#,
        local = local.display(),
        backing = backing.display(),
    );
    for (topology, expected) in [("auto", [2, 3, 0, 1]), ("off", [1, 2, 3, 0])] {
        let said = slurm.batch(&script.replace("$1", topology)).good();
        let status: Value = serde_json::from_slice(&said.stdout).unwrap();
        let partners: Vec<u64> =
            status["nodes"].as_array().unwrap().iter().map(|node| node["burst"]["partner"].as_u64().unwrap()).collect();
        assert_eq!(partners, expected, "--topology {topology}");
    }
}
