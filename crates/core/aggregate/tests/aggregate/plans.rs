//! Plans of small cases whose seconds are worked out by hand, and what holds for the plans of any case.

use forebay_aggregate::{
    Case, CaseDescription, Extent, IoNode, Nvme, Plan, RankDescription, RanksDescription, Serves, Strategy,
    TopologyDescription, plan, plan_all, union,
};
use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

/// A ring of four nodes of 100 bytes/s and 0.5 s a link, one rank of 100 bytes on each; node 0 is the I/O node, of 50
/// bytes/s. One aggregator, one round.
fn ring() -> CaseDescription {
    let rank = |node| RankDescription { node, bytes: 100, extents: None };
    CaseDescription {
        topology: TopologyDescription::Torus(vec![4]),
        link_bytes_per_s: 100.0,
        link_latency_s: 0.5,
        nodes: 4,
        io_nodes: vec![IoNode { node: 0, bytes_per_s: 50.0, serves: Serves::Range(0, 3) }],
        ranks: RanksDescription::Each((0..4).map(rank).collect()),
        aggregators: Some(1),
        rounds: Some(1),
        aggregator_memory_bytes: 1000,
        buffer_bytes: 500,
        buffers: 2,
        stripe_bytes: 100,
        nvme: None,
    }
}

fn planned(description: CaseDescription, strategy: Strategy) -> Plan {
    plan(&Case::new(description).unwrap(), strategy).unwrap()
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected * 1e-9, "{found}, expected {expected}");
}

#[test]
fn one_round_on_a_ring() {
    let plan = planned(ring(), Strategy::First);
    assert_eq!(plan.aggregators.len(), 1);
    assert_eq!((plan.aggregators[0].rank, plan.aggregators[0].node, plan.rounds), (0, 0, 1));
    // Rank 2 is two hops away: 1 s, and 100 bytes at 100 bytes/s: 2 s. The I/O node is the aggregator's own: 400 / 50.
    close(plan.predicted.c1_s, 2.0);
    close(plan.predicted.c2_s, 8.0);
    // Ranks 1 and 3 begin to move at 0.5 s, on links of their own; rank 2, which comes round by node 3, at 1 s. Rank 1 has
    // come at 1.5 s. Rank 3 has 50 bytes left at 1 s and from then on half of the link: 2 s. Rank 2 has moved 50 by then,
    // has the link alone and has come at 2.5 s. Then 8 s of I/O.
    close(plan.predicted.total_s, 10.5);
    close(plan.predicted.io_floor_s, 8.0);
    assert_eq!(plan.predicted.busiest_link_bytes, 200);
}

#[test]
fn two_rounds_with_two_buffers() {
    let plan = planned(CaseDescription { rounds: Some(2), ..ring() }, Strategy::First);
    assert_eq!(plan.aggregators[0].windows, [Extent { offset: 0, len: 200 }, Extent { offset: 200, len: 200 }]);
    // Round 0: rank 1 has come at 1.5 s, I/O from then on. Round 1 is taken at once: rank 3 begins at 2 s, rank 2 at 2.5 s;
    // rank 3 ends at 3.5 s, rank 2 at 4 s. The first I/O has 75 of 200 bytes left then; both have 25 bytes/s until it ends
    // at 7 s; the second has 125 left and ends at 9.5 s.
    close(plan.predicted.total_s, 9.5);
}

#[test]
fn two_rounds_with_one_buffer() {
    let plan = planned(CaseDescription { rounds: Some(2), buffers: 1, ..ring() }, Strategy::First);
    // Round 0 is written at 5.5 s. Round 1 takes 2.5 s to come and 4 s to be written.
    close(plan.predicted.total_s, 12.0);
}

#[test]
fn storage_frees_the_buffer_and_is_left_behind_by_the_network() {
    let nvme = Some(Nvme { write_bytes_per_s: 400.0, read_bytes_per_s: 400.0 });
    let plan = planned(CaseDescription { nvme, ..ring() }, Strategy::First);
    // All has come at 2.5 s as above, is stored 1 s later, and then takes 8 s to the I/O node.
    close(plan.predicted.staged_s, 3.5);
    close(plan.predicted.total_s, 11.5);
    let nvme = Some(Nvme { write_bytes_per_s: 400.0, read_bytes_per_s: 25.0 });
    let plan = planned(CaseDescription { nvme, ..ring() }, Strategy::First);
    // Reading is slower than the I/O node: 16 s.
    close(plan.predicted.total_s, 19.5);
}

/// With one buffer a round waits until the one before has left it: to the I/O node, or sooner to local storage.
#[test]
fn local_storage_frees_the_buffer_before_the_io_node_has_its_bytes() {
    let four = CaseDescription { rounds: Some(4), buffers: 1, stripe_bytes: 100, ..ring() };
    let without = planned(four.clone(), Strategy::First).predicted;
    let nvme = Some(Nvme { write_bytes_per_s: 400.0, read_bytes_per_s: 400.0 });
    let with = planned(CaseDescription { nvme, ..four }, Strategy::First).predicted;
    // The aggregator's own 100 bytes are there at once, then 100 each from one, two and one hops: 1.5 s, 2 s, 1.5 s. Without
    // storage each round has 2 s of I/O besides.
    close(without.total_s, 13.0);
    close(without.staged_s, without.total_s);
    // Each is stored in 0.25 s. The I/O node never waits from 0.25 s on.
    close(with.staged_s, 6.0);
    close(with.total_s, 8.25);
}

#[test]
fn the_aggregator_s_way_to_the_io_node_counts() {
    // The rank with most bytes is on node 2: two hops to the I/O node.
    let ranks = [100, 100, 200, 100].into_iter().enumerate();
    let ranks = ranks.map(|(node, bytes)| RankDescription { node, bytes, extents: None }).collect();
    let plan = planned(CaseDescription { ranks: RanksDescription::Each(ranks), ..ring() }, Strategy::Largest);
    assert_eq!(plan.aggregators[0].node, 2);
    // C1: rank 0, two hops: 1 + 1. C2: 1 + 500 / 50.
    close(plan.predicted.c1_s, 2.0);
    close(plan.predicted.c2_s, 11.0);
    // To node 2 ranks 0 and 1 share the link of node 1 upwards as ranks 2 and 3 did above: 2.5 s. Then 1 + 10 s.
    close(plan.predicted.total_s, 13.5);
}

#[test]
fn each_strategy_looks_at_what_it_says() {
    // Node 3 has the fewest bytes, node 2 the most, node 1 is nearest to an I/O node: it is one.
    let ranks = [200, 200, 300, 100].into_iter().enumerate();
    let ranks: Vec<_> = ranks.map(|(node, bytes)| RankDescription { node, bytes, extents: None }).collect();
    let io_nodes = vec![IoNode { node: 1, bytes_per_s: 50.0, serves: Serves::ANY }];
    let case = CaseDescription { ranks: RanksDescription::Each(ranks), io_nodes, ..ring() };
    let node = |strategy| planned(case.clone(), strategy).aggregators[0].node;
    let chosen = [Strategy::First, Strategy::Romio, Strategy::Nearest, Strategy::Largest, Strategy::Smallest].map(node);
    assert_eq!(chosen, [0, 0, 1, 2, 3]);
    // C1 + C2 in seconds, with C2 of 800 / 50 and 0.5 a hop. Node 0: 0.5 + 3 (rank 2: 1 + 3) = 4, and 16.5. Node 1: 3.5, and
    // 16. Node 2: 1 + 2 = 3, and 16.5. Node 3: 3.5, and 17. Nodes 1 and 2 are equal, so it is the lower rank.
    assert_eq!(node(Strategy::Poster), 1);
}

#[test]
fn the_greedy_balance_uses_every_io_node() {
    // Two I/O nodes; both domains' first ranks are on nodes that the first serves.
    let io = |node, first, last| IoNode { node, bytes_per_s: 50.0, serves: Serves::Range(first, last) };
    let ranks = [0, 2, 1, 3].map(|node| RankDescription { node, bytes: 100, extents: None }).to_vec();
    let case = CaseDescription {
        io_nodes: vec![io(0, 0, 1), io(3, 2, 3)],
        ranks: RanksDescription::Each(ranks),
        aggregators: Some(2),
        ..ring()
    };
    let io_nodes =
        |strategy| planned(case.clone(), strategy).aggregators.iter().map(|each| each.io_node).collect::<Vec<_>>();
    assert_eq!(io_nodes(Strategy::First), [0, 0]);
    assert_eq!(io_nodes(Strategy::Balanced), [0, 1]);
    close(planned(case.clone(), Strategy::First).predicted.io_floor_s, 8.0);
    close(planned(case.clone(), Strategy::Balanced).predicted.io_floor_s, 4.0);
    close(Case::new(case).unwrap().io_floor_s(), 4.0);
}

#[test]
fn joint_sees_what_the_greedy_balance_has_spoilt() {
    // Domain 0 is held on both I/O nodes' sides, domain 1 on the first's alone. The greedy balance takes the first rank of
    // domain 0, on the first's side; domain 1 then has no choice, and the first I/O node writes all: 4 s and what comes before.
    let io = |node, first, last| IoNode { node, bytes_per_s: 50.0, serves: Serves::Range(first, last) };
    let ranks = [0, 2, 1, 1].map(|node| RankDescription { node, bytes: 50, extents: None }).to_vec();
    let case = CaseDescription {
        io_nodes: vec![io(0, 0, 1), io(3, 2, 3)],
        ranks: RanksDescription::Each(ranks),
        aggregators: Some(2),
        ..ring()
    };
    let io_nodes =
        |strategy| planned(case.clone(), strategy).aggregators.iter().map(|each| each.io_node).collect::<Vec<_>>();
    assert_eq!(io_nodes(Strategy::Balanced), [0, 0]);
    assert_eq!(io_nodes(Strategy::Joint), [1, 0]);
    close(planned(case, Strategy::Joint).predicted.io_floor_s, 2.0);
}

#[test]
fn joint_begins_with_what_is_near() {
    // The domain is held by nodes 2, 1, 0 and 0, and the aggregator is to sit on node 0,
    // the I/O node, which has the last rounds itself. It takes them first.
    let ranks = [2, 1, 0, 0].map(|node| RankDescription { node, bytes: 100, extents: None }).to_vec();
    let case = CaseDescription { ranks: RanksDescription::Each(ranks), rounds: Some(2), ..ring() };
    let plan = planned(case.clone(), Strategy::Joint);
    assert_eq!(plan.aggregators[0].node, 0);
    assert_eq!(plan.aggregators[0].windows, [Extent { offset: 200, len: 200 }, Extent { offset: 0, len: 200 }]);
    // The I/O node is busy from the start: 400 / 50.
    close(plan.predicted.total_s, 8.0);
    // In the order of the file it waits until node 2 has sent: latency 1 and 1 s.
    close(planned(case, Strategy::Nearest).predicted.total_s, 10.0);
}

#[test]
fn the_poster_s_count_is_a_power_of_two_of_full_buffers() {
    let count = |bytes: u64| {
        let ranks = (0..4).map(|node| RankDescription { node, bytes: bytes / 4, extents: None }).collect();
        let case = CaseDescription { ranks: RanksDescription::Each(ranks), aggregators: None, rounds: None, ..ring() };
        let plan = planned(case, Strategy::Poster);
        (plan.aggregators.len(), plan.rounds)
    };
    // Memory 1,000 and buffers of 500 bytes: D / Mem of 8 gives 8, of 9 gives 16; one buffer's worth is enough for each.
    assert_eq!([400, 1000, 1200, 8000, 9000].map(count), [(1, 1), (1, 1), (2, 1), (8, 1), (16, 1)]);
}

#[test]
fn writes_beyond_memory_take_rounds() {
    let ranks = (0..4).map(|node| RankDescription { node, bytes: 1000, extents: None }).collect();
    let case = CaseDescription { ranks: RanksDescription::Each(ranks), rounds: None, ..ring() };
    assert_eq!(planned(case.clone(), Strategy::Poster).rounds, 4);
    assert_eq!(planned(case, Strategy::Romio).rounds, 8, "ROMIO writes a buffer a round");
}

#[test]
fn an_empty_write_is_a_plan_too() {
    let ranks = (0..4).map(|node| RankDescription { node, bytes: 0, extents: Some(vec![]) }).collect();
    let portfolio =
        plan_all(&Case::new(CaseDescription { ranks: RanksDescription::Each(ranks), ..ring() }).unwrap()).unwrap();
    assert!(portfolio.plans().iter().all(|plan| plan.aggregators.is_empty() && plan.predicted.total_s == 0.0));
}

/// Ranks with extents anywhere, also over those of other ranks.
/// Two switches of four nodes, whose links carry what all their nodes send, or an eighth of it.
#[test]
fn a_narrow_link_between_switches_is_what_the_flow_model_sees() {
    let hosts: Vec<String> = (1..9).map(|host| format!("n{host}")).collect();
    let text = "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\n";
    let topology = TopologyDescription::from_slurm(text, &hosts).unwrap();
    assert_eq!(topology, {
        let json = serde_json::json!({"slurm": {"text": text, "hosts": hosts.join(",")}});
        serde_json::from_value(json).unwrap()
    });
    let total_s = |oversubscription: f64| {
        let topology = serde_json::json!({"slurm": {"text": text, "oversubscription": oversubscription}});
        let case = CaseDescription {
            topology: serde_json::from_value(topology).unwrap(),
            nodes: 8,
            io_nodes: vec![IoNode { node: 0, bytes_per_s: 1e9, serves: Serves::ANY }],
            ranks: RanksDescription::Each(
                (4..8).map(|node| RankDescription { node, bytes: 100, extents: None }).collect(),
            ),
            link_bytes_per_s: 100.0,
            link_latency_s: 0.0,
            aggregators: Some(4),
            rounds: Some(1),
            stripe_bytes: 100,
            ..ring()
        };
        plan(&Case::new(case).unwrap(), Strategy::First).unwrap().predicted.total_s
    };
    // Each rank aggregates its own 100 bytes. All 400 go down the one link to node 0 at 100 a second, unless the link between
    // the switches, 400 a second over the oversubscription, is narrower.
    assert!((total_s(1.0) - 4.0).abs() < 1e-3, "{}", total_s(1.0));
    assert!((total_s(8.0) - 8.0).abs() < 1e-3, "{}", total_s(8.0));
}

fn ranks(nodes: usize) -> impl Generator<Value = Vec<RankDescription>> {
    let extents = prop::collection::vec((0u64..3000, 1u64..200), 0..6);
    let rank = (0..nodes, extents).prop_map(|(node, extents)| {
        let extents = union(extents.into_iter().map(Extent::from).collect());
        RankDescription { node, bytes: extents.iter().map(|extent| extent.len).sum(), extents: Some(extents) }
    });
    prop::collection::vec(rank, 1..20)
}

/// 12 hosts on switches of different size and height.
const SWITCHES: &str =
    "SwitchName=a Nodes=n[1-5]\nSwitchName=b Nodes=n[6-8]\nSwitchName=c Switches=a,b\nSwitchName=d Nodes=n[9-12]\n";

fn topology() -> impl Generator<Value = TopologyDescription> {
    prop::sample::select(vec![
        serde_json::json!({"torus": [2, 3, 2]}),
        serde_json::json!({"torus": [12]}),
        serde_json::json!({"dragonfly": {"groups": 3, "routers": 2, "nodes": 2}}),
        serde_json::json!({"fat_tree": {"levels": [{"down": 3, "up": 2}, {"down": 4}]}}),
        serde_json::json!({"matrix": {"latency_s": vec![[0.01; 12]; 12], "bytes_per_s": vec![[70.0; 12]; 12]}}),
        serde_json::json!({"slurm": {"text": SWITCHES, "oversubscription": 2}}),
        serde_json::json!({"host_names": {"pattern": "r#/n#", "hosts": "r[1-3]n[1-4]"}}),
    ])
    .prop_map(|json| serde_json::from_value(json).unwrap())
}

prop_compose! {
    fn cases()(
        topology in topology(), each in ranks(12), aggregators in prop::option::of(1usize..6),
        rounds in prop::option::of(1usize..5), stripe_bytes in 1u64..400, buffers in 1usize..4, is_any: bool,
    ) -> CaseDescription {
        let io = |node, serves| IoNode { node, bytes_per_s: 60.0, serves };
        let io_nodes = match is_any {
            true => vec![io(1, Serves::ANY), io(9, Serves::ANY)],
            false => vec![io(0, Serves::Range(0, 5)), io(11, Serves::Range(6, 11))],
        };
        let ranks = RanksDescription::Each(each);
        CaseDescription {
            topology, ranks, io_nodes, aggregators, rounds, stripe_bytes, buffers, nodes: 12, link_latency_s: 0.01, ..ring()
        }
    }
}

proptest! {
    #[test]
    fn every_byte_of_every_rank_goes_to_one_aggregator_in_one_round(description in cases()) {
        let case = Case::new(description).unwrap();
        for strategy in Strategy::ALL {
            let plan = plan(&case, strategy).unwrap();
            for rank in 0..case.rank_count() {
                let own = case.extents_of(rank);
                let parts = plan.aggregators.iter().flat_map(|each| (0..plan.rounds).map(move |round| each.part(round, own)));
                let parts: Vec<Extent> = parts.flatten().collect();
                prop_assert_eq!(parts.iter().map(|part| part.len).sum::<u64>(), own.iter().map(|own| own.len).sum::<u64>());
                prop_assert_eq!(union(parts), union(own.to_vec()));
            }
        }
    }

    #[test]
    fn the_busiest_link_of_a_plan_is_that_of_the_flow_model(description in cases()) {
        let case = Case::new(description).unwrap();
        for strategy in Strategy::ALL {
            let plan = plan(&case, strategy).unwrap();
            let busiest = plan.link_bytes(&case).into_iter().max();
            prop_assert_eq!(busiest, Some(plan.predicted.busiest_link_bytes), "{}", strategy.name());
        }
    }

    #[test]
    fn domains_hold_all_bytes_and_meet_on_stripes(description in cases()) {
        let stripe = description.stripe_bytes;
        let case = Case::new(description).unwrap();
        let all: Vec<Extent> = (0..case.rank_count()).flat_map(|rank| case.extents_of(rank).to_vec()).collect();
        for strategy in Strategy::ALL {
            let plan = plan(&case, strategy).unwrap();
            let domains: Vec<Extent> = plan.aggregators.iter().flat_map(|each| each.domain.clone()).collect();
            prop_assert_eq!(domains.iter().map(|part| part.len).sum::<u64>(), case.bytes());
            prop_assert_eq!(union(domains), union(all.clone()));
            for pair in plan.aggregators.windows(2) {
                let (before, after) = (pair[0].domain.last().unwrap(), pair[1].domain[0]);
                prop_assert!((before.end() - 1) / stripe < after.offset / stripe, "a stripe of two domains");
            }
            prop_assert!(plan.aggregators.iter().all(|each| each.windows.len() == plan.rounds));
            let mut windows: Vec<Extent> = plan.aggregators.iter().flat_map(|each| each.windows.clone()).collect();
            windows.retain(|window| window.len > 0);
            windows.sort_unstable();
            for pair in windows.windows(2) {
                prop_assert!((pair[0].end() - 1) / stripe < pair[1].offset / stripe, "a stripe of two rounds");
            }
        }
    }

    #[test]
    fn the_best_is_no_worse_than_any_and_nobody_beats_the_floor(description in cases()) {
        let case = Case::new(description).unwrap();
        let portfolio = plan_all(&case).unwrap();
        let joint_s = portfolio.plans().iter().find(|each| each.strategy == Strategy::Joint).unwrap().predicted.total_s;
        for each in portfolio.plans() {
            prop_assert!(portfolio.best().predicted.total_s <= each.predicted.total_s);
            let is_start = matches!(each.strategy, Strategy::First | Strategy::Nearest | Strategy::Poster | Strategy::Balanced);
            prop_assert!(!is_start || joint_s <= each.predicted.total_s, "{:?} beats joint", each.strategy);
            prop_assert_eq!(each, &plan(&case, each.strategy).unwrap(), "the same alone as in the portfolio");
            let least = each.predicted.io_floor_s.max(case.io_floor_s()).max(each.predicted.c1_s).max(each.predicted.c2_s);
            prop_assert!(each.predicted.total_s >= least * (1.0 - 1e-6), "{each:?}");
        }
    }
}
