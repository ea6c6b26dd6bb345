//! How a job comes up: over which connections, and whatever happens to daemons meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::{Place, is_running, signal, wait_until};

/// TCP connections to each of these ports of this machine, as its kernel counts them at the listening end.
fn connections_to(ports: &[u16]) -> BTreeMap<u16, usize> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    // While others come and go the kernel may show one twice: its addresses tell.
    let connections: BTreeSet<(u16, u16)> = table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
            Some((port(fields[1])?, port(fields[2])?)).filter(|_| fields[3] == ESTABLISHED)
        })
        .collect();
    let count = |port: u16| connections.iter().filter(|(local, _)| *local == port).count();
    ports.iter().map(|port| (*port, count(*port))).collect()
}

#[test]
fn a_node_connects_to_its_parent_and_to_nobody_else() {
    let Some(place) = Place::with_views() else { return };
    let up = place.json(&["up", "--local", "7", "--fanout", "2", "--job", "lazy", "--export", &place.source()]);
    let ports: Vec<u16> =
        up["nodes"].as_array().unwrap().iter().map(|node| node["port"].as_u64().unwrap() as u16).collect();
    let connections = connections_to(&ports);
    let status = place.json(&["status", "--job", "lazy"]);
    let nodes = status["nodes"].as_array().unwrap();
    let children = |rank: usize| nodes.iter().filter(|node| node["parents"][0] == rank).count();
    // A connection for requests and one for bodies from each child.
    let expected = ports.iter().copied().zip((0..7).map(|rank| 2 * children(rank))).collect();
    assert_eq!(connections, expected);
    assert_eq!(connections.values().sum::<usize>(), 2 * 6);
    assert_eq!(up["phases"].as_object().unwrap().len(), 3, "{up}");
    assert!(up["slowest"]["took_ms"].as_u64().is_some(), "{up}");
    place.succeeds(&["down", "--job", "lazy"]);
    place.assert_clean();
}

/// The root and inner nodes lose what they were told, and hear it again.
#[test]
fn daemons_may_die_while_the_job_starts() {
    let Some(place) = Place::with_views() else { return };
    let hosts: String = free_ports(7).iter().map(|port| format!("127.0.0.1:{port}\n")).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    let go = place.path("go");
    let waits = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let shell = remote_shell_that(&place, &format!("case \"$*\" in *'--rank 6'*) {waits};; esac\nexec \"$@\""));
    let source = place.source();
    let arguments = ["up", "--hostfile", "hosts", "--remote-shell", &shell, "--job", "dying", "--view", "view"];
    let mut up = place.command(&[&arguments[..], &["--fanout", "2", "--json", "--export", &source]].concat());
    let mut up = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let socket = |rank: u32| place.job("dying").join(format!("node-{rank}.sock"));
    let daemon = |rank: u32| {
        let record = fs::read(place.job("dying").join(format!("node-{rank}.json"))).unwrap_or_default();
        let record: Value = serde_json::from_slice(&record).unwrap_or_default();
        record["daemon"]["pid"].as_u64()
    };
    wait_until("all but one serve", || {
        assert!(up.try_wait().unwrap().is_none(), "up waits for the last node");
        (0..6).all(|rank| socket(rank).exists() && daemon(rank).is_some())
    });
    for rank in [0, 1, 2] {
        let victim = daemon(rank).unwrap();
        let view = place.path(&format!("view/{rank}{source}/file"));
        assert_eq!(fs::read_to_string(&view).unwrap(), "contents of file\n", "node {rank} serves");
        signal(victim, Signal::KILL);
        wait_until("it has another daemon", || !is_running(victim) && daemon(rank).is_some_and(|pid| pid != victim));
    }
    fs::write(go, "").unwrap();
    let output = up.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let up: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(up["nodes"].as_array().unwrap().len(), 7);
    place.succeeds(&["down", "--job", "dying"]);
    place.assert_clean();
}
