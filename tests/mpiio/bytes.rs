//! The same bytes as plain MPI-IO, in every pattern, by every form of call, with every datatype.

use super::*;

/// Small buffers and stripes, so that small files have several aggregators, rounds and slices.
fn small<'a>(ranks: usize, aggregators: usize) -> Way<'a> {
    held(ranks)
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

/// Patterns that leave no hole, and what ranks have of each at most.
const WITHOUT_HOLES: [(&str, usize); 4] =
    [("hacc-structs", 3000), ("hacc-arrays", 3000), ("segmented", 3), ("one", 300_000)];

/// Patterns that leave some, or whose tiles do at the end.
const WITH_HOLES: [(&str, usize); 2] = [("strided", 40), ("uneven", 6)];

/// Every pattern on so many ranks, fewer bytes on many.
fn patterns(mpi: Mpi, ranks: usize, aggregators: usize) {
    let bench = crate::bench(mpi);
    let program = bench.compile("patterns.c");
    let hints = bench.path("hints");
    fs::write(&hints, "striping_unit 16384\ncb_config_list *:*\n").unwrap();
    let mut way = small(ranks, aggregators);
    way.environment.last_mut().unwrap().1 = hints.display().to_string();
    let leaving_holes = leaving_holes(&bench, way.clone());
    for (way, patterns) in [(way, &WITHOUT_HOLES[..]), (leaving_holes, &WITH_HOLES)] {
        let mut words = vec![];
        for (pattern, count) in patterns {
            words.extend([(*pattern).to_owned(), (count / ranks.div_ceil(16)).max(1).to_string()]);
        }
        words.insert(1, ranks.to_string());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (printed, records) = compare_all(&bench, &way, &program, &words, patterns.len());
        assert!(printed.lines().all(|line| line.ends_with(" bytes, 40 at the end")), "{printed}");
        for ((pattern, _), record) in patterns.iter().zip(records) {
            let what = format!("{pattern} on {ranks}: {record}");
            assert!(record["exchanges"].as_u64().unwrap() > 0 && record["state"] == "complete", "{what}");
            assert!(record["aggregators"].as_array().unwrap().len() <= aggregators, "{what}");
            assert!(record["passed_through"].as_object().unwrap().is_empty(), "{what}");
        }
    }
}

#[test]
fn patterns_under_mpich() {
    require_mpi!(mpich);
    for (ranks, aggregators) in [(1, 1), (2, 2), (3, 3), (9, 2)] {
        patterns(MPICH, ranks, aggregators);
    }
}

#[test]
fn patterns_under_open_mpi() {
    require_mpi!(openmpi);
    for (ranks, aggregators) in [(1, 1), (6, 2), (16, 3)] {
        patterns(OPEN_MPI, ranks, aggregators);
    }
}

#[test]
fn patterns_on_64_ranks_under_mpich() {
    require_mpi!(mpich);
    patterns(MPICH, 64, 5);
}

#[test]
fn patterns_on_64_ranks_under_open_mpi() {
    require_mpi!(openmpi);
    patterns(OPEN_MPI, 64, 3);
}

/// As hints are by default, and on many ranks.
#[test]
fn ranks_that_hold_little_need_one_exchange() {
    require_mpi!(openmpi);
    let bench = crate::bench(OPEN_MPI);
    let program = bench.compile("patterns.c");
    let words = ["hacc-structs", "7", "500", "segmented", "2"];
    let (_, records) = compare_all(&bench, &held(24), &program, &words, 2);
    assert!(records.iter().all(|record| record["exchanges"] == 1), "{records:?}");
}

/// Of ranks that write the same byte in one call, one wins.
fn overlaps(mpi: Mpi, ranks: usize, bytes_of_rank: usize) {
    let bench = crate::bench(mpi);
    let program = bench.compile("patterns.c");
    let file = bench.path("file");
    let words = [file.to_str().unwrap(), "overlaps", "0", &bytes_of_rank.to_string()];
    let _ = bench.run(&small(ranks, 2), &program, &words).good();
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), (ranks + 1) * bytes_of_rank);
    for (at, byte) in bytes.iter().enumerate() {
        let writers = [at / bytes_of_rank, at / bytes_of_rank + 1];
        assert!(
            writers.contains(&usize::from(*byte)) && (1..=ranks).contains(&usize::from(*byte)),
            "byte {at}: {byte}"
        );
    }
}

#[test]
fn overlaps_have_some_writers_bytes() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    for (mpi, ranks, bytes) in [(MPICH, 2, 100_000), (MPICH, 5, 10_000), (OPEN_MPI, 4, 10_000), (OPEN_MPI, 64, 1000)] {
        overlaps(mpi, ranks, bytes);
    }
}

fn forms(mpi: Mpi, ranks: usize, parts: &str, by_ompio: bool) {
    let bench = crate::bench(mpi);
    let program = bench.compile("forms.c");
    for way in [small(ranks, 2), held(ranks), held(ranks).with("FOREBAY_MPIIO_BUFFER_BYTES", 2500)] {
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
    forms(MPICH, 2, "bsnom", false);
}

#[test]
fn every_form_with_large_counts() {
    require_mpi!(mpich);
    forms(MPICH, 3, "BSNO", false);
}

#[test]
fn every_form_under_open_mpi() {
    require_mpi!(openmpi);
    forms(OPEN_MPI, 5, "bsom", false);
    forms(OPEN_MPI, 3, "n", true);
}

fn types(mpi: Mpi, ranks: usize) {
    let bench = crate::bench(mpi);
    let program = bench.compile("types.c");
    for way in [small(ranks, 2), held(ranks)] {
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
