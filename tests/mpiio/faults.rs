//! Faults: a full file system in the middle of an exchange, ranks that die, programs that never close.

use std::os::unix::fs::MetadataExt;

use super::*;

/// A small file system that is unmounted when dropped.
pub(crate) struct Small(pub(crate) PathBuf);

impl Small {
    pub(crate) fn mounted(at: PathBuf, size: &str) -> Self {
        fs::create_dir(&at).unwrap();
        let _ =
            run(Program::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&at)).good();
        Self(at)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run(Program::new("umount").arg(&self.0));
    }
}

/// As many rounds of 512 KiB as ranks (8), of which the third finds the file system full: an error on every rank, at the call that
/// flushes.
fn full(mpi: Mpi, ranks: usize) {
    let bench = crate::bench(mpi);
    let program = bench.compile("errors.c");
    let small = Small::mounted(bench.path("small"), "1300k");
    let file = small.0.join("file");
    let way = held(ranks)
        .with("FOREBAY_MPIIO_AGGREGATORS", 1)
        .with("FOREBAY_MPIIO_AGGREGATION", "enable")
        .with("FOREBAY_MPIIO_BUFFER_BYTES", 524_288)
        .with("ROMIO_HINTS", hints(&bench, "striping_unit 262144\n"));
    let done = bench.run(&way, &program, &[file.to_str().unwrap(), "500000"]).good();
    let lines: Vec<String> = done.text().lines().map(str::to_owned).collect();
    assert_eq!(lines, vec!["success no-space success success"; ranks], "{}", done.stderr);
    let record = explained(&bench, &file);
    let failure = &record["failures"][0];
    assert_eq!((&record["state"], &failure["round"]), (&"incomplete".into(), &3.into()), "{record}");
    assert!(failure["offset"].as_u64().unwrap() >= 1 << 20, "{record}");
    assert!(
        small.0.join("file.forebay-incomplete").exists() && done.stderr.contains("is incomplete"),
        "{}",
        done.stderr
    );
}

fn hints(bench: &Bench, text: &str) -> String {
    let path = bench.path("hints");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_full_file_system_is_an_error_on_every_rank_under_mpich() {
    require_mpi!(mpich);
    require!(Root, Command("mount"));
    full(MPICH, 8);
}

#[test]
fn a_full_file_system_is_an_error_on_every_rank_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Root, Command("mount"));
    full(OPEN_MPI, 8);
}

/// The launcher ends the job, nobody waits for the dead rank, and the mark shows that the file was not closed.
fn dies(mpi: Mpi) {
    let bench = crate::bench(mpi);
    let program = bench.compile("dies.c");
    let file = bench.path("file");
    let done = bench.run(&held(3), &program, &[file.to_str().unwrap(), "kill"]);
    assert!(!done.status.success());
    assert_eq!(explained(&bench, &file)["state"], "incomplete");
    assert_eq!(fs::metadata(&file).unwrap().size(), 15_000, "what was synced is there");
}

#[test]
fn a_rank_that_dies_hangs_nobody_under_mpich() {
    require_mpi!(mpich);
    dies(MPICH);
}

#[test]
fn a_rank_that_dies_hangs_nobody_under_open_mpi() {
    require_mpi!(openmpi);
    dies(OPEN_MPI);
}

/// Bytes that a rank holds when it ends without closing the file, or aborts the job, are in the file.
#[test]
fn programs_that_never_close_lose_nothing() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let program = bench.compile("dies.c");
    // Of ranks that abort together, the launcher kills the slower ones in the act.
    for (how, ranks) in [("leave", 2), ("abort", 1)] {
        let file = bench.path(how);
        let _ = bench.run(&held(ranks), &program, &[file.to_str().unwrap(), how]);
        let bytes = fs::read(&file).unwrap();
        let (first, last) = (bytes.first(), bytes.last());
        assert_eq!((bytes.len(), first, last), (ranks * 5000, Some(&b'a'), Some(&(b'a' + ranks as u8 - 1))), "{how}");
    }
}

/// The mark of an incomplete file stays until a run has written all of it anew, or deletes it.
#[test]
fn an_incomplete_file_is_marked_until_it_is_written_anew() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (program, file) = (bench.compile("patterns.c"), bench.path("file"));
    let mark = bench.path("file.forebay-incomplete");
    let run = |pattern: &str, particles: &str| {
        let _ = bench.run(&held(2), &program, &[file.to_str().unwrap(), pattern, "0", particles]).good();
    };
    run("hacc-structs", "500");
    fs::write(&mark, "as a run before has left it").unwrap();
    run("hacc-structs", "400");
    assert!(mark.exists(), "some bytes are still those of the run before");
    assert_eq!(explained(&bench, &file)["state"], "incomplete", "also if the last run wrote all that it had");
    let mut explain = Program::new(binary());
    explain.env("FOREBAY_MPIIO_RECORDS", bench.records()).args(["mpiio", "--explain"]).arg(&file);
    let said = super::run(&mut explain);
    assert!(
        said.status.code() == Some(1) && said.text().contains("file.forebay-incomplete lists them"),
        "{}",
        said.text()
    );
    run("hacc-structs", "500");
    assert!(!mark.exists());
}
