//! A collective read: every rank tells the aggregators what it wants of their file domains; they read it in few large
//! requests, round by round, and send each rank its bytes. The reverse of `exchange`.
//!
//! An aggregator reads across small gaps, since a gap costs less than a request. One that cannot read sends zeros and says
//! so at the end, so that no rank waits for ever.

use crate::error::Error;
use crate::group::{Group, Message};
use crate::message::{EXTENT_BYTES, NUMBER_BYTES, Reader, put, put_extent};
use crate::outcome::Fault;
use crate::plan::{Part, Plan};
use crate::storage::Storage;
use crate::view::Extent;

/// Bytes that nobody wants and that are read rather than asked around: what a disk or a network moves in the time that
/// a request takes (1 GB/s and some 60 microseconds).
const GAP_MAX_BYTES: u64 = 64 << 10;

/// The bytes that a rank has read.
#[derive(Debug)]
pub struct Received {
    /// The bytes, in the order of the extents; zeros where there is no file.
    pub bytes: Vec<u8>,
    /// Where the file ended, as far as anybody noticed.
    pub file_end: u64,
    /// The error of this rank.
    pub fault: Option<Fault>,
}

/// A part of what this rank wants, and where in its bytes it goes.
struct Wanted {
    part: Part,
    at: usize,
}

/// Requests of one rank to this aggregator: extents by round.
struct Customer {
    peer: usize,
    parts: Vec<(usize, Extent)>,
}

/// Reads extents, which ascend, by the plan.
///
/// # Errors
/// [`Error::Communication`] and [`Error::Message`]: the ranks are out of step.
pub fn read<G: Group>(group: &G, plan: &Plan, extents: &[Extent], storage: &mut Storage) -> Result<Received, Error> {
    let wanted = wanted(plan, extents)?;
    let customers = order(group, plan, &wanted)?;
    let total: u64 = extents.iter().map(|extent| extent.len).sum();
    let mut received = Received { bytes: vec![0; total as usize], file_end: u64::MAX, fault: None };
    let mut left = wanted.as_slice();
    let mut under_way: Option<(G::Exchange, &[Wanted])> = None;
    for round in 0..plan.rounds {
        let sends = replies(round, &customers, storage, &mut received.fault);
        let (now, rest) = left.split_at(left.partition_point(|each| each.part.round <= round));
        left = rest;
        let rows = now.chunk_by(|one, next| one.part.domain == next.part.domain);
        let len = |row: &[Wanted]| NUMBER_BYTES + row.iter().map(|each| each.part.extent.len as usize).sum::<usize>();
        let receives =
            rows.map(|row| Message { peer: plan.aggregators[row[0].part.domain], bytes: vec![0; len(row)] }).collect();
        let exchange = group.begin(sends, receives)?;
        if let Some((exchange, rows)) = under_way.replace((exchange, now)) {
            take(&group.finish(exchange)?, rows, &mut received)?;
        }
    }
    if let Some((exchange, rows)) = under_way {
        take(&group.finish(exchange)?, rows, &mut received)?;
    }
    Ok(received)
}

/// The parts of the extents, ordered by round, then by domain.
fn wanted(plan: &Plan, extents: &[Extent]) -> Result<Vec<Wanted>, Error> {
    let (mut wanted, mut at) = (vec![], 0);
    for extent in extents {
        plan.cut(*extent, |part| {
            wanted.push(Wanted { part, at });
            at += part.extent.len as usize;
        })?;
    }
    wanted.sort_by_key(|each| (each.part.round, each.part.domain));
    Ok(wanted)
}

/// Tells every aggregator what this rank wants, and learns, at an aggregator, what the others want.
fn order<G: Group>(group: &G, plan: &Plan, wanted: &[Wanted]) -> Result<Vec<Customer>, Error> {
    let mut orders = vec![vec![]; plan.aggregators.len()];
    for Wanted { part, .. } in wanted {
        put(&mut orders[part.domain], part.round as u64);
        put_extent(&mut orders[part.domain], part.extent);
    }
    let senders = plan.domains_of(group.rank()).flat_map(|_| 0..group.size());
    let to = |domain: usize| plan.aggregators[domain];
    let len = |order: &Vec<u8>| (order.len() as u64).to_le_bytes().to_vec();
    let lens = orders.iter().enumerate().map(|(domain, order)| Message { peer: to(domain), bytes: len(order) });
    let receives = senders.map(|peer| Message { peer, bytes: vec![0; NUMBER_BYTES] }).collect();
    let lens = group.finish(group.begin(lens.collect(), receives)?)?;
    let mut receives = vec![];
    for Message { peer, bytes } in lens {
        let len = usize::try_from(Reader::new(&bytes).number()?).map_err(|_| Error::Message)?;
        if len > 0 {
            receives.push(Message { peer, bytes: vec![0; len] });
        }
    }
    let sends = orders.into_iter().enumerate().map(|(domain, bytes)| Message { peer: to(domain), bytes });
    let sends = sends.filter(|message| !message.bytes.is_empty()).collect();
    let orders = group.finish(group.begin(sends, receives)?)?;
    orders.iter().map(customer).collect()
}

fn customer(order: &Message) -> Result<Customer, Error> {
    let mut reader = Reader::new(&order.bytes);
    let mut parts = vec![];
    while reader.left() >= NUMBER_BYTES + EXTENT_BYTES {
        parts.push((usize::try_from(reader.number()?).map_err(|_| Error::Message)?, reader.extent()?));
    }
    let in_order = parts.windows(2).all(|pair| pair[0].0 <= pair[1].0);
    if in_order && reader.left() == 0 { Ok(Customer { peer: order.peer, parts }) } else { Err(Error::Message) }
}

impl Customer {
    fn of_round(&self, round: usize) -> &[(usize, Extent)] {
        let start = self.parts.partition_point(|(of, _)| *of < round);
        let end = self.parts.partition_point(|(of, _)| *of <= round);
        &self.parts[start..end]
    }
}

/// Reads what is wanted in a round, and makes a message for each rank that wants any of it.
fn replies(round: usize, customers: &[Customer], storage: &mut Storage, fault: &mut Option<Fault>) -> Vec<Message> {
    let parts = customers.iter().flat_map(|customer| customer.of_round(round));
    let mut extents: Vec<Extent> = parts.map(|(_, extent)| *extent).collect();
    extents.sort_unstable();
    let mut runs: Vec<(Extent, Vec<u8>)> = vec![];
    for extent in extents {
        match runs.last_mut() {
            Some((run, _)) if extent.offset <= run.end().saturating_add(GAP_MAX_BYTES) => {
                run.len = run.len.max(extent.end() - run.offset);
            }
            _ => runs.push((extent, vec![])),
        }
    }
    let mut file_end = u64::MAX;
    for (run, bytes) in &mut runs {
        bytes.resize(run.len as usize, 0);
        match storage.read(run.offset, bytes) {
            Ok(read) if read < bytes.len() => file_end = file_end.min(run.offset + read as u64),
            Ok(_) => {}
            Err(error) => {
                fault.get_or_insert(Fault { errno: error.errno(), round: round as u64, missing: *run });
            }
        }
    }
    let reply = |customer: &Customer| {
        let mut bytes = vec![];
        put(&mut bytes, file_end);
        for (_, extent) in customer.of_round(round) {
            // Each extent is part of the run that begins at or before it.
            let (run, read) = &runs[runs.partition_point(|(run, _)| run.offset <= extent.offset) - 1];
            bytes.extend_from_slice(&read[(extent.offset - run.offset) as usize..][..extent.len as usize]);
        }
        Message { peer: customer.peer, bytes }
    };
    customers.iter().filter(|customer| !customer.of_round(round).is_empty()).map(reply).collect()
}

/// Puts what has come where it belongs.
fn take(messages: &[Message], wanted: &[Wanted], received: &mut Received) -> Result<(), Error> {
    let rows = wanted.chunk_by(|one, next| one.part.domain == next.part.domain);
    for (message, row) in messages.iter().zip(rows) {
        let mut reader = Reader::new(&message.bytes);
        received.file_end = received.file_end.min(reader.number()?);
        for each in row {
            let bytes = reader.bytes(each.part.extent.len)?;
            received.bytes[each.at..each.at + bytes.len()].copy_from_slice(bytes);
        }
    }
    Ok(())
}
