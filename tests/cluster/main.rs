//! Real daemons on nodes with networks, mounts and host names of their own, over a real network file system.
//!
//! The nodes are namespaces of this machine, the backing file system is GlusterFS with a server in a namespace too
//! (`crates/harness/testkit/testbed/pfs-testbed.sh`). The checks need several nodes: that every node sees the same,
//! that the server is asked once a job and not once a node, and what a server in trouble does to the readers.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

macro_rules! require_testbed {
    () => {
        forebay_tests::require!(
            Root,
            Fuse,
            Command("glusterfsd"),
            Command("glusterfs"),
            Command("ip"),
            Command("tc"),
            Command("nsenter"),
            Command("python3")
        )
    };
}

#[allow(dead_code, reason = "the measurement of the same directory uses the rest")]
mod faults;
mod faulty;
mod slow;
mod testbed;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_testkit::testbed::Traffic;
use forebay_tests::{Finished, compare, tree};
use testbed::{Cluster, Testbed};

const NODES: usize = 4;

/// Files are read in pieces of this.
const PIECE_BYTES: u64 = 128 << 10;

/// As much is read at once, bytes.
const CHUNK_BYTES: u64 = 1 << 20;

/// A row of chunks of a large file, which has one home.
const ROW_BYTES: u64 = 4 << 20;

/// Prints what a program can know of every file below `$1`: attributes, link targets, checksums. Access times are a
/// mount's own.
const LOOK: &str = r#"cd "$1" && find . -printf '%P|%y|%s|%b|%n|%i|%U|%G|%m|%T@|%C@|%l\n' | sort &&
    find . -type f -print0 | sort -z | xargs -0 sha256sum"#;

/// Reads every file below `$1` and says of each whether that worked, and its checksum.
const READ_ALL: &str = r#"cd "$1" && find . -type f | sort | while IFS= read -r f; do
    if sum=$(sha256sum <"$f" 2>&1); then echo "$f ok $sum"; else echo "$f failed $sum"; fi; done"#;

/// Reads every file below `$1` around the kernel's cache, and prints what is said of those that cannot be read.
const ERRORS: &str = r#"cd "$1" && find . -type f | sort | while IFS= read -r f; do
    dd if="$f" of=/dev/null bs=1M iflag=direct status=none 2>&1; done; true"#;

fn look(cluster: &Cluster, node: usize, path: &Path) -> Finished {
    cluster.testbed().on(node, &["sh".as_ref(), "-c".as_ref(), LOOK.as_ref(), "sh".as_ref(), path.as_ref()])
}

/// The attributes that make the version of each file below `path`, for a message.
fn attributes(cluster: &Cluster, node: usize, path: &Path) -> String {
    let find = ["find".as_ref(), path.as_os_str(), "-type".as_ref(), "f".as_ref(), "-printf".as_ref()];
    cluster.testbed().on(node, &[&find[..], &["%p %i %s %T@ %C@\\n".as_ref()]].concat()).text()
}

#[test]
fn every_node_sees_the_source_and_the_server_is_asked_once() {
    require_testbed!();
    look_from_all(&["--roots", "1"], |cluster, made, contents, opens| {
        check_requests(made, contents, contents.directories);
        check_totals(cluster, contents, opens);
    });
}

/// Each node has to open what it is home of. No directory is listed twice, and no byte is read twice.
#[test]
fn homes_of_large_files_read_each_byte_once() {
    require_testbed!();
    look_from_all(&[], |cluster, made, contents, _| {
        // Each opens the export itself.
        check_requests(made, contents, contents.directories + NODES as u64 - 1);
        let status = cluster.status();
        check_reads(&status["totals"]["backing"], contents);
        let reads = |node: &serde_json::Value| node["backing"]["bytes"].as_u64().unwrap();
        let nodes = status["nodes"].as_array().unwrap();
        assert!(nodes.iter().all(|node| reads(node) > 0), "each is home of a share: {status}");
        let lists = |node: &&serde_json::Value| node["backing"]["listings"] != 0;
        assert_eq!(nodes.iter().filter(lists).count(), 1, "the root alone lists: {status}");
    });
}

/// All nodes of a cluster look at the same tree at once. `check` is told the traffic that this made at the server, the contents, and how
/// many files the job had opened before.
fn look_from_all(options: &[&str], check: impl FnOnce(&Cluster, &Traffic, &Contents, u64)) {
    let testbed = Testbed::up(NODES, "standard", |source| {
        let _tree = tree::Tree::build(source, Path::new("/tmp/view"));
        std::fs::remove_file(source.join("sparse/big")).unwrap();
    });
    let source = testbed.source();
    let cluster = Cluster::up(testbed, options);
    // One client, directly: the node that is no root has its own mount, with nothing in its caches.
    let direct = look(&cluster, NODES - 1, &source).good();
    let contents = Contents::of(&cluster, &source);
    let (opens, before) = (backing(&cluster, "opens"), cluster.testbed().traffic());
    let view = cluster.view(&source);
    let seen = look_everywhere(&cluster, &view);
    let traffic = cluster.testbed().traffic();
    for (node, seen) in seen.iter().enumerate() {
        let stats = || [&source, &view].map(|path| attributes(&cluster, node, path)).join("\n");
        assert!(seen.status.success(), "node {node}: {}\n{}", seen.stderr, stats());
        compare::same(&direct.stdout, &seen.stdout, Path::new(&format!("what node {node} sees")));
    }
    check(&cluster, &traffic.since(&before), &contents, opens);
    // Whatever a kernel may have dropped is still known in the job.
    look_everywhere(&cluster, &view).into_iter().for_each(|seen| drop(seen.good()));
    let again = cluster.testbed().traffic().since(&traffic);
    // `find` looks at the sizes of the file system, which are asked for again after a second.
    let is_asked_again = again.requests.keys().any(|kind| kind != "statfs");
    assert!(!is_asked_again, "the server is asked once a job: {again:?}");
    cluster.down().hand_on();
}

fn look_everywhere(cluster: &Cluster, path: &Path) -> Vec<Finished> {
    std::thread::scope(|scope| {
        let looks: Vec<_> = (0..NODES).map(|node| scope.spawn(move || look(cluster, node, path))).collect();
        looks.into_iter().map(|look| look.join().unwrap()).collect()
    })
}

/// The contents to be read, by path: each name of a file with several is a file of its own.
struct Contents {
    names: u64,
    /// Files with something in them.
    filled: u64,
    directories: u64,
    links: u64,
    bytes: u64,
    /// In as many chunks files are read, which the kernel asks for in as many pieces.
    chunks: u64,
    pieces: u64,
    /// Rows of large files beyond the first: each may have a home of its own.
    rows: u64,
}

impl Contents {
    /// As the last node sees it, so that nothing is known to the root's client.
    fn of(cluster: &Cluster, path: &Path) -> Self {
        let find = ["find".as_ref(), path.as_os_str(), "-printf".as_ref(), "%y %s\\n".as_ref()];
        let found = cluster.testbed().on(NODES - 1, &find).good().text();
        let sizes = |kind: &str| -> Vec<u64> {
            let of_kind = found.lines().filter_map(|line| line.split_once(' ')).filter(|(known, _)| *known == kind);
            of_kind.map(|(_, size)| size.parse().unwrap()).collect()
        };
        let [files, directories, links] = ["f", "d", "l"].map(sizes);
        let in_parts = |bytes: u64| files.iter().map(|size| size.div_ceil(bytes)).sum();
        // Chunks are whole pieces, so that it does not matter that files are read chunk by chunk.
        let (chunks, pieces) = (in_parts(CHUNK_BYTES), in_parts(PIECE_BYTES));
        let rows = files.iter().map(|size| size.div_ceil(ROW_BYTES).saturating_sub(1)).sum();
        Self {
            names: found.lines().count() as u64,
            filled: files.iter().filter(|size| **size > 0).count() as u64,
            directories: directories.len() as u64,
            links: links.len() as u64,
            bytes: files.iter().sum(),
            chunks,
            pieces,
            rows,
        }
    }
}

fn backing(cluster: &Cluster, what: &str) -> u64 {
    cluster.status()["totals"]["backing"][what].as_u64().unwrap()
}

/// Each file is opened and read once a job, and each directory listed once, by the root alone. A directory is opened as a
/// place, but for the export itself, which is one since the start, and to be listed.
fn check_totals(cluster: &Cluster, contents: &Contents, opens_before: u64) {
    let status = cluster.status();
    let backing = &status["totals"]["backing"];
    let count = |name: &str| backing[name].as_u64().unwrap();
    check_reads(backing, contents);
    let opens = contents.filled + 2 * contents.directories - 1;
    assert_eq!(count("opens") - opens_before, opens, "each file is opened once: {backing}");
    for node in &status["nodes"].as_array().unwrap()[1..] {
        assert_eq!(node["backing"]["opens"].as_u64(), Some(0), "only the root asks: {node}");
        assert!(node["overlay"]["requests_sent"].as_u64().unwrap() > 0, "{node}");
    }
}

/// No directory is listed twice, and no byte is read twice.
fn check_reads(backing: &serde_json::Value, contents: &Contents) {
    let count = |name: &str| backing[name].as_u64().unwrap();
    assert_eq!(count("listings"), contents.directories, "each directory is listed once: {backing}");
    assert_eq!(count("reads"), contents.chunks, "each chunk is read once: {backing}");
    assert_eq!(count("bytes"), contents.bytes, "each byte is read once: {backing}");
    assert_eq!(count("errors"), 0, "{backing}");
}

/// The same at the server. GlusterFS sends a small file along with its LOOKUP when it has nothing fresher, and looks a name
/// up again after a second: how many LOOKUP, OPEN, FLUSH and READ there are depends on how fast either side happens to be,
/// but not how many there can be.
fn check_requests(made: &Traffic, contents: &Contents, opened_directories: u64) {
    let sum = |kinds: &[&str]| -> u64 { kinds.iter().filter_map(|kind| made.requests.get(*kind)).sum() };
    let Contents { names, filled, directories, links, bytes, pieces, rows, .. } = *contents;
    assert_eq!(sum(&["opendir"]), opened_directories, "each directory is listed once: {made:?}");
    for (kinds, limit) in [
        // The entries of a directory, and that there are no more.
        (&["readdirp"][..], 2 * directories),
        // When a name is listed, and when it is opened.
        (&["lookup"], 2 * names),
        // By each home of a row of a large file.
        (&["open"], filled + rows),
        (&["flush"], filled + rows),
        (&["read"], pieces),
        (&["readlink"], links),
    ] {
        assert!(sum(kinds) <= limit, "{NODES} nodes made {} {kinds:?}, {limit} at most: {made:?}", sum(kinds));
    }
    assert!(made.sent_bytes * 100 <= bytes * 102, "{bytes} bytes are there: {made:?}");
}

/// Files of a size that GlusterFS does not send along with their attributes, in two directories.
fn small_files(source: &Path) {
    for directory in ["first", "second"] {
        std::fs::create_dir(source.join(directory)).unwrap();
        for index in 0..80 {
            tree::write(&source.join(directory).join(format!("file-{index:03}")), &tree::contents(100_000 + index));
        }
    }
}

/// Of each file whether it could be read, and what was in it or why not.
fn read_all(cluster: &Cluster, node: usize, path: &Path) -> BTreeMap<String, Result<String, String>> {
    let arguments = ["sh".as_ref(), "-c".as_ref(), READ_ALL.as_ref(), "sh".as_ref(), path.as_os_str()];
    let printed = cluster.testbed().on(node, &arguments).good().text();
    let line = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap();
        let read = rest.strip_prefix("ok ").map(str::to_owned).ok_or_else(|| rest.to_owned());
        (name.to_owned(), read)
    };
    printed.lines().filter(|text| text.starts_with("./")).map(line).collect()
}

#[test]
fn errors_of_the_server_are_passed_on_and_not_kept() {
    require_testbed!();
    let cluster = Cluster::up(Testbed::up(NODES, "small", small_files), &[]);
    let source = cluster.testbed().source();
    let (view, leaf) = (cluster.view(&source), NODES - 1);
    let truth = read_all(&cluster, leaf, &source);
    assert!(truth.len() == 160 && truth.values().all(Result::is_ok), "{truth:?}");
    // Some requests fail. The kernel may ask again by itself, so that a reader sees an error or the truth.
    cluster.testbed().script(&["fault", "error", "EIO", "open,read"]);
    for (name, read) in read_all(&cluster, leaf, &view.join("first")) {
        match read {
            Ok(_) => assert_eq!(truth.get(&name.replace("./", "./first/")), Some(&read), "{name}"),
            Err(error) => assert!(error.contains("Input/output error"), "{name}: {error}"),
        }
    }
    let errors = cluster.status()["totals"]["backing"]["errors"].as_u64().unwrap();
    assert!(errors > 0, "the server failed no request");
    // All fail, and so does every reader.
    cluster.testbed().script(&["fault", "error-mixed", "100", "read"]);
    let second = read_all(&cluster, leaf, &view.join("second"));
    assert!(second.len() == 80 && second.values().all(Result::is_err), "{second:?}");
    cluster.testbed().script(&["fault", "clear"]);
    assert_eq!(read_all(&cluster, leaf, &view), truth, "what failed before is asked again");
    cluster.down().hand_on();
}

/// One request of a few fails with `EIO`. The readers go around the kernel's cache, which would ask again by itself, and
/// nothing is asked for early, whose failure nobody sees: what fails at the server fails at the reader.
#[test]
fn an_error_reaches_a_leaf_as_the_server_gives_it() {
    require_testbed!();
    let cluster = Cluster::up(Testbed::up(NODES, "small", small_files), &["--prefetch", "false"]);
    let source = cluster.testbed().source();
    let (view, leaf) = (cluster.view(&source), NODES - 1);
    cluster.testbed().script(&["fault", "error", "EIO", "open,read"]);
    let [direct, through] = [(1, &source), (leaf, &view)].map(|(node, path)| {
        let arguments = ["sh".as_ref(), "-c".as_ref(), ERRORS.as_ref(), "sh".as_ref(), path.as_os_str()];
        cluster.testbed().on(node, &arguments).good().text()
    });
    let kinds = |printed: &str| -> BTreeSet<String> {
        printed.lines().map(|line| line.rsplit(": ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&direct), ["Input/output error".to_owned()].into(), "what another client sees: {direct}");
    assert_eq!(kinds(&through), kinds(&direct), "{through}");
    let errors = cluster.status()["totals"]["backing"]["errors"].as_u64().unwrap();
    assert!(through.lines().count() as u64 <= errors, "no error is made up, {errors} are the server's: {through}");
    cluster.testbed().script(&["fault", "clear"]);
    let truth = read_all(&cluster, leaf, &source);
    assert!(truth.len() == 160 && truth.values().all(Result::is_ok), "{truth:?}");
    assert_eq!(read_all(&cluster, leaf, &view), truth, "what failed before is asked again");
    cluster.down().hand_on();
}
