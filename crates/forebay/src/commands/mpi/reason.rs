//! The result of a comparison of plans in a sentence: which is the best, and why.

use forebay_aggregate::{Case, Plan, Strategy};

use crate::commands::picture::scale::bytes;

/// Totals closer to each other than this part of the least are equal for people.
const EQUAL_PART: f64 = 0.01;

/// The sentence.
pub fn reason(case: &Case, plans: &[Plan], best: Strategy) -> String {
    let Some(best) = plans.iter().find(|plan| plan.strategy == best) else { return String::new() };
    let times = |plan: &Plan| plan.predicted.total_s / best.predicted.total_s;
    let slower = || plans.iter().filter(|plan| times(plan) > 1.0 + EQUAL_PART);
    let Some(slowest) = slower().max_by(|left, right| times(left).total_cmp(&times(right))) else {
        return "All strategies are equal within 1 %: here it makes no difference which ranks aggregate.".to_owned();
    };
    // It alone does not place by domain: it takes the first nodes, wherever the bytes are.
    if slower().all(|plan| plan.strategy == Strategy::Romio) {
        return format!(
            "All strategies that place by domain are equal within 1 %: here it makes no difference which rank of a domain aggregates. {} \
             takes {:.2} times as long.",
            slowest.strategy.name(),
            times(slowest)
        );
    }
    let next = slower().min_by(|left, right| times(left).total_cmp(&times(right))).unwrap_or(slowest);
    format!(
        "Best: {}, {:.2} times as long as the I/O floor: {}; the slowest, {}, takes {:.2} times as long.",
        best.strategy.name(),
        best.predicted.total_s / case.io_floor_s(),
        advantage(best, next),
        slowest.strategy.name(),
        times(slowest)
    )
}

/// The most of what the best plan has before the next.
fn advantage(best: &Plan, next: &Plan) -> String {
    let (ours, theirs, name) = (&best.predicted, &next.predicted, next.strategy.name());
    let over = |ours: f64, theirs: f64| if ours > 0.0 { theirs / ours } else { 1.0 };
    let io = over(ours.io_floor_s, theirs.io_floor_s);
    let link = over(ours.busiest_link_bytes as f64, theirs.busiest_link_bytes as f64);
    let way = over(ours.c1_s + ours.c2_s, theirs.c1_s + theirs.c2_s);
    match () {
        () if io > 1.0 + EQUAL_PART && io >= link => {
            format!("its busiest I/O node has 1/{io:.2} of the bytes that it has by {name}, the next")
        }
        () if link > 1.0 + EQUAL_PART => {
            let [ours, theirs] = [ours, theirs].map(|predicted| bytes(predicted.busiest_link_bytes as f64));
            format!("its busiest link carries {ours}, that of {name}, the next, {theirs}")
        }
        () if best.rounds > next.rounds => {
            format!("it overlaps exchange and I/O in {} rounds, {name}, the next, in {}", best.rounds, next.rounds)
        }
        () if way > 1.0 + EQUAL_PART => {
            format!(
                "its aggregators are nearer to ranks and I/O nodes than those of {name}, the next (C1 + C2: 1/{way:.2})"
            )
        }
        () => format!("its flows meet less on the links than those of {name}, the next"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use forebay_aggregate::plan_all;
    use serde_json::json;

    use super::*;

    /// 64 nodes in four groups with an I/O node each, 16 aggregators, one round.
    fn said_of(map: Option<Vec<usize>>, aggregators: usize) -> String {
        let io_nodes = (0..4).map(|io| json!({"node": io * 16, "bytes_per_s": 1e9, "serves": [io * 16, io * 16 + 15]}));
        let case = json!({
            "topology": {"torus": [4, 4, 4]}, "link_bytes_per_s": 1e9, "link_latency_s": 1e-6, "nodes": 64,
            "io_nodes": io_nodes.collect::<Vec<_>>(), "ranks": {"per_node": 1, "bytes": 1 << 20, "map": map},
            "aggregators": aggregators, "rounds": 1,
        });
        let case = Case::new(serde_json::from_value(case).unwrap()).unwrap();
        let portfolio = plan_all(&case).unwrap();
        reason(&case, portfolio.plans(), portfolio.best().strategy)
    }

    #[test]
    fn it_is_said_where_it_does_not_matter_who_aggregates() {
        let aligned = said_of(None, 16);
        assert!(
            aligned.contains("makes no difference which rank of a domain aggregates. romio takes 3.67 times as long."),
            "{aligned}"
        );
        assert_eq!(
            said_of(None, 64),
            "All strategies are equal within 1 %: here it makes no difference which ranks aggregate.",
            "every node for itself"
        );
    }

    #[test]
    fn the_best_plan_has_its_reason() {
        let scattered: Vec<usize> = (0..64).map(|rank| rank * 21 % 64).collect();
        let said = said_of(Some(scattered), 16);
        assert!(said.starts_with("Best: ") && said.contains("times as long as the I/O floor: its "), "{said}");
        assert!(said.contains(", the next") && said.contains("; the slowest, "), "{said}");
    }
}
