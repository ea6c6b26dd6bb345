//! The C interface: the examples in C and Fortran, linked with the library.

use super::*;

/// Compiles a program that is linked with the library.
fn link(bench: &Bench, sources: &[&str]) -> PathBuf {
    let compiler = if sources[0].ends_with(".c") { bench.mpi.compiler } else { bench.mpi.fortran };
    let (program, root) = (bench.path("linked"), file_of_tests(".."));
    let libraries = libraries(&root);
    let mut compile = Program::new(compiler);
    compile.current_dir(program.parent().unwrap()).arg("-o").arg(&program);
    compile.args(sources.iter().map(|source| root.join(source)));
    compile.arg("-I").arg(root.join("include")).arg("-L").arg(libraries);
    compile.arg(format!("-lforebay_mpiio_{}", bench.mpi.name));
    compile.arg(format!("-Wl,-rpath,{}", libraries.display()));
    let _ = run(&mut compile).good();
    program
}

fn examples(mpi: Mpi) {
    let bench = crate::bench(mpi);
    for (sources, exchanges, bytes) in [
        (&["crates/mpiio/examples/checkpoint.c"][..], 1, 9 * 8000),
        (&["include/forebay_mpiio.f90", "crates/mpiio/examples/checkpoint.f90"], 1, 2 * 8000),
    ] {
        let (program, file) = (link(&bench, sources), bench.path("file"));
        let _ = fs::remove_file(&file);
        let done = bench.run(&Way::plain(3), &program, &[file.to_str().unwrap()]).good();
        let record = explained(&bench, &file);
        assert_eq!((&record["exchanges"], &record["state"]), (&exchanges.into(), &"complete".into()), "{record}");
        assert_eq!(fs::metadata(&file).unwrap().len(), 3 * bytes, "{record}");
        if sources.len() == 1 {
            let told: Value = serde_json::from_str(&done.text()).unwrap();
            assert_eq!(told["aggregators"], record["aggregators"]);
        }
        // Where hints leave everything to MPI, the same calls work.
        let way = Way::plain(3).with("FOREBAY_MPIIO_AGGREGATION", "disable");
        let content = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let done = bench.run(&way, &program, &[file.to_str().unwrap()]).good();
        assert_eq!(fs::read(&file).unwrap(), content, "{}", done.stderr);
    }
}

#[test]
fn the_examples_run_under_mpich() {
    require_mpi!(mpich);
    require!(Command("gfortran"));
    examples(MPICH);
}

#[test]
fn the_examples_run_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Command("gfortran"));
    examples(OPEN_MPI);
}

#[test]
fn undeclared_columns_are_refused() {
    require_mpi!(mpich);
    let bench = crate::bench(MPICH);
    let (program, file) = (link(&bench, &["tests/mpiio/programs/lies.c"]), bench.path("file"));
    let done = bench.run(&Way::plain(2), &program, &[file.to_str().unwrap()]).good();
    assert_eq!(done.text(), "1 1 1 1 1 1 1\n".repeat(2), "{}", done.stderr);
    let bytes = fs::read(&file).unwrap();
    assert_eq!((bytes.len(), bytes[0], bytes[99], bytes[100], bytes[199]), (200, b'x', b'x', b'x', b'x'));
}
