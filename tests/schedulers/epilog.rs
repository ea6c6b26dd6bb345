//! What a job leaves in its burst stores lands when Slurm ends it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::{Sandbox, require};

use crate::Slurm;

/// How long a job may take to start, to do what it does here and to end.
const JOB: Duration = Duration::from_secs(120);

/// Every node writes, nothing lands, and the job is cancelled while it computes: what lies in `local` is another directory on each node.
#[test]
fn a_cancelled_job_lands_in_the_epilogue() {
    require_slurm!();
    let (scripts, epilog) = (Sandbox::new(), file_of_tests("../packaging/slurm/epilog.sh"));
    let wrapper = scripts.base().join("epilog");
    let slurm = Slurm::with(&[("FB_SLURM_EPILOG", wrapper.clone())]);
    let (base, local) = (slurm.sandbox.base(), slurm.state().join("local"));
    let said = scripts.base().join("said");
    let script = format!(
        "#!/bin/sh\nexport FOREBAY='{}' FOREBAY_EPILOG_STORES='{}/stores/forebay-%j' FOREBAY_EPILOG_MEET=60s\n\
         exec sh '{}' >>'{}' 2>&1\n",
        slurm.command.display(),
        local.display(),
        fs::canonicalize(&epilog).unwrap().display(),
        said.display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(base.join("backing")).unwrap();
    let script = format!(
        r#"#!/bin/sh -e
#SBATCH --nodes=4 --ntasks-per-node=1
srun mkdir -p "{local}/stores"
"$forebay" up --export "$source" --view "$view" --burst /ckpt={base}/backing --drain end \
    --burst-store "{local}/stores/forebay-$SLURM_JOB_ID" --burst-capacity 256MiB
mount=$("$forebay" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["nodes"][0]["burst"]["mount"])')
srun sh -c 'hostname >"$1/ckpt/$(hostname)"; hostname >>"$1/ckpt/all"; echo written >>"$log"; exec sleep 600' sh "$mount"
"#,
        local = local.display(),
        base = base.display(),
    );
    let batch = slurm.submit("epilogue", &[], &script);
    let log = base.join("epilogue.log");
    wait_until("all nodes have written", JOB, || fs::read_to_string(&log).is_ok_and(|log| log.lines().count() == 4));
    assert_eq!(fs::read_dir(base.join("backing")).unwrap().count(), 0, "nothing has landed");
    let mut scancel = Program::new("scancel");
    slurm.surround(&mut scancel);
    let _ = run(scancel.arg(&batch.id)).good();
    batch.wait_for_end("CANCELLED", JOB);
    let told = || fs::read_to_string(&said).unwrap_or_default();
    wait_until("the epilogue of each node has ended", JOB, || told().matches("(status 0)").count() == 4);
    for node in ["n1", "n2", "n3", "n4"] {
        assert_eq!(fs::read_to_string(base.join("backing").join(node)).unwrap(), format!("{node}\n"), "{}", told());
    }
    let mut all: Vec<String> =
        fs::read_to_string(base.join("backing/all")).unwrap().lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!(all, ["n1", "n2", "n3", "n4"], "{}", told());
    let left: Vec<_> = fs::read_dir(base.join("backing")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 5, "{left:?}");
    let listed = slurm.batch(&format!("srun --ntasks-per-node=1 ls '{}/stores'", local.display())).good().text();
    assert_eq!(listed, "", "no store is left on any node");
    assert!(!Path::new("/tmp/forebay-0").join(&batch.id).exists());
}
