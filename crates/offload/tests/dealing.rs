//! Pieces with holders of their own, dealt to nodes that are lost or slow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use anyhow::bail;
use forebay_offload::{Dealing, Holder, Holds, HostPart, Nodes, Pieces};

/// Pieces by index, each with the nodes that hold it.
struct Held {
    ranks: Vec<Vec<u32>>,
    open: BTreeSet<usize>,
    unmade: BTreeSet<usize>,
    makers: BTreeMap<usize, Option<u32>>,
}

impl Held {
    fn by(ranks: &[&[u32]]) -> Self {
        let all: BTreeSet<usize> = (0..ranks.len()).collect();
        let ranks = ranks.iter().map(|ranks| ranks.to_vec()).collect();
        Self { ranks, open: all.clone(), unmade: all, makers: BTreeMap::new() }
    }

    fn is_for(&self, maker: Option<u32>, index: usize) -> bool {
        maker.is_none_or(|rank| self.ranks[index].contains(&rank))
    }
}

impl Pieces for Held {
    type Piece = usize;
    type Made = ();

    fn take(&mut self, maker: Option<u32>, _: &Nodes) -> Option<usize> {
        let index = self.open.iter().copied().find(|index| self.is_for(maker, *index))?;
        self.open.remove(&index);
        Some(index)
    }

    fn answered(&mut self, maker: Option<u32>, index: usize, (): ()) -> anyhow::Result<u64> {
        self.unmade.remove(&index);
        self.makers.insert(index, maker);
        Ok(1)
    }

    fn give_back(&mut self, _: Option<u32>, index: usize) {
        self.open.insert(index);
    }

    fn under_way_bytes(&self) -> u64 {
        0
    }

    fn is_done(&self) -> bool {
        self.unmade.is_empty()
    }

    fn is_done_for(&self, rank: u32) -> bool {
        !self.unmade.iter().any(|index| self.is_for(Some(rank), *index))
    }
}

fn holder(rank: u32) -> Holder {
    Holder {
        rank,
        host: format!("host{rank}"),
        holds: Holds::Device,
        generation: forebay_types::Generation::default(),
        threads: 1,
        bytes_per_s: 1.0,
        burst: (0.0, 0.0),
        data: None,
    }
}

#[test]
fn this_host_makes_pieces_that_only_a_lost_node_holds_and_no_other_node_waits_for_them() {
    let (holders, done_bytes) = ([holder(0), holder(1)], AtomicU64::new(0));
    let dealing = Dealing::new(Held::by(&[&[0], &[0], &[1], &[0, 1]]), &holders, &done_bytes);
    let ask = |holder: &Holder, _| if holder.rank == 0 { bail!("no route") } else { Ok(()) };
    // Without an end for node 1, which holds none of the first two, this would never return.
    dealing.run(&holders, HostPart::Rest, 2, ask, |_| Ok(())).unwrap();
    let (pieces, made) = dealing.finish();
    assert_eq!(pieces.makers, [(0, None), (1, None), (2, Some(1)), (3, Some(1))].into());
    assert_eq!(made.lost, ["node 0 on host0: no route"]);
    assert_eq!(done_bytes.load(Ordering::Relaxed), 4);
}

#[test]
fn a_piece_of_a_node_that_is_lost_late_goes_to_another_that_has_nothing_else_to_do() {
    let (holders, done_bytes) = ([holder(0), holder(1)], AtomicU64::new(0));
    let dealing = Dealing::new(Held::by(&[&[0, 1], &[1]]), &holders, &done_bytes);
    let (others, changed) = (Mutex::new(0), Condvar::new());
    let ask = |holder: &Holder, index| {
        let mut others = others.lock().unwrap();
        if holder.rank == 0 {
            // Node 1 has made its own piece by then.
            let _others = changed.wait_while(others, |others| *others == 0).unwrap();
            bail!("it died with piece {index}");
        }
        *others += 1;
        changed.notify_all();
        Ok(())
    };
    dealing.run(&holders, HostPart::Rest, 1, ask, |_| panic!("a node is left")).unwrap();
    let (pieces, _) = dealing.finish();
    assert_eq!(pieces.makers, [(0, Some(1)), (1, Some(1))].into());
}

/// Rows of the piece may have been taken before it failed: they must not be taken again.
#[test]
fn a_piece_that_fails_on_this_host_is_made_once_and_ends_the_query() {
    let (holders, done_bytes, made) = ([holder(0)], AtomicU64::new(0), AtomicU64::new(0));
    let dealing = Dealing::new(Held::by(&[&[0], &[0], &[0]]), &holders, &done_bytes);
    let here = |index: usize| {
        made.fetch_add(1, Ordering::Relaxed);
        bail!("piece {index} has a bad row")
    };
    let failed = dealing.run(&holders, HostPart::Rest, 1, |_, _| bail!("no route"), here).unwrap_err();
    assert_eq!(failed.to_string(), "piece 0 has a bad row");
    assert_eq!(made.into_inner(), 1);
}
