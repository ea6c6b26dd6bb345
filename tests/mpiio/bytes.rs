//! The same bytes as plain MPI-IO, in every pattern, by every form of call, with every datatype.

use super::*;

/// Small buffers and stripes, so that small files have several aggregators, rounds and slices.
fn small<'a>(ranks: usize, aggregators: usize) -> Way<'a> {
    Way::aggregated(ranks)
        .with("FOREBAY_MPIIO_AGGREGATION", "enable")
        .with("FOREBAY_MPIIO_AGGREGATORS", aggregators)
        .with("FOREBAY_MPIIO_BUFFER_BYTES", 65_536)
        .with("ROMIO_HINTS", "HINTS")
}

/// Compared with a ROMIO that leaves holes alone: its data sieving and collective buffering write there whatever was in their
/// buffers (MPICH 4.0.2, Open MPI 4.1.4).
fn leaving_holes<'a>(bench: &Bench, mut way: Way<'a>) -> Way<'a> {
    let hints = bench.path("plain-hints");
    fs::write(&hints, "romio_ds_write disable\nromio_cb_write disable\n").unwrap();
    way.plain_environment.push(("ROMIO_HINTS", hints.display().to_string()));
    way
}

fn patterns(mpi: Mpi, ranks: &[usize]) {
    let bench = crate::bench(mpi);
    let program = bench.compile("patterns.c");
    let hints = bench.path("hints");
    fs::write(&hints, "striping_unit 16384\ncb_config_list *:*\n").unwrap();
    for (number, ranks) in ranks.iter().enumerate() {
        for (pattern, count) in [
            ("hacc-structs", "3000"),
            ("hacc-arrays", "3000"),
            ("segmented", "3"),
            ("strided", "40"),
            ("uneven", "6"),
            ("one", "300000"),
        ] {
            let mut way = small(*ranks, number % 3 + 1);
            way.environment.last_mut().unwrap().1 = hints.display().to_string();
            if ["strided", "uneven"].contains(&pattern) {
                way = leaving_holes(&bench, way);
            }
            let (printed, record) = compare(&bench, &way, &program, &[pattern, &number.to_string(), count]);
            assert!(printed.ends_with(" bytes, 40 at the end\n"), "{printed}");
            let what = format!("{pattern} on {ranks}: {record}");
            assert!(record["exchanges"].as_u64().unwrap() > 0 && record["state"] == "complete", "{what}");
            assert!(record["aggregators"].as_array().unwrap().len() <= number % 3 + 1, "{what}");
            assert!(record["passed_through"].as_object().unwrap().is_empty(), "{what}");
        }
    }
}

#[test]
fn patterns_under_mpich() {
    require_mpi!(mpich);
    patterns(MPICH, &[1, 2, 3]);
}

#[test]
fn patterns_under_open_mpi() {
    require_mpi!(openmpi);
    patterns(OPEN_MPI, &[1, 6, 16]);
}

/// As hints are by default, and on many ranks.
#[test]
fn patterns_on_64_ranks() {
    require_mpi!(openmpi);
    let bench = crate::bench(OPEN_MPI);
    let program = bench.compile("patterns.c");
    for (pattern, count) in [("hacc-structs", "500"), ("segmented", "2")] {
        let (_, record) = compare(&bench, &Way::aggregated(64), &program, &[pattern, "7", count]);
        assert_eq!(record["exchanges"], 1, "{pattern}: {record}");
    }
}

/// Of ranks that write the same byte in one call, one wins.
fn overlaps(mpi: Mpi) {
    let bench = crate::bench(mpi);
    let program = bench.compile("patterns.c");
    let file = bench.path("file");
    let _ = bench.run(&small(4, 2), &program, &[file.to_str().unwrap(), "overlaps", "0", "10000"]).good();
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 50_000);
    for (at, byte) in bytes.iter().enumerate() {
        let block = at / 10_000;
        assert!(usize::from(*byte) == block + 1 || usize::from(*byte) == block, "byte {at} is {byte}");
    }
}

#[test]
fn overlaps_have_some_writers_bytes() {
    require_mpi!(mpich);
    overlaps(MPICH);
}

fn forms(mpi: Mpi, ranks: usize, parts: &str, by_ompio: bool) {
    let bench = crate::bench(mpi);
    let program = bench.compile("forms.c");
    for way in
        [small(ranks, 2), Way::aggregated(ranks), Way::aggregated(ranks).with("FOREBAY_MPIIO_BUFFER_BYTES", 2500)]
    {
        let way = if by_ompio { way.by_ompio() } else { way };
        let (_, record) = compare(&bench, &way, &program, &[parts]);
        assert!(record["held_calls"].as_u64().unwrap() > 0, "{record}");
        let passed = record["passed_through"].as_object().unwrap();
        assert_eq!(passed.get("atomic mode").is_some(), parts.contains('m'), "{record}");
    }
}

#[test]
fn every_form_under_mpich() {
    require_mpi!(mpich);
    forms(MPICH, 2, "bsnlm", false);
}

#[test]
fn every_form_under_open_mpi() {
    require_mpi!(openmpi);
    forms(OPEN_MPI, 5, "bsm", false);
    forms(OPEN_MPI, 3, "n", true);
}

fn types(mpi: Mpi, ranks: usize) {
    let bench = crate::bench(mpi);
    let program = bench.compile("types.c");
    for way in [small(ranks, 2), Way::aggregated(ranks)] {
        let way = leaving_holes(&bench, way);
        let (_, record) = compare(&bench, &way, &program, &["comparable"]);
        let _ = bench.run(&way, &program, &[bench.path("others").to_str().unwrap(), "others"]).good();
        assert!(record["passed_through"]["a datatype or view that is not taken apart"].is_null(), "{record}");
    }
}

#[test]
fn every_datatype_under_mpich() {
    require_mpi!(mpich);
    types(MPICH, 3);
}

#[test]
fn every_datatype_under_open_mpi() {
    require_mpi!(openmpi);
    types(OPEN_MPI, 3);
}
