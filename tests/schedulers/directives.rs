//! Directives of job scripts: checked when a job is submitted, carried out by `up` and `down` in it.

use std::fs;
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::{require, tree};

use crate::Slurm;

/// How long a job may take to start and to do what it does here.
const JOB: Duration = Duration::from_secs(60);

const PLUGIN: &str = "../packaging/slurm/forebay.lua";

impl Slurm {
    /// Submits a script and waits for the end of its job.
    fn submit_and_wait(&self, script: &str) -> Finished {
        let path = self.sandbox.base().join("job.sh");
        fs::write(&path, script).unwrap();
        let mut sbatch = Program::new("sbatch");
        self.surround(&mut sbatch);
        run(sbatch.args(["--wait", "--output=/dev/null"]).arg(path))
    }
}

#[test]
fn directives_are_checked_when_a_job_is_submitted() {
    require_slurm!();
    let slurm = Slurm::with(&[("FB_SLURM_LUA", file_of_tests(PLUGIN))]);
    for (line, problem) in [
        ("#FB capacity=lots", "line 2: #FB capacity=lots: 'lots' is not a size; write for example 100GiB"),
        ("#FB policy=never", "'never' is not a policy; the policies are auto, close, end and manual"),
        ("#FB speed=high", "'speed' is not known; the directives are capacity=, policy=, stage_in and stage_out"),
        ("#FB capacity", "'capacity' has no value"),
        ("#FB stage_in source=a destination=/b", "'a' is not an absolute path"),
        ("#FB stage_in source=/a", "source=PATH and destination=PATH are needed"),
        ("#FB stage_out source=/a destination=/b scatter", "'scatter' is not understood"),
    ] {
        let refused = slurm.submit_and_wait(&format!("#!/bin/sh\n{line}\ntrue\n"));
        assert!(!refused.status.success(), "{line}");
        assert!(refused.stderr.contains(&format!("forebay: line 2: {line}: ")), "{line}: {}", refused.stderr);
        assert!(refused.stderr.contains(problem), "{line}: {}", refused.stderr);
    }
    // The controller serves nobody meanwhile: with patterns of quadratic time, the last of these would take it hours.
    for (bytes, problem) in [(16_000, "...' is not a size"), (1_000_000, "a directive has at most 16384 bytes")] {
        let refused = slurm.submit_and_wait(&format!("#!/bin/sh\n#FB capacity={}x\ntrue\n", "1".repeat(bytes)));
        let said = &refused.stderr;
        assert!(!refused.status.success() && said.contains("forebay: line 2: #FB capacity=1111"), "{bytes}: {said}");
        assert!(said.contains(problem) && said.len() < 2_000, "{bytes}: {said}");
    }
    let script = "#!/bin/sh\n#FB capacity=1.5GiB\n#FB capacity=100G policy=end\n#FB stage_in source=/a destination=/b/%u scatter\n\
                  #FB stage_out source=/ckpt/x destination=/c\nexit 7\n";
    let ended = slurm.submit_and_wait(script);
    assert_eq!(ended.status.code(), Some(7), "{}", ended.stderr);
}

/// The directory `local` is another one on each node.
#[test]
fn a_job_stages_in_at_up_and_out_at_down() {
    require_slurm!();
    let slurm = Slurm::up();
    let base = slurm.sandbox.base();
    fs::create_dir(slurm.sandbox.source().join("inputs")).unwrap();
    tree::write(&slurm.sandbox.source().join("inputs/one"), b"one\n");
    fs::create_dir(base.join("backing")).unwrap();
    let (local, out) = (slurm.state().join("local"), base.join("out"));
    let script = format!(
        r#"#!/bin/sh -e
#SBATCH --nodes=4 --ntasks-per-node=1
#FB capacity=256MiB policy=end
#FB stage_in source={source}/inputs destination={local}/%j/inputs
#FB stage_out source=/ckpt/results destination={out}
export TMPDIR={local}
"$forebay" up --export "$source" --view "$view" --burst /ckpt={base}/backing --burst-store auto
srun cat {local}/$SLURM_JOB_ID/inputs/one
srun sh -c 'mkdir -p "$1/ckpt/results"; hostname >"$1/ckpt/results/$(hostname)"' sh "$("$forebay" status --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["nodes"][0]["burst"]["mount"])')"
srun sh -c 'ls {local}'
"$forebay" down
"#,
        source = slurm.sandbox.source().display(),
        local = local.display(),
        out = out.display(),
        base = base.display(),
    );
    let batch = slurm.submit("directives", &[], &script);
    batch.wait_for_end("COMPLETED", JOB);
    let said = batch.said();
    assert_eq!(said.matches("one\n").count(), 4, "every node has the input: {said}");
    assert!(said.contains("staged in: 4 files, 16B on 4 nodes"), "{said}");
    assert!(said.contains(&format!("the burst store is {}/forebay-{}", local.display(), batch.id)), "{said}");
    assert_eq!(said.matches(&format!("forebay-{}\n", batch.id)).count(), 4, "every node has a store: {said}");
    assert!(said.contains("staged out: 4 files"), "{said}");
    for node in ["n1", "n2", "n3", "n4"] {
        assert_eq!(fs::read_to_string(out.join(node)).unwrap(), format!("{node}\n"), "{said}");
        assert_eq!(fs::read_to_string(base.join("backing/results").join(node)).unwrap(), format!("{node}\n"));
    }
}
