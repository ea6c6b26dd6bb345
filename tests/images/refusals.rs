//! Images that are none, and commands that no image has: what is wrong is said, with what to do, and nothing is left behind.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_tests::program::run;
use forebay_tests::{Sandbox, require};

use crate::bed::Bed;
use crate::for_root_and_a_user;

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[track_caller]
fn refused(bed: &Bed, words: &[&str], code: i32, why: &[&str]) {
    let ended = bed.run(words);
    assert_eq!(ended.status.code(), Some(code), "{words:?}: {}", ended.stderr);
    for part in why {
        assert!(ended.stderr.contains(part), "{words:?}: {} lacks {part}", ended.stderr);
    }
}

fn what_is_no_image_is_refused(bed: Bed) {
    let source = bed.at("source");
    fs::create_dir(source.join("empty")).unwrap();
    fs::write(source.join("text"), vec![b'x'; 4096]).unwrap();
    fs::write(source.join("short"), "x").unwrap();
    let _ = bed.job.command("refresh", &[source.as_os_str()]).good();
    for (name, why) in [
        ("empty", "it has neither bin nor usr"),
        ("text", "neither a directory nor a SquashFS file; ch-convert"),
        ("short", "too short"),
        ("none", "forebay refresh lets the job see it"),
        ("text/below", "forebay refresh lets the job see it"),
    ] {
        refused(&bed, &["--image", &bed.image(name), "--", "true"], 125, &[why]);
    }
    let (elsewhere, exports) = (bed.at("work"), source.display().to_string());
    let why = ["lies outside the job's exports", &exports, "--export"];
    refused(&bed, &["--image", elsewhere.to_str().unwrap(), "--", "true"], 125, &why);
    let bind = ["--image", &bed.image("image"), "--bind", "/nonexistent", "--", "true"];
    refused(&bed, &bind, 125, &["cannot bind /nonexistent"]);
    let file_on_dir = ["--image", &bed.image("image"), "--bind", "/etc/passwd:/mnt", "--", "true"];
    refused(&bed, &file_on_dir, 125, &["a directory fits on a directory only"]);
    refused(&bed, &["--image", &bed.image("image"), "--cd", "/none", "--", "true"], 125, &["--cd /none"]);
    refused(&bed, &["--image", &bed.image("image"), "--bind", "/a:/b:/c", "--", "true"], 125, &["SRC:DST"]);
    refused(&bed, &["--bind", "/etc", "--", "true"], 125, &["--image"]);
    assert_eq!(bed.job.sandbox.mounts(), [bed.job.view(0).display().to_string()]);
    bed.job.down();
}
for_root_and_a_user!(what_is_no_image_is_refused);

fn a_broken_file_is_refused(bed: Bed) {
    let whole = fs::read(bed.at("source/image.sqfs")).unwrap();
    let file = |name: &str, bytes: &[u8]| fs::write(bed.at("source").join(name), bytes).unwrap();
    file("cut", &whole[..whole.len() / 2]);
    for name in ["compression", "tables"] {
        file(name, &whole);
    }
    overwrite(&bed.at("source/compression"), 20, &[77]);
    // Where its inodes begin, as the superblock says.
    let at = u64::from_le_bytes(whole[64..72].try_into().unwrap());
    overwrite(&bed.at("source/tables"), at, &vec![0xff; whole.len() - usize::try_from(at).unwrap()]);
    let _ = bed.job.command("refresh", &[bed.at("source").as_os_str()]).good();
    for (name, why) in [("cut", "cut short"), ("compression", "method 77"), ("tables", "squashfuse")] {
        refused(&bed, &["--image", &bed.image(name), "--", "true"], 125, &[why]);
    }
    // One that cannot be used is in nobody's way.
    assert_eq!(bed.shell("image.sqfs", "cat /etc/made").good().text(), "by the test\n");
    bed.job.down();
}
for_root_and_a_user!(a_broken_file_is_refused, [Command("mksquashfs"), Command("squashfuse")]);

#[test]
fn without_squashfuse_it_is_said_what_to_install() {
    require!(Fuse, Root, Command("busybox"), Command("mksquashfs"));
    let bed = Bed::up(Sandbox::new(), &[]);
    let words = ["--image", &bed.image("image.sqfs"), "--", "/bin/true"];
    let ended = run(bed.command(&words).env("PATH", "/nonexistent"));
    assert_eq!(ended.status.code(), Some(125));
    assert!(
        ended.stderr.contains("install the package squashfuse") && ended.stderr.contains("unsquashfs"),
        "{}",
        ended.stderr
    );
    // A directory needs none.
    let _ = run(bed.command(&["--image", &bed.image("image"), "--", "/bin/true"]).env("PATH", "/nonexistent")).good();
    bed.job.down();
}

#[test]
fn a_program_of_another_machine_is_named() {
    require!(Fuse, Root, Command("busybox"));
    let bed = Bed::up(Sandbox::new(), &[]);
    let program = bed.at("source/image/bin/foreign");
    fs::copy(bed.at("source/image/bin/busybox"), &program).unwrap();
    // SPARC version 9, which no machine of ours is.
    let machine = if cfg!(target_endian = "little") { [43, 0] } else { [0, 43] };
    overwrite(&program, 18, &machine);
    fs::write(bed.at("source/image/bin/script"), "#!/opt/none\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bed.at("source/image/bin/script"), executable).unwrap();
    let _ = bed.job.command("refresh", &[bed.at("source").as_os_str()]).good();
    let image = bed.image("image");
    refused(&bed, &["--image", &image, "--", "foreign"], 126, &["it is made for machine 43, and this machine is"]);
    refused(&bed, &["--image", &image, "--", "script"], 127, &["the interpreter that its first line names"]);
    bed.job.down();
}

/// Programs go on with the parts of the image that the job has; after a refresh they are told. The job has two nodes, because one
/// alone leaves what its kernel has read to the page cache, which a machine may take away at any time.
#[test]
fn an_image_that_is_removed_is_missed_after_a_refresh() {
    require!(Fuse, Root, Command("busybox"), Command("mksquashfs"), Command("squashfuse"));
    let bed = Bed::up_nodes(Sandbox::new(), 2, &[]);
    for name in ["image", "image.sqfs"] {
        let _ = bed.shell(name, "cat /etc/made").good();
    }
    fs::remove_dir_all(bed.at("source/image")).unwrap();
    fs::remove_file(bed.at("source/image.sqfs")).unwrap();
    for name in ["image", "image.sqfs"] {
        assert_eq!(bed.shell(name, "cat /etc/made").good().text(), "by the test\n");
    }
    let _ = bed.job.command("refresh", &[bed.at("source").as_os_str()]).good();
    for name in ["image", "image.sqfs"] {
        refused(&bed, &["--image", &bed.image(name), "--", "true"], 125, &["there is no image"]);
    }
    bed.job.down();
}
