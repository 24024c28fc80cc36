//! Defects that the simulation has found, each with the steps that showed it.

use std::time::Duration;

use super::scenario::{Planned, Step};
use super::world::run;

/// Runs these steps, each at its second, with some seeds.
fn holds(steps: &[(u64, Step)]) {
    let at = |(second, step): &(u64, Step)| Planned {
        at: Duration::from_secs(*second),
        step: *step,
    };
    let plan: Vec<Planned> = steps.iter().map(at).collect();
    for seed in 1..=4 {
        let outcome = run(seed, &plan);
        assert_eq!(
            outcome.failure,
            None,
            "seed {seed}:\n{}",
            outcome.trace.join("\n")
        );
    }
}

#[test]
fn a_rejection_that_was_folded_before_a_crash_is_announced() {
    let crash = |replica| Step::Crash {
        replica,
        tears: false,
        ms: 2_000,
    };
    let both = |second| [(second, crash(0)), (second, crash(1))];
    let steps: Vec<_> = [8, 15, 22, 29, 36, 43, 50]
        .into_iter()
        .flat_map(both)
        .collect();
    holds(&steps);
}

#[test]
fn after_a_write_that_failed_no_socket_knows_more_than_the_views() {
    for step in [
        Step::FailSync { replica: 0 },
        Step::FailWrite { replica: 0 },
    ] {
        let steps: Vec<_> = [10, 20, 30, 40, 50]
            .into_iter()
            .map(|second| (second, step))
            .collect();
        holds(&steps);
    }
}

#[test]
fn acknowledgements_are_in_the_order_of_the_messages_after_some_were_sent_again() {
    let reject = Step::RejectMessages { messages: 6 };
    let steps: Vec<_> = (5..58).map(|second| (second, reject)).collect();
    holds(&steps);
}

#[test]
fn views_that_are_rebuilt_again_and_again_stay_live() {
    let both = |second| [0, 1].map(|replica| (second, Step::Rebuild { replica }));
    let steps: Vec<_> = (25..55).flat_map(both).collect();
    holds(&steps);
}
