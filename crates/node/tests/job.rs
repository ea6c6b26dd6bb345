//! A whole job of cores in virtual time against a reference model: whatever is asked, in whatever order messages
//! travel, every answer is right or the error that was put in, everything is answered within its deadline, and the
//! backing file system sees each listing, page and chunk once.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "job/model.rs"]
mod model;
#[path = "job/network.rs"]
mod network;

use model::Model;
use network::{Faults, Network, Walk};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_faults_every_answer_is_right_and_the_backing_is_asked_once(seed: u64, nodes in 1u32..20, fan_out in 1u32..5) {
        let model = Model::new(seed);
        let mut network = Network::new(&model, nodes, fan_out, seed, 512 * MIB, Faults::default());
        network.run((0..120).map(|number| Walk::random(&model, nodes, seed, number)).collect());
        prop_assert_eq!(network.wrong(), &[] as &[String]);
        prop_assert_eq!(network.failed(), 0);
        prop_assert_eq!(network.asked_more_than_once(), Vec::<String>::new());
    }

    #[test]
    fn with_a_tiny_budget_every_answer_is_still_right(seed: u64, nodes in 1u32..9) {
        let model = Model::new(seed);
        let mut network = Network::new(&model, nodes, 2, seed, 2 * MIB, Faults::default());
        network.run((0..80).map(|number| Walk::random(&model, nodes, seed, number)).collect());
        prop_assert_eq!(network.wrong(), &[] as &[String]);
        prop_assert_eq!(network.failed(), 0);
        prop_assert!(network.kept_bytes_max() <= 2 * MIB);
    }

    #[test]
    fn errors_and_lost_messages_are_told_and_never_kept(seed: u64, nodes in 1u32..12) {
        let model = Model::new(seed);
        let faults = Faults { backing_error_percent: 10, lost_percent: 3 };
        let mut network = Network::new(&model, nodes, 2, seed, 512 * MIB, faults);
        network.run((0..80).map(|number| Walk::random(&model, nodes, seed, number)).collect());
        prop_assert_eq!(network.wrong(), &[] as &[String]);
        network.heal();
        let failed = network.failed();
        network.run((0..80).map(|number| Walk::random(&model, nodes, seed, number)).collect());
        prop_assert_eq!(network.wrong(), &[] as &[String]);
        prop_assert_eq!(network.failed(), failed, "an error was remembered after its cause had gone");
    }

    #[test]
    fn interrupted_requests_are_answered_and_disturb_nobody(seed: u64, nodes in 1u32..9) {
        let model = Model::new(seed);
        let mut network = Network::new(&model, nodes, 2, seed, 512 * MIB, Faults::default());
        network.interrupt_every(5);
        network.run((0..80).map(|number| Walk::random(&model, nodes, seed, number)).collect());
        prop_assert_eq!(network.wrong(), &[] as &[String]);
    }
}

/// Every node reads every file in the order of names; once they are seen to do so, files come in bundles, which fail
/// like everything else and are then asked for one by one.
#[test]
fn files_that_are_all_read_come_in_bundles_and_are_right() {
    for backing_error_percent in [0, 10] {
        let model = Model::packages(1);
        let faults = Faults { backing_error_percent, lost_percent: 0 };
        let mut network = Network::new(&model, 7, 2, 1, 512 * MIB, faults);
        for number in 0..80 {
            network.run((0..7).map(|node| Walk::whole_file(&model, node, number)).collect());
        }
        assert_eq!(network.wrong(), &[] as &[String]);
        if backing_error_percent == 0 {
            assert_eq!(network.bundles(), 8 * 6, "one for each package on each of six links");
            assert_eq!(network.asked_more_than_once(), Vec::<String>::new());
        }
    }
}

#[test]
fn a_leaf_keeps_no_chunk_that_its_kernel_has_read() {
    let model = Model::new(1);
    let mut network = Network::new(&model, 3, 2, 1, 512 * MIB, Faults::default());
    network.run((0..200).map(|number| Walk::whole_file(&model, 2, number)).collect());
    assert_eq!(network.wrong(), &[] as &[String]);
    assert_eq!(network.kept_chunks(2), 0, "the leaf's page cache has them");
    assert!(network.kept_chunks(0) > 0, "the root keeps them for other children");
}
