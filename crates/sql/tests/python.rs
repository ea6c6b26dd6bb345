//! The client for Python, installed by pip and used by a program.
//!
//! It is skipped, and fails with `CI=true`, where there is no python3 with venv, or pip cannot get pyarrow.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"
import forebay, os
table = forebay.query("SELECT a, b FROM t WHERE a > 1 ORDER BY a", tables={"t": "log.csv"})
assert table.to_pydict() == {"a": [2, 3], "b": [None, 4.5]}, table
none = forebay.query("SELECT a FROM 'log.csv' WHERE a > 9")
assert (none.num_rows, none.column_names) == (0, ["a"]), none
with open("many.csv", "w") as many:
    many.write("value\n" + "".join(f"{value}\n" for value in range(300_000)))
many = forebay.query("SELECT value FROM 'many.csv'")
assert (many.num_rows, sum(many["value"].to_pylist())) == (300_000, 44_999_850_000), many.num_rows
answer = forebay.operators("count-lines,stats", "plain.csv")
assert answer["lines"] == 3 and answer["columns"][0]["sum"] == 3, answer
for wrong in (lambda: forebay.query("SELECT c FROM 'log.csv'"), lambda: forebay.operators("stats", "no-such-file")):
    try:
        wrong()
    except forebay.QueryError as error:
        assert error.status == 1 and ("No field named c" in str(error) or "no-such-file" in str(error)), str(error)
    else:
        raise AssertionError("it did not fail")
os.environ["FOREBAY_COMMAND"] = "/no/such/command"
try:
    forebay.query("SELECT 1")
except FileNotFoundError:
    print("well")
"#;

#[test]
fn a_program_gets_arrow_tables() {
    let (Some(forebay), Some(python)) = (std::env::var_os("FOREBAY_BIN"), python()) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "FOREBAY_BIN names no command, or there is no pyarrow");
        eprintln!("skipped: FOREBAY_BIN names no command, or there is no pyarrow");
        return;
    };
    let bed = tempfile::tempdir().unwrap();
    fs::write(bed.path().join("log.csv"), "a,b,note\n1,2.5,x\n2,,\"y z\"\n3,4.5,12\n").unwrap();
    fs::write(bed.path().join("plain.csv"), "x\n1\n2\n").unwrap();
    let done = Command::new(python)
        .args(["-c", PROGRAM])
        .current_dir(bed.path())
        .env("FOREBAY_COMMAND", forebay)
        .env("FOREBAY_SQL", env!("CARGO_BIN_EXE_forebay-sql"))
        .env("FOREBAY_RUNTIME", bed.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.stdout, b"well\n");
}

/// The interpreter of an environment with the client, which stays beside what was built.
fn python() -> Option<PathBuf> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let python = environment.join("bin/python");
    let ran = |program: &OsStr, words: &[&OsStr]| {
        Command::new(program).args(words).status().is_ok_and(|status| status.success())
    };
    let mut client =
        Path::new("../../python").canonicalize().expect("the working directory is this crate's").into_os_string();
    client.push("[query]");
    let has_environment =
        python.exists() || ran("python3".as_ref(), &["-m".as_ref(), "venv".as_ref(), environment.as_ref()]);
    let installed = has_environment && {
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"].map(OsStr::new);
        ran(python.as_ref(), &[&words[..], &[client.as_os_str()]].concat())
    };
    installed.then_some(python)
}
