//! MPI programs whose ranks run on several nodes: MPI-IO by each MPI of the machine, HDF5 and PnetCDF, unmodified. The files that land equal
//! those that the same programs write elsewhere, byte by byte.
//!
//! ROMIO reads and writes back what lies between (data sieving), under locks and without a commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use forebay_tests::mpi::{Bench, MPICH, Mpi, OPEN_MPI, Way};
use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::require;

use crate::bed::Bed;

const NODES: u32 = 3;

const RANKS: usize = 4;

const SIEVING: &str = "romio_ds_write enable\nromio_ds_read enable\n";

/// The first lines of each rank's program: the mount of its node becomes `place`, which all ranks call the same.
const ON_ITS_NODE: &str = r#"
node=$((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-none}} % $2))
mount --bind "$(printf "$1" $node)" "$3"
cd "$3"
shift 3
exec "$@"
"#;

/// A job, and programs for it.
struct Ranks {
    bed: Bed,
    bench: Bench,
}

impl Ranks {
    fn new(mpi: Mpi) -> Self {
        let bench = Bench::new(mpi, &file_of_tests(".."));
        for name in ["place", "plain"] {
            fs::create_dir(bench.path(name)).unwrap();
        }
        Self { bed: Bed::of(NODES), bench }
    }

    /// A program's run on a file, its ranks on all nodes.
    fn on_nodes(&self, way: &Way<'_>, program: &Path, name: &str, words: &[&str]) -> Finished {
        let all: Vec<String> = (0..NODES).map(|node| self.bed.mount_of(node).display().to_string()).collect();
        let pattern = all[0].replace("mounts/0/", "mounts/%s/");
        let (nodes, place) = (NODES.to_string(), self.bench.path("place").display().to_string());
        let program_text = program.to_str().unwrap();
        let written = format!("{place}/{name}");
        let mut wrapped = vec!["-m", "sh", "-euc", ON_ITS_NODE, "sh", &pattern, &nodes, &place, program_text, &written];
        wrapped.extend(words);
        self.bench.run(way, Path::new("unshare"), &wrapped)
    }

    /// The file that a program writes: on ranks of all nodes, and elsewhere.
    #[track_caller]
    fn compare(&self, way: &Way<'_>, program: &Path, name: &str, words: &[&str]) {
        let plain = self.bench.path("plain").join(name).display().to_string();
        let original = words.to_vec();
        let words: Vec<&str> = [plain.as_str()].into_iter().chain(words.iter().copied()).collect();
        let _ = self.bench.run(way, program, &words).good();
        let what = format!("{} {words:?} {:?} ompio: {}", program.display(), way.environment, way.by_ompio);
        let done = self.on_nodes(way, program, name, &original);
        assert!(done.status.success(), "{what}: {}: {}", done.status, done.stderr);
        self.bed.drain();
        let [ours, theirs] = [self.bed.backing().join(name), plain.into()].map(|path: PathBuf| fs::read(path).unwrap());
        assert_eq!(ours.len(), theirs.len(), "{what}");
        let differs = ours.iter().zip(&theirs).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{what}: the first byte that differs");
    }

    /// MPI-IO in each way, with hints of ROMIO or without.
    #[track_caller]
    fn io(&self, way: &Way<'_>, called: &str) {
        let program = self.bench.compile("nodes.c");
        for (what, blocks) in [
            ("strided", "40"),
            ("nested", "40"),
            ("collective", "40"),
            ("sync", "4"),
            ("atomic", "3"),
            ("ordered", "5"),
        ] {
            // ompio takes no locks: what several write at once is mixed, on any file system.
            if !(way.by_ompio && what == "atomic") {
                self.compare(way, &program, &format!("{called}-{what}"), &[what, blocks]);
            }
        }
        let program = self.bench.compile("patterns.c");
        // Not those with holes: ROMIO writes there what its buffers have.
        for (pattern, count) in [("hacc-structs", "500"), ("segmented", "2"), ("one", "70000")] {
            self.compare(way, &program, &format!("{called}-{pattern}"), &[pattern, "7", count]);
        }
    }

    /// Hints for ROMIO as it takes them from its environment.
    fn hints(&self, text: &str) -> Way<'static> {
        let file = self.bench.path("hints");
        fs::write(&file, text).unwrap();
        Way::plain(RANKS).with("ROMIO_HINTS", file.display())
    }
}

#[test]
fn romio_with_data_sieving_and_without() {
    require!(Fuse, Root, Command("mpicc.mpich"), Command("mpiexec.mpich"));
    let ranks = Ranks::new(MPICH);
    ranks.io(&Way::plain(RANKS), "as-it-is");
    ranks.io(&ranks.hints(SIEVING), "sieving");
    ranks.io(&ranks.hints("romio_ds_write disable\nromio_cb_write enable\ncb_config_list *:2\n"), "two-phase");
    ranks.bed.job.down();
}

#[test]
fn open_mpi_by_its_own_io_and_by_romio() {
    require!(Fuse, Root, Command("mpicc.openmpi"), Command("mpirun.openmpi"));
    let ranks = Ranks::new(OPEN_MPI);
    ranks.io(&Way::plain(RANKS).by_ompio(), "ompio");
    ranks.io(&ranks.hints(SIEVING), "romio");
    ranks.bed.job.down();
}

/// Ranks that see a barrier, or close and open without one, see all that was written: by each MPI with the locks of `forebay run`.
#[test]
fn with_locks_a_barrier_is_enough() {
    require!(Fuse, Root, Command("mpicc.mpich"), Command("mpicc.openmpi"));
    let way = || Way::plain(RANKS).with("ROMIO_FSTYPE_FORCE", "nfs:").with("OMPI_MCA_fs_ufs_lock_algorithm", "3");
    for (mpi, ways) in [(MPICH, vec![way()]), (OPEN_MPI, vec![way(), way().by_ompio()])] {
        let ranks = Ranks::new(mpi);
        let program = ranks.bench.compile("visible.c");
        for (number, way) in ways.iter().enumerate() {
            for (what, bytes, blocks) in
                [("barrier", "4096", "50"), ("barrier", "1000000", "4"), ("close", "100000", "6")]
            {
                let name = format!("{what}-{bytes}-{number}");
                let _ = ranks.on_nodes(way, &program, &name, &[what, bytes, blocks]).good();
            }
        }
        ranks.bed.job.down();
    }
}

/// With the library, which writes what it has held through the same descriptors, programs that sync as MPI says find the same bytes.
#[test]
fn the_librarys_bytes_are_the_same_with_those_locks() {
    require!(Fuse, Root, Command("mpicc.mpich"), Command("mpicc.openmpi"));
    for mpi in [MPICH, OPEN_MPI] {
        let ranks = Ranks::new(mpi);
        let program = ranks.bench.compile("nodes.c");
        let way = Way::aggregated(RANKS).with("ROMIO_FSTYPE_FORCE", "nfs:").with("OMPI_MCA_fs_ufs_lock_algorithm", "3");
        for (what, blocks) in [("strided", "40"), ("collective", "40"), ("sync", "4")] {
            ranks.compare(&way, &program, &format!("library-{what}"), &[what, blocks]);
        }
        ranks.bed.job.down();
    }
}

#[test]
fn hdf5_by_mpich() {
    require!(Fuse, Root, Command("h5pcc.mpich"), Command("mpiexec.mpich"));
    let ranks = Ranks::new(Mpi { compiler: "h5pcc.mpich", ..MPICH });
    let program = ranks.bench.compile("arrays.c");
    ranks.compare(&Way::plain(RANKS), &program, "hdf5", &[]);
    ranks.bed.job.down();
}

#[test]
fn hdf5_and_pnetcdf_by_open_mpi() {
    require!(Fuse, Root, Command("h5pcc.openmpi"), Command("pnetcdf-config"), Command("mpirun.openmpi"));
    let ranks = Ranks::new(Mpi { compiler: "h5pcc.openmpi", ..OPEN_MPI });
    let hdf5 = ranks.bench.compile("arrays.c");
    let pnetcdf = ranks.bench.path("pnetcdf");
    let mut compile = Program::new(OPEN_MPI.compiler);
    let _ = run(compile.args(["-DPNETCDF", "-o"]).arg(&pnetcdf).arg(ranks.bench.program("arrays.c")).arg("-lpnetcdf"))
        .good();
    for (way, name) in [(Way::plain(RANKS).by_ompio(), "ompio"), (Way::plain(RANKS), "romio")] {
        ranks.compare(&way, &hdf5, &format!("hdf5-{name}"), &[]);
        ranks.compare(&way, &pnetcdf, &format!("pnetcdf-{name}"), &[]);
    }
    ranks.bed.job.down();
}
