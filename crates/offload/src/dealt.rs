//! The first pass over several files, dealt out to all nodes that can read them and to this host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, anyhow};
use forebay_query::{Parts, Rows, State};

use crate::dealing::{Dealing, HostPart, Made, REQUESTS_MAX};
use crate::files::{Contents, FileSource, PassOptions, Table, begins_quoted, collect_file_part, state_of_nothing};
use crate::makers::{Makers, NodeSet};
use crate::messages::{Holder, Holds};
use crate::several::{DealtFile, FilePart, Finished, Group, SeveralFiles};

/// Bytes of states that are under way or wait for their turn: those of a Gramian of many columns are large.
const STATES_BYTES_MAX: usize = 256 << 20;

/// Files that may be under way beside the first, however large their states are: some for each of the nodes that a small job has.
const WINDOW_MIN: usize = 16;

/// Files of which more are closed whenever they are not being read.
const OPEN_MAX: usize = 64;

/// A file that nodes are to make parts of.
pub(crate) struct Far<'a> {
    /// Its place in the query.
    pub index: usize,
    pub source: &'a FileSource,
    pub table: Table<'a>,
    /// None: this host makes all of it.
    pub makers: Option<Makers>,
}

/// How files are dealt out.
#[derive(Clone, Copy)]
pub(crate) struct DealOptions<'a> {
    pub pass: PassOptions<'a>,
    pub host_part: HostPart,
    /// Whether it is to be said of each block how it begins.
    pub is_reread: bool,
}

/// Files that the same nodes make.
struct Groups {
    groups: Vec<Group>,
    /// The bytes of each, and the parts that its nodes make at once.
    sizes: Vec<(u64, usize)>,
    /// Of each file.
    of_files: Vec<usize>,
}

impl Groups {
    fn of(files: &[Far<'_>]) -> Self {
        let mut found = Self { groups: vec![], sizes: vec![], of_files: vec![] };
        let mut known: BTreeMap<Option<*const NodeSet>, usize> = BTreeMap::new();
        for far in files {
            let group =
                *known.entry(far.makers.as_ref().map(|makers| Arc::as_ptr(&makers.nodes))).or_insert_with(|| {
                    let (group, threads) =
                        far.makers.as_ref().map(|makers| (makers.group(), makers.threads())).unwrap_or_default();
                    found.groups.push(group);
                    found.sizes.push((0, threads));
                    found.groups.len() - 1
                });
            found.sizes[group].0 += far.source.table_bytes();
            found.of_files.push(group);
        }
        found
    }
}

/// The nodes of all files, each once; files of which none is among them are this host's.
fn nodes_of(files: &[Far<'_>]) -> Vec<Holder> {
    let mut seen = BTreeSet::new();
    let sets: BTreeMap<_, _> =
        files.iter().flat_map(|far| &far.makers).map(|makers| (Arc::as_ptr(&makers.nodes), makers)).collect();
    let nodes = sets.values().flat_map(|makers| makers.holders());
    let mut nodes: Vec<Holder> = nodes.filter(|holder| seen.insert(holder.rank)).collect();
    nodes.sort_by_key(|holder| holder.rank);
    nodes.truncate(REQUESTS_MAX);
    nodes
}

/// Files, from the first that is not delivered on, whose states may be in memory.
fn window(like: &State) -> usize {
    let of_rows = |rows: &Rows| {
        let columns = rows.columns.len();
        let pairs = if rows.gramian.is_some() || rows.covariance.is_some() { columns * columns * 16 } else { 0 };
        let groups = if rows.groups.is_some() { 8 << 20 } else { 0 };
        // Ranges of values, frequent texts, registers.
        let described = rows.described.numbers.len() * (72 << 10) + rows.described.texts.len() * (40 << 10);
        columns * (1 << 10) + pairs + groups + described
    };
    let state = (4 << 10) + like.rows.as_ref().map_or(0, of_rows);
    (STATES_BYTES_MAX / state).max(WINDOW_MIN)
}

/// Has all parts of some files made. On this thread, `walk` gets the files' states by its argument, in their order, while they are made.
///
/// # Errors
/// A file cannot be read or changes, or `walk` fails.
pub(crate) fn deal(
    files: &[Far<'_>],
    options: DealOptions<'_>,
    walk: impl FnOnce(&mut dyn FnMut() -> anyhow::Result<Finished>) -> anyhow::Result<()>,
) -> anyhow::Result<Made> {
    let DealOptions { pass: PassOptions { collected, threads, done_bytes, .. }, host_part, is_reread } = options;
    let Groups { groups, sizes, of_files } = Groups::of(files);
    let host_threads = if matches!(host_part, HostPart::Rest) { 0 } else { threads };
    let begin = |file: usize| {
        let far = &files[file];
        let (bytes, like) = (far.source.table_bytes(), state_of_nothing(far.table, collected));
        let (all_bytes, threads) = sizes[of_files[file]];
        let parts = match is_reread || homes_of(far).are_known() {
            true => Parts::by_block(bytes, like),
            false => Parts::of_several(bytes, all_bytes, threads + host_threads, like),
        };
        parts.behind(begins_quoted(far.table))
    };
    let dealt = |(far, group): (&Far<'_>, &usize)| DealtFile {
        bytes: far.source.table_bytes(),
        group: *group,
        homes: homes_of(far),
    };
    let window = files.first().map_or(1, |far| window(&state_of_nothing(far.table, collected)));
    let pieces = SeveralFiles::new(files.iter().zip(&of_files).map(dealt).collect(), groups, window, &begin);
    let nodes = nodes_of(files);
    let dealing = Dealing::new(pieces, &nodes, done_bytes);
    let walked = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let ran = run(&dealing, files, &nodes, options);
            if ran.is_err() {
                give_up(&dealing, None);
            }
            ran
        });
        let walked = walk(&mut || next(&dealing, files));
        if walked.is_err() {
            give_up(&dealing, None);
        }
        let ran = running.join().unwrap_or_else(|_| Err(anyhow!("a thread of the query panicked")));
        // This thread may only have heard that the other one has failed.
        ran.and(walked)
    });
    let (mut pieces, made) = dealing.finish();
    match pieces.take_reason() {
        Some(reason) => Err(reason),
        None => walked.map(|()| made),
    }
}

fn homes_of(far: &Far<'_>) -> crate::pieces::Homes {
    // Blocks of data sets are not those of the file.
    let makers = far.makers.as_ref().filter(|_| !far.source.has_data_sets());
    makers.map(|makers| makers.homes.clone()).unwrap_or_default()
}

/// Whether nodes read the logs of the burst tier.
pub(crate) fn is_in_logs(far: &Far<'_>) -> bool {
    far.makers.iter().any(|makers| makers.nodes.iter().any(|(_, holds)| *holds == Holds::Burst))
}

type Pieces<'d, 'a> = Dealing<'d, SeveralFiles<'a>>;

fn run(dealing: &Pieces<'_, '_>, files: &[Far<'_>], nodes: &[Holder], options: DealOptions<'_>) -> anyhow::Result<()> {
    let PassOptions { collected, threads, .. } = options.pass;
    let here = |piece: FilePart| {
        let (far, done) = (&files[piece.file], Default::default());
        let pass = PassOptions { threads: 1, done_bytes: &done, is_given_up: dealing.is_over(), ..options.pass };
        let made = collect_file_part(far.source, far.table, pass, piece.part);
        release_if_many(files, far.source);
        made
    };
    let ask = |holder: &Holder, piece: FilePart| {
        let far = &files[piece.file];
        let makers = far.makers.as_ref().context("no node holds the file")?;
        makers.ask(dealing, holder, (far.source, far.table, collected), piece).inspect_err(|_| {
            // Then it is not the node's fault, and all that others would still make is in vain.
            if !dealing.is_over().load(Ordering::Relaxed)
                && let Err(changed) = checked(files, far.source)
            {
                give_up(dealing, Some(changed));
            }
        })
    };
    dealing.run(nodes, options.host_part, threads, ask, here)
}

/// The next file, once all of it is made and it is still as it was.
fn next(dealing: &Pieces<'_, '_>, files: &[Far<'_>]) -> anyhow::Result<Finished> {
    let finished = dealing.wait(SeveralFiles::deliver)?;
    checked(files, files[finished.file].source)?;
    Ok(finished)
}

fn checked(files: &[Far<'_>], source: &FileSource) -> anyhow::Result<()> {
    let checked = source.check();
    release_if_many(files, source);
    checked
}

fn release_if_many(files: &[Far<'_>], source: &FileSource) {
    if files.len() > OPEN_MAX {
        source.release();
    }
}

fn give_up(dealing: &Pieces<'_, '_>, reason: Option<anyhow::Error>) {
    let mut reason = Some(reason);
    dealing.wait(|pieces| {
        pieces.give_up(reason.take().flatten());
        Some(())
    });
}
