//! `run --image`: runs a command of an image that the tier shows.
//!
//! `keeper::images` makes the container; here is what the user gives for it, the environment in it (`image_environment`),
//! and what is wrong where the command does not start.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use forebay_keeper::images::{self, Wanted};
use forebay_keeper::own_paths::Node;
use forebay_launch::JobDirectory;

use crate::cli::ImageArguments;
use crate::commands::run::image_environment::Environment;
use crate::elf;
use crate::exit::{NOT_FOUND, NOT_RUN};
use crate::output::tell;
use crate::run_environment;
use crate::search_path::find_program;

/// Two machines by their numbers; a kernel for the second may run programs for the first.
const I386: u16 = 3;
const X86_64: u16 = 62;

/// The kernel's own files of `binfmt_misc`: `register` and `status`.
const BINFMT_FILES: usize = 2;

/// Runs the command; returns only if that fails.
pub fn run(
    (arguments, image, locks): (&ImageArguments, &Path, bool),
    (directory, node): (&JobDirectory, &Node),
    (program, words): (&OsStr, impl Iterator<Item = OsString>),
) -> anyhow::Result<ExitCode> {
    let mut environment = Environment::of_this();
    // Files of the host are read while they are seen.
    let settings = arguments.set_env.iter().map(Environment::read).collect::<anyhow::Result<Vec<_>>>()?;
    images::enter(directory, node, &wanted(arguments, image))?;
    environment.for_container();
    for glob in &arguments.unset_env {
        environment.unset(glob);
    }
    for setting in settings {
        environment.set(setting)?;
    }
    for (name, value) in run_environment::of_burst_tier(node.burst.as_deref(), locks, |name| environment.get(name)) {
        environment.insert(name.into(), value);
    }
    let found = find_program(program, environment.get("PATH"));
    let Some(found) = found.filter(|found| found.symlink_metadata().is_ok()) else {
        let below = if program.as_bytes().contains(&b'/') { "" } else { " in any directory of PATH" };
        tell!("forebay: the image {} has no command {}{below}", image.display(), program.display());
        return Ok(ExitCode::from(NOT_FOUND));
    };
    if let Some(foreign) = foreign(&found) {
        tell!("forebay: cannot run {} of the image {}: {foreign}", found.display(), image.display());
        return Ok(ExitCode::from(NOT_RUN));
    }
    let error = Command::new(&found).arg0(program).args(words).env_clear().envs(environment.into_variables()).exec();
    tell!("forebay: cannot run {} of the image {}: {error}{}", found.display(), image.display(), why(&found, &error));
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }))
}

fn wanted(arguments: &ImageArguments, image: &Path) -> Wanted {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Wanted {
        image: image.to_owned(),
        binds: arguments.bind.clone(),
        home: absolute("HOME").filter(|_| !arguments.no_home),
        tmp: absolute("TMPDIR"),
        user_name: env::var("USER").ok(),
        cd: arguments.cd.clone(),
    }
}

/// Why a program of another kind of machine does not run, if that is what it is. Looked at before: the C library gives what the kernel
/// does not know to a shell. Where the system runs such programs in an emulator (`binfmt_misc`), that is left to it; and i386 to x86_64.
fn foreign(program: &Path) -> Option<String> {
    let of = |path: &Path| machine(&File::open(path).ok()?).ok()?;
    let (of_image, own) = (of(program)?, of(Path::new("/proc/self/exe"))?);
    let has_emulators = || fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|entries| entries.count() > BINFMT_FILES);
    if of_image == own || (of_image, own) == (I386, X86_64) || has_emulators() {
        return None;
    }
    let (of_image, own) = (machine_name(of_image), machine_name(own));
    Some(format!("it is made for {of_image}, and this machine is {own}; build the image for {own}"))
}

/// The meaning of the kernel's error for a program of an image, as far as the program tells.
fn why(program: &Path, error: &std::io::Error) -> String {
    let Ok(file) = File::open(program) else { return String::new() };
    if error.kind() != ErrorKind::NotFound {
        return String::new();
    }
    let paths = elf::paths(&file).unwrap_or_default();
    match paths.into_iter().find(|(usage, _)| *usage == elf::Use::Interpreter) {
        Some((_, path)) => format!("; it needs {}, which the image does not have", String::from_utf8_lossy(&path)),
        None => "; the interpreter that its first line names is missing".to_owned(),
    }
}

/// For which machine an ELF file is (`e_machine`).
fn machine(file: &File) -> std::io::Result<Option<u16>> {
    let mut head = [0; 20];
    file.read_exact_at(&mut head, 0)?;
    let number = [head[18], head[19]];
    Ok(match head[5] {
        _ if !head.starts_with(b"\x7fELF") => None,
        2 => Some(u16::from_be_bytes(number)),
        _ => Some(u16::from_le_bytes(number)),
    })
}

/// As `uname -m` calls it (numbers from the ELF specification's registry).
fn machine_name(number: u16) -> String {
    match number {
        I386 => "i386".to_owned(),
        21 => "ppc64".to_owned(),
        40 => "arm".to_owned(),
        X86_64 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv64".to_owned(),
        other => format!("machine {other}"),
    }
}
