//! Prefill: the files that a start-up used are brought in at the next one, into the kernel, as the files are now, whatever happened to the
//! profile meanwhile.

use std::fs;
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, compare, require, tree};

const DIRECTORIES: usize = 12;
const FILES: usize = 15;

const PATIENCE: Duration = Duration::from_secs(60);

/// Files of 16 MiB.
const LARGE: usize = 10;

/// How long a job may take to end that adds to its pack.
const DOWN_MAX: Duration = Duration::from_secs(8);

/// Bytes that do not compress.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// An environment that programs start from, and the profile of that.
struct Environment {
    place: tempfile::TempDir,
}

impl Environment {
    fn new() -> Self {
        let environment = Self { place: tempfile::tempdir().unwrap() };
        for (number, file) in environment.files().iter().enumerate() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let length = if number == 7 { (3 << 20) + 5 } else { 100 + 997 * number };
            tree::write(file, &vec![number as u8; length]);
        }
        environment
    }

    fn source(&self) -> PathBuf {
        self.place.path().join("env")
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.source().join(format!("lib/package{number}"))
    }

    fn files(&self) -> Vec<PathBuf> {
        let files_in = |number| (0..FILES).map(move |file| (number, file));
        let path = |(number, file)| self.directory(number).join(format!("module{file}"));
        (0..DIRECTORIES).flat_map(files_in).map(path).collect()
    }

    fn large(&self, number: usize) -> PathBuf {
        self.source().join(format!("lib/large{number}"))
    }

    fn profile(&self) -> PathBuf {
        self.place.path().join("start.profile")
    }

    fn pack(&self) -> PathBuf {
        self.place.path().join("start.pack")
    }

    fn up(&self, nodes: u32, options: &[&str]) -> Job {
        let profile = self.profile();
        let given = ["--fanout", "2", "--profile", profile.to_str().unwrap()];
        Job::up_local(Sandbox::new(), nodes, &self.source(), &[&given, options].concat())
    }

    /// A job that has its start-up recorded, and a pack of it if there is to be one.
    fn record(&self, options: &[&str]) {
        let job = self.up(1, options);
        self.start(&job, 0);
        if !options.contains(&"off") {
            wait_until("a pack is there", PATIENCE, || self.pack().exists());
        }
        job.down();
        assert!(self.profile().exists());
    }

    /// The reads of a program that starts on a node.
    fn start(&self, job: &Job, node: usize) {
        for number in 0..DIRECTORIES {
            let dir = job.path(node, &self.directory(number));
            assert!(fs::metadata(dir.join("missing")).is_err());
            assert_eq!(fs::read_dir(&dir).unwrap().count(), fs::read_dir(self.directory(number)).unwrap().count());
        }
        for file in self.files().iter().filter(|file| file.exists()) {
            assert_eq!(fs::read(job.path(node, file)).unwrap(), fs::read(file).unwrap(), "{}", file.display());
        }
    }
}

/// Waits until nothing more comes ahead to any node.
fn wait_until_filled(job: &Job) {
    wait_until("all nodes are filled", PATIENCE, || {
        let status = job.status();
        status["nodes"].as_array().unwrap().iter().all(|node| node["prefill"]["state"] == "filled")
    });
}

fn messages(job: &Job, node: usize, kind: &str) -> u64 {
    job.status()["nodes"][node]["kernel"]["messages"][kind].as_u64().unwrap()
}

fn log_of(job: &Job, node: usize) -> String {
    let logs = job.sandbox.runtime().join("forebay").join(&job.sandbox.name).join("logs");
    let of_node =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&format!("{node}")));
    let files = fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).filter(of_node);
    files.map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// A kernel may drop pages at any time, and ask for some again: one of several later starts without that is enough.
const STARTS: usize = 3;

fn a_second_start_asks_for_nothing(nodes: u32, options: &[&str]) {
    let environment = Environment::new();
    environment.record(options);
    let asked: Vec<String> = (0..STARTS).map_while(|_| later_start(&environment, nodes, options)).collect();
    assert!(asked.len() < STARTS, "{asked:#?}");
}

/// A message about requests that a node should not have sent, if one did.
fn later_start(environment: &Environment, nodes: u32, options: &[&str]) -> Option<String> {
    let job = environment.up(nodes, options);
    wait_until_filled(&job);
    let chunks = (DIRECTORIES * FILES + 3) as u64;
    let mut too_much = None;
    for node in 0..nodes as usize {
        let (before, reads_before) = (messages(&job, node, "lookup"), messages(&job, node, "read"));
        environment.start(&job, node);
        let reads = messages(&job, node, "read") - reads_before;
        compare::trees(&environment.source(), &job.path(node, &environment.source()));
        // The first program looks up the path to the export.
        let lookups = messages(&job, node, "lookup") - before;
        assert!(lookups <= 12, "node {node} looked {lookups} names up");
        // The recording node is left a part to ask for, so that it is seen what is used.
        let stored = job.status()["nodes"][node]["prefill"]["chunks"].as_u64().unwrap();
        assert!(if node == 0 { (chunks * 3 / 4..chunks).contains(&stored) } else { stored == chunks }, "{stored}");
        // A chunk is asked for at its first read and ahead of the second.
        let left = chunks - stored;
        if reads > 2 * left + chunks / 20 {
            too_much = Some(format!("node {node} was left {left} of {chunks} chunks and read {reads} times"));
        }
    }
    let status = job.status();
    let backing = &status["totals"]["backing"];
    assert!(backing["listings"].as_u64().unwrap() <= DIRECTORIES as u64 + 4, "{backing}");
    job.down();
    too_much
}

#[test]
fn a_second_start_asks_its_own_kernel_alone() {
    require!(Fuse, Root);
    a_second_start_asks_for_nothing(1, &["--pack", "off"]);
}

#[test]
fn a_second_start_on_seven_nodes_does_so_too_from_a_pack() {
    require!(Fuse, Root);
    a_second_start_asks_for_nothing(7, &[]);
}

/// Writing a pack waits for reads of the files, and must not take their slot.
#[test]
fn a_pack_is_made_where_only_one_thing_is_read_at_a_time() {
    require!(Fuse, Root);
    Environment::new().record(&["--backing-concurrency", "1"]);
}

/// The first node writes down what was used, also where it was not used there: by a node below another one that uses
/// nothing either, found while the job runs or only when it ends.
#[test]
fn a_start_up_that_the_first_node_takes_no_part_in_is_recorded() {
    require!(Fuse, Root);
    let nodes = 7;
    for waits in [true, false] {
        let environment = Environment::new();
        let job = environment.up(nodes, &["--pack", "off"]);
        environment.start(&job, 3);
        assert_eq!(job.status()["nodes"][0]["prefill"]["recorded"], 0, "nothing runs on the first node");
        if waits {
            wait_until("the start-up is written down", PATIENCE, || environment.profile().exists());
            // Files that the first node uses after that are added to the profile, and do not replace it.
            assert!(job.path(0, &environment.files()[0]).exists());
        }
        job.down();
        assert!(environment.profile().exists());
        let job = environment.up(nodes, &["--pack", "off"]);
        wait_until_filled(&job);
        let chunks = (DIRECTORIES * FILES + 3) as u64;
        assert_eq!(job.status()["nodes"][5]["prefill"]["chunks"], chunks, "all that was used comes to all nodes");
        environment.start(&job, 3);
        // Other nodes use the files that the first node is left to ask for, though it asks for none of them.
        let record = ["profile", "record", "--json", "--job", &job.sandbox.name];
        let recorded = run(job.sandbox.command().args(record)).good();
        let recorded: serde_json::Value = serde_json::from_slice(&recorded.stdout).unwrap();
        assert_eq!(recorded["dropped"], 0, "{recorded}");
        job.down();
    }
}

/// It is read once, by no program, and is not to come ahead of the next job's.
#[test]
fn staging_in_is_no_start_up() {
    require!(Fuse, Root);
    let environment = Environment::new();
    let job = environment.up(2, &["--pack", "off"]);
    let staged = job.sandbox.base().join("staged");
    let mut stage = job.sandbox.command();
    stage.args(["stage", "in", "--job", &job.sandbox.name]).args([&environment.directory(0), &staged]);
    let _ = run(&mut stage).good();
    let recorded = |node: usize| job.status()["nodes"][node]["prefill"]["recorded"].as_u64().unwrap();
    assert_eq!([0, 1].map(recorded), [0, 0], "nothing of what was staged");
    environment.start(&job, 1);
    // The kernel has what was staged, and does not say that programs use it.
    let files = ((DIRECTORIES - 1) * FILES) as u64;
    assert!(recorded(1) >= files, "afterwards what programs use counts: {}", recorded(1));
    job.down();
}

#[test]
fn a_pack_serves_for_the_files_it_holds() {
    require!(Fuse, Root);
    let environment = Environment::new();
    environment.record(&[]);
    let job = environment.up(3, &[]);
    wait_until_filled(&job);
    (0..3).for_each(|node| environment.start(&job, node));
    let reads = job.status()["totals"]["backing"]["reads"].as_u64().unwrap();
    assert_eq!(reads, 0, "no file was read but the pack");
    job.down();
}

/// Whatever was recorded: programs see the files as they are when the job starts.
#[test]
fn files_changed_since_the_pack_are_seen_as_they_are() {
    require!(Fuse, Root);
    for options in [&["--pack", "off"][..], &[]] {
        let environment = Environment::new();
        environment.record(options);
        let files = environment.files();
        let length = fs::metadata(&files[20]).unwrap().len() as usize;
        tree::write(&files[20], &vec![0xee; length]);
        tree::write(&files[7], b"much shorter now");
        fs::remove_file(&files[30]).unwrap();
        tree::write(&environment.directory(3).join("missing"), b"is there now");
        fs::rename(environment.directory(5), environment.source().join("lib/moved")).unwrap();
        let job = environment.up(3, options);
        wait_until_filled(&job);
        for node in 0..3 {
            compare::trees(&environment.source(), &job.path(node, &environment.source()));
            assert_eq!(fs::read(job.path(node, &environment.directory(3).join("missing"))).unwrap(), b"is there now");
            assert!(!job.path(node, &environment.directory(5)).exists());
        }
        job.down();
    }
}

#[test]
fn changed_files_are_replaced_in_the_pack() {
    require!(Fuse, Root);
    let environment = Environment::new();
    environment.record(&[]);
    tree::write(&environment.files()[7], &vec![0xee; (3 << 20) + 5]);
    let reads_of_a_start = || {
        let job = environment.up(1, &[]);
        wait_until_filled(&job);
        environment.start(&job, 0);
        let reads = job.status()["totals"]["backing"]["reads"].as_u64().unwrap();
        let _ = run(job.sandbox.command().args(["profile", "record", "--job", &job.sandbox.name])).good();
        job.down();
        reads
    };
    assert!(reads_of_a_start() > 0, "what has changed is read from its own file");
    assert_eq!(reads_of_a_start(), 0, "the pack has it");
}

/// Jobs that end with their programs leave a pack between them, each some of it.
#[test]
fn jobs_that_are_short_make_a_pack() {
    require!(Fuse, Root);
    let environment = Environment::new();
    // More than one of them can pack.
    for number in 0..LARGE {
        tree::write(&environment.large(number), &noise(number, 16 << 20));
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let job = environment.up(1, &[]);
        environment.start(&job, 0);
        for number in 0..LARGE {
            assert_eq!(fs::read(job.path(0, &environment.large(number))).unwrap().len(), 16 << 20);
        }
        let began = Instant::now();
        job.down();
        assert!(began.elapsed() < DOWN_MAX, "{:?}", began.elapsed());
        sizes.push(fs::metadata(environment.pack()).map_or(0, |pack| pack.len()));
    }
    println!("the pack grew so: {sizes:?}");
    assert!(sizes.is_sorted() && sizes[2] > 16 << 20, "{sizes:?}");
    let job = environment.up(1, &[]);
    wait_until_filled(&job);
    environment.start(&job, 0);
    let bytes = job.status()["totals"]["backing"]["bytes"].as_u64().unwrap();
    assert!(bytes < (LARGE as u64) << 24, "{bytes} bytes were read of the files");
    job.down();
}

#[test]
fn a_refresh_holds_for_what_came_ahead() {
    require!(Fuse, Root);
    let environment = Environment::new();
    environment.record(&[]);
    let job = environment.up(3, &[]);
    wait_until_filled(&job);
    let (file, absent) = (&environment.files()[20], environment.directory(2).join("missing"));
    (0..3).for_each(|node| environment.start(&job, node));
    tree::write(file, b"written while the job runs");
    tree::write(&absent, b"is there now");
    let _ = job.command("refresh", &[environment.source().as_os_str()]).good();
    for node in 0..3 {
        assert_eq!(fs::read(job.path(node, file)).unwrap(), b"written while the job runs");
        assert_eq!(fs::read(job.path(node, &absent)).unwrap(), b"is there now");
    }
    job.down();
}

/// A profile or pack that is spoilt, or that somebody else might have made, is named in the log and left alone.
#[test]
fn untrusted_paths_are_not_used() {
    require!(Fuse, Root);
    let spoil = |path: &Path, at: u64| {
        let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    };
    type Spoil<'a> = &'a dyn Fn(&Environment);
    let cases: [(&str, Spoil<'_>); 4] = [
        ("a block of the pack", &|environment| spoil(&environment.pack(), 100)),
        ("no pack", &|environment| {
            let length = fs::metadata(environment.pack()).unwrap().len();
            fs::File::options().write(true).open(environment.pack()).unwrap().set_len(length - 1).unwrap();
        }),
        ("no profile", &|environment| spoil(&environment.profile(), 60)),
        ("no profile", &|environment| chown(environment.profile(), Some(65534), Some(65534)).unwrap()),
    ];
    for (named, spoil) in cases {
        let environment = Environment::new();
        environment.record(&[]);
        spoil(&environment);
        let job = environment.up(3, &[]);
        wait_until("the log tells what is wrong", PATIENCE, || log_of(&job, 0).contains(named));
        (0..3).for_each(|node| environment.start(&job, node));
        job.down();
    }
}

/// The daemon that fills a kernel may die at any time; programs are answered all the same.
#[test]
fn a_daemon_that_dies_while_it_fills_is_followed_by_another() {
    require!(Fuse, Root);
    let environment = Environment::new();
    environment.record(&[]);
    for node in [0, 2] {
        let job = environment.up(3, &[]);
        job.kill_daemon(node);
        (0..3).for_each(|node| environment.start(&job, node));
        job.down();
    }
}

/// Files that hold `bytes`, below a directory.
fn holding(place: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let holds = |path: &PathBuf| fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes);
    let below = directories.iter().flat_map(|directory| holding(directory, bytes));
    files.into_iter().filter(holds).chain(below).collect()
}

/// Others may read what is beside a profile; contents of files are in packs alone.
#[test]
fn without_a_pack_no_contents_are_beside_the_profile() {
    require!(Fuse, Root);
    let environment = Environment::new();
    // It does not compress, so a pack holds it as it is.
    let (file, contents) = (&environment.files()[3], noise(3, 4096));
    tree::write(file, &contents);
    environment.record(&["--pack", "off"]);
    assert_eq!(holding(environment.place.path(), &contents), std::slice::from_ref(file), "only the file itself");
    environment.record(&[]);
    assert!(holding(environment.place.path(), &contents).contains(&environment.pack()), "the test would see a pack");
}
