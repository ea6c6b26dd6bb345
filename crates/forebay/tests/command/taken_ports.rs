//! Another user has ports that a job's nodes would take. He keeps none from starting, and nobody from finding them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use forebay_launch::{NodeAddress, Ports};
use forebay_secret::JobKey;
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Signal, Uid, getuid};
use serde_json::Value;

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::{Place, signal};

const HOSTS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// Listens at these addresses as `nobody`.
pub fn nobody_listens_at(addresses: &[(&str, u16)]) -> Vec<TcpListener> {
    let (sender, listeners) = channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // Of this thread alone; its sockets are another user's.
            let nobody = Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            for address in addresses {
                sender.send(TcpListener::bind(address).unwrap()).unwrap();
            }
        });
    });
    drop(sender);
    listeners.iter().collect()
}

/// Listens on these ports of both hosts as `nobody`. On every second one whoever comes hears what no daemon says, on the
/// others nothing.
fn nobody_listens_on(ports: &[u16]) -> Vec<TcpListener> {
    let addresses: Vec<(&str, u16)> = ports.iter().flat_map(|port| HOSTS.map(|host| (host, *port))).collect();
    let listeners = nobody_listens_at(&addresses);
    let (silent, speaking): (Vec<_>, Vec<_>) =
        listeners.into_iter().enumerate().partition(|(index, _)| index / 2 % 2 == 0);
    for (_, listener) in speaking {
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                // The client may be gone.
                connection.and_then(|mut connection| connection.write_all(b"220 ready\r\n")).ok();
            }
        });
    }
    silent.into_iter().map(|(_, listener)| listener).collect()
}

/// The contents of a file, as a node's view shows it in the mounts of its keeper.
pub fn read_at(place: &Place, job: &str, rank: u32, view: &str) -> String {
    let keeper = &place.daemon(job, rank)["process"]["pid"];
    fs::read_to_string(format!("/proc/{keeper}/root{view}{}/file", place.source())).unwrap()
}

/// Up to now this port followed from the job's name, `squatted`, and root's number. Other ports cannot be known.
#[test]
fn the_port_that_followed_from_a_jobs_name_is_not_needed() {
    const FROM_THE_NAME: u16 = 30_698;
    let Some(place) = Place::with_views() else { return };
    let _taken = nobody_listens_on(&[FROM_THE_NAME]);
    // Each host has mounts of its own, so that all may have their view at one place.
    let shell = remote_shell_that(&place, "exec unshare --mount \"$@\"");
    let (source, view) = (place.source(), place.path("view").display().to_string());
    let up = |security: &str| {
        let arguments = ["up", "--job", "squatted", "--nodes", "127.0.0.2,127.0.0.3", "--remote-shell", &shell];
        place.json(&[&arguments[..], &["--view", &view, "--export", &source, "--security", security]].concat())
    };
    for security in ["auth", "off"] {
        for node in up(security)["nodes"].as_array().unwrap() {
            assert!(node["ports"].as_array().unwrap().len() > 1 && node["port"].is_null(), "{node}");
        }
        assert_eq!(read_at(&place, "squatted", 1, &view), "contents of file\n");
        assert_eq!(place.json(&["down", "--job", "squatted"])["ended"], serde_json::json!([0, 1]));
    }
    place.assert_clean();
}

/// The candidates that `up` draws are known to nobody before; here the remote shell puts some in their place that are taken.
#[test]
fn a_job_comes_up_on_the_candidates_that_are_left() {
    let Some(place) = Place::with_views() else { return };
    let ports = free_ports(3);
    let _taken = nobody_listens_on(&ports[..2]);
    let spec = format!(
        r#"s/"port":[0-9]*/"port":{0}/g; s/"ports":\[[0-9,]*\]/"ports":[{0},{1},{2}]/"#,
        ports[0], ports[1], ports[2]
    );
    let does = format!(
        "case \"$*\" in *--job-spec*) sed '{spec}' | exec unshare --mount \"$@\";; *) exec unshare --mount \"$@\";; esac"
    );
    let shell = remote_shell_that(&place, &does);
    let (source, view) = (place.source(), place.path("view").display().to_string());
    for security in ["auth", "seal", "off"] {
        let arguments = ["up", "--job", "left", "--nodes", "127.0.0.2,127.0.0.3", "--remote-shell", &shell];
        place.succeeds(&[&arguments[..], &["--view", &view, "--export", &source, "--security", security]].concat());
        for rank in 0..2 {
            let log = fs::read_to_string(place.job("left").join(format!("logs/node-{rank}.log"))).unwrap();
            assert!(log.contains(&format!("port={}", ports[2])), "{log}");
        }
        assert_eq!(read_at(&place, "left", 1, &view), "contents of file\n");
        let status = place.json(&["status", "--job", "left"]);
        assert_eq!(status["nodes"][1]["backing"]["reads"], 0, "it asks node 0: {status}");
        place.succeeds(&["down", "--job", "left"]);
    }
    place.assert_clean();
}

/// Started each by itself, they agree on where to meet by the key.
#[test]
fn nodes_by_hand_meet_on_the_candidate_that_is_left() {
    let Some(place) = Place::with_views() else { return };
    let (job, source, key) = (&format!("apart-{}", std::process::id()), place.source(), place.path("key"));
    fs::write(&key, [7; 32]).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(place.path("hosts"), HOSTS.join("\n")).unwrap();
    let candidates = Ports::derived(job, getuid().as_raw(), Some(&JobKey::from_bytes([7; 32])));
    let any = NodeAddress { host: HOSTS[0].to_owned(), port: candidates.first() };
    let (left, others) = candidates.of(&any).split_last().unwrap();
    let _taken = nobody_listens_on(others);
    let mut nodes: Vec<Child> = Vec::new();
    for rank in ["0", "1"] {
        let view = format!("view-{rank}");
        let arguments = ["node", "--hostfile", "hosts", "--rank", rank, "--job", job, "--view", &view];
        let mut node = place.command(&[&arguments[..], &["--export", &source, "--key", "key"]].concat());
        let mut node = node.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
        nodes.push(node);
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["ready"]["port"], *left, "{line}");
    }
    assert_eq!(fs::read_to_string(place.path(&format!("view-1{source}/file"))).unwrap(), "contents of file\n");
    let status = place.json(&["status", "--job", job]);
    assert_eq!(status["nodes"][1]["backing"]["reads"], 0, "it asks node 0: {status}");
    for node in &mut nodes {
        signal(node.id().into(), Signal::INT);
        assert!(node.wait().unwrap().success());
    }
    place.assert_clean();
}

/// Has this thread, and what it starts, in a network of its own, where this machine has these addresses.
pub fn move_to_own_network(addresses: &[&str]) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let ip = |arguments: &[&str]| assert!(Command::new("ip").args(arguments).status().unwrap().success());
    ip(&["link", "set", "lo", "up"]);
    addresses.iter().for_each(|address| ip(&["address", "add", address, "dev", "lo"]));
}

/// Passes on what comes here to `target` and back, and tells what it is; first of all, nothing, that somebody has come.
fn pass_on(listener: TcpListener, target: (&'static str, u16)) -> Receiver<Vec<u8>> {
    let (sender, passed) = channel();
    let pump = |mut from: TcpStream, mut to: TcpStream, seen: Sender<Vec<u8>>| {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            // The test may be over, and the other side gone.
            seen.send(bytes[..len].to_vec()).ok();
            to.write_all(&bytes[..len]).ok();
        }
        to.shutdown(Shutdown::Write).ok();
    };
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            sender.send(vec![]).ok();
            // The target may not listen yet.
            let Ok(far) = TcpStream::connect(target) else { continue };
            let (back, there, seen) = (near.try_clone().unwrap(), far.try_clone().unwrap(), sender.clone());
            std::thread::spawn(move || pump(near, there, seen));
            let seen = sender.clone();
            std::thread::spawn(move || pump(far, back, seen));
        }
    });
    passed
}

/// The host has two addresses, its node listens at the one, and whoever looks for the node comes to the other first.
#[test]
fn a_process_on_a_nodes_port_at_another_address_neither_hides_it_nor_intercepts() {
    const ADDRESSES: [&str; 2] = ["2001:db8::1", "10.9.0.1"];
    let Some(place) = Place::with_views() else { return };
    move_to_own_network(&["2001:db8::1/64", "10.9.0.1/24"]);
    let (names, ports) = (place.path("names"), free_ports(2));
    fs::write(&names, ADDRESSES.map(|address| format!("{address} two\n")).concat()).unwrap();
    let does = "exec unshare --mount sh -c 'mount --bind \"$0\" /etc/hosts; exec \"$@\"'";
    let shell = remote_shell_that(&place, &format!("{does} {} \"$@\"", names.display()));
    let nodes = format!("two:{},two:{}", ports[0], ports[1]);
    let (source, view) = (place.source(), place.path("view").display().to_string());
    let run = || {
        let arguments =
            ["up", "--job", "two", "--nodes", &nodes, "--interface", ADDRESSES[1], "--remote-shell", &shell];
        place.succeeds(&[&arguments[..], &["--view", &view, "--export", &source, "--profile", "off"]].concat());
        assert_eq!(read_at(&place, "two", 1, &format!("{view}/1")), "contents of file\n");
        let status = place.json(&["status", "--job", "two"]);
        assert_eq!(status["nodes"][1]["backing"]["reads"], 0, "it asks node 0: {status}");
        place.succeeds(&["down", "--job", "two"]);
    };
    let silent = nobody_listens_at(&[(ADDRESSES[0], ports[0])]);
    run();
    drop(silent);
    let listener = nobody_listens_at(&[(ADDRESSES[0], ports[0])]).remove(0);
    let passed = pass_on(listener, (ADDRESSES[1], ports[0]));
    run();
    let passed: Vec<Vec<u8>> = passed.try_iter().collect();
    assert!(!passed.is_empty(), "it was tried");
    assert!(!passed.concat().windows(8).any(|bytes| bytes == b"contents"), "he sees nothing but handshakes");
    place.assert_clean();
}

#[test]
fn a_job_for_which_no_port_is_left_says_which_it_tried() {
    let Some(place) = Place::with_views() else { return };
    let ports = free_ports(1);
    let _taken = nobody_listens_on(&ports);
    let shell = remote_shell_that(&place, "exec \"$@\"");
    let (source, port) = (place.source(), ports[0].to_string());
    let arguments = ["up", "--nodes", HOSTS[0], "--port", &port, "--remote-shell", &shell, "--export", &source];
    let message = place.fails(1, &arguments);
    assert!(
        message.contains(&format!("cannot listen on 127.0.0.2:{port}: another program may use the port")),
        "{message}"
    );
    place.assert_clean();
}
