//! Lists of hosts that name some twice, or some that are not there, and ports that are not free.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use forebay_tests::{Finished, Sandbox, require, tree};

use crate::{FAILED, fails, up};

/// A remote shell that reaches this machine only: `localhost` and its addresses.
fn shell(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.source().join("shell");
    let text = "#!/bin/sh\nhost=$1; shift 2\ncase $host in\n127.*|localhost) exec sh -c \"$*\" ;;\n\
                *) echo \"shell: $host: no route to host\" >&2; exit 255 ;;\nesac\n";
    tree::write(&path, text.as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn up_on(sandbox: &Sandbox, hosts: &str, rest: &[&OsStr]) -> Finished {
    let file = sandbox.source().join("hosts");
    tree::write(&file, hosts.as_bytes());
    let (source, view, shell) = (sandbox.source(), sandbox.view(), shell(sandbox));
    let mut arguments: Vec<&OsStr> = vec!["--hostfile".as_ref(), file.as_ref(), "--export".as_ref(), source.as_ref()];
    arguments.extend([OsStr::new("--view"), view.as_ref(), "--remote-shell".as_ref(), shell.as_ref()]);
    arguments.extend(rest);
    up(sandbox, &arguments.into_iter().map(OsStr::to_owned).collect::<Vec<_>>())
}

#[test]
fn a_host_named_twice() {
    let sandbox = Sandbox::new();
    let done = up_on(&sandbox, "one\ntwo # a comment\none\n", &[]);
    fails(&sandbox, &done, FAILED, &["hosts", "line 3", "one", "line 1"]);
}

#[test]
fn lines_that_name_no_host() {
    for (hosts, named) in [("one\ntwo three\n", "line 2"), ("one:99999\n", "line 1"), ("# nobody\n\n", "hosts")] {
        let sandbox = Sandbox::new();
        let done = up_on(&sandbox, hosts, &[]);
        fails(&sandbox, &done, FAILED, &["hosts", named]);
    }
}

#[test]
fn a_host_file_that_does_not_exist() {
    let sandbox = Sandbox::new();
    let missing = sandbox.source().join("no-hosts");
    let done = up(&sandbox, &["--hostfile".into(), missing.clone().into_os_string()]);
    fails(&sandbox, &done, FAILED, &[missing.to_str().unwrap(), "o such file"]);
}

#[test]
fn a_host_that_is_unknown() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let done = up_on(&sandbox, "127.0.0.1\nno-such-host.invalid\n", &[]);
    fails(&sandbox, &done, FAILED, &["no-such-host.invalid"]);
}

/// The description of a network is of another job's nodes, or has a slip of the pen.
#[test]
fn a_topology_that_names_unknown_nodes() {
    for (text, named) in [
        ("SwitchName=a Nodes=one\nSwitchName=b Nodes=tow\n", &["line 2", "tow", "two"][..]),
        ("SwitchName=a Nodes=other[1-9]\n", &["line 1", "other1", "one"]),
        ("SwitchName=a Nodes=one\nSwitchName=b Switches=a,c\n", &["line 2", "the switch c"]),
        ("SwitchName=a Nodes=one\n", &["two", "--topology"]),
        ("one two\n", &["line 1", "KEY=VALUE"]),
    ] {
        let sandbox = Sandbox::new();
        let file = sandbox.source().join("net.conf");
        tree::write(&file, text.as_bytes());
        let done = up_on(&sandbox, "one\ntwo\n", &["--topology".as_ref(), file.as_os_str()]);
        fails(&sandbox, &done, FAILED, &[&["net.conf"], named].concat());
    }
}

/// The host is there, but its daemon cannot be started: the ones that were are ended again.
#[test]
fn a_host_that_cannot_be_reached() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let done = up_on(&sandbox, "127.0.0.1\n192.0.2.7\n", &[]);
    fails(&sandbox, &done, FAILED, &["192.0.2.7", "no route to host"]);
}

#[test]
fn a_port_that_is_taken() {
    require!(Fuse, Root);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let sandbox = Sandbox::new();
    let done = up_on(&sandbox, &format!("127.0.0.1:{port}\n"), &[]);
    fails(&sandbox, &done, FAILED, &[&port, "in use"]);
}
