//! A collective write: every rank sends its held bytes to the aggregators of their file domains, round by round, and each
//! aggregator writes what has come as few large requests.
//!
//! While an aggregator writes one round, the next one is already under way to it. Holes stay holes: only bytes that a rank
//! wrote are written, so that nobody else's bytes are ever read and put back. An aggregator that cannot write goes on
//! receiving, so that no rank waits for ever; what is missing is said at the end (`outcome`).

use crate::error::Error;
use crate::group::{Group, Message};
use crate::held_calls::{HeldCalls, HeldPiece};
use crate::message::{EXTENT_BYTES, NUMBER_BYTES, Reader, put, put_extent};
use crate::outcome::Fault;
use crate::plan::{Part, Plan};
use crate::storage::Storage;
use crate::view::Extent;

/// Bytes that a rank writes by itself in one request at most, where its pieces touch each other in the file only.
const GATHER_MAX_BYTES: u64 = 16 << 20;

/// Bytes of a row that an aggregator puts together and writes: what stays in a processor's cache meanwhile.
const ROW_BYTES: u64 = 1 << 20;

/// A part of the held bytes, and where it is among them.
struct Outgoing {
    part: Part,
    at: usize,
}

impl Outgoing {
    fn bytes<'a>(&self, held: &'a HeldCalls) -> &'a [u8] {
        &held.bytes()[self.at..][..self.part.extent.len as usize]
    }
}

/// Writes the held bytes of all ranks by the plan. Returns what went wrong at this rank.
///
/// # Errors
/// [`Error::Communication`] and [`Error::Message`]: the ranks are out of step.
pub fn write<G: Group>(
    group: &G,
    plan: &Plan,
    held: &HeldCalls,
    storage: &mut Storage,
) -> Result<Option<Fault>, Error> {
    let outgoing = outgoing(plan, &held.in_file_order())?;
    let incoming = announce(group, plan, &outgoing)?;
    let mut outgoing = outgoing.as_slice();
    let (mut fault, mut received, mut own) = (None, vec![], vec![]);
    for round in 0..plan.rounds {
        let (kept, sent): (Vec<_>, Vec<_>) =
            take_round(&mut outgoing, plan, round).into_iter().partition(|(peer, _)| *peer == group.rank());
        let sends = messages_of(sent, held.bytes());
        let receives = incoming.iter().map(|(peer, lens)| Message { peer: *peer, bytes: vec![0; lens[round]] });
        let exchange = group.begin(sends, receives.filter(|message| !message.bytes.is_empty()).collect())?;
        write_round(round.wrapping_sub(1), &received, &own, storage, &mut fault)?;
        own = kept.into_iter().flat_map(|(_, row)| row).map(|each| (each.part.extent, each.bytes(held))).collect();
        received = group.finish(exchange)?;
    }
    write_round(plan.rounds - 1, &received, &own, storage, &mut fault)?;
    Ok(fault)
}

/// The parts of the pieces, ordered by round, then by domain, then by their place in the file.
fn outgoing(plan: &Plan, pieces: &[HeldPiece]) -> Result<Vec<Outgoing>, Error> {
    let mut outgoing = vec![];
    for piece in pieces {
        let at = |extent: Extent| piece.at + (extent.offset - piece.extent.offset) as usize;
        plan.cut(piece.extent, |part| outgoing.push(Outgoing { part, at: at(part.extent) }))?;
    }
    outgoing.sort_by_key(|each| (each.part.round, each.part.domain));
    Ok(outgoing)
}

/// Tells every aggregator how long this rank's messages of all rounds are. Returns, at an aggregator, those of each rank that
/// has any, domain by domain: the order in which the ranks send them.
fn announce<G: Group>(group: &G, plan: &Plan, outgoing: &[Outgoing]) -> Result<Vec<(usize, Vec<usize>)>, Error> {
    let mut lens = vec![vec![0u64; plan.rounds]; plan.aggregators.len()];
    // A rank keeps what is for itself.
    for Outgoing { part, .. } in outgoing.iter().filter(|each| plan.aggregators[each.part.domain] != group.rank()) {
        let len = &mut lens[part.domain][part.round];
        *len += EXTENT_BYTES as u64 + part.extent.len + if *len == 0 { NUMBER_BYTES as u64 } else { 0 };
    }
    let announcement = |lens: &Vec<u64>| lens.iter().flat_map(|len| len.to_le_bytes()).collect();
    let sends =
        plan.aggregators.iter().zip(&lens).map(|(peer, lens)| Message { peer: *peer, bytes: announcement(lens) });
    let senders = plan.domains_of(group.rank()).flat_map(|_| 0..group.size());
    let receives = senders.map(|peer| Message { peer, bytes: vec![0; plan.rounds * NUMBER_BYTES] }).collect();
    let announced = group.finish(group.begin(sends.collect(), receives)?)?;
    let mut incoming = vec![];
    for Message { peer, bytes } in announced {
        let mut reader = Reader::new(&bytes);
        let lens: Result<Vec<usize>, Error> =
            (0..plan.rounds).map(|_| usize::try_from(reader.number()?).map_err(|_| Error::Message)).collect();
        incoming.push((peer, lens?));
    }
    incoming.retain(|(_, lens)| lens.iter().any(|len| *len > 0));
    Ok(incoming)
}

/// Takes the parts of a round from the front, one row for each aggregator that gets any.
fn take_round<'a>(outgoing: &mut &'a [Outgoing], plan: &Plan, round: usize) -> Vec<(usize, &'a [Outgoing])> {
    let end = outgoing.partition_point(|each| each.part.round <= round);
    let (now, rest) = outgoing.split_at(end);
    *outgoing = rest;
    let rows = now.chunk_by(|one, next| one.part.domain == next.part.domain);
    rows.map(|row| (plan.aggregators[row[0].part.domain], row)).collect()
}

fn messages_of(rows: Vec<(usize, &[Outgoing])>, held: &[u8]) -> Vec<Message> {
    let message = |(peer, row): (usize, &[Outgoing])| {
        let total: usize = row.iter().map(|each| EXTENT_BYTES + each.part.extent.len as usize).sum();
        let mut bytes = Vec::with_capacity(NUMBER_BYTES + total);
        put(&mut bytes, row.len() as u64);
        row.iter().for_each(|each| put_extent(&mut bytes, each.part.extent));
        row.iter().for_each(|each| bytes.extend_from_slice(&held[each.at..][..each.part.extent.len as usize]));
        Message { peer, bytes }
    };
    rows.into_iter().map(message).collect()
}

/// Writes what has come in a round, and the aggregator's own, unless an earlier one went wrong.
fn write_round(
    round: usize,
    messages: &[Message],
    own: &[(Extent, &[u8])],
    storage: &mut Storage,
    fault: &mut Option<Fault>,
) -> Result<(), Error> {
    let mut pieces = own.to_vec();
    for message in messages {
        let mut reader = Reader::new(&message.bytes);
        let count = reader.number()?;
        if count > (reader.left() / EXTENT_BYTES) as u64 {
            return Err(Error::Message);
        }
        let extents: Result<Vec<Extent>, Error> = (0..count).map(|_| reader.extent()).collect();
        for extent in extents? {
            pieces.push((extent, reader.bytes(extent.len)?));
        }
    }
    write_pieces(round as u64, pieces, storage, fault);
    Ok(())
}

/// Writes pieces of a file, those that touch or overlap by one request, or by one for so many stripes as stay in a processor's cache
/// while they are put together and written.
fn write_pieces(round: u64, mut pieces: Vec<(Extent, &[u8])>, storage: &mut Storage, fault: &mut Option<Fault>) {
    // Of ranks that wrote the same byte any may win (MPI 4.0, 14.6.1); a stable order makes it the same one each time.
    pieces.sort_by_key(|(extent, _)| extent.offset);
    let pieces = cut_at_rows(pieces, storage);
    let mut row = vec![];
    let mut rest = pieces.as_slice();
    while let Some((first, bytes)) = rest.first() {
        let stop = storage.row_end(first.offset, ROW_BYTES);
        let mut end = first.end();
        let mut count = 1;
        // A row ends on the boundary, or where pieces that overlap each other do.
        while let Some((next, _)) =
            rest.get(count).filter(|(next, _)| next.offset < end || (next.offset == end && end < stop))
        {
            end = end.max(next.end());
            count += 1;
        }
        let run = Extent { offset: first.offset, len: end - first.offset };
        let written = if count == 1 {
            write_run(run, bytes, storage, fault.is_some())
        } else {
            row.clear();
            for (extent, bytes) in &rest[..count] {
                let at = (extent.offset - run.offset) as usize;
                let (over, new) = bytes.split_at(bytes.len().min(row.len() - at));
                row[at..at + over.len()].copy_from_slice(over);
                row.extend_from_slice(new);
            }
            write_run(run, &row, storage, fault.is_some())
        };
        note(fault, round, run, written);
        rest = &rest[count..];
    }
}

/// Cuts pieces that are shorter than a row where a row ends, so that rows end on stripe boundaries.
fn cut_at_rows<'a>(pieces: Vec<(Extent, &'a [u8])>, storage: &Storage) -> Vec<(Extent, &'a [u8])> {
    let mut cut = Vec::with_capacity(pieces.len());
    for (extent, bytes) in pieces {
        let stop = storage.row_end(extent.offset, ROW_BYTES);
        if extent.len < ROW_BYTES && extent.end() > stop {
            let (one, other) = bytes.split_at((stop - extent.offset) as usize);
            cut.push((Extent { len: one.len() as u64, ..extent }, one));
            cut.push((Extent { offset: stop, len: other.len() as u64 }, other));
        } else {
            cut.push((extent, bytes));
        }
    }
    // The second part of an overlapping piece may lie behind the first of the next.
    cut.sort_by_key(|(extent, _)| extent.offset);
    cut
}

fn write_run(run: Extent, bytes: &[u8], storage: &mut Storage, has_failed: bool) -> Result<(), Error> {
    if has_failed { Ok(()) } else { storage.write(run.offset, bytes) }
}

/// Notes what is missing in the file: from the first run that failed to the last that came after it.
fn note(fault: &mut Option<Fault>, round: u64, run: Extent, written: Result<(), Error>) {
    match (fault, written) {
        (Some(fault), _) => {
            let start = fault.missing.offset.min(run.offset);
            fault.missing = Extent { offset: start, len: fault.missing.end().max(run.end()) - start };
        }
        (none, Err(error)) => *none = Some(Fault { errno: error.errno(), round, missing: run }),
        _ => {}
    }
}

/// Writes the held bytes of this rank alone, without any other rank.
#[must_use]
pub fn write_own(held: &HeldCalls, storage: &mut Storage) -> Option<Fault> {
    let pieces = held.in_file_order();
    let mut fault = None;
    let mut bytes_of_row = 0;
    let same_row = |one: &HeldPiece, _: &HeldPiece| {
        bytes_of_row += one.extent.len;
        if bytes_of_row > GATHER_MAX_BYTES {
            bytes_of_row = 0;
        }
        bytes_of_row > 0
    };
    for row in pieces.chunk_by(same_row) {
        let bytes = |piece: &HeldPiece| &held.bytes()[piece.at..][..piece.extent.len as usize];
        write_pieces(0, row.iter().map(|piece| (piece.extent, bytes(piece))).collect(), storage, &mut fault);
    }
    fault
}
