//! The command on one host: what it answers, in which formats, and what it says about statements that are wrong.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bed;

use std::fs;
use std::process::Command;

use bed::Bed;
use datafusion::arrow::ipc::reader::StreamReader;

#[test]
fn every_format_has_the_same_rows() {
    let bed = Bed::new();
    let of = "SELECT a, b FROM 'log.csv' ORDER BY a";
    assert_eq!(bed.good(of, &["--format", "csv"]), "a,b\n1,2.5\n2,\n3,4.5\n");
    let json = "[{\"a\":1,\"b\":2.5},{\"a\":2,\"b\":null},{\"a\":3,\"b\":4.5}]\n";
    assert_eq!(bed.good(of, &["--format", "json"]), json);
    assert!(bed.good(of, &[]).starts_with("+---+-----+\n| a | b   |\n"), "a table");
    // A result written as Parquet is a table again.
    assert_eq!(bed.good(of, &["--format", "parquet", "--output", "out.parquet"]), "");
    assert_eq!(bed.good("SELECT * FROM 'out.parquet' ORDER BY a", &["--format", "json"]), json);
    bed.good(of, &["--format", "arrow", "--output", "out.arrow"]);
    let batches = StreamReader::try_new(fs::File::open(bed.path().join("out.arrow")).unwrap(), None).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
    // The results alone were left.
    let mut names: Vec<_> = fs::read_dir(bed.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["log.csv", "out.arrow", "out.parquet"]);
}

#[test]
fn no_rows_are_a_result_too() {
    let bed = Bed::new();
    let of = "SELECT a, b FROM 'log.csv' WHERE a > 7";
    assert_eq!(bed.good(of, &["--format", "csv"]), "a,b\n");
    assert_eq!(bed.good(of, &["--format", "json"]), "[]\n");
    assert!(bed.good(of, &[]).contains("| a | b |"), "names stand above nothing");
}

#[test]
fn tables_have_names_are_directories_and_patterns() {
    let bed = Bed::new();
    let more = bed.path().join("more");
    fs::create_dir(&more).unwrap();
    for index in 0..3 {
        fs::write(more.join(format!("{index}.csv")), format!("n\n{index}\n")).unwrap();
    }
    let sum = |from: &str, more: &[&str]| {
        bed.good(&format!("SELECT sum(n) AS n FROM {from}"), &[&["--format", "csv"], more].concat())
    };
    assert_eq!(sum("'more'", &[]), "n\n3\n");
    assert_eq!(sum("'more/[12].csv'", &[]), "n\n3\n");
    assert_eq!(sum("t", &["--table", "t=more/2.csv"]), "n\n2\n");
    fs::write(bed.path().join("tabs.tsv"), "1\t2\n").unwrap();
    let tabs = bed.good("SELECT column_1 + column_2 AS n FROM 'tabs.tsv'", &["--no-header", "--format", "csv"]);
    assert_eq!(tabs, "n\n3\n");
}

#[test]
fn operators_are_functions() {
    let bed = Bed::new();
    let of = "SELECT stats(b) AS s, gramian(a, b) AS g, entropy('abab') AS e, digits(note) AS d FROM 'log.csv'";
    let stats = r#"{"count":2,"missing":1,"sum":7.0,"mean":3.5,"min":2.5,"max":4.5,"variance":1.0,"deviation":1.0}"#;
    let rest = r#""g":[[10.0,16.0],[16.0,26.5]],"e":1.0,"d":[0,1,1,0,0,0,0,0,0,0]"#;
    assert_eq!(bed.good(of, &["--format", "json"]), format!("[{{\"s\":{stats},{rest}}}]\n"));
    let by = "SELECT a % 2 AS odd, stats(a)['sum'] AS s FROM 'log.csv' GROUP BY 1 ORDER BY 1";
    assert_eq!(bed.good(by, &["--format", "csv"]), "odd,s\n0,2.0\n1,4.0\n");
    let of_nothing = "SELECT stats(a)['count'] AS c, entropy(note) AS e FROM 'log.csv' WHERE a > 7";
    assert_eq!(bed.good(of_nothing, &["--format", "csv"]), "c,e\n0,0.0\n");
}

#[test]
fn sums_are_as_exact_as_those_of_the_operators() {
    let bed = Bed::new();
    // Added one after the other, doubles come to 10000.000000018848.
    fs::write(bed.path().join("tenths.csv"), format!("x\n{}", "0.1\n".repeat(100_000))).unwrap();
    assert_eq!(bed.good("SELECT stats(x)['sum'] AS s FROM 'tenths.csv'", &["--format", "csv"]), "s\n10000.0\n");
}

/// `big.csv` has the largest integer of 64 bits, and numbers around it in groups.
#[test]
fn integers_that_do_not_fit_are_errors_and_sums_that_do_are_exact() {
    let bed = Bed::new();
    let max = i64::MAX;
    fs::write(bed.path().join("big.csv"), format!("g,n\n1,{max}\n1,1\n1,-5\n2,{}\n2,-1\n2,4\n", i64::MIN)).unwrap();
    let rows = |statement: &str| bed.good(statement, &["--format", "csv"]);
    assert_eq!(
        rows("SELECT g, sum(n) AS s FROM 'big.csv' GROUP BY g ORDER BY g"),
        format!("g,s\n1,{}\n2,{}\n", max - 4, i64::MIN + 3)
    );
    assert_eq!(rows("SELECT sum(n) AS s FROM 'big.csv' WHERE g = 1"), format!("s\n{}\n", max - 4));
    assert_eq!(rows("SELECT sum(n) AS s, arrow_typeof(sum(n)) AS t FROM 'big.csv' WHERE g > 5"), "s,t\n,Int64\n");
    let moving = "SELECT n, sum(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM 'big.csv' WHERE g = 1 ORDER BY n";
    assert!(bed.bad(moving, &[]).contains("decimal(38,0)"));
    let small = "SELECT sum(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM 'big.csv' WHERE n BETWEEN -9 AND 9 ORDER BY n";
    assert_eq!(rows(small), "s\n-5\n-6\n0\n5\n");
    assert_eq!(
        rows("SELECT sum(DISTINCT n) AS s, n - 1 + 2 * g AS e FROM 'big.csv' WHERE n = 4 GROUP BY n - 1 + 2 * g"),
        "s,e\n4,7\n"
    );
    assert_eq!(
        rows("SELECT n + 1, -n, sum(n * 2) FROM 'big.csv' WHERE n = 4 GROUP BY n").lines().last(),
        Some("5,-4,8")
    );
    assert_eq!(rows("SELECT n + 0.5 AS x, 7 / 2 AS q FROM 'big.csv' WHERE n = 4"), "x,q\n4.5,3\n");
    for wrong in [
        "SELECT g, sum(n) FROM 'big.csv' WHERE n > 0 OR g = 2 GROUP BY g",
        "SELECT sum(n) FROM 'big.csv' WHERE n > 0",
        "SELECT sum(DISTINCT n) FROM 'big.csv' WHERE n > 0",
        "SELECT n + 1 FROM 'big.csv'",
        "SELECT sum(n + 1) FROM 'big.csv'",
        "SELECT n * 2 FROM 'big.csv'",
        "SELECT n - 1 FROM 'big.csv'",
        "SELECT -n FROM 'big.csv'",
        "SELECT g FROM 'big.csv' WHERE n - 1 > 0",
        "SELECT g FROM 'big.csv' WHERE g IN (SELECT n * 3 FROM 'big.csv')",
        "SELECT 9223372036854775807 + 1",
        "SELECT g FROM 'big.csv' ORDER BY n * 2",
    ] {
        let said = bed.bad(wrong, &[]);
        assert!(said.contains("cast(... as decimal(38,0)) holds more"), "{wrong}: {said}");
    }
    assert_eq!(
        rows("SELECT sum(n::decimal(38,0)) AS s FROM 'big.csv' WHERE n > 0"),
        format!("s\n{}\n", i128::from(max) + 5)
    );
}

#[test]
fn a_caret_shows_where_a_statement_is_wrong() {
    let bed = Bed::new();
    for (statement, says, line, column) in [
        ("SELEC a", "SELEC", 1, 1),
        ("SELECT a,\n  c FROM 'log.csv'", "No field named c", 2, 3),
        ("SELECT a b c FROM 'log.csv'", "found: c", 1, 12),
        ("SELECT 'abc", "Unterminated", 1, 8),
        ("SELECT foo(a) FROM 'log.csv'", "'foo'", 1, 8),
        ("SELECT a + note FROM 'log.csv'", "Int64 + Utf8", 1, 8),
        ("SELECT * FROM 'none.csv'", "no such file", 1, 16),
        ("SELECT * FROM none", "no such file", 1, 15),
        ("SELECT a, stats(note) FROM 'log.csv'", "stats takes numbers", 1, 11),
        ("SELECT a FROM 'log.csv' WHERE a = 'x'", "'x'", 1, 36),
    ] {
        let said = bed.bad(statement, &[]);
        let text = statement.split('\n').nth(line - 1).unwrap();
        let pointed = format!("line {line}, column {column}:\n  {text}\n  {}^\n", " ".repeat(column - 1));
        assert!(said.contains(says) && said.ends_with(&pointed), "{said}");
    }
}

#[test]
fn a_statement_writes_no_file() {
    let bed = Bed::new();
    for statement in [
        "COPY (SELECT 1) TO 'out.csv'",
        "CREATE TABLE t AS SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'x.csv'",
        "SET datafusion.execution.batch_size = 1",
    ] {
        bed.bad(statement, &[]);
    }
    assert_eq!(fs::read_dir(bed.path()).unwrap().count(), 1);
}

#[test]
fn a_file_that_cannot_be_written_does_not_appear() {
    let bed = Bed::new();
    let said = bed.bad("SELECT stats(a) FROM 'log.csv'", &["--format", "csv", "--output", "out.csv"]);
    assert!(said.contains("several values"), "{said}");
    // It fails when some rows have been read.
    fs::write(bed.path().join("late.csv"), format!("n\n{}x\n", "1\n".repeat(20_000))).unwrap();
    bed.bad("SELECT n FROM 'late.csv'", &["--format", "csv", "--output", "out.csv"]);
    bed.bad("SELECT 1", &["--output", "none/out.csv"]);
    assert_eq!(fs::read_dir(bed.path()).unwrap().count(), 2);
}

#[test]
fn a_sort_beyond_its_memory_spills_to_files_that_leave_nothing_behind() {
    let bed = Bed::new();
    let spilled = bed.path().join("spilled");
    fs::create_dir(&spilled).unwrap();
    let rows = (0..80_000_u64).map(|row| format!("{},x{row:0199}\n", row * 2_654_435_761 % 1_000_003));
    fs::write(bed.path().join("many.csv"), format!("a,note\n{}", rows.collect::<String>())).unwrap();
    let sorted = |statement: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-sql"));
        command.current_dir(bed.path()).env("TMPDIR", &spilled).arg(statement).args(["--memory-mib", "16"]).args(more);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(fs::read_dir(&spilled).unwrap().count(), 0);
        String::from_utf8(done.stdout).unwrap()
    };
    let of = "SELECT a, note FROM 'many.csv' ORDER BY a, note";
    let explained = sorted(&format!("EXPLAIN ANALYZE {of}"), &[]);
    assert!(explained.contains("SortExec") && !explained.contains("spilled_bytes=0.0 B"), "{explained}");
    let rows = sorted(of, &["--format", "csv"]);
    let numbers: Vec<u64> = rows.lines().skip(1).map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.len() == 80_000 && numbers.is_sorted());
}

#[test]
fn a_killed_statement_leaves_nothing_of_its_output() {
    let bed = Bed::new();
    fs::write(bed.path().join("n.csv"), format!("n\n{}", "1\n".repeat(2000))).unwrap();
    let before = fs::read_dir(bed.path()).unwrap().count();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-sql"));
    command.current_dir(bed.path()).arg("SELECT a.n FROM 'n.csv' a, 'n.csv' b, 'n.csv' c");
    let mut killed = command.args(["--format", "csv", "--output", "out.csv"]).spawn().unwrap();
    let written = || {
        let open = fs::read_dir(format!("/proc/{}/fd", killed.id())).unwrap().flatten();
        let lens = open.filter_map(|own| {
            let is_output = fs::read_link(own.path()).ok()?.to_string_lossy().ends_with("(deleted)");
            is_output.then(|| own.path().metadata().ok().map(|found| found.len())).flatten()
        });
        lens.max().unwrap_or(0)
    };
    while written() < 1 << 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(fs::read_dir(bed.path()).unwrap().count(), before);
}
