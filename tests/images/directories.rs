//! A directory as a program's root, and what of the host is seen in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use forebay_tests::Sandbox;
use forebay_tests::program::run;

use crate::bed::Bed;
use crate::for_root_and_a_user;

fn the_image_is_the_root(bed: Bed) {
    let look = bed.shell("image", "cat /etc/made; stat -c %d / /bin /etc/made /etc/..").good().text();
    let device = bed.run(&["--", "stat", "-c", "%d", bed.job.view(0).to_str().unwrap()]).good().text();
    assert_eq!(look, format!("by the test\n{}", device.repeat(4)), "all of it is the view's");
    // The host's own root is not there.
    assert_eq!(bed.shell("image", "ls -d /usr/bin /boot 2>/dev/null || true").good().text(), "");
    let named = bed.job.sandbox.mounts();
    assert_eq!(named, [bed.job.view(0).display().to_string()], "nothing is mounted outside");
    bed.job.down();
}
for_root_and_a_user!(the_image_is_the_root);

fn nothing_of_the_image_can_be_written(bed: Bed) {
    for target in ["/new", "/bin/new", "/etc/made", "/etc/passwd"] {
        let written = bed.shell("image", &format!("echo x > {target}"));
        assert!(written.stderr.contains("ead-only file system"), "{target}: {}", written.stderr);
    }
    // Nor of a root that was made again around a place.
    let again =
        bed.run(&["--image", &bed.image("image"), "--bind", "/etc:/host/etc", "--", "sh", "-c", "echo x > /new"]);
    assert!(again.stderr.contains("ead-only file system"), "{}", again.stderr);
    assert_eq!(fs::read(bed.at("source/image/etc/made")).unwrap(), b"by the test\n");
    bed.job.down();
}
for_root_and_a_user!(nothing_of_the_image_can_be_written);

/// Kernels from 6.16 on may drop a name that several look up at once for the first time: each start looks up 100 of them.
#[test]
fn many_start_at_once_in_an_image_that_nobody_has_used() {
    const RANKS: usize = 16;
    const JOBS: usize = 8;
    forebay_tests::require!(Fuse, Root, Command("busybox"));
    for _ in 0..JOBS {
        let bed = Bed::up(Sandbox::new(), &[]);
        let places: Vec<String> = (0..100).map(|index| format!("/places/{index}")).collect();
        fs::create_dir(bed.at("source/image/places")).unwrap();
        places.iter().for_each(|place| fs::write(bed.at(&format!("source/image{place}")), "").unwrap());
        let binds: Vec<String> = places.iter().map(|place| format!("/dev/null:{place}")).collect();
        let image = bed.image("image");
        let mut words = vec!["--image", &image];
        binds.iter().for_each(|bind| words.extend(["--bind", bind.as_str()]));
        words.extend(["--", "true"]);
        let ranks: Vec<_> = (0..RANKS).map(|_| bed.command(&words).stderr(Stdio::piped()).spawn().unwrap()).collect();
        for rank in ranks {
            let done = rank.wait_with_output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        bed.job.down();
    }
}

fn home_the_current_directory_and_temporary_files_are_the_hosts(bed: Bed) {
    let script = "pwd; echo a > here; echo b > $HOME/there; echo c > $TMPDIR/everywhere";
    let said = bed.shell("image", script).good().text();
    assert_eq!(said, format!("{}\n", bed.at("work").display()));
    for (file, text) in [("work/here", "a\n"), ("home/there", "b\n"), ("tmp/everywhere", "c\n")] {
        assert_eq!(fs::read_to_string(bed.at(file)).unwrap(), text);
    }
    let image = bed.image("image");
    // A home that is not seen in any other way; every Linux has this directory.
    let mut words = vec!["--image", &image, "--cd", "/etc", "--", "sh", "-c", "pwd; ls -d /srv"];
    let with = run(bed.command(&words).env("HOME", "/srv")).good();
    assert_eq!(with.text(), "/etc\n/srv\n");
    words.insert(2, "--no-home");
    let without = run(bed.command(&words).env("HOME", "/srv"));
    assert_eq!((without.text().as_str(), without.status.success()), ("/etc\n", false), "{}", without.stderr);
    // A directory that is the image's by its name.
    let in_etc = run(bed.command(&["--image", &image, "--", "sh", "-c", "pwd; cat made"]).current_dir("/etc")).good();
    assert_eq!(in_etc.text(), "/etc\nby the test\n");
    bed.job.down();
}
for_root_and_a_user!(home_the_current_directory_and_temporary_files_are_the_hosts);

fn the_user_the_network_and_the_kernel_are_the_hosts(bed: Bed) {
    let script = "id -un; cat /etc/hosts; readlink /proc/self/exe; echo x > /dev/null; ls /sys | sort";
    let said = bed.shell("image", script).good().text();
    let user = if fs::metadata(bed.at("source")).unwrap().uid() == 0 { "root" } else { "nobody" };
    assert!(said.starts_with(&format!("{user}\n{}", fs::read_to_string("/etc/hosts").unwrap())), "{said}");
    assert!(said.contains("/bin/busybox") && said.contains("kernel"), "{said}");
    bed.job.down();
}
for_root_and_a_user!(the_user_the_network_and_the_kernel_are_the_hosts);

fn places_are_made_where_the_image_has_none(bed: Bed) {
    fs::write(bed.at("work/file"), "bound\n").unwrap();
    let (work, image) = (bed.at("work").display().to_string(), bed.image("image"));
    let listed = bed.shell("image", "ls /etc; stat -c '%n %s %Y' /etc/made; cat /etc/made").good().text();
    let binds = [
        format!("{work}:/a/b/c"),
        format!("{work}:/etc/deep/er"),
        format!("{work}/file:/etc/one"),
        format!("{work}/file:/etc/made"),
        format!("{work}:/mnt"),
    ];
    let mut words = vec!["--image", &image];
    words.extend(binds.iter().flat_map(|bind| ["--bind", bind]));
    let script = "cat /a/b/c/file /etc/deep/er/file /etc/one /etc/made /mnt/file; ls /etc; stat -c %s /etc/hosts; ls /bin/sh; \
                  echo new > /mnt/new";
    words.extend(["--", "sh", "-euc", script]);
    let said = bed.run(&words).good().text();
    assert!(said.starts_with(&"bound\n".repeat(5)), "{said}");
    let names: Vec<&str> = said.lines().skip(5).collect();
    assert_eq!(names[..6], ["deep", "group", "hosts", "made", "one", "passwd"], "{said}");
    assert_eq!(fs::read_to_string(bed.at("work/new")).unwrap(), "new\n");
    assert!(listed.contains("by the test"), "{listed}");
    // A place on the host is never made.
    let none = bed.at("tmp/none");
    let refused = bed.run(&["--image", &image, "--bind", &format!("{work}:{}", none.display()), "--", "true"]);
    assert!(refused.stderr.contains("is the host's; make it there"), "{}", refused.stderr);
    assert!(!none.exists());
    bed.job.down();
}
for_root_and_a_user!(places_are_made_where_the_image_has_none);

fn links_of_the_image_lead_within_it(bed: Bed) {
    let image = bed.at("source/linked");
    crate::bed::make(&image);
    std::os::unix::fs::symlink("/mnt/real", image.join("data")).unwrap();
    fs::create_dir(image.join("mnt/real")).unwrap();
    let _ = bed.job.command("refresh", &[bed.at("source").as_os_str()]).good();
    fs::write(bed.at("work/file"), "bound\n").unwrap();
    let bind = format!("{}:/data", bed.at("work").display());
    let said = bed.run(&["--image", &bed.image("linked"), "--bind", &bind, "--", "cat", "/mnt/real/file"]).good();
    assert_eq!(said.text(), "bound\n");
    bed.job.down();
}
for_root_and_a_user!(links_of_the_image_lead_within_it);

fn the_environment_is_the_hosts_and_what_is_set(bed: Bed) {
    let image = bed.image("image");
    let run_env = |options: &[&str]| {
        let mut words = vec!["--image", &image];
        words.extend(options);
        words.extend(["--", "env"]);
        let said = run(bed.command(&words).env("KEPT", "yes").env("SLURM_X", "1")).good().text();
        said.lines().map(str::to_owned).collect::<std::collections::BTreeSet<String>>()
    };
    let plain = run_env(&[]);
    for line in ["KEPT=yes", "SLURM_X=1", "CH_RUNNING=Weirdal Yankovic"] {
        assert!(plain.contains(line), "{line}: {plain:?}");
    }
    assert!(!plain.iter().any(|line| line.starts_with("OF_IMAGE")), "{plain:?}");
    let set = run_env(&["--unset-env", "SLURM_*", "--set-env", "--set-env=MORE=$KEPT:x"]);
    for line in ["OF_IMAGE=as built", "PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin", "MORE=yes:x"] {
        assert!(set.contains(line), "{line}: {set:?}");
    }
    assert!(!set.contains("SLURM_X=1"), "{set:?}");
    fs::write(bed.at("work/variables"), "FROM_FILE=1\n").unwrap();
    assert!(run_env(&["--set-env=variables"]).contains("FROM_FILE=1"));
    bed.job.down();
}
for_root_and_a_user!(the_environment_is_the_hosts_and_what_is_set);

fn the_command_is_the_process(bed: Bed) {
    assert_eq!(bed.shell("image", "exit 7").status.code(), Some(7));
    assert_eq!(bed.shell("image", "kill -TERM $$").signal(), Some(15));
    let image = bed.image("image");
    let absent = bed.run(&["--image", &image, "--", "no-such-command"]);
    assert_eq!(absent.status.code(), Some(127), "{}", absent.stderr);
    assert!(absent.stderr.contains("has no command no-such-command in any directory of PATH"), "{}", absent.stderr);
    let data = bed.run(&["--image", &image, "--", "/etc/made"]);
    assert_eq!(data.status.code(), Some(126), "{}", data.stderr);
    bed.job.down();
}
for_root_and_a_user!(the_command_is_the_process);

/// So that ranks may read each other's memory, in one image or several.
fn all_programs_of_a_node_are_in_one_user_namespace(bed: Bed) {
    let of = |image: &str| bed.shell(image, "readlink /proc/self/ns/user").good().text();
    let outside = bed.run(&["--", "readlink", "/proc/self/ns/user"]).good().text();
    assert_eq!([of("image"), of("image")], [outside.clone(), outside]);
    bed.job.down();
}
for_root_and_a_user!(all_programs_of_a_node_are_in_one_user_namespace);
