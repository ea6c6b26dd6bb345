//! `forebay run` where things are not as usual: in containers, where namespaces are refused, when the job ends.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::job::{as_nobody, binary};
use forebay_tests::program::{Finished, run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};

use crate::own_paths::{Running, command, for_root_and_a_user, job, shell};

/// How long a node may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command in a container with a root of its own, in which the programs of this machine are, and `shared`.
fn in_container(job: &Job, shared: &Path, words: &[&str]) -> Finished {
    let sandbox = &job.sandbox;
    let copy = sandbox.base().join("forebay");
    let is_users = copy.exists();
    let forebay = if is_users { copy } else { binary() };
    let mut container = if is_users { as_nobody(Path::new("bwrap")) } else { Program::new("bwrap") };
    sandbox.surround(&mut container);
    container.args("--unshare-pid --proc /proc --dev /dev --ro-bind /usr /usr --symlink usr/bin /bin".split(' '));
    container.args("--symlink usr/lib /lib --symlink usr/lib64 /lib64 --chdir /".split(' '));
    container.arg("--dir").arg(sandbox.source());
    container.arg("--bind").args([shared, shared]);
    container.arg("--ro-bind").args([&forebay, Path::new("/forebay")]);
    run(container.args(["/forebay", "run", "--job", &sandbox.name, "--"]).args(words))
}

/// Mount namespaces that the keeper has descriptors of.
fn namespaces_held(job: &Job) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", job.keeper(0))).unwrap();
    let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("mnt:")).count()
}

/// The job's directory is there, and neither the export nor the view.
fn in_a_container_without_the_view(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    let file = job.sandbox.source().join("file");
    let shown = in_container(&job, &job.sandbox.runtime(), &["cat", file.to_str().unwrap()]).good();
    assert_eq!(shown.text(), "contents\n");
    // The container's namespace is not held any longer than its program runs.
    wait_until("the container is let go", PATIENCE, || namespaces_held(&job) == 0);
    // The host's programs are not in the container's namespace, nor the other way round.
    assert_eq!(shell(&job, r#"stat -f -c %T "$source"; test ! -e /forebay"#).good().text(), "fuseblk\n");
    assert_eq!(namespaces_held(&job), 1);
    job.down();
}
for_root_and_a_user!(in_a_container_without_the_view, [Command("bwrap")]);

fn in_a_container_with_everything(sandbox: Sandbox) {
    let job = job(sandbox, &["--links", "view"]);
    let file = job.sandbox.source().join("absolute/inner");
    let shown = in_container(&job, &job.sandbox.base(), &["cat", file.to_str().unwrap()]).good();
    assert_eq!(shown.text(), "inner\n");
    let lacking = in_container(&job, &job.sandbox.runtime(), &["true"]);
    assert_eq!(lacking.status.code(), Some(125), "{}", lacking.stderr);
    assert!(lacking.stderr.contains("--links view"), "{}", lacking.stderr);
    job.down();
}
for_root_and_a_user!(in_a_container_with_everything, [Command("bwrap")]);

fn a_container_is_started_inside(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    let script = r#"bwrap --ro-bind / / --dev /dev sh -c 'cat "$source/file"; stat -f -c %T "$source"'"#;
    assert_eq!(shell(&job, script).good().text(), "contents\nfuseblk\n");
    job.down();
}
for_root_and_a_user!(a_container_is_started_inside, [Command("bwrap")]);

/// With the whole file system exported, a container keeps its own programs.
#[test]
fn a_container_is_not_replaced_by_the_host() {
    require!(Fuse, Root, Command("bwrap"));
    let job = Job::up_local(Sandbox::new(), 1, Path::new("/"), &[]);
    let refused = in_container(&job, &job.sandbox.runtime(), &["true"]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr);
    assert!(refused.stderr.contains("forebay up --export DIR"), "{}", refused.stderr);
    job.down();
}

/// The view is mounted in a namespace of its own, which those who come later are not in.
#[test]
fn a_view_that_is_mounted_in_a_users_own_namespace() {
    require!(Fuse, Root, FuseForUsers);
    let sandbox = Sandbox::of_nobody();
    tree::write(&sandbox.source().join("file"), b"contents\n");
    let mut up = as_nobody(Path::new("unshare"));
    sandbox.surround(&mut up);
    up.args(["--user", "--map-root-user", "--mount"]).arg(sandbox.base().join("forebay"));
    up.args(["up", "--job", &sandbox.name, "--export"]).arg(sandbox.source()).arg("--view").arg(sandbox.view());
    let _ = run(&mut up).good();
    let job = Job::of(sandbox);
    assert_eq!(job.sandbox.mounts(), Vec::<String>::new(), "it is not seen from here");
    assert_eq!(shell(&job, r#"cat "$source/file"; stat -f -c %T "$source""#).good().text(), "contents\nfuseblk\n");
    job.down();
}

#[test]
fn where_user_namespaces_are_off_it_says_so_and_offers_the_view() {
    require!(Fuse, Root);
    let job = job(Sandbox::new(), &[]);
    let without = |words: &[&str]| {
        let script =
            "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
        let mut command = Program::new("unshare");
        job.sandbox.surround(&mut command);
        command.args(["--user", "--map-root-user", "sh", "-euc", script, "sh"]).arg(binary());
        run(command.args(["run", "--job", &job.sandbox.name]).args(words))
    };
    let refused = without(&["--", "true"]);
    assert_eq!(refused.status.code(), Some(125), "{}", refused.stderr);
    for part in [
        "switched off here (user.max_user_namespaces=0)",
        "forebay run --view -- COMMAND",
        &job.view(0).display().to_string(),
    ] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let offered = without(&[
        "--view",
        "--",
        "sh",
        "-c",
        "cat \"$FOREBAY_PREFIX$0/file\"",
        job.sandbox.source().to_str().unwrap(),
    ]);
    assert_eq!(offered.good().text(), "contents\n");
    job.down();
}

/// Root with all rights does not enter a namespace that was made by root without, and that takes some.
#[test]
fn users_who_may_mount_keep_all_rights() {
    require!(Fuse, Root);
    let job = job(Sandbox::new(), &[]);
    let own = fs::read_link("/proc/self/ns/user").unwrap().display().to_string();
    let mut limited = Program::new("setpriv");
    job.sandbox.surround(&mut limited);
    limited.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]).arg(binary());
    limited.args(["run", "--job", &job.sandbox.name, "--", "readlink", "/proc/self/ns/user"]);
    assert_ne!(run(&mut limited).good().text().trim_end(), own);
    let all = run(&mut command(&job, &["readlink", "/proc/self/ns/user"])).good();
    assert_eq!(all.text().trim_end(), own);
    assert_eq!(namespaces_held(&job), 2);
    job.down();
}

/// Of several nodes on one machine the first, or the one that is named.
#[test]
fn the_view_of_the_node_that_is_named() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    tree::write(&sandbox.source().join("file"), b"contents\n");
    let source = sandbox.source();
    let job = Job::up_local(sandbox, 3, &source, &["--fanout", "1"]);
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    for (rank, node) in [(None, 0), (Some("0"), 0), (Some("2"), 2)] {
        let mut command = job.sandbox.command();
        command.args(["run", "--job", &job.sandbox.name]).args(rank.iter().flat_map(|rank| ["--rank", rank]));
        command.args(["--", "stat", "-c", "%d"]).arg(source.join("file"));
        let shown = run(&mut command).good().text();
        assert_eq!(shown.trim_end(), device(&job.path(node, &source.join("file"))).to_string(), "{rank:?}");
    }
    job.down();
}

/// A file that can be run.
fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A program that lies in an export is run from the view, found in `PATH` or named.
fn from_the_view(sandbox: Sandbox) {
    fs::create_dir(sandbox.source().join("bin")).unwrap();
    let tool = sandbox.source().join("bin/tool");
    script(&tool, "#!/bin/sh\necho \"$0\"\n");
    symlink("bin", sandbox.source().join("link")).unwrap();
    let job = job(sandbox, &[]);
    let link = job.sandbox.source().join("link/tool");
    let expected = format!("{}\n", job.path(0, &tool).display());
    for (program, path) in [
        (tool.as_path(), "/usr/bin:/bin".to_owned()),
        (&link, "/usr/bin:/bin".to_owned()),
        (Path::new("tool"), format!("{}:/bin:/usr/bin", tool.parent().unwrap().display())),
    ] {
        let mut command = job.sandbox.command();
        command.args(["run", "--job", &job.sandbox.name, "--view", "--"]).arg(program);
        assert_eq!(run(command.env("PATH", path)).good().text(), expected, "{}", program.display());
    }
    job.down();
}
for_root_and_a_user!(from_the_view);

/// Programs that are still inside when the job ends get errors immediately, and no mount or process stays when they end too.
fn nothing_stays_of_a_job(sandbox: Sandbox, end: impl FnOnce(&Job)) -> Job {
    let job = job(sandbox, &[]);
    let wait = r#"exec 3< "$source/large"; echo inside; read x; for what in "$source/file" "$source/dir/new"; do cat "$what" 2>&1 || true; done; head -c1 <&3 2>&1 || true"#;
    let mut inside = Running::start(command(&job, &["sh", "-uc", wait]).env("source", job.sandbox.source()));
    assert_eq!(inside.line(), "inside");
    end(&job);
    wait_until("nothing is left but who is inside", PATIENCE, || job.sandbox.left().is_empty());
    let said = inside.go_on();
    for who in ["file: ", "dir/new: ", "head: "] {
        let refused = |line: &str| line.contains("not connected") || line.contains("aborted");
        assert!(said.lines().any(|line| line.contains(who) && refused(line)), "{who} {said}");
    }
    job
}

fn taken_down_with_a_program_inside(sandbox: Sandbox) {
    let job = nothing_stays_of_a_job(sandbox, |job| drop(job.command("down", &[]).good()));
    job.forget();
}
for_root_and_a_user!(taken_down_with_a_program_inside);

fn killed_with_a_program_inside(sandbox: Sandbox) {
    let job = nothing_stays_of_a_job(sandbox, |job| {
        job.kill_node(0);
        // Every later `up` begins with this, and `down` too.
        let _ = job.command("down", &[]).good();
    });
    job.forget();
}
for_root_and_a_user!(killed_with_a_program_inside);

fn the_keeper_dies_with_a_program_inside(sandbox: Sandbox) {
    let job = nothing_stays_of_a_job(sandbox, |job| job.kill_keeper(0));
    job.forget();
}
for_root_and_a_user!(the_keeper_dies_with_a_program_inside);

/// A daemon that dies is followed by another under programs inside too.
#[test]
fn a_daemon_dies_under_a_program_inside() {
    require!(Fuse, Root);
    let job = job(Sandbox::new(), &[]);
    let script = r#"echo inside; read x; sha256sum < "$source/large""#;
    let mut inside = Running::start(command(&job, &["sh", "-euc", script]).env("source", job.sandbox.source()));
    assert_eq!(inside.line(), "inside");
    job.kill_daemon(0);
    assert_eq!(inside.go_on(), shell(&job, r#"sha256sum < "$source/large""#).good().text());
    job.down();
}

#[test]
fn without_a_job_or_with_a_dead_one() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    // In a place of its own: below the usual one jobs of other tests may come and go.
    let empty = sandbox.base().join("no-jobs");
    let outside = run(sandbox.command().arg("run").arg("--directory").arg(&empty).args(["--", "true"]));
    assert_eq!(outside.status.code(), Some(125));
    assert!(outside.stderr.contains("no job is up on this host; forebay up starts one"), "{}", outside.stderr);
    assert_eq!(run(sandbox.command().arg("run")).status.code(), Some(125), "no command");
    let job = job(sandbox, &[]);
    // Named, since other tests' jobs may be up.
    let unknown = run(job.sandbox.command().args(["run", "--job", &job.sandbox.name, "--rank", "5", "--", "true"]));
    assert_eq!(unknown.status.code(), Some(125));
    assert!(unknown.stderr.contains("node 5"), "{}", unknown.stderr);
    job.kill_node(0);
    let dead = run(&mut command(&job, &["true"]));
    assert_eq!(dead.status.code(), Some(125));
    assert!(dead.stderr.contains("does not answer"), "{}", dead.stderr);
    job.down();
}

/// Links into an export lead into the view, so that a program on the view stays there.
#[test]
fn links_that_lead_into_the_view() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    symlink("/etc/passwd", sandbox.source().join("out")).unwrap();
    let job = job(sandbox, &["--links", "view"]);
    let source = job.sandbox.source();
    let link = job.path(0, &source.join("absolute"));
    let target = fs::read_link(&link).unwrap();
    assert_eq!(target, job.path(0, &source.join("dir")));
    assert_eq!(link.symlink_metadata().unwrap().len(), target.as_os_str().len() as u64);
    assert_eq!(fs::read_link(job.path(0, &source.join("out"))).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read_link(job.path(0, &source.join("relative"))).unwrap(), Path::new("dir/inner"));
    assert_eq!(fs::read(link.join("inner")).unwrap(), b"inner\n");
    // Listed with attributes too, and still the same file at its own path.
    let listed = run(Program::new("ls").args(["-l"]).arg(job.path(0, &source))).good().text();
    assert!(listed.contains(&format!("absolute -> {}", target.display())), "{listed}");
    assert_eq!(shell(&job, r#"cat "$source/absolute/inner""#).good().text(), "inner\n");
    job.down();
}

#[test]
fn explain_names_the_ways_out() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    script(&source.join("script"), &format!("#!{}/bin/python3\n", source.display()));
    forebay_tests::program::copy_program(Path::new("/bin/true"), &source.join("true"));
    let job = job(sandbox, &[]);
    let explained = |name: &str| {
        let path = job.path(0, &source.join(name));
        job.command("explain", &[path.as_os_str()]).good().text()
    };
    let link = explained("absolute/inner");
    assert!(link.contains("leads out of the view: symbolic link") && link.contains("--links view"), "{link}");
    let script = explained("script");
    assert!(script.contains("script interpreter") && script.contains("forebay run shows it"), "{script}");
    let program = explained("true");
    assert!(program.contains("ELF interpreter") && program.contains("it is outside all exports"), "{program}");
    assert!(!explained("dir/inner").contains("leads out"));
    let json = job.command("explain", &["--json".as_ref(), source.join("true").as_os_str()]).good();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["ways_out"][0]["kind"], "ELF interpreter");
    job.down();
}
