//! Extended attributes of files and directories. The tree imports those of the backing file system when a program changes one, and keeps them
//! until they have landed. Before and after that it keeps none: others may change them where they lie.

use forebay_types::{Errno, ExtendedAttributes, ExtendedRule, FileId, Kind};
use forebay_wire::write::{BURST_ROOT, Caller, Change, Done, Operation};

use super::nodes::OwnExtended;
use super::permissions::{self, WRITE};
use super::state::{Refusal, Tree};
use crate::landing::Step;
use crate::limits::{EXTENDED_BYTES_MAX, EXTENDED_NAMES_MAX};

impl Tree {
    /// The extended attributes of a file; `None` where they are those that it has on the backing file system.
    ///
    /// # Errors
    /// ESTALE.
    pub fn extended(&self, file: FileId) -> Result<Option<&ExtendedAttributes>, Errno> {
        Ok(self.node(file)?.extended.as_deref().map(|own| &own.attributes))
    }

    /// The extended attributes of a file that are to land, if any.
    #[must_use]
    pub fn extended_to_land(&self, file: FileId) -> Option<&OwnExtended> {
        self.nodes.get(&file)?.extended.as_deref()
    }

    /// The attributes that a file gets by a change; `None` where it sets none, or was carried out before.
    ///
    /// # Errors
    /// As `extended_with`.
    pub fn extended_by(&self, change: &Change) -> Result<Option<ExtendedAttributes>, Refusal> {
        match &change.operation {
            Operation::SetExtended { file, name, value: Some(value), rule } if self.results.of(change.id).is_none() => {
                self.extended_with(&change.caller, *file, (name, Some(value)), *rule).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The directory where a file got its newest name.
    #[must_use]
    pub fn directory_of(&self, file: FileId) -> Option<FileId> {
        self.nodes.get(&file).map(|node| node.directory)
    }

    /// The attributes that a file would have if the operation were carried out.
    ///
    /// # Errors
    /// The error that the program gets, or `Unread` where the attributes on the backing file system are to be imported first.
    fn extended_with(
        &self,
        caller: &Caller,
        file: FileId,
        (name, value): (&[u8], Option<&[u8]>),
        rule: ExtendedRule,
    ) -> Result<ExtendedAttributes, Refusal> {
        let node = self.node(file)?;
        // The root of the mount never lands.
        if file == BURST_ROOT || !matches!(node.attributes.kind(), Kind::File | Kind::Directory) {
            return Err(Errno::EPERM.into());
        }
        permissions::check(caller, &node.attributes, WRITE)?;
        let known = self.extended(file)?.ok_or(Refusal::Unread(file))?;
        let changed = known.with(name, value, rule)?;
        let others = self.nodes.extended_bytes() - known.bytes() as u64;
        let names = node.extended.as_deref().map_or(0, |own| own.changed.len());
        match value.is_some() && (names >= EXTENDED_NAMES_MAX || others + changed.bytes() as u64 > EXTENDED_BYTES_MAX) {
            true => Err(Errno::ENOSPC.into()),
            false => Ok(changed),
        }
    }

    pub(super) fn set_extended(
        &mut self,
        change: &Change,
        file: FileId,
        set: (&[u8], Option<&[u8]>),
        rule: ExtendedRule,
    ) -> Result<Done, Refusal> {
        let changed = self.extended_with(&change.caller, file, set, rule)?;
        let step = self.landing.end();
        self.landing.push(Step::Attributes { file });
        let node = self.node_mut(file)?;
        // They were imported before.
        let own = node.extended.get_or_insert_default();
        own.attributes = changed;
        own.changed.insert(set.0.to_vec());
        own.step = step;
        node.attributes.ctime = change.now;
        Ok(Done::File(self.state(file)?))
    }

    /// Takes those in that a file has on the backing file system, unless they are known already.
    pub(super) fn import_extended(&mut self, file: FileId, found: &ExtendedAttributes) -> Result<(), Refusal> {
        let fits = self.nodes.extended_bytes() + found.bytes() as u64 <= EXTENDED_BYTES_MAX;
        if self.node(file)?.extended.is_some() {
            return Ok(());
        }
        if !fits {
            return Err(Errno::ENOSPC.into());
        }
        self.node_mut(file)?.extended =
            Some(Box::new(OwnExtended { attributes: found.clone(), ..OwnExtended::default() }));
        Ok(())
    }

    /// A file is on the backing file system with all attributes that it had when the turn came to a step.
    pub(super) fn attributes_landed(&mut self, file: FileId, step: u64) {
        self.extended_landed(file, step);
        if let Some(node) = self.nodes.get_mut(&file) {
            node.rights_step = node.rights_step.filter(|last| *last > step);
        }
    }

    fn extended_landed(&mut self, file: FileId, step: u64) {
        let has_landed = |own: &OwnExtended| own.step <= step;
        if self.nodes.get(&file).and_then(|node| node.extended.as_deref()).is_some_and(has_landed)
            && let Some(node) = self.nodes.get_mut(&file)
        {
            node.extended = None;
        }
    }
}
