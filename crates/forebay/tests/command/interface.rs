//! A host with several addresses: `--interface` says at which of them its node listens, and is looked for.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

use crate::hosts::{free_ports, remote_shell_that};
use crate::place::Place;
use crate::taken_ports::{move_to_own_network, nobody_listens_at, read_at};

/// The name leads to the first one first.
const ADDRESSES: [&str; 2] = ["10.8.0.1", "10.9.0.1"];

/// Whether somebody has come, as far as the kernel has heard.
fn was_looked_for(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    match listener.accept() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

#[test]
fn peers_are_looked_for_at_the_addresses_of_the_interface() {
    let Some(place) = Place::with_views() else { return };
    move_to_own_network(&["10.8.0.1/24"]);
    let ip = |arguments: &[&str]| assert!(Command::new("ip").args(arguments).status().unwrap().success());
    ip(&["link", "add", "ib0", "type", "veth", "peer", "name", "ib1"]);
    ip(&["address", "add", "10.9.0.1/24", "dev", "ib0"]);
    ["ib0", "ib1"].iter().for_each(|name| ip(&["link", "set", name, "up"]));
    let names = place.path("names");
    fs::write(&names, ADDRESSES.map(|address| format!("{address} two\n")).concat()).unwrap();
    let does = "exec unshare --mount sh -c 'mount --bind \"$0\" /etc/hosts; exec \"$@\"'";
    let shell = remote_shell_that(&place, &format!("{does} {} \"$@\"", names.display()));
    let (source, view) = (place.source(), place.path("view").display().to_string());
    // By its address alone a host listens there, and nothing is said of others: they are looked for at all.
    for (interface, looks_elsewhere) in [("10.9.0.1", true), ("10.9.0.0/24", false), ("ib0", false)] {
        let ports = free_ports(2);
        let elsewhere = nobody_listens_at(&[(ADDRESSES[0], ports[0])]).remove(0);
        let nodes = format!("two:{},two:{}", ports[0], ports[1]);
        let arguments = ["up", "--job", "two", "--nodes", &nodes, "--interface", interface, "--remote-shell", &shell];
        place.succeeds(&[&arguments[..], &["--view", &view, "--export", &source, "--profile", "off"]].concat());
        assert_eq!(read_at(&place, "two", 1, &format!("{view}/1")), "contents of file\n");
        if !looks_elsewhere {
            let status = place.json(&["status", "--job", "two"]);
            assert_eq!(status["nodes"][1]["backing"]["reads"], 0, "it asks node 0: {status}");
        }
        place.succeeds(&["down", "--job", "two"]);
        assert_eq!(was_looked_for(&elsewhere), looks_elsewhere, "--interface {interface}");
    }
    place.assert_clean();
}
