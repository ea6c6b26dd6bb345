//! Parts of several files, dealt out as one.
//!
//! Files that the same nodes can read are a group. A free node takes the next part of a file that it holds; if there is none, of one
//! that lies on the backing file system; last of one that another node keeps. This host helps the group that would take the
//! longest. Files are begun in their order and no further ahead of the first that is not delivered than a window: so few states
//! are in memory, however many files there are.

use std::collections::{BTreeMap, BTreeSet};

use forebay_query::{Part, PartState, Parts, Side, State};

use crate::messages::Holds;
use crate::pieces::{Homes, Nodes, Pieces};

/// A part of one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file.
    pub file: usize,
    /// Its part.
    pub part: Part,
}

/// A file to be dealt out.
pub struct DealtFile {
    /// Its size.
    pub bytes: u64,
    /// The group of nodes that can read it.
    pub group: usize,
    /// Which of them is to make which block, if that is known.
    pub homes: Homes,
}

/// Nodes that can read the same files: by rank, by which right, and how many bytes each parses in a second.
pub type Group = BTreeMap<u32, (Holds, f64)>;

/// A file of which all parts are made.
pub struct Finished {
    /// Which.
    pub file: usize,
    /// Its state.
    pub state: State,
    /// Of each part, whether it begins within quotes.
    pub quoted: Vec<bool>,
    /// Whether this host made parts of it.
    pub host_made: bool,
}

/// The parts of some files. Parts of a file are made by `begin` when its turn comes.
pub struct SeveralFiles<'a> {
    begin: &'a (dyn Fn(usize) -> Parts + Sync),
    files: Vec<FileState>,
    groups: Vec<GroupState>,
    /// Files, from the first that is not delivered on, that may be begun.
    window: usize,
    delivered: usize,
    /// Files that are not made.
    unmade: usize,
    /// Those of which somebody makes a part.
    under_way: BTreeSet<usize>,
    /// No answer is wanted any more, for a reason if it is to be said here.
    given_up: Option<Option<anyhow::Error>>,
}

struct FileState {
    file: DealtFile,
    parts: Option<Parts>,
    is_made: bool,
    host_made: bool,
}

struct GroupState {
    nodes: Group,
    /// Files that may have parts without a maker.
    open: BTreeSet<usize>,
    unmade: usize,
    left_bytes: u64,
}

fn side(maker: Option<u32>) -> Side {
    if maker.is_some() { Side::Nodes } else { Side::Host }
}

impl<'a> SeveralFiles<'a> {
    /// Of these files.
    pub fn new(
        files: Vec<DealtFile>,
        groups: Vec<Group>,
        window: usize,
        begin: &'a (dyn Fn(usize) -> Parts + Sync),
    ) -> Self {
        let group = |nodes| GroupState { nodes, open: BTreeSet::new(), unmade: 0, left_bytes: 0 };
        let mut groups: Vec<GroupState> = groups.into_iter().map(group).collect();
        for (index, file) in files.iter().enumerate().filter(|(_, file)| file.bytes > 0) {
            let group = &mut groups[file.group];
            group.open.insert(index);
            group.unmade += 1;
            group.left_bytes += file.bytes;
        }
        let unmade = groups.iter().map(|group| group.unmade).sum();
        let state = |file: DealtFile| {
            let is_made = file.bytes == 0;
            FileState { file, parts: None, is_made, host_made: false }
        };
        let files = files.into_iter().map(state).collect();
        let under_way = BTreeSet::new();
        Self { begin, files, groups, window: window.max(1), delivered: 0, unmade, under_way, given_up: None }
    }

    /// No answer is wanted any more.
    pub fn give_up(&mut self, reason: Option<anyhow::Error>) {
        self.given_up.get_or_insert(reason);
    }

    /// Why it was given up, if that was said.
    pub fn take_reason(&mut self) -> Option<anyhow::Error> {
        self.given_up.as_mut()?.take()
    }

    /// The next file in order, once it is made; an error if it was given up.
    pub fn deliver(&mut self) -> Option<anyhow::Result<Finished>> {
        if self.given_up.is_some() {
            return Some(Err(anyhow::anyhow!("the query was given up")));
        }
        let file = self.delivered;
        let state = self.files.get_mut(file).filter(|state| state.is_made)?;
        let parts = state.parts.take().unwrap_or_else(|| (self.begin)(file));
        let (quoted, host_made) = (parts.quoted_starts().to_vec(), state.host_made);
        self.delivered += 1;
        let finished = parts.finish().map(|state| Finished { file, state, quoted, host_made });
        Some(finished.map_err(Into::into))
    }

    /// The groups of which a maker may make parts, the best first.
    fn groups_for(&self, maker: Option<u32>, nodes: &Nodes) -> Vec<usize> {
        let open = |(_, group): &(usize, &GroupState)| group.unmade > 0;
        let groups = self.groups.iter().enumerate().filter(open);
        let mut found: Vec<(f64, usize)> = match maker {
            Some(rank) => groups.filter_map(|(index, group)| Some((group.preference(rank, nodes)?, index))).collect(),
            None => groups.map(|(index, group)| (-group.seconds_left(nodes), index)).collect(),
        };
        let first = |group: usize| self.groups[group].open.first().copied().unwrap_or(usize::MAX);
        found.sort_by(|left, right| left.0.total_cmp(&right.0).then_with(|| first(left.1).cmp(&first(right.1))));
        found.into_iter().map(|(_, group)| group).collect()
    }

    fn take_of(&mut self, group: usize, maker: Option<u32>, nodes: &Nodes) -> Option<FilePart> {
        let end = self.delivered + self.window;
        let mut after = None;
        loop {
            let open = &self.groups[group].open;
            let file = match after {
                None => open.first().copied(),
                Some(after) => open.range(after + 1..).next().copied(),
            };
            let file = file.filter(|file| *file < end)?;
            let state = &mut self.files[file];
            let parts = state.parts.get_or_insert_with(|| (self.begin)(file));
            let homes = &state.file.homes;
            if let Some(part) = parts.take_if(side(maker), |block| homes.allow(maker, block, nodes)) {
                self.under_way.insert(file);
                return Some(FilePart { file, part });
            }
            // Any other maker could take none, either; but for those whose own blocks are left.
            if !homes.are_known() {
                self.groups[group].open.remove(&file);
            }
            after = Some(file);
        }
    }
}

impl GroupState {
    /// How much a node is to be preferred for its files, the least first; None if it cannot read them.
    fn preference(&self, rank: u32, nodes: &Nodes) -> Option<f64> {
        let keeps = |(rank, (holds, _)): (&u32, &(Holds, f64))| *holds != Holds::Backing && nodes.contains(rank);
        match self.nodes.get(&rank)?.0 {
            Holds::Device | Holds::Burst | Holds::Cache => Some(0.0),
            Holds::Backing if !self.nodes.iter().any(keeps) => Some(1.0),
            Holds::Backing => Some(2.0),
        }
    }

    /// How long the nodes that are left take for what is left.
    fn seconds_left(&self, nodes: &Nodes) -> f64 {
        let left = self.nodes.iter().filter(|(rank, _)| nodes.contains(rank));
        self.left_bytes as f64 / left.map(|(_, (_, bytes_per_s))| bytes_per_s).sum::<f64>().max(1e-9)
    }

    fn is_lost(&self, nodes: &Nodes) -> bool {
        !self.nodes.keys().any(|rank| nodes.contains(rank))
    }
}

impl Pieces for SeveralFiles<'_> {
    type Piece = FilePart;
    type Made = PartState;

    fn take(&mut self, maker: Option<u32>, nodes: &Nodes) -> Option<FilePart> {
        self.groups_for(maker, nodes).into_iter().find_map(|group| self.take_of(group, maker, nodes))
    }

    fn take_again(&mut self, maker: Option<u32>, nodes: &Nodes) -> Option<FilePart> {
        self.under_way.iter().find_map(|file| {
            let FileState { file: DealtFile { group, homes, .. }, parts, .. } = &mut self.files[*file];
            if maker.is_some_and(|rank| !self.groups[*group].nodes.contains_key(&rank)) {
                return None;
            }
            let part = parts.as_mut()?.take_again(side(maker), |block| homes.allow(maker, block, nodes))?;
            Some(FilePart { file: *file, part })
        })
    }

    fn take_rest(&mut self, nodes: &Nodes) -> Option<FilePart> {
        let lost = (0..self.groups.len()).filter(|group| self.groups[*group].is_lost(nodes));
        lost.collect::<Vec<_>>().into_iter().find_map(|group| self.take_of(group, None, nodes))
    }

    fn answered(&mut self, maker: Option<u32>, piece: FilePart, made: PartState) -> anyhow::Result<u64> {
        let FileState { file, parts, is_made, host_made } = &mut self.files[piece.file];
        // One that is delivered was made by somebody else.
        let Some(parts) = parts.as_mut().filter(|_| !*is_made) else { return Ok(0) };
        let bytes = parts.answered(piece.part.index, made)?;
        let group = &mut self.groups[file.group];
        group.left_bytes = group.left_bytes.saturating_sub(bytes);
        *host_made |= maker.is_none() && bytes > 0;
        *is_made = parts.is_done();
        if *is_made || parts.under_way_bytes() == 0 {
            self.under_way.remove(&piece.file);
        }
        if *is_made {
            group.open.remove(&piece.file);
            group.unmade -= 1;
            self.unmade -= 1;
        } else {
            // One that was made for the other case is open again.
            group.open.insert(piece.file);
        }
        Ok(bytes)
    }

    fn give_back(&mut self, maker: Option<u32>, piece: FilePart) {
        let FileState { file, parts, is_made, .. } = &mut self.files[piece.file];
        let Some(parts) = parts.as_mut().filter(|_| !*is_made) else { return };
        parts.give_back(piece.part.index, side(maker));
        self.groups[file.group].open.insert(piece.file);
    }

    fn under_way_bytes(&self) -> u64 {
        let parts = self.under_way.iter().filter_map(|file| self.files[*file].parts.as_ref());
        parts.map(Parts::under_way_bytes).sum()
    }

    fn is_done(&self) -> bool {
        self.given_up.is_some() || self.unmade == 0
    }

    fn is_done_for(&self, rank: u32) -> bool {
        self.is_done() || !self.groups.iter().any(|group| group.unmade > 0 && group.nodes.contains_key(&rank))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use forebay_query::limits::BLOCK_BYTES;
    use forebay_query::{Partials, Quotes};

    use super::*;

    const BLOCKS: u64 = 3;

    fn parts(_: usize) -> Parts {
        Parts::by_block(BLOCKS * BLOCK_BYTES, State::default())
    }

    fn group(nodes: &[(u32, Holds)]) -> Group {
        nodes.iter().map(|(rank, holds)| (*rank, (*holds, 1.0))).collect()
    }

    /// Files of three blocks, each of a group.
    fn files(groups: &[Group], of_files: &[usize], window: usize) -> SeveralFiles<'static> {
        let file = |group: &usize| DealtFile { bytes: BLOCKS * BLOCK_BYTES, group: *group, homes: Homes::default() };
        SeveralFiles::new(of_files.iter().map(file).collect(), groups.to_vec(), window, &parts)
    }

    fn made(part: Part) -> PartState {
        let mut partials = Partials::default();
        let state = |_| State { bytes: BLOCK_BYTES, ..State::default() };
        (part.first..part.first + u64::from(part.blocks)).for_each(|at| partials.add(at, state(at)).unwrap());
        PartState { quotes: Quotes::None, unquoted: Some(partials), quoted: None }
    }

    /// The files of which a maker takes parts until there are none for it.
    fn taken(files: &mut SeveralFiles<'_>, maker: Option<u32>, nodes: &[u32]) -> Vec<FilePart> {
        let nodes = nodes.iter().copied().collect();
        std::iter::from_fn(|| files.take(maker, &nodes)).collect()
    }

    fn numbers(taken: &[FilePart]) -> Vec<usize> {
        taken.iter().map(|piece| piece.file).collect()
    }

    #[test]
    fn each_device_takes_parts_of_its_own_files_whatever_comes_before_them() {
        let own = [group(&[(1, Holds::Device)]), group(&[(2, Holds::Device)])];
        let mut files = files(&own, &[0, 0, 1, 0], 10);
        let first = files.take(Some(1), &[1, 2].into()).unwrap();
        assert_eq!((first.file, numbers(&taken(&mut files, Some(2), &[1, 2]))), (0, vec![2; 3]));
        assert_eq!(numbers(&taken(&mut files, Some(1), &[1, 2])), [0, 0, 1, 1, 1, 3, 3, 3]);
        assert_eq!(files.take(Some(3), &[1, 2, 3].into()), None, "it holds none");
        assert!(files.is_done_for(3) && !files.is_done_for(2));
    }

    #[test]
    fn a_node_prefers_what_it_keeps_and_leaves_what_others_keep_to_the_end() {
        let backing = |keeper: u32| {
            let holds = |rank| if rank == keeper { Holds::Cache } else { Holds::Backing };
            group(&[(1, holds(1)), (2, holds(2))])
        };
        let mut files = files(&[backing(2), backing(0), backing(1)], &[0, 1, 2], 10);
        assert_eq!(numbers(&taken(&mut files, Some(1), &[1, 2])), [2, 2, 2, 1, 1, 1, 0, 0, 0]);
        let nodes: Nodes = [1, 2].into();
        assert_eq!(files.take_again(Some(2), &nodes), None, "nodes make nothing twice");
        assert_eq!(files.take_again(None, &nodes).map(|piece| piece.file), Some(0));
    }

    #[test]
    fn this_host_makes_what_no_node_is_left_for_and_helps_where_most_is_left() {
        let groups = [group(&[]), group(&[(1, Holds::Device)]), group(&[(2, Holds::Device)])];
        let mut files = files(&groups, &[1, 2, 2, 0], 10);
        let rest = |files: &mut SeveralFiles<'_>, nodes: &[u32]| {
            let nodes = nodes.iter().copied().collect();
            numbers(&std::iter::from_fn(|| files.take_rest(&nodes)).collect::<Vec<_>>())
        };
        assert_eq!(rest(&mut files, &[1, 2]), [3; 3], "no node holds it");
        let lost = files.take(Some(1), &[1, 2].into()).unwrap();
        files.give_back(Some(1), lost);
        assert_eq!(rest(&mut files, &[2]), [0; 3]);
        assert_eq!(numbers(&taken(&mut files, None, &[1, 2])), [1, 1, 1, 2, 2, 2]);
        let mut even = super::tests::files(&groups[1..], &[0, 1, 1], 10);
        assert_eq!(even.take(None, &[1, 2].into()).map(|piece| piece.file), Some(1), "node 2 has more to do");
    }

    #[test]
    fn files_are_delivered_in_order_and_begun_within_the_window() {
        let own = [group(&[(1, Holds::Device)]), group(&[(2, Holds::Device)])];
        let mut files = files(&own, &[0, 1, 1], 2);
        let second = taken(&mut files, Some(2), &[1, 2]);
        assert_eq!(numbers(&second), [1; 3], "the third is beyond the window");
        let first = taken(&mut files, Some(1), &[1, 2]);
        let answer = |files: &mut SeveralFiles<'_>, pieces: &[FilePart]| {
            pieces.iter().map(|piece| files.answered(Some(1), *piece, made(piece.part)).unwrap()).sum::<u64>()
        };
        assert_eq!(answer(&mut files, &second), BLOCKS * BLOCK_BYTES);
        assert!(files.deliver().is_none(), "the first is missing");
        let host = files.take_again(None, &[1, 2].into()).unwrap();
        assert_eq!((files.under_way_bytes(), answer(&mut files, &first)), (BLOCKS * BLOCK_BYTES, BLOCKS * BLOCK_BYTES));
        assert_eq!(answer(&mut files, &[host]), 0, "it was made before");
        let delivered = |files: &mut SeveralFiles<'_>| files.deliver().map(|finished| finished.unwrap().file);
        assert_eq!([0; 3].map(|_| delivered(&mut files)), [Some(0), Some(1), None]);
        assert_eq!((answer(&mut files, &[host]), files.is_done()), (0, false));
        let third = taken(&mut files, Some(2), &[1, 2]);
        assert_eq!((numbers(&third), answer(&mut files, &third)), (vec![2; 3], BLOCKS * BLOCK_BYTES));
        assert!(files.is_done() && delivered(&mut files) == Some(2));
    }

    #[test]
    fn a_block_goes_to_its_home_and_an_empty_file_needs_nobody() {
        let homes = Homes(vec![(0, Some(2)), (1, Some(1)), (2, None)]);
        let file = |bytes, homes| DealtFile { bytes, group: 0, homes };
        let group = group(&[(1, Holds::Burst), (2, Holds::Burst)]);
        let begin = |file: usize| if file == 0 { Parts::by_block(0, State::default()) } else { parts(file) };
        let all = vec![file(0, Homes::default()), file(BLOCKS * BLOCK_BYTES, homes)];
        let mut files = SeveralFiles::new(all, vec![group], 10, &begin);
        assert_eq!(files.deliver().unwrap().unwrap().state, State::default());
        let firsts = |taken: Vec<FilePart>| taken.iter().map(|piece| piece.part.first).collect::<Vec<_>>();
        assert_eq!(firsts(taken(&mut files, Some(1), &[1, 2])), [1, 2]);
        assert_eq!(firsts(taken(&mut files, Some(1), &[1])), [0], "its home is lost");
        files.give_up(Some(anyhow::anyhow!("it changed")));
        assert!(files.is_done() && files.deliver().unwrap().is_err());
        assert_eq!(files.take_reason().map(|reason| reason.to_string()).as_deref(), Some("it changed"));
    }
}
