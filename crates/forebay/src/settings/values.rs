//! The text forms of values: sizes, durations, ranges of numbers, lists of processors.
//!
//! One form everywhere: on the command line, in the environment and in the configuration file. A number without a
//! unit is refused where a unit could be guessed wrong; every refusal says what would be right.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use forebay_daemon::DrainPolicy;
pub use forebay_launch::WhenMissing;
use forebay_launch::{KeySealing, LauncherName};
use forebay_types::limits;
use forebay_wire::Level;

pub use super::log_filter::log_filter;
pub use super::quantities::{duration, show_duration, show_size, size};

/// The largest processor number that is believed: Linux has no machine with more.
const CORE_MAX: usize = 8191;

fn number_in(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number from {least} to {most}");
    text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
}

/// The directory that programs write to, and the one that it lands in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BurstPair {
    /// Where programs see it.
    pub dir: PathBuf,
    /// A directory of the backing file system.
    pub backing: PathBuf,
}

/// `/ckpt=/lustre/me/ckpt`; a directory alone is both.
pub fn burst(text: &str) -> Result<BurstPair, String> {
    let (dir, backing) = text.split_once('=').unwrap_or((text, text));
    let pair = BurstPair { dir: absolute_path(dir)?, backing: absolute_path(backing)? };
    let is_plain = pair.dir.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)));
    if !is_plain || pair.dir.parent().is_none() {
        return Err(format!("programs cannot write to '{dir}': name a directory below /, without .."));
    }
    Ok(pair)
}

/// Where a store on the node's own disk lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StorePlace {
    /// Wherever the site keeps a directory for the user on the node's own disk.
    Auto,
    /// In this directory.
    At(PathBuf),
}

/// `auto`, or a directory.
pub fn store_place(text: &str) -> Result<StorePlace, String> {
    match text {
        "auto" => Ok(StorePlace::Auto),
        _ => absolute_path(text).map(StorePlace::At),
    }
}

/// The paths of a staging.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagePair {
    /// The path to copy.
    pub source: PathBuf,
    /// Where to.
    pub destination: PathBuf,
    /// Each node takes a part.
    pub scatter: bool,
}

/// `/lustre/me/in=/mnt/bb/me/in`, or with `,scatter` at its end.
pub fn stage(text: &str) -> Result<StagePair, String> {
    let (paths, scatter) = text.strip_suffix(",scatter").map_or((text, false), |paths| (paths, true));
    let wrong = || format!("'{text}' is not SRC=DST; write for example /lustre/me/in=/mnt/bb/me/in");
    let (source, destination) = paths.split_once('=').ok_or_else(wrong)?;
    Ok(StagePair { source: absolute_path(source)?, destination: absolute_path(destination)?, scatter })
}

/// Where directives are looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectivesFrom {
    /// In the script of the batch job, where Slurm tells it.
    Auto,
    /// Nowhere.
    Off,
    /// In this script.
    File(PathBuf),
}

/// `auto`, `off` or a script.
pub fn directives(text: &str) -> Result<DirectivesFrom, String> {
    match text {
        "auto" => Ok(DirectivesFrom::Auto),
        "off" => Ok(DirectivesFrom::Off),
        _ => path(text).map(DirectivesFrom::File),
    }
}

/// A fan-out.
pub fn fan_out(text: &str) -> Result<u32, String> {
    number_in(text, 1, forebay_overlay::limits::FAN_OUT_MAX.into()).map(|number| number as u32)
}

/// A number of roots.
pub fn roots(text: &str) -> Result<u32, String> {
    number_in(text, 1, forebay_overlay::limits::ROOTS_MAX.into()).map(|number| number as u32)
}

/// A number of nodes on one machine. More than 4,096 daemons exhaust its ports and memory first.
pub fn local_count(text: &str) -> Result<usize, String> {
    number_in(text, 1, 4096).map(|number| number as usize)
}

/// Entries of a listing.
pub fn entries(text: &str) -> Result<usize, String> {
    number_in(text, 0, limits::LISTING_ENTRIES_MAX as u64).map(|number| number as usize)
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, String> {
    number_in(text, 1, forebay_types::threads::KERNEL_READERS_MAX as u64).map(|number| number as usize)
}

/// Requests at the backing file system at once.
pub fn concurrency(text: &str) -> Result<usize, String> {
    number_in(text, 1, 4096).map(|number| number as usize)
}

/// A port.
pub fn port(text: &str) -> Result<u16, String> {
    number_in(text, 1, 65_535).map(|number| number as u16)
}

/// An address to listen at: a port alone is one of the loopback address.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = loopback.or_else(|_| text.parse());
    address.map_err(|_| {
        format!("'{text}' is neither a port (0 to 65535) nor an address with one (127.0.0.1:9100, [::1]:0)")
    })
}

/// A budget: not below what works.
pub fn budget(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < forebay_daemon::limits::BUDGET_BYTES_MIN {
        return Err(format!(
            "'{text}' is too small; {} is the least",
            show_size(forebay_daemon::limits::BUDGET_BYTES_MIN)
        ));
    }
    Ok(bytes)
}

/// A read of a file of the exports.
pub fn read_size(text: &str) -> Result<u64, String> {
    use forebay_store::limits::{READ_BYTES_MAX, READ_BYTES_MIN};
    let bytes = size(text)?;
    if (READ_BYTES_MIN..=READ_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(READ_BYTES_MIN) {
        return Ok(bytes);
    }
    let [least, most] = [READ_BYTES_MIN, READ_BYTES_MAX].map(show_size);
    Err(format!("'{text}' is not a multiple of {least} up to {most}"))
}

/// A read-ahead window: whole pages, 16 MiB at most, since the kernel keeps that much for every file read in order.
pub fn read_ahead(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    if bytes > 16 << 20 || !bytes.is_multiple_of(4096) {
        return Err(format!("'{text}' is not a multiple of 4KiB up to 16MiB"));
    }
    Ok(bytes as u32)
}

/// `true` or `false`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(format!("'{text}' is neither true nor false")),
    }
}

/// Processors: `0-3,8`.
pub fn cores(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("'{text}' is not a list of processors; write for example 0-3,8");
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().ok().filter(|core| *core <= CORE_MAX).ok_or_else(wrong);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    cores.dedup();
    Ok(cores)
}

/// Words of a command line, split and unquoted as a shell does; variables and patterns stay as they are.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(text).ok_or_else(|| format!("'{text}' has an unfinished quotation or escape"))?;
    if words.first().is_none_or(String::is_empty) { Err("a command must not be empty".to_owned()) } else { Ok(words) }
}

/// Where the order of the nodes comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// From the scheduler or the names of the hosts.
    Auto,
    /// It stays as listed.
    Off,
    /// From a file.
    File(PathBuf),
}

/// `auto`, `off` or the path of a file.
pub fn topology(text: &str) -> Result<Topology, String> {
    match text {
        "auto" => Ok(Topology::Auto),
        "off" => Ok(Topology::Off),
        _ => path(text).map(Topology::File),
    }
}

/// A launcher.
pub fn launcher(text: &str) -> Result<LauncherName, String> {
    let names = || LauncherName::ALL.map(LauncherName::word).join(", ");
    LauncherName::of(text).ok_or_else(|| format!("it is none of {}", names()))
}

/// A path.
pub fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path must not be empty".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// An absolute path.
pub fn absolute_path(text: &str) -> Result<PathBuf, String> {
    if text.starts_with('/') { path(text) } else { Err(format!("'{text}' is not an absolute path (/...)")) }
}

/// A level of protection.
pub fn security(text: &str) -> Result<Level, String> {
    let levels = [Level::Auth, Level::Seal, Level::Off];
    let level = levels.into_iter().find(|level| level.word() == text);
    level.ok_or_else(|| format!("'{text}' is not a security level (auth, seal or off)"))
}

/// The reaction to a node that fails to start. `go-on` is the word of before.
pub fn when_missing(text: &str) -> Result<WhenMissing, String> {
    let word = if text == "go-on" { WhenMissing::Continue.word() } else { text };
    let known = [WhenMissing::Fail, WhenMissing::Continue].into_iter().find(|known| known.word() == word);
    known.ok_or_else(|| format!("'{text}' is neither fail nor continue"))
}

/// The outcome of a start that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFailure {
    /// It has failed.
    Fail,
    /// Programs use the file system itself.
    Direct,
}

/// `fail` or `direct`.
pub fn on_failure(text: &str) -> Result<OnFailure, String> {
    match text {
        "fail" => Ok(OnFailure::Fail),
        "direct" => Ok(OnFailure::Direct),
        _ => Err(format!("'{text}' is neither fail nor direct")),
    }
}

/// Whether MUNGE seals the key.
pub fn key_sealing(text: &str) -> Result<KeySealing, String> {
    match text {
        "auto" => Ok(KeySealing::Auto),
        "off" => Ok(KeySealing::Off),
        _ => absolute_path(text).map(KeySealing::Socket),
    }
}

/// `auto`, `close`, `end` or `manual`.
pub fn drain(text: &str) -> Result<DrainPolicy, String> {
    match text {
        "auto" => Ok(DrainPolicy::Auto),
        "close" => Ok(DrainPolicy::Close),
        "end" => Ok(DrainPolicy::End),
        "manual" => Ok(DrainPolicy::Manual),
        _ => Err(format!("'{text}' is not auto, close, end or manual")),
    }
}

/// Which files a node's partner copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Partnering {
    None,
    All,
    /// Those below this directory.
    Below(PathBuf),
}

/// `none`, `all` or a directory.
pub fn partner(text: &str) -> Result<Partnering, String> {
    match text {
        "none" => Ok(Partnering::None),
        "all" => Ok(Partnering::All),
        _ if text.starts_with('/') => Ok(Partnering::Below(text.into())),
        _ => Err(format!("'{text}' is not none, all or the absolute path of a directory")),
    }
}

/// Bytes a second: `500MB/s`, `1GiB`.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a rate; write for example 500MB/s");
    let bytes = size(text.strip_suffix("/s").unwrap_or(text)).map_err(|_| wrong())?;
    if bytes == 0 { Err(wrong()) } else { Ok(bytes) }
}

/// `2000/s`; `/s` may be left out.
pub fn call_rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("'{text}' is not a number of calls a second; write for example 2000/s"))
}

/// How long a job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeLimit {
    /// From its start on.
    In(Duration),
    /// Until then, since 1970.
    At(Duration),
    /// As its scheduler says.
    OfScheduler,
}

/// `90min`, `@1767225600` or `auto`.
pub fn time_limit(text: &str) -> Result<TimeLimit, String> {
    let limit = match (text, text.strip_prefix('@')) {
        ("auto", _) => Some(TimeLimit::OfScheduler),
        (_, Some(seconds)) => seconds.parse().ok().map(Duration::from_secs).map(TimeLimit::At),
        (_, None) => duration(text).ok().map(TimeLimit::In),
    };
    limit.ok_or_else(|| format!("'{text}' is not a time; write for example 90min, 2h, @SECONDS (since 1970) or auto"))
}

/// How symbolic links are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinksShown {
    /// As the backing file system has them.
    AsIs,
    /// Those into an export as links into the view.
    View,
}

/// `asis` or `view`.
pub fn links(text: &str) -> Result<LinksShown, String> {
    match text {
        "asis" => Ok(LinksShown::AsIs),
        "view" => Ok(LinksShown::View),
        _ => Err(format!("'{text}' is neither asis nor view")),
    }
}

/// A node's role in the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It runs programs.
    Node,
    /// It holds files, and answers queries over them.
    Device,
}

/// `node` or `device`.
pub fn role(text: &str) -> Result<Role, String> {
    match text {
        "node" => Ok(Role::Node),
        "device" => Ok(Role::Device),
        _ => Err(format!("'{text}' is neither node nor device")),
    }
}

/// Which profile a job uses and improves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProfileChoice {
    /// That of its command and exports, in the directory of profiles.
    Auto,
    /// None.
    Off,
    /// This one.
    File(PathBuf),
}

/// Which profile is used.
pub fn profile(text: &str) -> Result<ProfileChoice, String> {
    match text {
        "auto" => Ok(ProfileChoice::Auto),
        "off" => Ok(ProfileChoice::Off),
        _ => absolute_path(text).map(ProfileChoice::File),
    }
}

/// Where the report of a job is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportChoice {
    /// With the logs of jobs that have ended.
    Auto,
    /// There is none.
    Off,
    /// Below this directory.
    Directory(PathBuf),
}

/// Where the report of a job is kept.
pub fn report(text: &str) -> Result<ReportChoice, String> {
    match text {
        "auto" => Ok(ReportChoice::Auto),
        "off" => Ok(ReportChoice::Off),
        _ => absolute_path(text).map(ReportChoice::Directory),
    }
}

/// The command that a profile is kept for: printable, since it is shown.
pub fn profile_command(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > forebay_profile::limits::PROFILE_COMMAND_BYTES_MAX {
        return Err(format!(
            "a profile's command has 1 to {} bytes",
            forebay_profile::limits::PROFILE_COMMAND_BYTES_MAX
        ));
    }
    if text.chars().any(char::is_control) {
        Err("a profile's command is printable text".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Whether packs are kept.
pub fn pack(text: &str) -> Result<bool, String> {
    match text {
        "auto" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{text}' is neither auto nor off")),
    }
}

/// Any text.
pub fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A job's name.
pub fn job_name(text: &str) -> Result<String, String> {
    forebay_launch::check_job_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// A host list such as `n[1-4,7]`.
pub fn hosts(text: &str) -> Result<Vec<String>, String> {
    forebay_launch::expand_hostlist(text).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
