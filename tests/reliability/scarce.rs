//! Resources that a daemon may lack: room for its log, descriptors.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_tests::job::{kill, send};
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;

use crate::readers::{Files, count};

const PATIENCE: Duration = Duration::from_secs(20);

/// Deaths whose lines take more than what is left of the log's last page.
const DEATHS: usize = 12;

/// Fills the file system at `path` to the last byte.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for piece in [&[0; 4096][..], &[0]] {
        while file.write_all(piece).is_ok() {}
    }
}

#[test]
fn a_full_disk_under_the_logs() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let (source, runtime) = (sandbox.source(), sandbox.runtime());
    let files = Files::build(&source, 800);
    mount("tmpfs", &runtime, "tmpfs", MountFlags::empty(), c"size=1m,mode=0700").unwrap();
    let job = Job::up_local(sandbox, 2, &source, &["--log", "trace"]);
    fill(&runtime.join("junk"));
    // Daemons die meanwhile. Their records cannot be written, so they are found by the status.
    files.read_all(&job, 1, DEATHS, |_| kill(u32::try_from(count(&job, 1, "pid")).unwrap()));
    assert_eq!(count(&job, 1, "restarts"), DEATHS as u64);
    let log = runtime.join("forebay").join(&job.sandbox.name).join("logs/node-1.log");
    fs::remove_file(runtime.join("junk")).unwrap();
    // The keeper's next word is of the next death.
    kill(u32::try_from(count(&job, 1, "pid")).unwrap());
    wait_until("the log goes on and says what it lost", PATIENCE, || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("lines of the log were lost before this one"))
    });
    let down = job.command("down", &[]);
    assert!(down.status.success(), "{}", down.stderr);
    unmount(&runtime, UnmountFlags::DETACH).unwrap();
    let left = job.sandbox.left();
    assert!(left.is_empty(), "{left:#?}");
    job.forget();
}

#[test]
fn a_log_that_takes_no_line() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let (source, view) = (sandbox.source(), sandbox.view());
    tree::write(&source.join("file"), b"contents");
    let mut node = sandbox.command();
    node.args([
        "node",
        "--hostfile",
        "-",
        "--rank",
        "0",
        "--job",
        &sandbox.name,
        "--log",
        "trace",
        "--security",
        "off",
    ]);
    node.arg("--export").arg(&source).arg("--view").arg(&view);
    // Standard error is the log; this device is always full.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut node = node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(full).spawn().unwrap();
    writeln!(node.stdin.take().unwrap(), "127.0.0.1").unwrap();
    let mut said = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("ready"), "{said}");
    let read = fs::read(view.join(source.strip_prefix("/").unwrap()).join("file"));
    send(node.id(), Signal::TERM);
    assert!(node.wait().unwrap().success());
    assert_eq!(read.unwrap(), b"contents");
    let left = sandbox.left();
    assert!(left.is_empty(), "{left:#?}");
}

/// Clock ticks of processor time that a process has used.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
}

#[test]
fn no_descriptors_left() {
    require!(Fuse, Root, Command("prlimit"));
    let sandbox = Sandbox::new();
    let (source, view) = (sandbox.source(), sandbox.view());
    let files = Files::build(&source, 400);
    let forebay = forebay_tests::job::binary();
    let mut up = Command::new(forebay);
    sandbox.surround(&mut up);
    up.args(["up", "--job", &sandbox.name, "--export"]).arg(&source);
    let _ = run(up.arg("--view").arg(&view)).good();
    let job = Job::of(sandbox);
    // It would not start with so few.
    let _ = run(Command::new("prlimit").arg(format!("--pid={}", job.pid(0))).arg("--nofile=40:40")).good();
    // Pending handshakes take every descriptor that is left.
    let address = listening(job.pid(0));
    let pending: Vec<_> = (0..60).map_while(|_| std::net::TcpStream::connect(address).ok()).collect();
    let told: Vec<Option<i32>> = (0..400)
        .filter_map(|number| fs::read(job.path(0, &source).join(format!("{}/file-{number}", number / 100))).err())
        .map(|error| error.raw_os_error())
        .collect();
    println!("{} pending handshakes; {} of 400 reads failed: {:?}", pending.len(), told.len(), told.first());
    assert!(!told.is_empty(), "no read lacked a descriptor");
    let emfile = Some(rustix::io::Errno::MFILE.raw_os_error());
    assert!(told.iter().all(|errno| *errno == emfile), "{told:?}");
    let before = ticks(job.pid(0));
    std::thread::sleep(Duration::from_millis(500));
    let used = ticks(job.pid(0)) - before;
    assert!(used < 10, "the daemon spins: {used} ticks in half a second");
    drop(pending);
    // The daemon notices each of them in its own time, those in its queue after the others.
    wait_until("the pending handshakes are gone", Duration::from_secs(20), || connections_at(address.port()) == 0);
    files.read_all(&job, 0, 0, |_| {});
    job.down();
}

/// Wherever on its way a node finds that it may open no more files, nothing of it stays.
#[test]
fn too_few_descriptors_to_start() {
    require!(Fuse, Root, Command("prlimit"));
    let mut failures = 0;
    for limit in 12..24 {
        let sandbox = Sandbox::new();
        let mut up = Command::new("prlimit");
        sandbox.surround(&mut up);
        up.arg(format!("--nofile={limit}:{limit}")).arg(forebay_tests::job::binary());
        let done = run(up.args(["up", "--job", &sandbox.name, "--export"]).arg(sandbox.source()));
        if done.status.success() {
            let _ = run(sandbox.command().args(["down", "--job", &sandbox.name])).good();
        } else {
            failures += 1;
        }
        let left = sandbox.left();
        assert!(left.is_empty(), "{limit}: {}{left:#?}", done.stderr);
    }
    assert!(failures > 0, "twelve are too few");
}

/// Connections that a port still has at its own end, also those that nobody has accepted yet.
fn connections_at(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let own = format!(":{port:04X}");
    // Established, or closed by the other side alone.
    let is_open = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        local.is_some_and(|local| local.ends_with(&own)) && state.is_some_and(|state| ["01", "08"].contains(&state))
    };
    table.lines().filter(is_open).count()
}

/// Where a process listens for peers.
fn listening(pid: u32) -> std::net::SocketAddr {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok()?.to_str().map(str::to_owned))
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let is_ours = |fields: &Vec<&str>| fields[3] == "0A" && sockets.contains(&format!("socket:[{}]", fields[9]));
    let line = table.lines().skip(1).map(|line| line.split_whitespace().collect()).find(is_ours).unwrap();
    let port = u16::from_str_radix(line[1].split_once(':').unwrap().1, 16).unwrap();
    ([127, 0, 0, 1], port).into()
}
