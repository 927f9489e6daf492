//! The published load-balancing sets, exactly: totals per episode of three rules, as computed from
//! the published formulas with numpy (`tests/data`).

use berth_models::config::FleetConfig;
use berth_models::simulation::simulate;
use berth_models::strategy::StrategyName;
use berth_trainer::suites::{Seeds, Suite};

/// Columns of the files after the episode.
const RULES: [StrategyName; 3] =
    [StrategyName::LeastWorkLeft, StrategyName::LeastWorkLeftSlowTie, StrategyName::EarliestCompletion];

fn check(suite: &str, totals: &str) {
    let suite = Suite::new(suite, &Seeds::Named, false).expect("the suite exists");
    let rows: Vec<Vec<u64>> = totals
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().expect("a whole number")).collect())
        .collect();
    assert_eq!(rows.len(), suite.cases[0].traces);
    for (episode, row) in rows.iter().enumerate() {
        let trace = (suite.cases[0].make)(episode).expect("the trace can be made");
        for (column, rule) in RULES.into_iter().enumerate() {
            let mut scenario = trace.clone();
            scenario.config = FleetConfig { primary: rule, ..scenario.config };
            let total_ms = simulate(&scenario, None, &mut |_| {}).total_ms;
            assert_eq!(total_ms, row[column + 1], "{} episode {episode}, {rule}", suite.name);
        }
    }
}

#[test]
fn iclr19_is_reproduced_to_the_millisecond() {
    check("iclr19", include_str!("../data/iclr19_totals.csv"));
}

#[test]
fn park_is_reproduced_to_the_millisecond() {
    check("park", include_str!("../data/park_totals.csv"));
}
