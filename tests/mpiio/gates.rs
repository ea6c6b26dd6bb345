//! Every function of MPI that may pass a message is intercepted, so that held bytes are in the file before it. The list is compared
//! with `mpi.h` of each MPI, so that no function is missed that an MPI has, or gets.

use std::collections::BTreeSet;

use super::*;

/// Parts of names of functions that pass messages or wait for other ranks: none of them may be listed as local.
const PASS_MESSAGES: [&str; 27] = [
    "Send",
    "Isend",
    "Recv",
    "recv",
    "Bcast",
    "bcast",
    "arrier",
    "ather",
    "catter",
    "lltoall",
    "Scan",
    "scan",
    "Probe",
    "probe",
    "Wait",
    "Start",
    "Put",
    "ccumulate",
    "fence",
    "flush",
    "_lock",
    "unlock",
    "Comm_dup",
    "Comm_split",
    "spawn",
    "connect",
    "accept",
];

/// The functions that a header declares, as far as they have a name for profiling too.
fn declared(mpi: Mpi, bench: &Bench) -> BTreeSet<String> {
    let source = bench.path("header.c");
    fs::write(&source, "#include <mpi.h>\n").unwrap();
    let text = run(Program::new(mpi.compiler).args(["-E", "-P"]).arg(&source)).good().text();
    let mut names = BTreeSet::new();
    let mut word = String::new();
    let mut ended = false;
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || letter == '_' => {
                if ended {
                    word.clear();
                }
                ended = false;
                word.push(letter);
            }
            letter if letter.is_whitespace() => ended = true,
            letter => {
                if letter == '(' {
                    names.insert(word.clone());
                }
                word.clear();
                ended = false;
            }
        }
    }
    let has_both = |name: &&String| name.starts_with("MPI") && names.contains(&format!("P{name}"));
    names.iter().filter(has_both).cloned().collect()
}

fn exported(library: &Path) -> BTreeSet<String> {
    let text = run(Program::new("nm").args(["-D", "--defined-only"]).arg(library)).good().text();
    text.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
}

fn local() -> BTreeSet<String> {
    let text = fs::read_to_string(file_of_tests("../crates/mpiio/shim/local_calls.txt")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn all_are_met(mpi: Mpi) {
    let bench = crate::bench(mpi);
    let (declared, exported, local) = (declared(mpi, &bench), exported(&bench.library()), local());
    assert!(declared.len() > 300 && declared.contains("MPI_Barrier"), "{declared:?}");
    for name in &declared {
        let is_met = exported.contains(name);
        assert_eq!(is_met, !local.contains(name), "{name} of {}", mpi.name);
        assert_eq!(is_met, exported.contains(&format!("P{name}")), "P{name} of {}", mpi.name);
    }
}

#[test]
fn every_function_that_may_pass_a_message_is_met_under_mpich() {
    require_mpi!(mpich);
    require!(Command("nm"));
    all_are_met(MPICH);
}

#[test]
fn every_function_that_may_pass_a_message_is_met_under_open_mpi() {
    require_mpi!(openmpi);
    require!(Command("nm"));
    all_are_met(OPEN_MPI);
}

#[test]
fn no_function_that_passes_messages_counts_as_local() {
    for name in local() {
        let passes = PASS_MESSAGES.iter().find(|part| name.contains(*part));
        assert_eq!(passes, None, "{name}");
    }
}
