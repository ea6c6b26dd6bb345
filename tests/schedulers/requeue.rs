//! A job that Slurm starts again: its number, its stores and what lies in them are the same.

use std::fs;

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::batch::Batch;
use crate::stores::{JOB, NAMES, Stores};

/// Writes and computes for ever; when it is started again, it looks what is there, and comes to its end.
const TWICE: &str = r#"bring_up
run=${SLURM_RESTART_COUNT:-0}
export run
srun sh -c 'hostname >"$mount/$run-$(hostname)"'
srun -N1 -n1 sh -c 'ls "$mount" | tr "\n" " " >>"$log"'
echo "run $run" >>"$log"
test "$run" = 1 || exec sleep 600
"$forebay" down
"#;

const OPTIONS: &str = "--requeue --open-mode=append";

const FIRST: &str = "0-n1 0-n2 0-n3 0-n4 run 0\n";
const SECOND: &str = "0-n1 0-n2 0-n3 0-n4 1-n1 1-n2 1-n3 1-n4 run 1\n";

/// Checks the files of both runs.
#[track_caller]
fn assert_both_landed(stores: &Stores, name: &str) {
    let names: Vec<String> = (0..2).flat_map(|run| NAMES.map(|node| format!("{run}-{node}"))).collect();
    assert_eq!(stores.landed(name), names, "{}", stores.said());
    for file in &names {
        assert_eq!(fs::read_to_string(stores.backing(name).join(file)).unwrap(), format!("{}\n", &file[2..]));
    }
}

impl Stores {
    #[track_caller]
    fn requeue(&self, batch: &Batch<'_>) {
        let _ = self.slurm.scontrol(&["requeue", &batch.id]).good();
        wait_until("the job is queued anew", JOB, || batch.state() == "PENDING");
    }
}

#[test]
fn the_second_run_finds_what_the_epilogue_of_the_first_has_landed() {
    require_slurm!();
    let stores = Stores::with_epilogue("FOREBAY_EPILOG_MEET=60s");
    let batch = stores.submit("landed", OPTIONS, "--drain end", TWICE);
    batch.wait_for_log_end("run 0");
    assert_eq!(batch.log(), FIRST, "{}", batch.said());
    stores.requeue(&batch);
    stores.wait_for_epilogues(&batch.id, 4, 0);
    batch.start_again();
    batch.wait_for_end("COMPLETED", JOB);
    assert_eq!(batch.log(), format!("{FIRST}{SECOND}"), "{}", batch.said());
    assert_both_landed(&stores, "landed");
    stores.assert_nothing_runs(&batch.id);
    assert_eq!(stores.left(&batch.id), [""; 0]);
}

/// Its store is refused to another job, also of the same user, and the refusal names the job that it belongs to.
#[test]
fn the_second_run_adopts_the_stores_of_the_first_and_no_other_job_does() {
    require_slurm!();
    let stores = Stores::without_epilogue();
    let batch = stores.submit("adopted", OPTIONS, "--drain end", TWICE);
    batch.wait_for_log_end("run 0");
    stores.requeue(&batch);
    assert_eq!((stores.left(&batch.id), stores.landed("adopted")), (NAMES.to_vec(), vec![]));
    let script = format!(r#"store="${{store%/*}}/forebay-{}"; bring_up || echo "refused: $?" >>"$log""#, batch.id);
    let other = stores.submit("other", "", "", &script);
    other.wait_for_end("COMPLETED", JOB);
    assert_eq!(other.log(), "refused: 1\n", "{}", other.said());
    assert!(other.said().contains(&format!("belongs to job {}", batch.id)), "{}", other.said());
    batch.start_again();
    batch.wait_for_end("COMPLETED", JOB);
    assert_eq!(batch.log(), format!("{FIRST}{SECOND}"), "{}", batch.said());
    assert_both_landed(&stores, "adopted");
    assert_eq!((stores.left(&batch.id), stores.landed("other")), (vec![], vec![]));
    stores.assert_nothing_runs(&batch.id);
}
