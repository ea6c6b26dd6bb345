//! Fortran programs, whose calls have other names: by the module `mpi` and by `mpi_f08`.

use super::*;

fn fortran(mpi: Mpi) {
    let bench = crate::bench(mpi);
    for source in ["fortran.f90", "fortran08.f90"] {
        let program = bench.compile(source);
        let (_, record) = compare(&bench, &held(3).by_ompio(), &program, &[]);
        assert_eq!(record["held_calls"], 3, "{source}: {record}");
        assert_eq!(record["reads"], 1, "{source}: {record}");
    }
}

/// All forms of call; without non-blocking collective ones under Open MPI's ROMIO (`Way::by_ompio`).
fn forms(mpi: Mpi) {
    let bench = crate::bench(mpi);
    for source in ["fortran_forms.F90", "fortran08_forms.F90"] {
        let program = bench.compile(source);
        let mut ways = vec![(held(3).by_ompio(), "")];
        if mpi.name == OPEN_MPI.name {
            ways.push((held(3), "collective"));
        }
        for (way, without) in ways {
            let (_, record) = compare(&bench, &way, &program, &[without]);
            // Two of each kind of collective write, and those that are there to be read.
            let held = if without.is_empty() { 4 + 14 } else { 4 + 12 };
            assert_eq!(record["held_calls"], held, "{source}: {record}");
            assert_eq!(record["passed_through"], serde_json::json!({}), "{source}: {record}");
        }
    }
}

#[test]
fn every_form_of_fortran_under_mpich() {
    require_mpi!(mpich);
    require!(Command("gfortran"));
    forms(MPICH);
}

#[test]
fn every_form_of_fortran_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Command("gfortran"));
    forms(OPEN_MPI);
}

#[test]
fn fortran_under_mpich() {
    require_mpi!(mpich);
    require!(Command("gfortran"));
    fortran(MPICH);
}

#[test]
fn fortran_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Command("gfortran"));
    fortran(OPEN_MPI);
}
