//! MPI programs of the repository, compiled for an MPI of this machine and run on several ranks, plain or with the library
//! for MPI-IO programs preloaded; and what they ask of the file, counted between program and C library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::job::binary;
use crate::program::{Finished, run};

/// An MPI of the machine.
#[derive(Clone, Copy)]
pub struct Mpi {
    /// As `forebay mpiio --mpi` takes it.
    pub name: &'static str,
    /// Its C compiler.
    pub compiler: &'static str,
    /// Its Fortran compiler.
    pub fortran: &'static str,
}

/// MPICH, as Debian names it.
pub const MPICH: Mpi = Mpi { name: "mpich", compiler: "mpicc.mpich", fortran: "mpif90.mpich" };
/// Open MPI, as Debian names it.
pub const OPEN_MPI: Mpi = Mpi { name: "openmpi", compiler: "mpicc.openmpi", fortran: "mpif90.openmpi" };

/// Programs, files and records of one test or measurement, gone with it.
pub struct Bench {
    /// By which the programs are compiled and run.
    pub mpi: Mpi,
    /// The repository.
    root: PathBuf,
    base: TempDir,
}

/// How a program is run.
#[derive(Clone, Default)]
pub struct Way<'a> {
    /// Ranks.
    pub ranks: usize,
    /// With the library.
    pub preloads: bool,
    /// Under Open MPI by its own I/O instead of ROMIO, whose non-blocking collective calls crash there (4.1.4).
    pub by_ompio: bool,
    /// Of the plain run that it is compared with.
    pub plain_environment: Vec<(&'a str, String)>,
    /// Of the ranks.
    pub environment: Vec<(&'a str, String)>,
}

impl<'a> Way<'a> {
    /// Without the library.
    #[must_use]
    pub fn plain(ranks: usize) -> Self {
        Self { ranks, ..Self::default() }
    }

    /// With the library.
    #[must_use]
    pub fn aggregated(ranks: usize) -> Self {
        Self { ranks, preloads: true, ..Self::default() }
    }

    /// By Open MPI's own I/O.
    #[must_use]
    pub fn by_ompio(mut self) -> Self {
        self.by_ompio = true;
        self
    }

    /// With a variable in the environment of the ranks.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: impl ToString) -> Self {
        self.environment.push((name, value.to_string()));
        self
    }
}

/// The checkout, in the directory of a test.
const CHECKOUT: &str = "checkout";

/// The libraries beside the command, built once for all of this process, from the repository at `root`.
///
/// # Panics
/// If they do not build.
pub fn libraries(root: &Path) -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = binary().parent().expect("a directory").to_owned();
        let archive = directory.join("libforebay_mpiio.a");
        assert!(archive.is_file(), "{}: cargo rustc -p forebay-mpiio --lib --crate-type staticlib", archive.display());
        let built = run(Program::new(root.join("packaging/mpiio.sh")).arg(archive).arg(&directory)).good();
        assert!(!built.stderr.contains("warning"), "{}", built.stderr);
        directory
    })
}

impl Bench {
    /// For an MPI, with the programs of the repository at `root`.
    ///
    /// # Panics
    /// If there can be no temporary directory.
    #[must_use]
    pub fn new(mpi: Mpi, root: &Path) -> Self {
        // By the number of its process it is found when that is killed (`cargo xtask limited`).
        let prefix = format!("forebay-test-{}-", std::process::id());
        let base = tempfile::Builder::new().prefix(&prefix).tempdir().expect("a temporary directory");
        let root = std::path::absolute(root).expect("a working directory");
        // Compilers that are scripts divide the path of a checkout where it has a blank.
        std::os::unix::fs::symlink(&root, base.path().join(CHECKOUT)).expect("a link to the checkout");
        Self { mpi, root, base }
    }

    /// The library for its MPI.
    ///
    /// # Panics
    /// If it does not build.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.library_for(self.mpi)
    }

    /// The library for any MPI, by a name that `LD_PRELOAD` can have: blanks separate its entries.
    ///
    /// # Panics
    /// If it does not build.
    #[must_use]
    pub fn library_for(&self, mpi: Mpi) -> PathBuf {
        let name = format!("libforebay_mpiio_{}.so", mpi.name);
        let (built, link) = (libraries(&self.root).join(&name), self.path(&name));
        if !link.exists() {
            std::os::unix::fs::symlink(built, &link).expect("a link to the library");
        }
        link
    }

    /// A file of this test.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Where records of runs go.
    #[must_use]
    pub fn records(&self) -> PathBuf {
        self.path("records")
    }

    /// Compiles a program of `tests/mpiio/programs`.
    ///
    /// # Panics
    /// If it does not compile.
    #[must_use]
    pub fn compile(&self, source: &str) -> PathBuf {
        let compiler = if source.ends_with(".c") { self.mpi.compiler } else { self.mpi.fortran };
        let program = self.path(source.split('.').next().unwrap_or(source));
        let source = self.program(source);
        let mut compile = Program::new(compiler);
        // Fortran leaves its modules there.
        compile.current_dir(self.base.path()).args(["-O1", "-o"]).arg(&program).arg(source);
        let _ = run(&mut compile).good();
        program
    }

    /// The source of a program.
    #[must_use]
    pub fn program(&self, source: &str) -> PathBuf {
        self.path(CHECKOUT).join("tests/mpiio/programs").join(source)
    }

    /// Runs a program on several ranks.
    ///
    /// # Panics
    /// If it hangs.
    pub fn run(&self, way: &Way<'_>, program: &Path, arguments: &[&str]) -> Finished {
        let mut environment = way.environment.clone();
        environment.push(("FOREBAY_MPIIO_RECORDS", self.records().display().to_string()));
        // Given libraries come first: they stand between this one and the C library.
        let given = environment.iter().position(|(name, _)| *name == "LD_PRELOAD").map(|at| environment.remove(at).1);
        let library = way.preloads.then(|| self.library().display().to_string());
        let preloads: Vec<String> = self.idle().into_iter().chain(given).chain(library).collect();
        if !preloads.is_empty() {
            environment.push(("LD_PRELOAD", preloads.join(":")));
        }
        run(self.launcher(way, &environment).arg(program).args(arguments))
    }

    /// The library that lets waiting ranks sleep, under an MPI without an option for that.
    fn idle(&self) -> Option<String> {
        let library = (self.mpi.name == MPICH.name).then(|| self.shared("idle.c"))?;
        Some(library.display().to_string())
    }

    /// Compiles a program that is preloaded.
    fn shared(&self, source: &str) -> PathBuf {
        let library = self.path(source).with_extension("so");
        if !library.exists() {
            let mut compile = Program::new("cc");
            compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(self.program(source));
            let _ = run(&mut compile).good();
        }
        library
    }

    /// Not in the launcher's own environment, or it would be preloaded itself.
    fn launcher(&self, way: &Way<'_>, environment: &[(&str, String)]) -> Program {
        let ranks = way.ranks.to_string();
        if self.mpi.name == "mpich" {
            let mut launcher = Program::new("mpiexec.mpich");
            launcher.args(["-n", &ranks]);
            launcher.args(environment.iter().flat_map(|(name, value)| ["-genv", name, value]));
            return launcher;
        }
        let mut launcher = Program::new("mpirun.openmpi");
        let io = if way.by_ompio { "ompio" } else { "romio321" };
        launcher.args(["--allow-run-as-root", "--oversubscribe", "--quiet", "--mca", "mpi_yield_when_idle", "1"]);
        // The reference is ROMIO under both; a container has neither InfiniBand nor a second host.
        launcher.args(["--mca", "io", io, "--mca", "btl", "self,vader", "--mca", "plm_rsh_agent", "/bin/false"]);
        launcher.args(["--mca", "btl_vader_single_copy_mechanism", "none", "-n", &ranks]);
        launcher.args(environment.iter().flat_map(|(name, value)| ["-x".to_owned(), format!("{name}={value}")]));
        launcher
    }
}

/// A pattern of HACC, and how much fewer requests than ROMIO's collective buffering aggregation is to make of it.
#[derive(Clone, Copy, Debug)]
pub struct HaccBar {
    /// Of `patterns.c`.
    pub pattern: &'static str,
    /// Particles of a rank.
    pub particles: u32,
    /// One request for so many.
    pub times: u64,
}

/// The bars, for 8 ranks, 1 aggregator and stripes of 1 MiB.
pub const HACC_BARS: [HaccBar; 3] = [
    HaccBar { pattern: "hacc-structs", particles: 25_000, times: 8 },
    HaccBar { pattern: "hacc-arrays", particles: 25_000, times: 2 },
    HaccBar { pattern: "hacc-structs", particles: 500, times: 9 },
];

/// Write requests, cut at stripes of 1 MiB.
#[derive(Clone, Copy, Debug)]
pub struct HaccRequests {
    /// Of ranks that write each by itself.
    pub independent: u64,
    /// Of ROMIO's collective buffering, with one aggregator.
    pub romio: u64,
    /// Of the library, with one aggregator.
    pub ours: u64,
}

impl Bench {
    /// Counts the requests of 8 ranks for a pattern, in three ways.
    ///
    /// # Panics
    /// If a program fails.
    #[must_use]
    pub fn hacc_requests(&self, bar: HaccBar) -> HaccRequests {
        let count = |preloads: bool, hints: &str| {
            let file = self.path("romio-hints");
            fs::write(&file, hints).expect("a file of hints");
            // Until the file is closed, however slow the machine.
            let held = || Way::aggregated(8).with("FOREBAY_MPIIO_HOLD", "yes");
            let way = if preloads { held() } else { Way::plain(8) };
            self.striped_requests(way.with("ROMIO_HINTS", file.display()), bar)
        };
        HaccRequests {
            independent: count(false, "romio_cb_write disable\n"),
            romio: count(false, "romio_cb_write enable\ncb_nodes 1\n"),
            ours: count(true, "romio_cb_write enable\ncb_nodes 1\n"),
        }
    }

    fn striped_requests(&self, way: Way<'_>, bar: HaccBar) -> u64 {
        let file = self.path("counted");
        let _ = fs::remove_file(&file);
        let particles = bar.particles.to_string();
        let [_, striped, ..] = self.counted(way, "patterns.c", &file, &[bar.pattern, "0", &particles]);
        striped
    }

    /// Runs a program, and adds up what the ranks asked of the file: write requests, the same cut at stripes, read requests, the
    /// same cut, bytes read.
    fn counted(&self, way: Way<'_>, source: &str, file: &Path, words: &[&str]) -> [u64; 5] {
        let (log, counter) = (self.path("requests"), self.shared("requests.c"));
        let _ = fs::remove_file(&log);
        let way = way
            .with("LD_PRELOAD", counter.display())
            .with("FB_REQUESTS", log.display())
            .with("FB_REQUESTS_OF", file.display());
        let (program, name) = (self.compile(source), file.display().to_string());
        let words: Vec<&str> = [name.as_str()].into_iter().chain(words.iter().copied()).collect();
        let _ = self.run(&way, &program, &words).good();
        let mut sums = [0; 5];
        for line in fs::read_to_string(&log).unwrap_or_default().lines() {
            let counts = line.split(' ').map(|count| count.parse::<u64>().expect("a count"));
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        sums
    }

    /// Counts what a restart of 6 ranks asks of a checkpoint that 8 ranks of so many particles wrote, in three ways. The program
    /// checks every byte.
    ///
    /// # Panics
    /// If a program fails.
    #[must_use]
    pub fn restart_requests(&self, particles: u32) -> RestartRequests {
        let (file, hints, particles) = (self.path("checkpoint"), self.path("restart-hints"), particles.to_string());
        let _ = fs::remove_file(&file);
        let name = file.display().to_string();
        let _ = self.run(&Way::plain(8), &self.compile("patterns.c"), &[&name, "hacc-structs", "0", &particles]).good();
        let file_bytes = fs::metadata(&file).expect("a checkpoint").len();
        let read = |way: Way<'_>, text: &str| {
            fs::write(&hints, text).expect("a file of hints");
            let way = way.with("ROMIO_HINTS", hints.display());
            let [_, _, _, requests, bytes] = self.counted(way, "restart.c", &file, &["8", &particles]);
            Reads { requests, bytes }
        };
        RestartRequests {
            file_bytes,
            independent: read(Way::plain(6), "romio_cb_read disable\nromio_ds_read disable\n"),
            romio: read(Way::plain(6), "romio_cb_read enable\ncb_nodes 1\n"),
            ours: read(Way::aggregated(6), "romio_cb_read enable\ncb_nodes 1\n"),
        }
    }
}

/// Reads of a file.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// Requests, cut at stripes of 1 MiB.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Reads of a restart.
#[derive(Clone, Copy, Debug)]
pub struct RestartRequests {
    /// Bytes of the checkpoint.
    pub file_bytes: u64,
    /// By ranks that read each by itself, piece by piece.
    pub independent: Reads,
    /// By ROMIO's collective buffering, with one aggregator.
    pub romio: Reads,
    /// By the library, with one aggregator.
    pub ours: Reads,
}
