use proptest::prelude::*;

use super::fluid::{Fluid, Steps};

/// Flows by what a naive simulator needs: the whole list is looked at for everything, and every rate computed anew at every
/// event, by raising all rates together until a link is full.
struct Naive<'r> {
    rates: &'r [f64],
    flows: Vec<NaiveFlow>,
}

#[derive(Clone, Debug)]
struct NaiveFlow {
    begins: f64,
    route: Vec<u32>,
    left: f64,
    rate: f64,
    ended: Option<f64>,
}

impl Naive<'_> {
    fn share(&mut self, now: f64) {
        let moves: Vec<usize> = (0..self.flows.len())
            .filter(|flow| self.flows[*flow].ended.is_none() && self.flows[*flow].begins <= now)
            .collect();
        let mut rising = moves.clone();
        moves.iter().for_each(|flow| self.flows[*flow].rate = 0.0);
        while !rising.is_empty() {
            let on = |link: u32, flows: &[usize], all: &[NaiveFlow]| {
                flows.iter().filter(|flow| all[**flow].route.contains(&link)).count() as f64
            };
            let room = |link: u32| {
                let used: f64 = moves
                    .iter()
                    .filter(|flow| self.flows[**flow].route.contains(&link))
                    .map(|flow| self.flows[*flow].rate)
                    .sum();
                (self.rates[link as usize] - used) / on(link, &rising, &self.flows)
            };
            let links: Vec<u32> =
                (0..self.rates.len() as u32).filter(|link| on(*link, &rising, &self.flows) > 0.0).collect();
            let rise = links.iter().map(|link| room(*link)).fold(f64::INFINITY, f64::min);
            let full: Vec<u32> = links.iter().copied().filter(|link| room(*link) <= rise * (1.0 + 1e-9)).collect();
            rising.iter().for_each(|flow| self.flows[*flow].rate += rise);
            rising.retain(|flow| !self.flows[*flow].route.iter().any(|link| full.contains(link)));
        }
    }

    fn run(&mut self) -> Vec<f64> {
        let mut now = 0.0;
        loop {
            self.share(now);
            let begins = self.flows.iter().map(|flow| flow.begins).filter(|begins| *begins > now);
            let active = |flow: &&NaiveFlow| flow.ended.is_none() && flow.begins <= now;
            let ends = self.flows.iter().filter(active).map(|flow| now + flow.left / flow.rate);
            let next = begins.chain(ends).fold(f64::INFINITY, f64::min);
            if next.is_infinite() {
                return self.flows.iter().map(|flow| flow.ended.unwrap()).collect();
            }
            for flow in self.flows.iter_mut().filter(|flow| flow.ended.is_none() && flow.begins <= now) {
                flow.left -= flow.rate * (next - now);
                if flow.left <= flow.rate * 1e-9 {
                    flow.ended = Some(next);
                }
            }
            now = next;
        }
    }
}

/// When each flow ends: flows of one member each, which begin at these times.
fn ends(rates: &[f64], flows: &[Alone]) -> Vec<f64> {
    let steps = flows.iter().map(|(begins, route, bytes)| (*begins, route.clone(), vec![(*bytes, 1)]));
    ends_of(rates, &steps.collect::<Vec<_>>())
}

fn ends_of(rates: &[f64], flows: &[(f64, Vec<u32>, Steps)]) -> Vec<f64> {
    let mut fluid = Fluid::new(rates);
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by(|left, right| flows[*left].0.total_cmp(&flows[*right].0));
    let mut order = order.into_iter().peekable();
    let mut ends = vec![f64::NAN; flows.len()];
    let mut now = 0.0;
    loop {
        while let Some(flow) = order.next_if(|flow| flows[*flow].0 <= now) {
            fluid.begin(now, flow, &flows[flow].1, flows[flow].2.clone());
        }
        fluid.share(now);
        check(&fluid, rates);
        let begins = order.peek().map(|flow| flows[*flow].0);
        let Some(next) = [begins, fluid.next_end()].into_iter().flatten().reduce(f64::min) else { return ends };
        now = next;
        let mut ended = vec![];
        fluid.end(now, &mut ended);
        ended.into_iter().for_each(|flow: usize| ends[flow] = now);
    }
}

/// No link above its rate; and every flow has a link that is full, on which nobody has more than it.
fn check(fluid: &Fluid<usize>, rates: &[f64]) {
    let flows = fluid.moving();
    let load = |link: u32| -> f64 {
        flows.iter().filter(|flow| flow.route.contains(&link)).map(|flow| flow.rate * flow.members).sum()
    };
    let fastest =
        |link: u32| flows.iter().filter(|flow| flow.route.contains(&link)).map(|flow| flow.rate).fold(0.0, f64::max);
    for link in 0..rates.len() as u32 {
        assert!(load(link) <= rates[link as usize] * (1.0 + 1e-9), "link {link} carries more than it can");
    }
    for flow in &flows {
        let holds_back = |link: &u32| {
            load(*link) >= rates[*link as usize] * (1.0 - 1e-9) && fastest(*link) <= flow.rate * (1.0 + 1e-9)
        };
        assert!(flow.route.iter().any(holds_back), "a flow could have more without anybody slower having less");
    }
}

#[test]
fn one_link_is_halved_and_then_one_flow_s_alone() {
    // 100 bytes/s. Both have 50 until 2 s, when the first has its 100; the second has 100 left and then 100 bytes/s.
    assert_eq!(ends(&[100.0], &[(0.0, vec![0], 100), (0.0, vec![0], 200)]), [2.0, 3.0]);
}

#[test]
fn workers_held_back_elsewhere_leave_the_rest_to_others() {
    // Link 0 has 100, link 1 has 20 bytes/s. Flow a uses both and gets 20, so flow b on link 0 gets 80 and ends its 160
    // at 2 s; then a goes on at 20 and ends its 60 at 3 s.
    assert_eq!(ends(&[100.0, 20.0], &[(0.0, vec![0, 1], 60), (0.0, vec![0], 160)]), [3.0, 2.0]);
}

#[test]
fn late_workers_take_their_share_from_then_on() {
    // Alone until 1 s: 100 of 200 bytes moved. Then 50 each: a ends at 3 s, b has 50 of 150 left and is alone: 3.5 s.
    assert_eq!(ends(&[100.0], &[(0.0, vec![0], 200), (1.0, vec![0], 150)]), [3.0, 3.5]);
}

#[test]
fn members_of_a_flow_are_like_flows() {
    // Three members of 40 bytes and one of 100 at 100 bytes/s: 25 each until 1.6 s; the last 60 alone: 2.2 s.
    assert_eq!(ends_of(&[100.0], &[(0.0, vec![0], vec![(40, 3), (100, 1)])]), [2.2]);
}

#[test]
fn a_part_of_the_network_that_nothing_connects_is_left_alone() {
    let mut fluid = Fluid::new(&[100.0, 100.0]);
    fluid.begin(0.0, 0usize, &[0], vec![(1000, 1)]);
    fluid.begin(0.0, 1usize, &[1], vec![(100, 1)]);
    fluid.share(0.0);
    let computed = fluid.computed();
    fluid.end(1.0, &mut vec![]);
    fluid.begin(1.0, 2usize, &[1], vec![(100, 1)]);
    fluid.share(1.0);
    assert_eq!(fluid.computed() - computed, 1, "only the flow that began");
}

/// When a flow of one member begins, its links and its bytes.
type Alone = (f64, Vec<u32>, u64);

/// Rates of links, and flows over them.
fn flows() -> impl Strategy<Value = (Vec<f64>, Vec<Alone>)> {
    let rates = prop::collection::vec(prop::sample::select(vec![10.0, 30.0, 100.0]), 2..8);
    rates.prop_flat_map(|rates| {
        let links = prop::sample::subsequence((0..rates.len() as u32).collect::<Vec<_>>(), 1..=rates.len());
        let begins = prop::sample::select(vec![0.0, 0.5, 1.25]);
        (Just(rates), prop::collection::vec((begins, links, 1u64..500), 1..20))
    })
}

proptest! {
    #[test]
    fn flows_end_when_a_naive_simulator_says((rates, flows) in flows()) {
        let naive = flows.iter().map(|(begins, route, bytes)| NaiveFlow {
            begins: *begins,
            route: route.clone(),
            left: *bytes as f64,
            rate: 0.0,
            ended: None,
        });
        let expected = Naive { rates: &rates, flows: naive.collect() }.run();
        for (found, expected) in ends(&rates, &flows).into_iter().zip(expected) {
            prop_assert!((found - expected).abs() <= expected * 1e-6, "{found} and {expected}");
        }
    }

    #[test]
    fn flows_of_one_route_may_be_members_of_one(
        (rates, flows) in flows(), members in prop::collection::vec((1u64..300, 1u32..4), 1..5),
    ) {
        let mut members = members;
        members.sort_unstable();
        let route = vec![0, 1];
        let mut one_by_one: Vec<(f64, Vec<u32>, Steps)> =
            flows.iter().map(|(begins, route, bytes)| (*begins, route.clone(), vec![(*bytes, 1)])).collect();
        let mut together = one_by_one.clone();
        together.push((0.5, route.clone(), members.clone()));
        for (bytes, count) in members {
            one_by_one.extend((0..count).map(|_| (0.5, route.clone(), vec![(bytes, 1)])));
        }
        let (together, one_by_one) = (ends_of(&rates, &together), ends_of(&rates, &one_by_one));
        for (found, expected) in together[..flows.len()].iter().zip(&one_by_one) {
            prop_assert!((found - expected).abs() <= expected * 1e-6, "{found} and {expected}");
        }
        let last = one_by_one[flows.len()..].iter().copied().fold(0.0, f64::max);
        prop_assert!((together[flows.len()] - last).abs() <= last * 1e-6, "{} and {last}", together[flows.len()]);
    }
}
