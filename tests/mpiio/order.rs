//! Ranks that write the same bytes one after the other, ordered by as little as a barrier: what plain MPI-IO over POSIX files gives
//! them, and HDF5 and PnetCDF rely on. Each program checks what it has written, and has the same bytes without the library.

use super::*;

const CASES: [&str; 8] = ["barrier", "message", "test", "shared", "handles", "own", "collective", "view"];

/// As it is by default, where each rank writes its own; on a file system whose calls are held as soon as some follow each other; and
/// so that bytes are held from the first call on.
fn ways(ranks: usize) -> [Way<'static>; 3] {
    let way = || Way::aggregated(ranks);
    let held = way().with("FOREBAY_MPIIO_TEST_FILE_SYSTEM", "nfs");
    [way(), held, way().with("FOREBAY_MPIIO_AGGREGATION", "enable")]
}

fn cases(mpi: Mpi) {
    let bench = crate::bench(mpi);
    let program = bench.compile("order.c");
    for ranks in [2, 3, 4, 8] {
        let mut ways = ways(ranks).to_vec();
        if mpi.name == OPEN_MPI.name && ranks == 4 {
            ways.push(ways[2].clone().by_ompio());
        }
        for way in ways {
            for case in CASES {
                // It checks itself; without the library, too, where its random programs are compared.
                let file = bench.path(case);
                let _ = fs::remove_file(&file);
                let _ = bench.run(&way, &program, &[file.to_str().unwrap(), case]).good();
                let record = explained(&bench, &file);
                let holds = record["held_calls"].as_u64().unwrap() > 0;
                let may_hold = way.environment.is_empty();
                assert!((holds || may_hold) && record["state"] == "complete", "{case} on {ranks}: {record}");
            }
        }
    }
}

#[test]
fn a_barrier_or_any_message_orders_writes_under_mpich() {
    require_mpi!(mpich);
    cases(MPICH);
}

#[test]
fn a_barrier_or_any_message_orders_writes_under_open_mpi() {
    require_mpi!(openmpi);
    cases(OPEN_MPI);
}

/// Until a sync, if the user says that the program promises one: then a barrier is not enough, which these cases show.
#[test]
fn a_hint_holds_bytes_over_a_barrier() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (program, file) = (bench.compile("order.c"), bench.path("file"));
    let way = Way::aggregated(4).with("FOREBAY_MPIIO_HOLD", "yes");
    for case in ["barrier", "message", "test", "shared", "view"] {
        let done = bench.run(&way, &program, &[file.to_str().unwrap(), case]);
        assert!(!done.status.success() && done.stderr.contains("is 0 instead of"), "{case}: {}", done.stderr);
    }
}

/// Seeds of random programs that are run by default: as many as take some ten seconds a row; `FOREBAY_MPIIO_SEEDS` has another number.
const SEEDS: usize = 120;

/// Programs that one process runs: whatever it learns of holding bytes in vain, the next process begins anew.
const SEEDS_OF_A_PROCESS: usize = 20;

fn random_programs(mpi: Mpi) {
    let seeds = std::env::var("FOREBAY_MPIIO_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    let bench = crate::bench(mpi);
    let program = bench.compile("order.c");
    let mut held = 0;
    for first in (0..seeds).step_by(SEEDS_OF_A_PROCESS) {
        let (from, to) = (first.to_string(), (first + SEEDS_OF_A_PROCESS).min(seeds).to_string());
        let way = &ways(4)[first / SEEDS_OF_A_PROCESS % 3];
        let (_, record) = compare(&bench, way, &program, &["random", &from, &to]);
        held += record["held_calls"].as_u64().unwrap();
    }
    assert!(held > 0, "nothing was held");
}

#[test]
fn random_programs_leave_the_bytes_of_plain_mpi_under_mpich() {
    require_mpi!(mpich);
    random_programs(MPICH);
}

#[test]
fn random_programs_leave_the_bytes_of_plain_mpi_under_open_mpi() {
    require_mpi!(openmpi);
    random_programs(OPEN_MPI);
}

/// Compiles a program with a library above MPI-IO.
fn compile_by(bench: &Bench, compiler: &str, source: &str, words: &[&str]) -> PathBuf {
    let program = bench.path(source.split('.').next().unwrap());
    let mut compile = Program::new(compiler);
    // HDF5's compiler leaves an object there.
    compile.current_dir(program.parent().unwrap());
    compile.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(bench.program(source)).args(words);
    let _ = run(&mut compile).good();
    program
}

/// The program checks its values, before the file is closed and after it was opened again. Files are not compared, since they have
/// times in them.
fn checks_itself(bench: &Bench, program: &Path) {
    let file = bench.path("file");
    for ranks in [2, 3, 4, 8] {
        for way in [Way::plain(ranks)].iter().chain(&ways(ranks)) {
            let _ = fs::remove_file(&file);
            let _ = bench.run(way, program, &[file.to_str().unwrap()]).good();
        }
    }
    let record = explained(bench, &file);
    assert!(record["state"] == "complete" && record["held_calls"].as_u64().unwrap() > 0, "{record}");
}

#[test]
fn hdf5_files_are_right_under_mpich() {
    require_mpi!(mpich);
    require!(Command("h5pcc.mpich"));
    let bench = crate::bench(MPICH);
    checks_itself(&bench, &compile_by(&bench, "h5pcc.mpich", "hdf5.c", &[]));
}

#[test]
fn hdf5_files_are_right_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Command("h5pcc.openmpi"));
    let bench = crate::bench(OPEN_MPI);
    checks_itself(&bench, &compile_by(&bench, "h5pcc.openmpi", "hdf5.c", &[]));
}

/// Debian has it for Open MPI.
#[test]
fn pnetcdf_files_are_right() {
    require_mpi!(openmpi);
    require!(Command("pnetcdf-config"));
    let bench = crate::bench(OPEN_MPI);
    let program = compile_by(&bench, OPEN_MPI.compiler, "pnetcdf.c", &["-lpnetcdf"]);
    checks_itself(&bench, &program);
    // It gives a stripe of no bytes where it knows none.
    let done = bench.run(&Way::aggregated(2), &program, &[bench.path("file").to_str().unwrap()]).good();
    assert_eq!(done.stderr, "");
}

/// Fortran's names lead to MPI by other ways: each is to be met.
fn fortran(mpi: Mpi) {
    let bench = crate::bench(mpi);
    for words in [&[][..], &["-DMODULE=mpi"], &["-DMODULE=mpi_f08", "-DHANDLES"]] {
        let program = bench.path("fortran_order");
        let mut compile = Program::new(mpi.fortran);
        compile
            .args(["-ffree-line-length-none", "-o"])
            .arg(&program)
            .arg(bench.program("fortran_order.F90"))
            .args(words);
        let _ = run(&mut compile).good();
        for way in ways(4) {
            let (_, record) = compare(&bench, &way, &program, &[]);
            assert!(way.environment.is_empty() || record["held_calls"].as_u64().unwrap() > 0, "{words:?}: {record}");
        }
    }
}

#[test]
fn a_barrier_of_fortran_orders_writes_under_mpich() {
    require_mpi!(mpich);
    require!(Command("gfortran"));
    fortran(MPICH);
}

#[test]
fn a_barrier_of_fortran_orders_writes_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Command("gfortran"));
    fortran(OPEN_MPI);
}
