//! Requests at the file, counted below everything, between the program and the C library: 8 ranks, 1 aggregator, stripes of
//! 1 MiB. The bars are those of docs/mpiio.md, against ROMIO's own collective buffering.

use super::*;

/// Requests, cut at stripes.
fn striped_requests(bench: &Bench, way: Way<'_>, pattern: &str, particles: &str) -> u64 {
    let (file, log, counter) = (bench.path("file"), bench.path("requests"), bench.path("requests.so"));
    if !counter.exists() {
        let source = file_of_tests("mpiio/programs/requests.c");
        let _ = run(Program::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&counter).arg(source)).good();
    }
    let (_, _) = (fs::remove_file(&file), fs::remove_file(&log));
    let mut preload = counter.display().to_string();
    if way.preloads {
        preload = format!("{preload}:{}", library(bench.mpi).display());
    }
    let mut way = way.with("LD_PRELOAD", preload).with("FB_REQUESTS", log.display());
    way.preloads = false;
    let way = way.with("FB_REQUESTS_OF", file.display());
    let program = bench.compile("patterns.c");
    let _ = bench.run(&way, &program, &[file.to_str().unwrap(), pattern, "0", particles]).good();
    let lines = fs::read_to_string(&log).unwrap();
    lines.lines().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

/// As `romio` of the reference: collective buffering on, one aggregator.
#[test]
fn fewer_requests_than_the_collective_buffering_of_romio() {
    require_mpi!(openmpi);
    require!(Command("cc"));
    let bench = Bench::new(OPEN_MPI);
    let hints = bench.path("hints");
    fs::write(&hints, "romio_cb_write enable\ncb_nodes 1\n").unwrap();
    let hints = hints.display().to_string();
    for (pattern, particles, times) in
        [("hacc-structs", "25000", 8), ("hacc-arrays", "25000", 2), ("hacc-structs", "500", 9)]
    {
        let romio = striped_requests(&bench, Way::plain(8).with("ROMIO_HINTS", &hints), pattern, particles);
        let ours = striped_requests(&bench, Way::aggregated(8).with("ROMIO_HINTS", &hints), pattern, particles);
        assert!(ours * times <= romio, "{pattern}, {particles} particles: {ours} requests against {romio} of ROMIO");
    }
}
