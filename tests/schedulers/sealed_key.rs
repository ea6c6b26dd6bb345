//! The job's key on its way through Slurm: a `srun` in between keeps its credential.
//!
//! All nodes of the private Slurm share one `munged`, so that a credential is opened there several times.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use forebay_tests::program::Finished;
use forebay_tests::{require, tree};

use crate::{NODES, Slurm};

#[test]
fn the_key_on_its_way_through_slurm_is_sealed() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let script = r#"
        "$forebay" doctor >"$FB_SLURM/doctor" || true
        grep "munged answers" "$FB_SLURM/doctor" >&2
        "$forebay" up --export "$source" --view "$view" >&2
        "$srun" --overlap --ntasks-per-node=1 sh -c 'cat "$view$source/file"'
        "$forebay" down >&2
    "#;
    let (done, heard) = slurm.batch_heard(script);
    assert_eq!(done.good().text(), "hello\n".repeat(NODES));
    assert!(heard.contains(r#""key":{"munge":"MUNGE:"#) && !holds_a_plain_key(&heard), "{heard}");
}

#[test]
fn without_munge_the_key_goes_as_it_is() {
    require_slurm!();
    let slurm = Slurm::up();
    let (done, heard) = slurm.batch_heard(
        r#"
        "$forebay" up --export "$source" --view "$view" --munge off >&2
        "$forebay" down >&2
    "#,
    );
    let _ = done.good();
    assert!(holds_a_plain_key(&heard) && !heard.contains("MUNGE:"), "{heard}");
}

#[test]
fn a_node_that_cannot_open_the_key_says_what_to_do() {
    require_slurm!();
    let slurm = Slurm::up();
    // `local` is another directory on each node; the socket is in that of the host of `up` alone.
    let script = r#"
        ln -s "$FB_SLURM/munge/sock" "$FB_SLURM/local/sock"
        "$forebay" up --export "$source" --view "$view" --munge "$FB_SLURM/local/sock"
    "#;
    let (done, heard) = slurm.batch_heard(script);
    assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
    assert!(heard.contains("MUNGE:") && !holds_a_plain_key(&heard), "{heard}");
    for part in ["cannot open the job's key by MUNGE", "local/sock", "every node needs munged", "--munge off"] {
        assert!(done.stderr.contains(part), "{part} in {}", done.stderr);
    }
    let done = slurm.batch(r#""$forebay" up --export "$source" --view "$view" --munge "$FB_SLURM/nowhere""#);
    assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("cannot seal the job's key by MUNGE"), "{}", done.stderr);
    assert_eq!(slurm.sandbox.left(), Vec::<String>::new());
}

/// A `srun` that keeps in the file `$wire` what a daemon's job spec is, and is otherwise Slurm's.
const LISTENING_SRUN: &str = r#"#!/bin/sh
case "$*" in
*"--job-spec -") cat >"$wire"; exec "$srun" "$@" <"$wire" ;;
*) exec "$srun" "$@" ;;
esac
"#;

impl Slurm {
    /// Runs a job's script with a `srun` that listens; also what it has heard.
    fn batch_heard(&self, script: &str) -> (Finished, String) {
        let programs = self.sandbox.base().join("listening");
        fs::create_dir_all(&programs).unwrap();
        fs::write(programs.join("srun"), LISTENING_SRUN).unwrap();
        fs::set_permissions(programs.join("srun"), Permissions::from_mode(0o755)).unwrap();
        let wire = programs.join("wire");
        let before = format!(
            "export wire={} srun=\"$(command -v srun)\" PATH={}:\"$PATH\"\n",
            wire.display(),
            programs.display()
        );
        let done = self.batch(&(before + script));
        (done, fs::read_to_string(wire).unwrap_or_default())
    }
}

/// Whether `text` has as many hexadecimal digits in a row as a key.
fn holds_a_plain_key(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_hexdigit()).any(|run| run.len() >= 64)
}
