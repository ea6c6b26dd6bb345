//! Staging on nodes of a real Slurm, each with a disk of its own.

use std::fs;

use forebay_tests::{require, tree};

use crate::Slurm;

/// The job's directory is the same for all nodes here, as it is where it lies on a shared file system; the disks are not.
#[test]
fn each_node_stages_to_its_own_disk() {
    require_slurm!();
    let slurm = Slurm::up();
    let inputs = slurm.sandbox.source().join("inputs");
    fs::create_dir(&inputs).unwrap();
    tree::fill(&inputs, "input", 12);
    let done = slurm.batch(
        r#"
        local="$FB_SLURM/local"
        "$forebay" up --export "$source" --view "$view" >&2
        "$forebay" stage in "$source/inputs" "$local/all" >&2
        "$forebay" stage in --scatter "$source/inputs" "$local/parts" >&2
        srun --overlap --ntasks-per-node=1 sh -c 'cd "$1"; echo "$(ls all | wc -l) $(ls parts | wc -l)"' sh "$local"
        "$forebay" stage in --json "$source/inputs" "$local/all"
        "$forebay" down >&2
    "#,
    );
    let said = done.stderr.clone();
    let printed = done.good().text();
    let lines: Vec<&str> = printed.lines().collect();
    let ([of_nodes @ .., again], true) = (lines.as_slice(), lines.len() == 5) else { panic!("{printed}{said}") };
    assert_eq!(of_nodes, ["12 3"; 4], "{said}");
    let again: serde_json::Value = serde_json::from_str(again).unwrap();
    assert_eq!(
        (again["files_that_were_there"].as_u64(), again["copied_bytes"].as_u64()),
        (Some(48), Some(0)),
        "{again}"
    );
}
