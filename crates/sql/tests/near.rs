//! Statements near the data, in real jobs of nodes on this host: the same rows whoever makes them, and whoever is lost meanwhile.
//!
//! `make test-sql` names the command by `FOREBAY_BIN`; without it these tests are skipped, and fail with `CI=true`.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod tpch;

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

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

    fn command_for(&self, statement: &str, tables: &[(&str, &str)], place: &str) -> Command {
        self.command_for_dialect(statement, tables, place, &["--no-newlines"])
    }

    fn command_for_dialect(&self, statement: &str, tables: &[(&str, &str)], place: &str, more: &[&str]) -> Command {
        let mut command = self.command();
        command.args(["query", statement, "--format", "csv", "--where", place, "--explain"]).args(more);
        for (name, table) in tables {
            command.arg("--table").arg(format!("{name}={}", self.path(table).display()));
        }
        command.env("FOREBAY_SQL", engine());
        command
    }

    fn query(&self, statement: &str, table: &str, place: &str) -> Output {
        self.command_for(statement, &[("t", table)], place).output().unwrap()
    }

    /// The rows, and what `--explain` said.
    #[track_caller]
    fn rows(&self, statement: &str, table: &str, place: &str) -> (String, String) {
        self.rows_of(statement, &[("t", table)], place)
    }

    #[track_caller]
    fn rows_of(&self, statement: &str, tables: &[(&str, &str)], place: &str) -> (String, String) {
        let done = self.command_for(statement, tables, place).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{statement}: {said}");
        (String::from_utf8(done.stdout).unwrap(), said)
    }

    /// Processes of workers of this job.
    fn workers(&self) -> usize {
        let own = self.base.path().to_str().unwrap();
        let is_worker = |entry: fs::DirEntry| {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            command.contains(" worker --daemon ") && command.contains(own)
        };
        fs::read_dir("/proc").unwrap().flatten().map(is_worker).filter(|is| *is).count()
    }

    /// Waits until there are such workers.
    #[track_caller]
    fn until_workers(&self, are: impl Fn(usize) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !are(self.workers()) {
            assert!(Instant::now() < deadline, "{} workers", self.workers());
            std::thread::sleep(Duration::from_millis(20));
        }
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

/// A program in place of the engine: the first worker does `first` with itself when it has read a megabyte; not that of the node that the
/// host asks, without which all are out of reach.
fn program(temporary: &Path, first: &str) -> (PathBuf, PathBuf) {
    let (program, mark) = (temporary.join("program"), temporary.join("mark"));
    let script = format!(
        "#!/bin/sh\ncase \"$(tr '\\0' ' ' </proc/$PPID/cmdline)\" in\n*'/0 '*) ;;\n*) if mkdir '{mark}' 2>/dev/null; then\n( while kill -0 $$ 2>/dev/null; do \
         [ \"$(sed -n 's/^rchar: //p' /proc/$$/io)\" -gt 1000000 ] && {{ {first}; exit; }}; done ) <&- 2>&- &\nfi ;;\nesac\nexec '{engine}' \"$@\"\n",
        mark = mark.display(),
        engine = engine().display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, mark)
}

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
        assert!(!said_here.contains("node 0"), "{said_here}");
        for rank in 0..4 {
            let read = fs::metadata(job.path(&format!("data/{rank}/t.csv"))).unwrap().len();
            assert!(said.contains(&format!("node {rank}: ")) && !said.contains("note:"), "{statement}: {said}");
            let times = if statement.contains("JOIN") { 2 } else { 1 };
            assert!(said.contains(&format!("node {rank}: {} bytes of files", read * times)), "{statement}: {said}");
        }
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
        assert!(said.contains("node 2: ") && !said.contains("node 2: 0 ") && !said.contains("node 1: "), "{said}");
    }
    fs::write(job.path("elsewhere.csv"), rows(0, 10)).unwrap();
    let refused = job.query(STATEMENTS[0], "elsewhere.csv", "data");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("no node of the job holds"), "{said}");
    assert!(job.query(STATEMENTS[0], "elsewhere.csv", "auto").status.success());
    job.until_workers(|count| count == 0);
}

/// A table of each kind at the paths of devices, in directories that are columns, and the options that read it.
const KINDS: [(&str, &[&str]); 6] = [
    ("x.csv", &["--missing", "NA,-", "--types", "b=double,note=text", "--comment", "#", "--quote", "'"]),
    ("x.csv.gz", &["--missing", "NA,-", "--types", "b=double", "--comment", "#", "--quote", "'"]),
    ("x.csv.zst", &["--comment", "#", "--quote", "'", "--sample", "50"]),
    ("x.ndjson", &["--types", "b=double"]),
    ("x.jsonl.gz", &[]),
    ("x.parquet", &[]),
];

/// Rows of a month as such a file.
fn file_of(month: u32, name: &str, job: &Job) -> Vec<u8> {
    let rows = (0..20_000).map(|row| (row % 7, (row * 31 + month) % 997, row % 13));
    let csv = |(a, b, note): (u32, u32, u32)| match a {
        3 => format!("# {b},\"\n{a},NA,-\n"),
        _ => format!("{a},{b}.25,'note, {note}'\n"),
    };
    let json = |(a, b, note): (u32, u32, u32)| match a {
        3 => format!("{{\"a\":{a}}}\n"),
        _ => format!("{{\"a\":{a},\"b\":{b}.25,\"note\":\"note, {note}\"}}\n"),
    };
    let text: String = match name.contains("json") {
        true => rows.map(json).collect(),
        false => std::iter::once("a,b,note\n".to_owned()).chain(rows.map(csv)).collect(),
    };
    match name.rsplit_once('.').unwrap().1 {
        "gz" => {
            let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap()
        }
        "zst" => zstd::encode_all(text.as_bytes(), 1).unwrap(),
        "parquet" => {
            let from = job.path("from.csv");
            fs::write(&from, text).unwrap();
            let statement = format!("SELECT a, b, note FROM '{}'", from.display());
            let mut made = Command::new(engine());
            made.args([&statement, "--format", "parquet"]).args(KINDS[0].1);
            made.output().unwrap().stdout
        }
        _ => text.into_bytes(),
    }
}

#[test]
fn nodes_read_every_kind_of_file_as_the_host_does() {
    let Some(job) = Job::of_four(true, &engine()) else { return };
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        for month in 1..=8 {
            let directory = job.path(&format!("data/{}/{kind}/year={}/month={month:02}", month % 4, 2023 + month % 2));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(name), file_of(month, name, &job)).unwrap();
        }
    }
    for (kind, (name, options)) in KINDS.iter().enumerate() {
        let table = format!("data/*/{kind}/year=*/month=*/{name}");
        // Words for missing values are text where no option names them.
        let is_number = *name != "x.csv.zst";
        let sum = if is_number { "sum(b)" } else { "count(DISTINCT b)" };
        let asked = |condition: &str, place: &str| {
            let statement = format!(
                "SELECT year, month, a, {sum}, count(b), count(note) FROM t WHERE {condition} GROUP BY year, month, a ORDER BY 1, 2, 3"
            );
            let done = job.command_for_dialect(&statement, &[("t", &table)], place, options).output().unwrap();
            let said = String::from_utf8(done.stderr).unwrap();
            assert!(done.status.success(), "{name}: {said}");
            (String::from_utf8(done.stdout).unwrap(), said)
        };
        let ((here, _), (there, said)) = (asked("true", "host"), asked("true", "data"));
        assert_eq!(there, here, "{name}");
        assert_eq!(here.lines().count(), 1 + 8 * 7, "{name}: {here}");
        assert!(said.contains("node 3: ") && !said.contains("note:"), "{name}: {said}");
        // The others' files are neither read nor asked about.
        let ((here, _), (there, said)) =
            (asked("month = 5 AND year = 2024", "host"), asked("month = 5 AND year = 2024", "data"));
        assert_eq!((there, here.lines().count()), (here.clone(), 1 + 7), "{name}");
        assert!(
            said.contains("node 1: ") && !said.contains("node 3: ") && !said.contains("month=06"),
            "{name}: {said}"
        );
    }
    job.until_workers(|count| count == 0);
}

#[test]
fn newlines_in_quotes_are_cut_at_records_and_integers_do_not_wrap_on_nodes() {
    let Some(job) = Job::of_four(true, &engine()) else { return };
    for node in 0..4 {
        let record = |row: u64| format!("{row},\"x\n{row},\"\"y\n\",{}\n", row % 5);
        let rows = (0..40_000).fold("n,note,g\n".to_owned(), |text, row| text + &record(row * (node + 1)));
        fs::write(job.path(&format!("data/{node}/log.csv")), rows).unwrap();
    }
    for table in ["data/*/log.csv", "data/2/log.csv"] {
        let asked = |statement: &str, place: &str| {
            let done = job.command_for_dialect(statement, &[("t", table)], place, &[]).output().unwrap();
            (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
        };
        let statement = "SELECT g, count(*), sum(n), sum(n * 2), count(DISTINCT note) FROM t GROUP BY g ORDER BY g";
        let ((here, _), (there, said)) = (asked(statement, "host"), asked(statement, "data"));
        assert_eq!((&there, there.lines().count()), (&here, 6), "{said}");
        // The parts of two tasks: of a node that is alone, both.
        assert!(said.contains("node 2: ") && !said.contains("note:") && said.contains("log.csv:0.."), "{said}");
        for wrong in ["SELECT sum(n + 9223372036854770000) FROM t", "SELECT n * 9223372036854770000 FROM t"] {
            for place in ["host", "data"] {
                let (_, said) = asked(wrong, place);
                assert!(said.contains("decimal(38,0)) holds more") && !said.contains("note:"), "{place}: {said}");
            }
        }
    }
    job.until_workers(|count| count == 0);
}

#[test]
fn an_error_of_a_statement_is_told_once_and_ends_its_workers() {
    let Some(job) = Job::of_four(true, &engine()) else { return };
    fs::write(job.path("data/1/t.csv"), format!("{}x,y,z\n", rows(0, 30_000))).unwrap();
    let failed = job.query("SELECT a, sum(b) FROM t GROUP BY a", "data/1/t.csv", "data");
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(!failed.status.success() && failed.stdout.is_empty() && !said.contains("note:"), "{said}");
    assert!(said.contains("pars"), "{said}");
    job.until_workers(|count| count == 0);
}

#[test]
fn nodes_pass_over_nothing_that_the_host_finds_wrong() {
    let Some(job) = Job::of_four(true, &engine()) else { return };
    fs::write(job.path("data/1/cut.ndjson"), format!("{}{{\"a\": 20.5}}\n", "{\"a\": 20}\n".repeat(30_000))).unwrap();
    fs::write(job.path("data/2/open.csv"), format!("a,b\n{}7,\"x\n{}", "1,y\n".repeat(30_000), "2,z\n".repeat(9)))
        .unwrap();
    for (table, options, wrong) in [
        ("data/1/cut.ndjson", &[][..], "column a has 20.5, and its type is one of integers"),
        ("data/2/open.csv", &[], "the quote at byte 120006 is never closed"),
        ("data/2/open.csv", &["--no-newlines"], "the quote at byte 120006 is not closed in its line"),
    ] {
        for place in ["host", "data"] {
            let asked = "SELECT sum(a) FROM t";
            let failed = job.command_for_dialect(asked, &[("t", table)], place, options).output().unwrap();
            let said = String::from_utf8(failed.stderr).unwrap();
            assert!(!failed.status.success() && said.contains(wrong) && !said.contains("note:"), "{place}: {said}");
        }
    }
    job.until_workers(|count| count == 0);
}

#[test]
fn joins_groups_and_sorts_of_tpch_are_divided() {
    let Some(job) = Job::of_four(true, &engine()) else { return };
    let mut tables = vec![];
    for (table, decimals) in tpch::TABLES {
        for part in 1..=4 {
            let csv = job.path("part.csv");
            tpch::write_csv(table, 0.005, part, 4, &mut fs::File::create(&csv).map(std::io::BufWriter::new).unwrap())
                .unwrap();
            if fs::read_to_string(&csv).unwrap().lines().count() < 2 {
                continue;
            }
            let to = job.path(&format!("data/{}/{table}", part - 1));
            fs::create_dir_all(&to).unwrap();
            let mut made = Command::new(engine());
            made.arg(tpch::typed(decimals)).arg("--table").arg(format!("t={}", csv.display()));
            made.args(["--format", "parquet", "--output"]).arg(to.join("part.parquet"));
            assert!(made.status().unwrap().success());
        }
        tables.push((table, format!("data/*/{table}/*.parquet")));
    }
    let tables: Vec<_> = tables.iter().map(|(name, path)| (*name, &**path)).collect();
    for query in 1..=22 {
        let statement = fs::read_to_string(format!("../../benches/tpch/q{query}.sql")).unwrap();
        let ((here, _), (there, said)) =
            (job.rows_of(&statement, &tables, "host"), job.rows_of(&statement, &tables, "data"));
        assert_eq!(sorted(&there), sorted(&here), "{query}");
        assert!(said.contains("node 3: ") && !said.contains("note:"), "{query}: {said}");
    }
    job.until_workers(|count| count == 0);
}

/// Lines in an order of their own: rows that are alike in what they are sorted by come in any.
fn sorted(rows: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn nodes_without_the_engine_are_stood_in_for() {
    let Some(job) = Job::of_four(true, Path::new("/bin/false")) else { return };
    fs::write(job.path("data/1/t.csv"), rows(0, 30_000)).unwrap();
    let (there, said) = job.rows(STATEMENTS[0], "data/1/t.csv", "data");
    assert_eq!(there, job.rows(STATEMENTS[0], "data/1/t.csv", "host").0);
    assert!(said.contains("note: node 1 on") && said.contains("note: this host answers"), "{said}");
}

#[test]
fn sorts_of_workers_beyond_their_memory_spill_and_leave_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let (program, spilled) = (temporary.path().join("program"), temporary.path().join("spilled"));
    fs::create_dir(&spilled).unwrap();
    // Each worker has 32 MiB.
    let script = format!(
        "#!/bin/sh\nfor word; do shift\n[ \"$last\" = --memory-bytes ] && set -- \"$@\" 33554432 || set -- \"$@\" \"$word\"\nlast=$word\ndone\n\
         TMPDIR='{}' exec '{}' \"$@\"\n",
        spilled.display(),
        engine().display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(job) = Job::of_four(true, &program) else { return };
    for rank in 0..4_u32 {
        let rows = (rank * 100_000..(rank + 1) * 100_000).fold("a,b,note\n".to_owned(), |mut text, row| {
            writeln!(text, "{},{row},x{:0199}", row.wrapping_mul(2_654_435_761) % 1_000_003, row % 1009).unwrap();
            text
        });
        fs::write(job.path(&format!("data/{rank}/t.csv")), rows).unwrap();
    }
    let statement = "SELECT a, b, note FROM t ORDER BY a, b";
    let ((here, _), (there, said)) = (job.rows(statement, "data", "host"), job.rows(statement, "data", "data"));
    assert!(there == here, "{} and {} bytes", there.len(), here.len());
    assert!(said.contains("node 3: ") && !said.contains("note:"), "{said}");
    let has_spilled = |words: &str| words.contains("spilled_bytes=") && !words.contains("spilled_bytes=0");
    assert!(said.split(", ").any(has_spilled), "{said}");
    assert_eq!(fs::read_dir(&spilled).unwrap().count(), 0);
    job.until_workers(|count| count == 0);
}

/// A statement over a file that all nodes read, of whose workers one does something: the rows are right, and no worker is left.
#[track_caller]
fn lost(first: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let (program, mark) = program(temporary.path(), first);
    let Some(job) = Job::of_four(false, &program) else { return };
    fs::write(job.path("export/t.csv"), rows(0, 400_000)).unwrap();
    let (there, said) = job.rows(STATEMENTS[0], "export/t.csv", "data");
    assert!(mark.exists(), "one is lost");
    assert_eq!(there, job.rows(STATEMENTS[0], "export/t.csv", "host").0);
    assert_eq!(said.matches("note: node ").count(), 1, "{said}");
    assert!(said.contains("node 0: ") && !said.contains("this host answers"), "{said}");
    job.until_workers(|count| count == 0);
}

#[test]
fn a_worker_that_dies_midway_is_stood_in_for_by_others() {
    lost("kill -9 $$");
}

#[test]
fn a_worker_that_stops_midway_is_stood_in_for_by_others() {
    lost("kill -STOP $$");
}

#[test]
fn a_node_that_dies_midway_is_stood_in_for_by_others() {
    lost("kill -9 $PPID");
}

#[test]
fn a_file_that_changes_is_read_as_it_is_then() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("file");
    let (program, mark) = program(temporary.path(), &format!("echo '5,1.5,new' >>'{}'", file.display()));
    let Some(job) = Job::of_four(true, &program) else { return };
    let place = job.path("data/1/t.csv");
    fs::write(&place, rows(0, 300_000)).unwrap();
    std::os::unix::fs::symlink(place, file).unwrap();
    let (there, said) = job.rows("SELECT count(*), max(note) FROM t WHERE a >= 0", "data/1/t.csv", "data");
    assert!(mark.exists() && said.contains("has changed since the statement began"), "{said}");
    assert_eq!(there.lines().last(), Some("300001,note 999"), "{said}");
}

#[test]
fn workers_end_with_the_host() {
    let Some(job) = Job::of_four(false, &engine()) else { return };
    fs::write(job.path("export/t.csv"), rows(0, 100_000)).unwrap();
    // It would take hours.
    let statement = "SELECT count(*) FROM t x JOIN t y ON x.b < y.b JOIN t z ON y.b < z.b + x.a";
    let mut host = job.command_for(statement, &[("t", "export/t.csv")], "data").stderr(Stdio::null()).spawn().unwrap();
    job.until_workers(|count| count == 4);
    host.kill().unwrap();
    host.wait().unwrap();
    job.until_workers(|count| count == 0);
}
