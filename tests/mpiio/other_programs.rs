//! The library where it has nothing to do: under the other MPI, in programs without MPI, and where hints say no.

use std::os::unix::fs::PermissionsExt;

use forebay_tests::{Job, Sandbox};

use super::*;

fn beside(loaded: Mpi, running: Mpi) {
    let bench = crate::bench(running);
    let program = bench.compile("forms.c");
    let file = bench.path("file");
    let way = Way::plain(2).with("LD_PRELOAD", bench.library_for(loaded).display());
    let done = bench.run(&way, &program, &[file.to_str().unwrap(), "bs"]).good();
    let said: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("forebay-mpiio:")).collect();
    assert_eq!(said.len(), 1, "{}", done.stderr);
    assert!(said[0].contains("nothing is aggregated") && said[0].contains(running.name), "{}", said[0]);
    assert!(!bench.records().exists());
}

#[test]
fn under_the_other_mpi_it_says_so_and_steps_aside() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    beside(MPICH, OPEN_MPI);
    beside(OPEN_MPI, MPICH);
}

/// Builds the libraries with a compiler of MPICH that is this script. Returns what was said.
fn build_by(bench: &Bench, script: &str) -> String {
    let compiler = bench.path("compiler");
    fs::write(&compiler, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = binary().parent().unwrap().join("libforebay_mpiio.a");
    let mut build = Program::new(file_of_tests("../packaging/mpiio.sh"));
    build.env("FOREBAY_MPICC_MPICH", compiler).arg(archive).arg(bench.path("built"));
    run(&mut build).good().stderr
}

#[test]
fn an_mpi_that_cannot_be_used_is_named_and_left_out() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    let bench = bench(MPICH);
    let said = build_by(&bench, r#"case "$*" in *-E*) exec mpicc.mpich "$@" ;; esac; echo no iwrite_all >&2; exit 1"#);
    assert!(said.contains("no iwrite_all") && said.contains("cannot be used"), "{said}");
    let library = |name: &str| bench.path("built").join(format!("libforebay_mpiio_{name}.so")).exists();
    assert!(library("openmpi") && !library("mpich"), "{said}");
}

/// A library that was built with an older MPI of the same ABI does not stand before all calls of the program.
#[test]
fn a_newer_mpi_than_the_one_it_was_built_with_is_left_alone() {
    require_mpi!(mpich);
    let bench = bench(MPICH);
    let header = bench.path("older.h");
    fs::write(&header, "#include <mpi.h>\n#undef MPI_VERSION\n#define MPI_VERSION 3\n").unwrap();
    let _ = build_by(&bench, &format!(r#"exec mpicc.mpich -include {} "$@""#, header.display()));
    let (program, file) = (bench.compile("forms.c"), bench.path("file"));
    let way = Way::plain(2).with("LD_PRELOAD", bench.path("built/libforebay_mpiio_mpich.so").display());
    let done = bench.run(&way, &program, &[file.to_str().unwrap(), "bs"]).good();
    let said: Vec<&str> = done.stderr.lines().filter(|line| line.starts_with("forebay-mpiio:")).collect();
    assert!(said.len() == 1 && said[0].contains("large-count calls"), "{}", done.stderr);
    assert!(!bench.records().exists());
}

#[test]
fn programs_without_mpi_do_not_notice() {
    require_mpi!(mpich);
    let (bench, mut echo) = (bench(MPICH), Program::new("sh"));
    echo.env("LD_PRELOAD", bench.library()).env("LD_BIND_NOW", "1").args(["-c", "ls / >/dev/null && echo fine"]);
    let done = run(&mut echo).good();
    assert_eq!((done.text(), done.stderr), ("fine\n".to_owned(), String::new()));
}

#[test]
fn hints_switch_it_off() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (program, file) = (bench.compile("forms.c"), bench.path("file"));
    let way = held(2).with("FOREBAY_MPIIO_AGGREGATION", "disable");
    let _ = bench.run(&way, &program, &[file.to_str().unwrap(), "bs"]).good();
    assert!(!bench.records().exists());
}

fn hints_of_open_files(mpi: Mpi) {
    let bench = crate::bench(mpi);
    let program = bench.compile("hints.c");
    let (printed, record) = compare(&bench, &held(4), &program, &[]);
    assert_eq!(printed, "enable\n");
    let passed = serde_json::json!({"disabled by hints": 2});
    assert_eq!((&record["passed_through"], &record["held_calls"]), (&passed, &3.into()), "{record}");
    let figures = (&record["exchanges"], &record["stripe_bytes"], record["aggregators"].as_array().unwrap().len());
    assert_eq!(figures, (&2.into(), &4096.into(), 2), "{record}");
}

#[test]
fn hints_count_for_files_that_are_open() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    hints_of_open_files(MPICH);
    hints_of_open_files(OPEN_MPI);
}

/// One complaint for all files and ranks: records are for `--explain` alone.
#[test]
fn where_records_cannot_be_written_it_is_said_once() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    fs::write(bench.records(), "no directory").unwrap();
    let (program, file) = (bench.compile("patterns.c"), bench.path("file"));
    let done = bench.run(&held(3), &program, &[file.to_str().unwrap(), "hacc-structs", "0", "500"]).good();
    let said: Vec<&str> = done.stderr.lines().filter(|line| line.contains("cannot write the record")).collect();
    assert_eq!(said.len(), 1, "{}", done.stderr);
}

/// As ROMIO prints its hints, and who aggregates.
#[test]
fn aggregators_are_printed_when_asked() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (program, file) = (bench.compile("patterns.c"), bench.path("file"));
    let way = held(3).with("FOREBAY_MPIIO_PRINT", 1).with("FOREBAY_MPIIO_AGGREGATION", "enable");
    let done = bench.run(&way, &program, &[file.to_str().unwrap(), "segmented", "0", "2"]).good().text();
    let line = done.lines().find(|line| line.contains("forebay_aggregator_list")).unwrap();
    assert!(line.ends_with("value = 0         "), "{line}");
}

#[test]
fn the_command_finds_the_libraries() {
    require_mpi!(mpich);
    let bench = bench(MPICH);
    let library = fs::canonicalize(bench.library()).unwrap();
    let installed = |at: &str| {
        let (directory, name) = (bench.path(at), library.file_name().unwrap());
        fs::create_dir(&directory).unwrap();
        let directory = directory.canonicalize().unwrap();
        forebay_tests::program::copy_program(&binary(), &directory.join("forebay"));
        fs::copy(&library, directory.join(name)).unwrap();
        (directory.join("forebay"), directory.join(name))
    };
    let (command, beside) = installed("bin");
    let done = run(Program::new(&command).args(["mpiio", "--mpi", "mpich"])).good();
    assert_eq!(Path::new(done.text().trim()), beside);
    let doctor = run(Program::new(&command).arg("doctor")).text();
    assert!(doctor.contains("libforebay_mpiio_mpich.so") && !doctor.contains("LD_PRELOAD"), "{doctor}");
    let (command, _) = installed("my bin");
    let done = run(Program::new(&command).args(["mpiio", "--mpi", "mpich"]));
    assert_eq!((done.status.code(), done.text().as_str()), (Some(1), ""));
    assert!(done.stderr.contains("LD_PRELOAD cannot name"), "{}", done.stderr);
    let doctor = run(Program::new(&command).arg("doctor")).text();
    assert!(doctor.contains("LD_PRELOAD cannot name"), "{doctor}");
    let done = run(Program::new(binary()).args(["mpiio", "--explain", "/nowhere/file"]));
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stderr.contains("no record of a run of yours that wrote /nowhere/file"), "{}", done.stderr);
}

/// Between the launcher and its ranks, `forebay run` shows them an export; the library works as without it.
#[test]
fn it_works_under_forebay_run() {
    require_mpi!(mpich);
    require!(Root, Fuse);
    let bench = crate::bench(MPICH);
    let program = bench.compile("forms.c");
    let sandbox = Sandbox::new();
    let exported = sandbox.source().join("forms");
    forebay_tests::program::copy_program(&program, &exported);
    let source = sandbox.source();
    let job = Job::up_local(sandbox, 1, &source, &[]);
    let command = binary();
    let inside = ["run", "--job", &job.sandbox.name, "--", exported.to_str().unwrap()];
    let mut way = held(2);
    let mut environment = Program::new("env");
    job.sandbox.surround(&mut environment);
    for (name, value) in environment.get_envs() {
        way = way.with(name.to_str().unwrap(), value.unwrap_or_default().to_str().unwrap());
    }
    let file = bench.path("file");
    let _ = bench.run(&way, &command, &[&inside[..], &[file.to_str().unwrap(), "bs"]].concat()).good();
    let record = explained(&bench, &file);
    assert!(record["held_calls"].as_u64().unwrap() > 0, "{record}");
    job.down();
}

/// A tool by the standard's profiling interface, before the library and behind it. Before, it sees the program's calls.
fn with_a_tool(mpi: Mpi) {
    let bench = crate::bench(mpi);
    let tool = bench.path("tool.so");
    let mut compile = Program::new(mpi.compiler);
    compile.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&tool).arg(bench.program("counting.c"));
    let _ = run(&mut compile).good();
    let program = bench.compile("patterns.c");
    let hacc = ["7", "500"];
    let said = |way: &Way<'_>, name: &str| {
        let file = bench.path(name);
        let words = [&[file.to_str().unwrap(), "hacc-structs"][..], &hacc].concat();
        let done = bench.run(way, &program, &words).good();
        let of_tool = done.stderr.lines().filter(|line| line.starts_with("tool: ")).map(str::to_owned).collect();
        (fs::read(file).unwrap(), of_tool)
    };
    let (bytes, alone): (_, Vec<String>) = said(&Way::plain(3).with("LD_PRELOAD", tool.display()), "plain");
    assert_eq!(alone.len(), 3, "{alone:?}");
    let before = held(3).with("LD_PRELOAD", tool.display());
    assert_eq!(said(&before, "before"), (bytes.clone(), alone));
    let libraries = format!("{}:{}", bench.library().display(), tool.display());
    let behind = Way::plain(3).with("FOREBAY_MPIIO_HOLD", "yes").with("LD_PRELOAD", libraries);
    assert_eq!(said(&behind, "behind").0, bytes);
    for name in ["before", "behind"] {
        let record = explained(&bench, &bench.path(name));
        assert!(record["state"] == "complete" && record["held_calls"].as_u64().unwrap() > 0, "{name}: {record}");
    }
}

#[test]
fn tools_stand_before_and_behind_it() {
    require_mpi!(mpich);
    require_mpi!(openmpi);
    with_a_tool(MPICH);
    with_a_tool(OPEN_MPI);
}
