//! Data sets of HDF5, NetCDF and NumPy: as numpy has them, on this host and near the data.

use std::fs;
use std::process::Command;

use forebay_tests::need::SYSTEM_PYTHON;
use forebay_tests::program::run;
use forebay_tests::require;
use serde_json::json;

use crate::bed::{Bed, parted};
use crate::oracle::Oracle;

fn files() -> Oracle {
    Oracle::new("query/arrays.py")
}

#[test]
fn data_sets_have_the_statistics_that_numpy_finds() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    files().agrees(17);
}

#[test]
fn data_sets_of_other_shapes_are_named_and_rows_are_chosen_by_conditions() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = files();
    let notes = files.ask("stats", "old.h5", &[])["notes"].to_string();
    for part in ["of shape 30 x 40 x 50", "line (100)", "left out: name (text"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    for name in ["NETCDF4.nc", "NETCDF3_CLASSIC.nc"] {
        let notes = files.ask("stats", name, &[])["notes"].to_string();
        assert!(notes.contains("valid_min and valid_max were not applied to rain\""), "{notes}");
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
    for option in [["--delimiter", ";"], ["--decimal", ","], ["--comment", "#"], ["--skip", "1"], ["--header", "no"]] {
        let said = files.fails(2, "stats", "table.h5", &option);
        let part = format!("table.h5 is no text, which {} is about: leave it out", option[0]);
        assert!(said.contains(&part), "{part}: {said}");
    }
    files.ask("stats", "table.h5", &["--header", "yes"]);
    // Beside text with the same columns, in either order.
    fs::write(files.path("y.csv"), "y\n5000\n5001\n").unwrap();
    for (first, second) in [("table.h5", "y.csv"), ("y.csv", "table.h5")] {
        let second = files.path(second);
        let said = files.ask("stats", first, &[second.to_str().unwrap(), "--columns", "y"]);
        assert_eq!((&said["rows"], &said["columns"][0]["max"]), (&json!(5002), &json!(5001.0)), "{first}: {said}");
    }
    let (table, text) = (files.path("table.h5"), files.path("y.csv"));
    fs::write(&text, "y\n5000\n").unwrap();
    let said =
        files.ask("stats", table.to_str().unwrap(), &[text.to_str().unwrap(), "--columns", "y", "--delimiter", ";"]);
    assert_eq!(said["rows"], 5001, "{said}");
    for (operator, part) in [("stats,entropy", "counts the bytes of a file"), ("normalise", "columns of text alone")] {
        let said = files.fails(2, operator, "old.h5", &[]);
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(files.ask("count-lines", "old.h5", &[])["bytes"], fs::metadata(files.path("old.h5")).unwrap().len());
}

/// Numbers of other layouts are no numbers of this one.
#[test]
fn data_sets_without_numbers_of_a_known_layout_are_named() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = files();
    let notes = files.ask("stats", "bits.h5", &[])["notes"].to_string();
    for part in ["biased (numbers of a layout that is not IEEE's)", "null (no elements)", "matlab (no elements)"] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let said = files.fails(1, "stats", "null.h5", &[]);
    assert!(said.contains("null (no elements)"), "{said}");
}

/// A tree of 4,000 chunks has over 60 nodes: a walk for each chunk takes over 250,000 reads.
#[test]
fn the_index_of_chunks_is_read_once() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = files();
    let mut query = files.sandbox.command();
    query.args(["query", "stats"]).arg(files.path("many.h5")).arg("--json");
    let mut command = Command::new("sh");
    // A shell has the reads of those that it waited for.
    command.args(["-c", "\"$@\" && cat /proc/$$/io", "sh"]).arg(query.get_program()).args(query.get_args());
    query.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    });
    let done = run(&mut command).good();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("4000"), "{said}");
    let reads = said.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse::<u64>().unwrap();
    assert!((4000..3 * 4000).contains(&reads), "{reads} reads");
}

/// Damage at any place is an error or changes nothing; no number of a damaged file is one.
#[test]
fn damaged_files_are_errors() {
    require!(PythonModule("h5py"), PythonModule("netCDF4"), PythonModule("numcodecs"));
    let files = files();
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
