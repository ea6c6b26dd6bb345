//! Statements near the data, in real jobs of nodes on this host: the same rows whoever makes them, and whoever is lost meanwhile.
//!
//! `make test-sql` names the command by `FOREBAY_BIN`; without it these tests are skipped, and fail with `CI=true`.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A job, and the files that its nodes hold.
struct Job {
    base: tempfile::TempDir,
    forebay: PathBuf,
}

impl Job {
    /// Four nodes: devices, each with a directory of its own, or such that read one export for all. Their engine is `program`.
    fn of_four(devices: bool, program: &Path) -> Option<Self> {
        let Some(forebay) = std::env::var_os("FOREBAY_BIN") else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "FOREBAY_BIN names no command");
            eprintln!("skipped: FOREBAY_BIN names no command");
            return None;
        };
        let base = tempfile::tempdir().unwrap();
        fs::DirBuilder::new().mode(0o700).create(base.path().join("jobs")).unwrap();
        (0..4).for_each(|rank| fs::create_dir_all(base.path().join(format!("data/{rank}"))).unwrap());
        fs::create_dir(base.path().join("export")).unwrap();
        let job = Self { base, forebay: forebay.into() };
        let (data, export) = (job.path("data"), job.path("export"));
        let mut up = job.command();
        up.args(["up", "--local", "4", "--export"]).arg(export).env("FOREBAY_SQL", program);
        match devices {
            true => up.args(["--role", "device", "--data"]).arg(data),
            false => up.args(["--roots", "4"]),
        };
        let done = up.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(job)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.forebay);
        command.env("FOREBAY_DIRECTORY", self.path("jobs")).env("FOREBAY_JOB", "sql");
        command
    }

    fn query(&self, statement: &str, table: &str, place: &str) -> Output {
        let table = format!("t={}", self.path(table).display());
        let mut command = self.command();
        command.args(["query", statement, "--table", &table, "--format", "csv", "--no-newlines"]);
        command.args(["--where", place, "--explain"]).env("FOREBAY_SQL", engine());
        command.output().unwrap()
    }

    /// The rows, and what `--explain` said.
    #[track_caller]
    fn rows(&self, statement: &str, table: &str, place: &str) -> (String, String) {
        let done = self.query(statement, table, place);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        (String::from_utf8(done.stdout).unwrap(), said)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        drop(self.command().arg("down").output());
    }
}

fn engine() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_forebay-sql"))
}

/// Rows of a table, of which no two parts are alike.
fn rows(from: u32, to: u32) -> String {
    (from..to).fold("a,b,note\n".to_owned(), |mut text, row| {
        writeln!(text, "{},{}.25,note {}", row % 7, row.wrapping_mul(2_654_435_761) % 1_000_003, row % 1009).unwrap();
        text
    })
}

const STATEMENTS: [&str; 5] = [
    "SELECT a, count(*), sum(b), min(note), avg(b) FROM t GROUP BY a ORDER BY a",
    "SELECT stats(b)['count'], stats(b)['max'], entropy(note), count(DISTINCT note) FROM t WHERE a > 2",
    "SELECT b, note FROM t WHERE b < 500 ORDER BY b, note LIMIT 20",
    "SELECT x.a, count(*) FROM t x JOIN t y ON x.b = y.b WHERE x.a > 3 AND y.a > 3 GROUP BY x.a ORDER BY x.a",
    "SELECT count(*) FROM t",
];

#[test]
fn devices_answer_about_what_they_hold() {
    let Some(job) = Job::of_four(true, &engine()) else { return };
    for rank in 0..4 {
        fs::write(job.path(&format!("data/{rank}/t.csv")), rows(rank * 30_000, (rank + 1) * 30_000)).unwrap();
    }
    for statement in STATEMENTS {
        let ((here, said_here), (there, said)) =
            (job.rows(statement, "data", "host"), job.rows(statement, "data", "data"));
        assert_eq!(there, here, "{statement}");
        assert!(!said_here.contains("made by"), "{said_here}");
        (0..4).for_each(|rank| assert!(said.contains(&format!("made by node {rank}: ")), "{statement}: {said}"));
        assert!(!said.contains("made by this host") && !said.contains("other nodes compute"), "{said}");
    }
    // Parquet, and what nobody holds.
    let to = job.path("data/2/t.parquet");
    let made = Command::new(engine())
        .args(["SELECT * FROM t", "--format", "parquet", "--table"])
        .arg(format!("t={}", job.path("data").display()))
        .arg("--output")
        .arg(&to)
        .output()
        .unwrap();
    assert!(made.status.success());
    for statement in STATEMENTS.iter().take(4) {
        let (there, said) = job.rows(statement, "data/2/t.parquet", "data");
        assert_eq!(there, job.rows(statement, "data", "host").0);
        assert!(said.contains("made by node 2: ") && !said.contains("made by node 1"), "{said}");
    }
    fs::write(job.path("elsewhere.csv"), rows(0, 10)).unwrap();
    let refused = job.query(STATEMENTS[0], "elsewhere.csv", "data");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("no node of the job holds"), "{said}");
    assert!(job.query(STATEMENTS[0], "elsewhere.csv", "auto").status.success());
}

#[test]
fn nodes_without_the_engine_are_stood_in_for() {
    let Some(job) = Job::of_four(true, Path::new("/bin/false")) else { return };
    fs::write(job.path("data/1/t.csv"), rows(0, 30_000)).unwrap();
    let (there, said) = job.rows(STATEMENTS[0], "data/1/t.csv", "data");
    assert_eq!(there, job.rows(STATEMENTS[0], "data/1/t.csv", "host").0);
    assert!(said.contains("note: node 1 on") && said.contains("other nodes compute its pieces"), "{said}");
    assert!(said.contains("made by this host"), "{said}");
}

#[test]
fn a_node_that_dies_midway_is_stood_in_for_by_others() {
    // The first to make a piece kills its daemon; not the one that the host asks, without which all are out of reach.
    let temporary = tempfile::tempdir().unwrap();
    let (program, mark) = (temporary.path().join("program"), temporary.path().join("mark"));
    let script = format!(
        "#!/bin/sh\ncase \"$(tr '\\0' ' ' </proc/$PPID/cmdline)\" in\n*'/0 '*) ;;\n*) if mkdir '{}' 2>/dev/null; then kill -9 \
         $PPID; exit 1; fi ;;\nesac\nexec '{}' \"$@\"\n",
        mark.display(),
        engine().display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(job) = Job::of_four(false, &program) else { return };
    fs::write(job.path("export/t.csv"), rows(0, 400_000)).unwrap();
    let (there, said) = job.rows(STATEMENTS[0], "export/t.csv", "data");
    assert!(mark.exists(), "one has died");
    assert_eq!(there, job.rows(STATEMENTS[0], "export/t.csv", "host").0);
    assert!(said.contains("made by node "), "{said}");
    assert_eq!(said.matches("note: node ").count(), 1, "{said}");
}
