//! Flows that share links max-min fairly.
//!
//! A flow has a route; the flows on a link share its rate so that none can have more without one that has no more getting
//! less. Rates change only when a flow begins or ends, and only in the part of the network that is connected with it by
//! links that flows share: that part alone is computed anew, by filling its links from the scarcest on. Nor do flows change
//! that are slower than all that began or ended: links fill in the order of their flows' rates, so what happened to a faster
//! one came later than theirs. They are left alone too, which keeps most events small.
//!
//! Flows of one route that began together are one flow of several members, which may have different numbers of bytes: they
//! share alike until the smaller ones end. Events closer to each other than rounding errors are one.
//!
//! # Usage
//! Time is the caller's, and does not run backwards. `begin` flows, then `share` once; `next_end` says when something ends;
//! at that time `end` gives what has ended. All flows that begin or end at one time are shared once.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Rates that differ by less, relatively, are the same: they come from the same sums in another order.
const SAME: f64 = 1e-12;

/// How far a rate may be off, relatively, by rounding: many sums of rates that nearly cancel out.
const ROUNDING: f64 = 1e-7;

/// A number of seconds or bytes per second, with an order. No such number here is NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ordered(pub f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Members of a flow by their bytes: so many bytes each, so many members, fewest bytes first.
pub type Steps = Vec<(u64, u32)>;

/// All flows, with what their caller calls them by.
#[derive(Debug)]
pub struct Fluid<T> {
    links: Vec<Link>,
    flows: Vec<Flow<T>>,
    /// A slot stands for a flow on a link; a flow's slots lie one after the other.
    slots: Vec<Slot>,
    /// Links over which something began or ended.
    dirty: Vec<u32>,
    /// Flows that began.
    begun: Vec<u32>,
    /// The least rate of what ended. Slower flows are not concerned.
    level: f64,
    ends: BinaryHeap<Reverse<(Ordered, u32, u32)>>,
    /// Counts computations of rates: what a mark equals was met in the last one.
    pass: u32,
    part: Part,
    #[cfg(test)]
    computed: u64,
}

#[derive(Debug)]
struct Link {
    rate: f64,
    /// Slots of the flows that move over it.
    slots: Vec<u32>,
    members: f64,
    mark: u32,
    /// While rates are computed: what is not given away yet, and how many members still wait for some of it.
    left: f64,
    waiting: f64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    flow: u32,
    link: u32,
    /// Where it stands in the link's list.
    place: u32,
}

#[derive(Debug)]
struct Flow<T> {
    tag: T,
    first_slot: u32,
    slot_count: u32,
    steps: Steps,
    /// Steps that have ended.
    step: usize,
    members: f64,
    rate: f64,
    /// Bytes that each member has moved, at the time `since`.
    moved: f64,
    since: f64,
    /// Ends that were foretold with another version are void.
    version: u32,
    mark: u32,
    is_foretold: bool,
    is_fixed: bool,
}

impl<T> Flow<T> {
    fn slots(&self) -> std::ops::Range<usize> {
        self.first_slot as usize..(self.first_slot + self.slot_count) as usize
    }
}

/// The part of the network that is computed anew, kept for its memory.
#[derive(Debug, Default)]
struct Part {
    links: Vec<u32>,
    flows: Vec<u32>,
    scarcest: BinaryHeap<Reverse<(Ordered, u32)>>,
}

impl<T: Copy> Fluid<T> {
    /// Links with these rates, bytes per second.
    #[must_use]
    pub fn new(rates: &[f64]) -> Self {
        let link = |rate: &f64| Link { rate: *rate, slots: vec![], members: 0.0, mark: 0, left: 0.0, waiting: 0.0 };
        Self {
            links: rates.iter().map(link).collect(),
            flows: vec![],
            slots: vec![],
            dirty: vec![],
            begun: vec![],
            level: f64::INFINITY,
            ends: BinaryHeap::new(),
            pass: 0,
            part: Part::default(),
            #[cfg(test)]
            computed: 0,
        }
    }

    /// A flow begins to move over at least one link.
    pub fn begin(&mut self, now: f64, tag: T, route: &[u32], steps: Steps) {
        let flow = self.flows.len() as u32;
        let members = steps.iter().map(|(_, members)| f64::from(*members)).sum();
        let first_slot = self.slots.len() as u32;
        for &link in route {
            let to = &mut self.links[link as usize];
            self.slots.push(Slot { flow, link, place: to.slots.len() as u32 });
            to.slots.push((self.slots.len() - 1) as u32);
            to.members += members;
            self.dirty.push(link);
        }
        self.begun.push(flow);
        self.flows.push(Flow {
            tag,
            first_slot,
            slot_count: route.len() as u32,
            steps,
            step: 0,
            members,
            rate: 0.0,
            moved: 0.0,
            since: now,
            version: 0,
            mark: 0,
            is_foretold: false,
            is_fixed: false,
        });
    }

    /// Computes the rates that have changed.
    pub fn share(&mut self, now: f64) {
        if self.dirty.is_empty() {
            return;
        }
        self.pass += 1;
        let mut part = std::mem::take(&mut self.part);
        self.connected(&mut part);
        #[cfg(test)]
        {
            self.computed += part.flows.len() as u64;
        }
        self.fill(now, &mut part);
        part.links.clear();
        part.flows.clear();
        self.part = part;
    }

    /// When the next flow, or some members of one, will have moved all their bytes.
    pub fn next_end(&mut self) -> Option<f64> {
        while let Some(Reverse((at, flow, version))) = self.ends.peek() {
            if self.flows[*flow as usize].version == *version {
                return Some(at.0);
            }
            self.ends.pop();
        }
        None
    }

    /// Ends what has moved all its bytes at `until`, and appends the flows that have ended as wholes.
    pub fn end(&mut self, until: f64, ended: &mut Vec<T>) {
        while let Some(at) = self.next_end().filter(|at| *at <= until) {
            if let Some(Reverse((_, flow, _))) = self.ends.pop() {
                self.end_step(at, flow, ended);
            }
        }
    }

    fn end_step(&mut self, at: f64, index: u32, ended: &mut Vec<T>) {
        let flow = &mut self.flows[index as usize];
        let (bytes, members) = flow.steps[flow.step];
        flow.step += 1;
        (flow.moved, flow.since) = (bytes as f64, at);
        flow.version += 1;
        flow.is_foretold = false;
        self.level = self.level.min(flow.rate);
        flow.members -= f64::from(members);
        let is_over = flow.step == flow.steps.len();
        if is_over {
            ended.push(flow.tag);
        }
        for slot in flow.slots() {
            let Slot { link, place, .. } = self.slots[slot];
            let from = &mut self.links[link as usize];
            from.members -= f64::from(members);
            self.dirty.push(link);
            if is_over {
                from.slots.swap_remove(place as usize);
                if let Some(moved) = from.slots.get(place as usize) {
                    self.slots[*moved as usize].place = place;
                }
            }
        }
    }

    /// The rate below which no flow is concerned. One that began gets at least an even part of each of its links.
    fn take_level(&mut self) -> f64 {
        let mut level = std::mem::replace(&mut self.level, f64::INFINITY);
        for flow in self.begun.drain(..) {
            for slot in self.flows[flow as usize].slots() {
                let link = &self.links[self.slots[slot].link as usize];
                level = level.min(link.rate / link.members);
            }
        }
        level * (1.0 - ROUNDING)
    }

    /// Finds the links and flows that are connected with those where something has changed, and what flows that are not
    /// concerned leave of the links.
    fn connected(&mut self, part: &mut Part) {
        let level = self.take_level();
        for link in self.dirty.drain(..) {
            visit(&mut self.links, link, self.pass, &mut part.links);
        }
        let mut next = 0;
        while let Some(&index) = part.links.get(next) {
            next += 1;
            for place in 0..self.links[index as usize].slots.len() {
                let slot = self.links[index as usize].slots[place];
                let number = self.slots[slot as usize].flow;
                let flow = &mut self.flows[number as usize];
                if flow.is_foretold && flow.rate < level {
                    let link = &mut self.links[index as usize];
                    link.left -= flow.rate * flow.members;
                    link.waiting -= flow.members;
                } else if std::mem::replace(&mut flow.mark, self.pass) != self.pass {
                    flow.is_fixed = false;
                    part.flows.push(number);
                    for slot in flow.slots() {
                        visit(&mut self.links, self.slots[slot].link, self.pass, &mut part.links);
                    }
                }
            }
        }
    }

    /// Gives every flow of the part its share: those on the scarcest link first.
    fn fill(&mut self, now: f64, part: &mut Part) {
        for &index in &part.links {
            let link = &self.links[index as usize];
            // Members are whole numbers: what is left of none is none.
            if link.waiting > 0.5 {
                part.scarcest.push(Reverse((Ordered(link.left.max(0.0) / link.waiting), index)));
            }
        }
        while let Some(Reverse((Ordered(share), index))) = part.scarcest.pop() {
            let link = &self.links[index as usize];
            if link.waiting < 0.5 {
                continue;
            }
            let share_now = link.left.max(0.0) / link.waiting;
            if share_now > share * (1.0 + SAME) {
                part.scarcest.push(Reverse((Ordered(share_now), index)));
                continue;
            }
            for place in 0..self.links[index as usize].slots.len() {
                let flow = self.slots[self.links[index as usize].slots[place] as usize].flow;
                if self.flows[flow as usize].mark == self.pass {
                    self.fix(now, flow, share_now);
                }
            }
        }
    }

    /// A flow's members get this rate, unless it has its rate already.
    fn fix(&mut self, now: f64, index: u32, rate: f64) {
        let flow = &mut self.flows[index as usize];
        if std::mem::replace(&mut flow.is_fixed, true) {
            return;
        }
        for slot in flow.slots() {
            let link = &mut self.links[self.slots[slot].link as usize];
            link.left -= rate * flow.members;
            link.waiting -= flow.members;
        }
        if flow.is_foretold && (rate - flow.rate).abs() <= flow.rate * SAME {
            return;
        }
        flow.moved += flow.rate * (now - flow.since);
        (flow.rate, flow.since) = (rate, now);
        flow.version += 1;
        flow.is_foretold = true;
        let left = (flow.steps[flow.step].0 as f64 - flow.moved).max(0.0);
        self.ends.push(Reverse((Ordered(now + left / rate), index, flow.version)));
    }
}

fn visit(links: &mut [Link], index: u32, pass: u32, found: &mut Vec<u32>) {
    let link = &mut links[index as usize];
    if std::mem::replace(&mut link.mark, pass) != pass {
        (link.left, link.waiting) = (link.rate, link.members);
        found.push(index);
    }
}

#[cfg(test)]
mod observed {
    use super::Fluid;

    /// A flow that moves, for tests.
    pub struct Moving {
        pub route: Vec<u32>,
        pub rate: f64,
        pub members: f64,
    }

    impl<T: Copy> Fluid<T> {
        pub fn moving(&self) -> Vec<Moving> {
            let moves = self.flows.iter().filter(|flow| flow.step < flow.steps.len());
            moves
                .map(|flow| Moving {
                    route: self.slots[flow.slots()].iter().map(|slot| slot.link).collect(),
                    rate: flow.rate,
                    members: flow.members,
                })
                .collect()
        }

        /// How many flows' rates were computed since the start.
        pub fn computed(&self) -> u64 {
            self.computed
        }
    }
}
