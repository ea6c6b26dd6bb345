//! Images of one file: one mount and one server for all programs of a node, gone with the job.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command as Program, Stdio};
use std::time::Duration;

use forebay_tests::processes::is_alive;
use forebay_tests::program::{run, wait_until};
use forebay_tests::{Sandbox, job, require};

use crate::bed::{Bed, squash};
use crate::for_root_and_a_user;

const PATIENCE: Duration = Duration::from_secs(20);

/// The processes that serve images to the node's programs.
fn servers(bed: &Bed, rank: usize) -> Vec<u32> {
    let keeper = bed.job.keeper(rank);
    let found = run(Program::new("ps").args(["--ppid", &keeper.to_string(), "-o", "pid=,args="]));
    let lines = found.text();
    let servers = lines.lines().filter(|line| line.contains("squashfuse") && !line.contains("defunct"));
    servers.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

fn start(bed: &Bed, words: &[&str]) -> Child {
    bed.command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn a_file_is_mounted_once_for_all_programs(bed: Bed) {
    let image = bed.image("image.sqfs");
    let look = "cat /etc/made; stat -c %d /";
    let words = ["--image", &image, "--", "sh", "-euc", look];
    let all: Vec<Child> = (0..12).map(|_| start(&bed, &words)).collect();
    let said: BTreeSet<String> =
        all.into_iter().map(|one| String::from_utf8(one.wait_with_output().unwrap().stdout).unwrap()).collect();
    assert_eq!(said.len(), 1, "one device for all: {said:?}");
    assert!(said.first().unwrap().starts_with("by the test\n"), "{said:?}");
    assert_eq!(servers(&bed, 0).len(), 1);
    // By a path of another kind it is the same file.
    let relative =
        run(bed.command(&["--image", "../source/image.sqfs", "--", "true"]).current_dir(bed.at("work"))).good();
    assert_eq!((relative.stderr.as_str(), servers(&bed, 0).len()), ("", 1));
    assert_eq!(bed.job.sandbox.mounts(), [bed.job.view(0).display().to_string()], "nothing is mounted outside");
    let server = servers(&bed, 0)[0];
    bed.job.down();
    assert!(!is_alive(server));
}
for_root_and_a_user!(a_file_is_mounted_once_for_all_programs, [Command("mksquashfs"), Command("squashfuse")]);

fn every_compression_can_be_read(bed: Bed) {
    for compression in ["gzip", "lz4", "xz", "zstd"] {
        let name = format!("{compression}.sqfs");
        squash(&bed.at("source/image"), &bed.at("source").join(&name), &["-comp", compression]);
    }
    let _ = bed.job.command("refresh", &[bed.at("source").as_os_str()]).good();
    for compression in ["gzip", "lz4", "xz", "zstd"] {
        let said = bed.shell(&format!("{compression}.sqfs"), "cat /etc/made").good();
        assert_eq!(said.text(), "by the test\n", "{compression}");
    }
    bed.job.down();
}
for_root_and_a_user!(every_compression_can_be_read, [Command("mksquashfs"), Command("squashfuse")]);

/// The program that was first, with its launcher, is killed: the mount is the node's.
fn a_killed_launcher_takes_nothing_along(bed: Bed) {
    let image = bed.image("image.sqfs");
    let mut first = start(&bed, &["--image", &image, "--", "sh", "-c", "cat /etc/made; sleep 1000"]);
    wait_until("it is served", PATIENCE, || servers(&bed, 0).len() == 1);
    let server = servers(&bed, 0)[0];
    let second = start(&bed, &["--image", &image, "--", "sh", "-c", "read x; cat /etc/made"]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(bed.shell("image.sqfs", "cat /etc/made").good().text(), "by the test\n");
    let said = second.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "by the test\n");
    assert_eq!(servers(&bed, 0), [server]);
    bed.job.down();
    assert!(!is_alive(server));
}
for_root_and_a_user!(a_killed_launcher_takes_nothing_along, [Command("mksquashfs"), Command("squashfuse")]);

fn a_server_that_died_is_followed_by_another(bed: Bed) {
    let _ = bed.shell("image.sqfs", "true").good();
    let server = servers(&bed, 0)[0];
    let script = "echo inside; read x; cat /etc/hosts /bin/busybox";
    let mut waiting = start(&bed, &["--image", &bed.image("image.sqfs"), "--", "sh", "-c", script]);
    BufReader::with_capacity(1, waiting.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    job::kill(server);
    wait_until("it has died", PATIENCE, || !is_alive(server));
    // A program that ran on it sees an error, not silence.
    assert!(!waiting.wait_with_output().unwrap().status.success());
    assert_eq!(bed.shell("image.sqfs", "cat /etc/made").good().text(), "by the test\n");
    assert_eq!(servers(&bed, 0).len(), 1);
    bed.job.down();
}
for_root_and_a_user!(a_server_that_died_is_followed_by_another, [Command("mksquashfs"), Command("squashfuse")]);

#[test]
fn servers_die_with_their_keeper() {
    require!(Fuse, Root, Command("busybox"), Command("mksquashfs"), Command("squashfuse"));
    let bed = Bed::up(Sandbox::new(), &[]);
    let _ = bed.shell("image.sqfs", "true").good();
    let server = servers(&bed, 0)[0];
    bed.job.kill_keeper(0);
    wait_until("its server has died", PATIENCE, || !is_alive(server));
    // The daemon ends by itself, and whether there is still a job for `down` is a matter of time.
    wait_until("nothing is left", PATIENCE, || bed.job.sandbox.left().is_empty());
    bed.job.forget();
}

/// Each node mounts it, and the file is read once by the job.
#[test]
fn the_backing_file_system_reads_it_once_for_two_nodes() {
    require!(Fuse, Root, Command("busybox"), Command("mksquashfs"), Command("squashfuse"));
    let bed = Bed::up_nodes(Sandbox::new(), 2, &[]);
    let image = bed.image("image.sqfs");
    for rank in ["0", "1"] {
        let _ = bed.run(&["--rank", rank, "--image", &image, "--", "sh", "-c", "cat /bin/busybox > /dev/null"]).good();
    }
    assert_eq!([servers(&bed, 0).len(), servers(&bed, 1).len()], [1, 1]);
    let file_bytes = fs::metadata(&image).unwrap().len();
    let read_bytes = bed.job.status()["totals"]["backing"]["bytes"].as_u64().unwrap();
    assert!((file_bytes / 2..=file_bytes).contains(&read_bytes), "{read_bytes} bytes read of a file of {file_bytes}");
    bed.job.down();
}

/// A daemon that dies is followed by another, and a mounted image does not notice.
#[test]
fn images_outlive_daemons() {
    require!(Fuse, Root, Command("busybox"), Command("mksquashfs"), Command("squashfuse"));
    let bed = Bed::up(Sandbox::new(), &[]);
    let mut waiting = start(
        &bed,
        &[
            "--image",
            &bed.image("image.sqfs"),
            "--",
            "sh",
            "-c",
            "read x; cat /etc/made; find / -xdev | sort > /dev/null",
        ],
    );
    wait_until("it is served", PATIENCE, || servers(&bed, 0).len() == 1);
    bed.job.kill_daemon(0);
    drop(waiting.stdin.take());
    let said = waiting.wait_with_output().unwrap();
    assert_eq!((String::from_utf8_lossy(&said.stdout).as_ref(), said.status.success()), ("by the test\n", true));
    bed.job.down();
}

#[test]
fn doctor_names_what_serves_images() {
    require!(Root, Command("squashfuse"));
    let sandbox = Sandbox::new();
    assert!(run(sandbox.command().arg("doctor")).text().contains("ok       SquashFS images: "));
    // A path that is no file is no program. Where programs lie in two directories that are one, both names are hidden.
    let script = "for each in squashfuse_ll squashfuse; do [ ! -e /usr/bin/$each ] || mount --bind /dev/null /usr/bin/$each; done; \
                  exec \"$@\"";
    let mut hidden = Program::new("unshare");
    sandbox.surround(hidden.args(["--mount", "sh", "-c", script, "sh"]).arg(job::binary()).arg("doctor"));
    let without = run(&mut hidden).text();
    assert!(without.contains("note     SquashFS images: ") && without.contains("install squashfuse"), "{without}");
}
