//! Programs that see the exports at their own paths (`forebay run`).
//!
//! A program runs in a mount namespace of its user in which parts of the node's view lie over the directories that they
//! show. It is the same mount as the view, so there is one page cache a node. The first program of a node makes the
//! namespace (`namespaces`, `plan`, `attach`) and leaves it with the node's keeper (`entrance`); all later ones enter the
//! same one, because processes of different user namespaces may not read each other's memory, as ranks of a job do.
//! The namespace changes no mount outside, and ends with the keeper and the last program in it.

mod attach;
mod entrance;
mod lend;
mod lock;
mod namespaces;
mod place;
mod plan;
mod plan_points;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use forebay_launch::JobDirectory;
use forebay_types::NodeRank;
use rustix::fs::{AtFlags, StatxFlags, statx};
use tracing::debug;

pub(crate) use entrance::serve_image;
pub use entrance::{AnswerText, QuestionText};
pub use lend::lend;
pub(crate) use lock::lock;
pub(crate) use namespaces::make as make_namespace;
pub use namespaces::{Home, Namespace, make_user_namespace};
pub use place::{BurstPlaces, Node, Place, base, only_at};

use crate::trusted_path;
use attach::Trees;
use entrance::{Answer, Request};

/// The node of this host that `rank` names, else the one that lives where this process does, else the one whose host has
/// one of `host_names`, else the first.
///
/// # Errors
/// When none answers.
pub fn find_node(directory: &JobDirectory, rank: Option<NodeRank>, host_names: &[String]) -> anyhow::Result<Node> {
    let place = Place::of_this().context("cannot determine the namespaces of this process")?;
    let here = directory.record_ranks();
    if let Some(rank) = rank.filter(|rank| !here.contains(rank)) {
        let here: Vec<String> = here.iter().map(ToString::to_string).collect();
        bail!("the job {} has no node {rank} on this host; its nodes here are {}", directory.job(), here.join(", "));
    }
    let ranks = rank.map_or(here, |rank| vec![rank]);
    let (mut others, mut failure) = (Vec::new(), None);
    for rank in ranks {
        match entrance::ask(&directory.entrance(rank), &Request::Node) {
            Ok(Answer::Node(node)) if node.place.mount == place.mount => return Ok(node),
            Ok(Answer::Node(node)) => others.push(node),
            Ok(_) => failure = Some(anyhow!("node {rank} gave an invalid answer; it may be of another version")),
            Err(error) => {
                let job = directory.job();
                let what =
                    format!("node {rank} of the job {job} does not answer; forebay status --job {job} shows its state");
                failure = Some(error.context(what));
            }
        }
    }
    let of_host = others.iter().position(|node| host_names.contains(&node.host)).unwrap_or(0);
    match (others.into_iter().nth(of_host), failure) {
        (Some(node), _) => Ok(node),
        (None, Some(failure)) => Err(failure),
        (None, None) => bail!("no node of the job {} is up on this host", directory.job()),
    }
}

/// Whether what is at the view's path is the view, where its keeper sees it; and where programs are run `by_path`, whether
/// it is seen from here and nobody else can change that.
///
/// # Errors
/// Saying what is wrong.
pub fn check_view(node: &Node, by_path: bool) -> anyhow::Result<()> {
    let place = Place::of_this().context("cannot determine the namespaces of this process")?;
    let (view, is_seen) = (node.view.path.display(), node.sees_view(place)?);
    if !by_path {
        return Ok(());
    }
    ensure!(
        is_seen || node.lets_in(place),
        "the view {view} of node {} is not visible here; run without --view",
        node.rank
    );
    let failed = || format!("programs cannot be run from the view {view} safely; use forebay run without --view");
    trusted_path::check(&node.view.path).with_context(failed)
}

/// Lets this process see the exports of `node` at their own paths. It has one thread.
///
/// # Errors
/// When that is not possible here; this process is then where it was, or to be ended.
pub fn enter(directory: &JobDirectory, node: &Node) -> anyhow::Result<()> {
    let here = std::env::current_dir().context("the current directory cannot be found")?;
    let place = Place::of_this().context("cannot determine the namespaces of this process")?;
    let socket = directory.entrance(node.rank);
    if !enter_kept(&socket, place)? {
        let _one = lock(&directory.entrance_lock(node.rank))?;
        // Another process may have made it meanwhile.
        if !enter_kept(&socket, place)? {
            make(directory, node, place)?;
        }
    }
    go_back(&here)
}

/// Lets this process, which has one thread, see the view of `node` at its own path, if its keeper has mounted it in namespaces of its own.
///
/// # Errors
/// As `enter`.
pub fn enter_home(directory: &JobDirectory, node: &Node) -> anyhow::Result<()> {
    let place = Place::of_this().context("cannot determine the namespaces of this process")?;
    if !node.lets_in(place) {
        return Ok(());
    }
    let here = std::env::current_dir().context("the current directory cannot be found")?;
    let _inside = go_home(directory, node)?;
    go_back(&here)
}

/// Enters the namespaces of the keeper; the current directory is then the root.
fn go_home(directory: &JobDirectory, node: &Node) -> anyhow::Result<Place> {
    let Answer::Enter(home) = entrance::ask(&directory.entrance(node.rank), &Request::Home)? else {
        bail!("the keeper of node {} has no namespaces of its own", node.rank);
    };
    home.enter().context("the namespaces of the node's keeper cannot be entered")?;
    // Until the kernel has asked, the root of a mount is that of a user without a number here, and nothing can be created in it.
    if let Some(root) = node.burst.as_ref().map(|burst| burst.mount.open()).transpose()?.flatten() {
        let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        statx(&root, "", how, StatxFlags::BASIC_STATS).context("the burst mount does not answer")?;
    }
    Place::of_this().context("cannot determine the namespaces of this process")
}

/// Enters the namespace that is kept for programs from `place`; `false` when there is none, or none that lets us in.
fn enter_kept(socket: &Path, place: Place) -> anyhow::Result<bool> {
    match entrance::ask(socket, &Request::Enter { place })? {
        Answer::Inside => Ok(true),
        Answer::Enter(namespace) => match namespace.enter() {
            Ok(()) => Ok(true),
            Err(error) => {
                debug!(%error, "the namespace of the node's programs cannot be entered; this process makes one of its \
                                own");
                Ok(false)
            }
        },
        _ => Ok(false),
    }
}

/// Makes the namespace and leaves it with the keeper.
fn make(directory: &JobDirectory, node: &Node, place: Place) -> anyhow::Result<()> {
    let exports = canonical(&node.exports)?;
    check_root(node, place, &exports)?;
    let view = &node.view.path;
    // Asked for from outside: the keeper's world ends at the namespace's door. So does knowing whose a directory is.
    let (is_safe, has_place) = (trusted_path::check(view), view.is_dir());
    let is_home = node.lets_in(place);
    let inside = if is_home { go_home(directory, node)? } else { place };
    let lent = match node.sees_view(inside)? {
        true => None,
        false => Some(entrance::borrow(&directory.entrance(node.rank))?),
    };
    let has_place = has_place && is_safe.is_ok();
    if node.links_lead_into_view && lent.is_none() {
        is_safe.context("links lead into the view (--links view)")?;
    }
    let namespace = if is_home { namespaces::make_at_home()? } else { namespaces::make()? };
    // In hand before anything is covered.
    let burst = node.burst.as_deref().map(|burst| attach::Burst::find(burst, node.rank)).transpose()?;
    let trees = match lent {
        None => Trees::of_view(node.view.open_or_refuse(node.rank)?),
        Some(lent) => Trees::of_lent(lent, (view, has_place), directory.path(), node.links_lead_into_view)?,
    };
    let of_burst = node.burst.iter().flat_map(|burst| [&burst.mount.path, &burst.backing]);
    let own_places: Vec<PathBuf> = [directory.path(), view.as_path()]
        .into_iter()
        .chain(of_burst.map(PathBuf::as_path))
        .map(Path::to_owned)
        .collect();
    let plan = plan::Plan::make(&exports, trees.root(), &own_places)?;
    attach::attach(&plan, &trees, burst.as_ref())?;
    let question = Request::Keep { place, namespace };
    if let Err(error) = entrance::ask(&directory.entrance(node.rank), &question) {
        eprintln!("forebay: note: this program has a namespace of its own, not shared with others: {error:#}");
    }
    Ok(())
}

fn canonical(exports: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let resolve = |export: &PathBuf| {
        export.canonicalize().with_context(|| {
            format!(
                "the export {} cannot be shown at its own path, because there is no such directory here; in a \
                 container, have an empty one made there",
                export.display()
            )
        })
    };
    let mut exports: Vec<PathBuf> = exports.iter().map(resolve).collect::<anyhow::Result<_>>()?;
    exports.sort();
    exports.dedup();
    Ok(exports)
}

/// With the whole file system exported, a container's own programs must not be replaced by the host's.
fn check_root(node: &Node, place: Place, exports: &[PathBuf]) -> anyhow::Result<()> {
    let is_whole = exports.iter().any(|export| export.parent().is_none());
    ensure!(
        !is_whole || node.place.root == place.root,
        "the job exports the whole file system of the host, and this is a container with one of its own; name the \
         directories to be shown when the job starts: forebay up --export DIR"
    );
    Ok(())
}

/// The current directory again: by its path, so that it is the one that is shown there now.
fn go_back(here: &Path) -> anyhow::Result<()> {
    std::env::set_current_dir(here).with_context(|| {
        format!(
            "the current directory {} cannot be entered where the exports are shown; if it is new, forebay refresh \
             lets the job see it",
            here.display()
        )
    })
}
