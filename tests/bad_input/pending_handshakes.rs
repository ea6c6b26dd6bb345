//! Whatever is sent to a daemon's port in a pending handshake, the daemon lives, and its job goes on.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use forebay_tests::{Job, Sandbox, require, tree};

/// How long a daemon may keep a pending handshake.
const PATIENCE: Duration = Duration::from_secs(20);

/// The growth of a daemon's memory that is allowed, whatever lengths it is told.
const GROWTH_BYTES_MAX: u64 = 32 << 20;

/// The address that the daemon `pid` listens on, from the kernel's table of sockets.
fn listening(pid: u32) -> SocketAddr {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let inodes: Vec<String> = descriptors
        .filter_map(|entry| {
            fs::read_link(entry.path()).ok()?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let own = rows.into_iter().find(|row| row[3] == "0A" && inodes.iter().any(|inode| inode == row[9]));
    let own = own.expect("the daemon listens");
    let (_, port) = own[1].split_once(':').unwrap();
    SocketAddr::from(([127, 0, 0, 1], u16::from_str_radix(port, 16).unwrap()))
}

fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Sends `bytes` and waits until the daemon closes the connection.
fn send(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be closed before all is written: that is an answer too.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = vec![];
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the daemon keeps a pending handshake")
        }
    }
}

#[test]
fn foreign_bytes_do_no_harm() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    let _tree = tree::Tree::build(&source, &sandbox.view());
    let job = Job::up_local(sandbox, 3, &source, &["--fanout", "2"]);
    let (pid, address) = (job.pid(0), listening(job.pid(0)));
    let before = resident_bytes(pid);
    let mut messages: Vec<Vec<u8>> = vec![
        vec![],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        vec![0xff; 1 << 20],
    ];
    messages.extend((0..64).map(|seed| tree::contents(seed * 37 + 1)));
    for message in &messages {
        send(address, message);
    }
    assert_eq!(fs::read(job.path(2, &source.join("plain/4097"))).unwrap(), tree::contents(4097), "the job goes on");
    let after = resident_bytes(pid);
    assert!(after < before + GROWTH_BYTES_MAX, "from {before} to {after} bytes");
    job.down();
}

/// Connections that say nothing are closed, and while they are open everybody else is served.
#[test]
fn silent_connections_are_closed() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    tree::write(&source.join("file"), b"served");
    let job = Job::up_local(sandbox, 2, &source, &[]);
    let address = listening(job.pid(0));
    let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(fs::read(job.path(1, &source.join("file"))).unwrap(), b"served");
    for stream in &mut silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let closed = stream.read(&mut [0; 64]);
        assert!(
            matches!(closed, Ok(0)) || closed.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset),
            "{closed:?}"
        );
    }
    job.down();
}
