//! The one table of settings: from it come the options of the commands, the names in the environment and in the
//! configuration file, the defaults and the help.
//!
//! A setting is declared once, with how its text is read; `Settings` holds the values. Values travel as text between
//! the sources and from `up` to the daemons, so that there is one reader and no writer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_daemon::DrainPolicy;
use forebay_launch::{KeySealing, LauncherName};
use forebay_wire::Level;

use super::values::{
    self, BurstPair, DirectivesFrom, LinksShown, OnFailure, Partnering, ProfileChoice, ReportChoice, Role, StagePair,
    StorePlace, TimeLimit, Topology, WhenMissing,
};

/// How long a request may take, whatever dies (option `--deadline`).
const DEADLINE: Duration = Duration::from_secs(30);

/// Which commands have a setting as an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every command that deals with a job.
    Job,
    /// `up` and `node`.
    Node,
    /// `up` alone.
    Up,
    /// `up`, `node` and `profile`.
    Profile,
    /// `up`, `down` and `report`.
    Report,
}

/// How often a setting may be given, and whether it takes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Once; has a default.
    One,
    /// Once, or not at all.
    Optional,
    /// Several times; in the environment separated by colons, in the file an array.
    Many,
    /// Without a value on the command line; the help is that of `--KEY`, or where it is on by default that of `--no-KEY`.
    Switch,
}

/// One row of the table.
#[derive(Debug)]
pub struct Setting {
    /// Its name: `--KEY`, `FOREBAY_KEY`, `KEY = ` in the file.
    pub key: &'static str,
    /// The placeholder for its value in the help.
    pub value: &'static str,
    /// How often it may be given.
    pub how: How,
    /// Which commands have it.
    pub scope: Scope,
    /// Where the help shows it.
    pub heading: &'static str,
    /// Its description in the help.
    pub help: &'static str,
    /// Its value when nobody gives one, as text.
    pub default: fn() -> Option<String>,
    /// Whether a text is a value of it.
    pub check: fn(&str) -> Result<(), String>,
}

impl Setting {
    /// Its name in the environment.
    pub fn variable(&self) -> String {
        variable_of(self.key)
    }

    /// Its name of before, which goes on being understood.
    pub fn old_key(&self) -> Option<&'static str> {
        RENAMED.iter().find(|(_, key)| *key == self.key).map(|(old, _)| *old)
    }

    /// The name of before in the environment.
    pub fn old_variable(&self) -> Option<String> {
        self.old_key().map(variable_of)
    }

    /// The row of `key`, by its name or that of before.
    pub fn of(key: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.key == key || setting.old_key() == Some(key))
    }
}

/// Settings that had another name: that one, and today's.
const RENAMED: [(&str, &str); 2] = [("missing", "on-missing"), ("anticipate", "prefetch")];

fn variable_of(key: &str) -> String {
    format!("FOREBAY_{}", key.to_uppercase().replace('-', "_"))
}

/// The texts of all settings that have one.
pub type Texts = BTreeMap<&'static str, Vec<String>>;

macro_rules! settings {
    ($( $heading:literal { $(
        $(#[doc = $help:literal])+
        $scope:ident $how:ident($parse:ident) $field:ident: $type:ty = $key:literal $value:literal $(, $default:expr)?;
    )* } )*) => {
        /// The values of all settings.
        #[derive(Clone, Debug)]
        pub struct Settings { $($( $(#[doc = $help])+ pub $field: $type, )*)* }

        /// All settings.
        pub static TABLE: &[Setting] = &[ $($( Setting {
            key: $key,
            value: $value,
            how: How::$how,
            scope: Scope::$scope,
            heading: $heading,
            help: concat!($($help),+),
            default: || { None::<String>$(.or(Some(($default).to_string())))? },
            check: |text| values::$parse(text).map(drop),
        }, )*)* ];

        impl Settings {
            /// Reads the values; the error names the setting.
            ///
            /// # Errors
            /// The key and what is wrong with its text.
            pub fn from_texts(texts: &Texts) -> Result<Self, (&'static str, String)> {
                Ok(Self { $($( $field: settings!(@read $how, texts, $key, $parse), )*)* })
            }
        }
    };
    (@read One, $texts:ident, $key:literal, $parse:ident) => { one($texts, $key, values::$parse)? };
    (@read Optional, $texts:ident, $key:literal, $parse:ident) => { optional($texts, $key, values::$parse)? };
    (@read Many, $texts:ident, $key:literal, $parse:ident) => { many($texts, $key, values::$parse)? };
    (@read Switch, $texts:ident, $key:literal, $parse:ident) => { one($texts, $key, values::$parse)? };
}

settings! {
    "Job" {
        /// Name of the job, which distinguishes jobs of one user [default: the allocation's, else the only one, else
        /// "default"]
        Job Optional(job_name) job: Option<String> = "job" "NAME";
        /// Keep the sockets, logs and default views of jobs below this directory, which only you may enter [default:
        /// $XDG_RUNTIME_DIR/forebay for one host, else /tmp/forebay-UID]
        Job Optional(absolute_path) directory: Option<PathBuf> = "directory" "DIR";
    }
    "Nodes" {
        /// Run N nodes on this machine; the view of node I is VIEW/I
        Up Optional(local_count) local: Option<usize> = "local" "N";
        /// Run a node on each of these hosts, in Slurm's notation: n[1-4,7],login2
        Up Optional(hosts) nodes: Option<Vec<String>> = "nodes" "HOSTLIST";
        /// Run a node on each host in this file: one host or host:port per line, # begins a comment (`node` reads the list
        /// of nodes from it; '-' is standard input)
        Node Optional(path) hostfile: Option<PathBuf> = "hostfile" "FILE";
        /// Command that runs a program on another host: CMD HOST -- PROGRAM ARGUMENTS; CMD is split as a shell does
        Up One(words) remote_shell: Vec<String> = "remote-shell" "CMD", "ssh -oBatchMode=yes -oConnectTimeout=10";
        /// Start the nodes by this: slurm (srun), flux (flux exec), pals (mpiexec, aprun), pbs (pbsdsh), lsf (blaunch, jsrun), prrte
        /// (prterun), hydra (mpiexec.hydra), ssh (--remote-shell) [default: that of the scheduler, ssh for --nodes and --hostfile]
        Up Optional(launcher) launcher: Option<LauncherName> = "launcher" "NAME";
        /// Listen on this interface only, given by name or network (10.1.0.0/16), and reach other nodes at their addresses in it
        Node Optional(text) interface: Option<String> = "interface" "NAME|CIDR";
        /// TCP port of every node [default: a free one of four random ports from 20000 up; `node`: derived from the key]
        Node Optional(port) port: Option<u16> = "port" "PORT";
        /// How connections between nodes are protected: auth proves that both ends belong to this job, seal also encrypts,
        /// off accepts anyone who reaches the port
        Node One(security) security: Level = "security" "LEVEL", Level::Auth.word();
        /// Seal the job's key with MUNGE on its way through Slurm: auto if the program munge is installed, off never, SOCKET
        /// always, with the munged that listens there
        Up One(key_sealing) munge: KeySealing = "munge" "auto|off|SOCKET", "auto";
        // Ample for a login on a busy host; a local start takes a fraction of a second.
        /// Time limit for all nodes to become ready
        Up One(duration) wait_timeout: Duration = "wait-timeout" "TIME", "60s";
        /// Reaction to a node that fails to start: fail stops the job, continue names the node and goes on without it
        Up One(when_missing) on_missing: WhenMissing = "on-missing" "fail|continue", WhenMissing::Fail.word();
        /// Outcome of a start that fails: fail with status 1, or direct, which says so, ends with status 0 and lets forebay run use
        /// the file system itself (not with --burst)
        Up One(on_failure) on_failure: OnFailure = "on-failure" "fail|direct", "fail";
    }
    "View" {
        /// Export this directory and everything below it; repeatable [default: /]
        Node Many(absolute_path) export: Vec<PathBuf> = "export" "PATH";
        /// Mount the view here; with --local, and where nodes share a host, that of node I at DIR/I [default: below
        /// the job's directory in $XDG_RUNTIME_DIR or /tmp/forebay-UID]
        Node Optional(path) view: Option<PathBuf> = "view" "DIR";
        /// How absolute symbolic links into an export are shown: asis unchanged, view as links into the view
        Node One(links) links: LinksShown = "links" "asis|view", "asis";
        /// Let other users enter the view too (root, or user_allow_other in /etc/fuse.conf)
        Node Switch(switch) allow_other: bool = "allow-other" "BOOL", false;
        /// Kernel read-ahead per file; without root it is at most 128KiB
        Node One(read_ahead) read_ahead: u32 = "read-ahead" "SIZE",
            values::show_size(forebay_fuse::limits::KERNEL_READ_AHEAD_BYTES.into());
        /// Threads that read the kernel's requests
        Node One(threads) readers: usize = "readers" "N", forebay_types::threads::KERNEL_READERS;
        /// Keep requests in flight in memory for the next daemon, even where the kernel would resend them (Linux 6.9)
        Node Switch(switch) resend: bool = "resend" "BOOL", "true";
    }
    "Burst tier" {
        /// Give programs the directory DIR to write to: files are written to the node's own disk (--burst-store) and then copied
        /// to BACKING, a directory of the backing file system; DIR alone is both
        Node Many(burst) burst: Vec<BurstPair> = "burst" "DIR[=BACKING]";
        /// Keep files that have not landed in DIR; with --local, and where nodes share a host, those of node I in DIR/I. auto: the
        /// site's directory on the node's own disk (/mnt/bb/$USER, $SLURM_TMPDIR, $TMPDIR)
        Node Optional(store_place) burst_store: Option<StorePlace> = "burst-store" "DIR|auto";
        /// Size limit of the burst store [default: 90 % of the free space]
        Node Optional(size) burst_capacity: Option<u64> = "burst-capacity" "SIZE";
        /// When files land: auto when they are closed, and parts of open files earlier if a store fills; close when they are
        /// closed; end at forebay down or forebay drain; manual only at forebay drain
        Node One(drain) drain: DrainPolicy = "drain" "auto|close|end|manual", "auto";
        /// Files that a second node copies before fsync returns, so that they survive the loss of a node: all, or those below
        /// DIR; repeatable [default: none]
        Node Many(partner) partner: Vec<Partnering> = "partner" "none|all|DIR";
        /// Limit the rate of writes to the backing file system [default: no limit]
        Node Optional(rate) drain_rate: Option<u64> = "drain-rate" "SIZE/s";
        /// Limit the calls of landing on the backing file system [default: no limit]
        Node Optional(call_rate) drain_ops: Option<u64> = "drain-ops" "N/s";
        /// Land everything within this time, or before @SECONDS (since 1970), open files as last committed; auto: before Slurm
        /// or LSF ends the job
        Node Optional(time_limit) time_limit: Option<TimeLimit> = "time-limit" "TIME|auto";
        /// Mount the burst tier below this directory, so that DIR is at MOUNT/DIR; with --local, and where nodes share a
        /// host, at MOUNT/I/DIR for node I [default: below the job's directory]
        Node Optional(absolute_path) burst_mount: Option<PathBuf> = "burst-mount" "MOUNT";
        /// Stage SRC in to DST on all nodes as soon as they are ready, as forebay stage in does; with ,scatter each node gets a part
        /// of the files; %u stands for the user, %j for the job
        Up Many(stage) stage_in: Vec<StagePair> = "stage-in" "SRC=DST[,scatter]";
        /// Stage SRC of the burst tier out to DST at forebay down, as forebay stage out does
        Up Many(stage) stage_out: Vec<StagePair> = "stage-out" "SRC=DST";
        /// Take options of the burst tier from lines that begin with #FB: auto in the batch script of the Slurm job, FILE in this
        /// script, off ignores them
        Up One(directives) directives: DirectivesFrom = "directives" "auto|off|FILE", "auto";
    }
    "Queries" {
        /// Role of the node: a device holds files of its own (--data) and answers queries over them
        Node One(role) role: Role = "role" "node|device", "node";
        /// Directory that a device holds: it answers queries over the files in it; with --local, and where nodes share a host,
        /// the directory of node I is DIR/I
        Node Optional(absolute_path) data: Option<PathBuf> = "data" "DIR";
    }
    "Caches and trees" {
        /// Number of nodes that read the backing file system for the others, each a part of the directories and of every
        /// large file [default: up to 16 nodes 1, then one per eight nodes, 8 at most; up to 64 nodes
        /// without it, every node reads a share of the large files]
        Node Optional(roots) roots: Option<u32> = "roots" "R";
        /// Order of nodes, so that neighbours in the network get neighbouring ranks: FILE in the format of Slurm's
        /// topology.conf; auto from Slurm, else from host names such as x3000c0s1b0n0; off keeps the order of the list
        Up One(topology) topology: Topology = "topology" "auto|off|FILE", "auto";
        // With as many as roots every node hands on in one tree, so that width costs no bandwidth.
        /// Children per node in the trees of directories and small files [default: as many as roots, from 4 to 8]
        Node Optional(fan_out) fan_out: Option<u32> = "fanout" "K";
        /// Children per node in the trees of large files [default: 4, or --fanout if that is less]
        Node Optional(fan_out) stripe_fan_out: Option<u32> = "stripe-fanout" "K";
        /// Memory for a node's caches [default: a tenth of the machine's, at most 4GiB, divided among the nodes on it]
        Node Optional(budget) budget: Option<u64> = "budget" "SIZE";
        /// Keep chunks of large files in DIR, on the node's own disk, also for later jobs; with --local, and where nodes share a host,
        /// those of node I in DIR/I. auto: as --burst-store auto [default: none, memory alone]
        Node Optional(store_place) cache_store: Option<StorePlace> = "cache-store" "DIR|auto";
        /// Size limit of the cache store [default: half of the free space, divided among the nodes on the machine, at most 256GiB]
        Node Optional(size) cache_capacity: Option<u64> = "cache-capacity" "SIZE";
        /// Keep chunks of files in the cache store that have not changed for TIME: a change may be under way longer than a file's times say
        Node One(duration) cache_after: Duration = "cache-after" "TIME", "10min";
        /// Each node reads files above this size from the backing file system itself [default: none]
        Node Optional(size) direct_above: Option<u64> = "direct-above" "SIZE";
        /// Disable prefetching, and the bundling of small files into one message
        Node Switch(switch) prefetch: bool = "prefetch" "BOOL", "true";
        /// Listings of directories up to this size include attributes; in larger directories attributes are fetched on request
        Node One(entries) listing_limit: usize = "listing-limit" "ENTRIES", forebay_store::limits::LISTING_ENTRIES_FULL;
        /// Check again after this time whether names and attributes have changed, for exports that change; nothing shown is
        /// older than INTERVAL [default: never, until `forebay refresh`]
        Node Optional(duration) revalidate: Option<Duration> = "revalidate" "INTERVAL";
        /// Time limit of a request, whatever fails on its way
        Node One(duration) deadline: Duration = "deadline" "TIME", format!("{}s", DEADLINE.as_secs());
        /// Concurrent requests of a node to the backing file system
        Node One(concurrency) backing_concurrency: usize = "backing-concurrency" "N", forebay_types::threads::BACKING_CONCURRENCY;
        /// How much a read of a large file asks of the backing file system and how much in a row one node reads
        /// [default: 1MiB; where one node reads all, up to 4MiB if the file system names it, as Lustre its stripes]
        Node Optional(read_size) backing_read_size: Option<u64> = "backing-read-size" "SIZE";
        /// Bind a node's daemon to these processors: 0-3,8
        Node Optional(cores) cores: Option<Vec<usize>> = "cores" "LIST";
    }
    "Profiles" {
        /// Record what the start-up of a command uses, and prefetch it at the next start-up: auto keeps one profile per command
        /// and exports, off none, FILE is one profile for all commands
        Node One(profile) profile: ProfileChoice = "profile" "auto|off|FILE", "auto";
        /// Key of the profile; jobs with the same text and exports share one [default: under Slurm the job's name and its
        /// script's arguments, else the command line of the process that calls `forebay up`]
        Node Optional(profile_command) profile_command: Option<String> = "profile-command" "TEXT";
        /// Keep the contents of a start-up, compressed, beside its profile: auto if there is a profile, or off
        Node One(pack) pack: bool = "pack" "auto|off", "auto";
        /// Keep profiles and packs in this directory, which only you may change [default:
        /// $XDG_CACHE_HOME/forebay/profiles or ~/.cache/forebay/profiles]
        Profile Optional(absolute_path) profile_dir: Option<PathBuf> = "profile-dir" "DIR";
        /// Size limit of all profiles and packs together; the least recently used are removed first
        Profile One(size) profile_budget: u64 = "profile-budget" "SIZE", values::show_size(forebay_profile::limits::PROFILE_BUDGET_BYTES);
    }
    "Logs and metrics" {
        /// Log level: error, warn, info, debug or trace, also per module (info,forebay_fuse=debug)
        Node One(log_filter) log: String = "log" "FILTER", "info";
        /// Keep a report of the job at its end: auto in ~/.local/state/forebay/JOB, DIR in DIR/JOB, off none
        Report One(report) report: ReportChoice = "report" "auto|off|DIR", "auto";
        /// Append each node's metrics to FILE.RANK.jsonl (an extension of FILE is replaced), one JSON object per line
        Node Optional(path) metrics: Option<PathBuf> = "metrics" "FILE";
        /// How often metrics are written
        Node One(duration) metrics_interval: Duration = "metrics-interval" "TIME", "10s";
        /// Serve each node's metrics by HTTP at this address too, for Prometheus: a port of the loopback address, 0 for a free
        /// one, or IP:PORT; a token in the job's directory is needed
        Node Optional(listen_address) metrics_listen: Option<SocketAddr> = "metrics-listen" "PORT|IP:PORT";
    }
}

type Parse<T> = fn(&str) -> Result<T, String>;

fn optional<T>(texts: &Texts, key: &'static str, parse: Parse<T>) -> Result<Option<T>, (&'static str, String)> {
    let text = texts.get(key).and_then(|texts| texts.last());
    text.map(|text| parse(text)).transpose().map_err(|problem| (key, problem))
}

fn one<T>(texts: &Texts, key: &'static str, parse: Parse<T>) -> Result<T, (&'static str, String)> {
    optional(texts, key, parse)?.ok_or_else(|| (key, "it has no value".to_owned()))
}

fn many<T>(texts: &Texts, key: &'static str, parse: Parse<T>) -> Result<Vec<T>, (&'static str, String)> {
    let texts = texts.get(key).map(Vec::as_slice).unwrap_or_default();
    texts.iter().map(|text| parse(text)).collect::<Result<_, _>>().map_err(|problem| (key, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_and_every_key_is_unique() {
        let mut keys = std::collections::BTreeSet::new();
        for setting in TABLE {
            assert!(keys.insert(setting.key), "{} twice", setting.key);
            assert_eq!(matches!(setting.how, How::One | How::Switch), (setting.default)().is_some(), "{}", setting.key);
            if let Some(default) = (setting.default)() {
                (setting.check)(&default).unwrap();
            }
        }
    }

    #[test]
    fn values_are_read_by_their_own_rules() {
        let mut texts: Texts =
            TABLE.iter().filter_map(|setting| Some((setting.key, vec![(setting.default)()?]))).collect();
        texts.insert("export", vec!["/a".into(), "/b".into()]);
        texts.insert("direct-above", vec!["1GiB".into()]);
        let settings = Settings::from_texts(&texts).unwrap();
        assert_eq!(settings.export, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(settings.direct_above, Some(1 << 30));
        assert_eq!(settings.budget, None);
        texts.insert("cores", vec!["x".into()]);
        assert_eq!(Settings::from_texts(&texts).unwrap_err().0, "cores");
    }

    #[test]
    fn names_in_the_environment() {
        assert_eq!(Setting::of("direct-above").unwrap().variable(), "FOREBAY_DIRECT_ABOVE");
        assert!(Setting::of("nothing").is_none());
    }
}
