//! What the owner of the burst tree is asked, by its own node's programs and by other nodes.

use forebay_types::{Errno, FileId, NodeRank};
use forebay_wire::write::Caller;
use forebay_wire::write_message::{Entries, Question, Told};
use forebay_write::limits::LISTED_MAX;
use forebay_write::{Refusal, Tree};

use super::owner::Owner;
use super::paths::contents;
use crate::options::Copied;

/// The bit of `access(2)` for reading.
const READ: u32 = 4;

/// Which node asks.
#[derive(Clone, Copy)]
pub struct Asker {
    pub node: NodeRank,
    /// Whether it goes on believing the answer.
    pub is_leased: bool,
}

impl Owner {
    /// Answers a question. May block.
    ///
    /// # Errors
    /// What the program is told.
    pub fn tell(&self, asker: Asker, caller: &Caller, question: &Question) -> Result<Told, Errno> {
        if asker.node == self.local.rank {
            self.council.hold()?;
        }
        loop {
            match self.try_to_tell(asker, caller, question) {
                Err(Refusal::Unlisted(directory)) => self.adopt(directory)?,
                Err(Refusal::Unread(file)) => {
                    let Question::Extended { name, .. } = question else { return Err(Errno::EIO) };
                    return self.look_there(file, |there| there.told(name.as_deref())).map(Told::Extended);
                }
                Err(Refusal::Errno(errno)) => return Err(errno),
                Ok(told) => return Ok(told),
            }
        }
    }

    fn try_to_tell(&self, asker: Asker, caller: &Caller, question: &Question) -> Result<Told, Refusal> {
        if matches!(question, Question::FileSystem) {
            return Ok(Told::FileSystem(self.local.calls.serve(|| self.local.place.file_system())?));
        }
        if matches!(question, Question::Durable) {
            self.make_durable_for(asker)?;
        }
        let tree = self.tree();
        Ok(match question {
            Question::Lookup { place } => {
                self.forgetting.used(place.directory);
                self.grant(asker, &[place.directory]);
                let state = tree.lookup(caller, place)?;
                self.grant(asker, &[state.file]);
                Told::State(state)
            }
            Question::State { file } => {
                self.grant(asker, &[*file]);
                Told::State(tree.seen(*file)?)
            }
            Question::Access { file, wanted } => {
                tree.check_access(caller, *file, *wanted)?;
                Told::Nothing
            }
            Question::Target { file } => Told::Target(tree.target(*file)?.to_vec()),
            Question::List { directory } => Told::Entries(self.listing(&tree, asker, *directory)?),
            Question::Contents { file, range } => {
                self.grant(asker, &[*file]);
                Told::Contents(contents(&tree, *file, tree.pieces_for(asker.node, *file, range.clone())?)?)
            }
            Question::Seek { file, seek } => {
                Told::Contents(contents(&tree, *file, tree.seek(*file, seek)?.into_iter().collect())?)
            }
            Question::Extended { file, name } => {
                if name.is_some() {
                    tree.check_access(caller, *file, READ)?;
                }
                let known = tree.extended(*file)?.ok_or(Refusal::Unread(*file))?;
                Told::Extended(known.told(name.as_deref())?)
            }
            Question::Lock { file, request } => Told::Lock(tree.lock_in_the_way(asker.node, *file, request)),
            Question::Needed { of, is_filling } => {
                let needed = tree.needed_of(of.unwrap_or(asker.node));
                drop(tree);
                if of.is_none() {
                    self.stores.note(asker.node, *is_filling);
                }
                // A crash must not bring back a tree that needs more.
                self.make_durable_for(asker)?;
                Told::Needed(needed)
            }
            Question::NextSerial => Told::NextSerial(tree.next_serial_of(asker.node)),
            Question::Tree(known) => Told::Tree(self.tree_for(asker.node, *known, tree.number())),
            Question::Copied { file } => Told::Copied(self.is_copied(&tree, *file)),
            Question::FileSystem | Question::Durable => Told::Nothing,
        })
    }

    fn listing(&self, tree: &Tree, asker: Asker, directory: FileId) -> Result<Entries, Refusal> {
        self.forgetting.used(directory);
        let listed = tree.list(directory, None, usize::MAX)?;
        if listed.len() <= LISTED_MAX {
            let files: Vec<FileId> = listed.iter().map(|listed| listed.state.file).collect();
            self.grant(asker, &[&[directory], &files[..]].concat());
        }
        let entries = listed.into_iter().map(|listed| (listed.name, listed.state)).collect();
        Ok(Entries { own: tree.seen(directory)?, parent: tree.parent(directory)?, entries })
    }

    /// The tree's number, for a node whose log is about `known`. Where that is another, it is not the log that may have been there.
    fn tree_for(&self, node: NodeRank, known: Option<u64>, number: u64) -> u64 {
        if known != Some(number) {
            self.unverified.note(node);
        }
        number
    }

    /// Whether partners copy what is written to a file.
    fn is_copied(&self, tree: &Tree, file: FileId) -> bool {
        match self.local.copying.as_ref().map(|copying| &copying.rule) {
            Some(Copied::Below(paths)) => tree.is_below(file, paths),
            rule => rule == Some(&Copied::All),
        }
    }

    /// Programs of this node wait; other nodes ask again.
    fn make_durable_for(&self, asker: Asker) -> Result<(), Errno> {
        match asker.node == self.local.rank {
            true => self.safe.make_durable(),
            false => self.safe.make_durable_once(),
        }
    }

    /// The asking node is about to be told of `files`.
    fn grant(&self, asker: Asker, files: &[FileId]) {
        if asker.is_leased {
            let (mut leases, now) = (self.leases(), self.nodes.now());
            files.iter().for_each(|file| leases.grant(now, asker.node, *file));
        }
    }
}
