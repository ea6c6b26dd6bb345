//! Data sets of HDF5, NetCDF and NumPy: as numpy has them, on this host and near the data.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use forebay_tests::need::SYSTEM_PYTHON;
use forebay_tests::program::{file_of_tests, run};
use forebay_tests::{Sandbox, require};
use serde_json::{Value, json};

use crate::bed::{Bed, parted};

/// Files of data sets.
struct Files {
    sandbox: Sandbox,
    /// Their statistics by numpy.
    cases: Vec<Value>,
}

impl Files {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let program = file_of_tests("query/arrays.py");
        let done = run(Command::new(SYSTEM_PYTHON).arg(program).arg(sandbox.base())).good();
        Self { cases: serde_json::from_slice(&done.stdout).unwrap(), sandbox }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.base().join(name)
    }

    /// The answer to a query of one of them.
    #[track_caller]
    fn ask(&self, operators: &str, name: &str, more: &[&str]) -> Value {
        let mut command = self.sandbox.command();
        command.args(["query", operators]).arg(self.path(name)).args(more).arg("--json");
        serde_json::from_slice(&run(&mut command).good().stdout).unwrap()
    }

    /// The error of one.
    #[track_caller]
    fn fails(&self, status: i32, operators: &str, name: &str, more: &[&str]) -> String {
        let mut command = self.sandbox.command();
        let done = run(command.args(["query", operators]).arg(self.path(name)).args(more));
        assert_eq!(done.status.code(), Some(status), "{operators} {name}: {}", done.stderr);
        done.stderr
    }
}

#[test]
fn data_sets_have_the_statistics_that_numpy_finds() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = Files::new();
    assert!(files.cases.len() > 15);
    for case in &files.cases {
        let columns: Vec<&str> = case[1].as_str().into_iter().flat_map(|columns| ["--columns", columns]).collect();
        let said = files.ask("stats", case[0].as_str().unwrap(), &columns);
        let found = said["columns"].as_array().unwrap();
        assert_eq!(found.len(), case[2].as_object().unwrap().len(), "{case}: {said}");
        for column in found {
            let known = &case[2][column["name"].as_str().unwrap()];
            for (index, field) in ["count", "mean", "min", "max"].into_iter().enumerate() {
                let (found, known) = (column[field].as_f64().unwrap(), known[index].as_f64().unwrap());
                assert!((found - known).abs() <= 1e-9 * known.abs().max(1.0), "{case}: {field} {found}");
            }
        }
    }
}

#[test]
fn data_sets_of_other_shapes_are_named_and_rows_are_chosen_by_conditions() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = Files::new();
    let notes = files.ask("stats", "old.h5", &[])["notes"].to_string();
    for part in ["of shape 30 x 40 x 50", "line (100)", "left out: name (text"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let described = files.ask("describe,histogram,correlation", "old.h5", &[]);
    assert_eq!((&described["described"][0]["count"], &described["rows"]), (&json!(60_000), &json!(60_000)));
    let said = files.ask("stats", "old.h5", &["--columns", "g/cube", "--where-row", "\"g/counts\" >= 0"]);
    let (kept, left) = (said["rows"].as_u64().unwrap(), said["rows_left_out"].as_u64().unwrap());
    assert!(kept > 50_000 && left > 1000 && kept + left == 60_000, "{said}");
    let groups = files.ask("stats", "old.h5", &["--by", "g/counts"]);
    assert_eq!(groups["groups"].as_array().unwrap().len(), 108);
    let missing = files.ask("stats", "table.h5", &["--columns", "y", "--missing", "7,9"]);
    assert_eq!(missing["columns"][0]["missing"], 2);
    for (name, columns, part) in [
        ("old.h5", "nothing", "it has no data set \"nothing\""),
        ("old.h5", "line,g/cube", "different shapes"),
        ("text.npy", "x", "no numbers"),
    ] {
        let said = files.fails(1, "stats", name, &["--columns", columns]);
        assert!(said.contains(part), "{part}: {said}");
    }
    // Beside text with the same columns, in either order.
    fs::write(files.path("y.csv"), "y\n5000\n5001\n").unwrap();
    for (first, second) in [("table.h5", "y.csv"), ("y.csv", "table.h5")] {
        let second = files.path(second);
        let said = files.ask("stats", first, &[second.to_str().unwrap(), "--columns", "y"]);
        assert_eq!((&said["rows"], &said["columns"][0]["max"]), (&json!(5002), &json!(5001.0)), "{first}: {said}");
    }
    for (operator, part) in [("stats,entropy", "counts the bytes of a file"), ("normalise", "columns of text alone")] {
        let said = files.fails(2, operator, "old.h5", &[]);
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(files.ask("count-lines", "old.h5", &[])["bytes"], fs::metadata(files.path("old.h5")).unwrap().len());
}

/// Damage at any place is an error or changes nothing; no number of a damaged file is one.
#[test]
fn damaged_files_are_errors() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = Files::new();
    for name in ["old.h5", "new.h5", "NETCDF3_CLASSIC.nc", "c.npy"] {
        let whole = fs::read(files.path(name)).unwrap();
        for share in [2, 3, 10, 100] {
            fs::write(files.path("damaged"), &whole[..whole.len() / share]).unwrap();
            let said = files.fails(1, "stats", "damaged", &[]);
            assert!(said.contains("damaged\n"), "{name} cut to 1/{share}: {said}");
        }
    }
}

/// Data sets in chunks of different shapes, and a table, of some blocks each.
const WRITE: &str = "
import sys, h5py, numpy
seeded = numpy.random.default_rng(3)
with h5py.File(sys.argv[1] + '/cube.h5', 'w') as file:
    for name, chunks in ('a', (50, 40, 33)), ('b', (13, 90, 64)):
        file.create_dataset(name, data=seeded.normal(size=(200, 90, 64)), chunks=chunks, compression='gzip')
numpy.save(sys.argv[1] + '/table.npy', seeded.normal(size=(400000, 5)))
";

#[test]
fn nodes_have_one_hosts_bits_of_data_sets() {
    require!(Fuse, PythonModule("h5py"));
    let bed = Bed::of_devices();
    let first = bed.file(2, "cube.h5");
    let _ = run(Command::new(SYSTEM_PYTHON).args(["-c", WRITE]).arg(first.parent().unwrap())).good();
    let operators = "stats,gramian,describe,histogram,top,correlation";
    for (name, condition) in [("cube.h5", "a > 0 and b < 1"), ("table.npy", "\"array[2]\" > 0")] {
        for more in [&[][..], &["--where-row", condition]] {
            let file = bed.file(2, name);
            let said = |place| {
                parted(&bed.query(operators, &file, &[&["--json", "--where", place], more].concat()).good().stdout)
            };
            let (here, by) = said("host");
            assert!(by.is_null() && here["rows"].as_u64() > Some(100_000), "{here}");
            for place in ["data", "split"] {
                let (there, by) = said(place);
                assert_eq!(there, here, "{name} {place}");
                // Where both ends make blocks, either may have made all of them before the other has one.
                let of_node = by.as_array().is_some_and(|by| by.iter().any(|by| by["node"] == 2));
                assert!(of_node || place == "split", "{by}");
            }
        }
    }
    bed.job.down();
}
