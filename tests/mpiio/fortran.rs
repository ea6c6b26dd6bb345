//! Fortran programs, whose calls have other names: by the module `mpi` and by `mpi_f08`.

use super::*;

fn fortran(mpi: Mpi) {
    let bench = crate::bench(mpi);
    for source in ["fortran.f90", "fortran08.f90"] {
        let program = bench.compile(source);
        let (_, record) = compare(&bench, &Way::aggregated(3).by_ompio(), &program, &[]);
        assert_eq!(record["held_calls"], 3, "{source}: {record}");
        assert_eq!(record["reads"], 1, "{source}: {record}");
    }
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
