//! The shipped policies load, and are ahead of the best rule on the first traces of their suites.

use std::path::Path;
use std::sync::Arc;

use berth_models::simulation::{simulate, simulate_policy};
use berth_models::strategy::StrategyName;
use berth_trainer::commands::policy::load;
use berth_trainer::suites::{Seeds, Suite};

#[test]
fn shipped_policies_are_ahead_of_the_best_rule() {
    for (name, most) in [("iclr19", 0.97), ("park", 0.90)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name);
        let bundle = load(&folder).unwrap();
        assert!(bundle.probe_difference() < 1e-5);
        let policy = Arc::new(bundle.policy().clone());
        let suite = Suite::new(name, &Seeds::Named, false).unwrap();
        let ratio = |mut trace: berth_models::simulation::Scenario| {
            trace.config.primary = StrategyName::LeastWorkLeft;
            let rule = simulate(&trace, None, &mut |_| {}).total_ms;
            trace.config.primary = StrategyName::Learned;
            let learned = simulate_policy(&trace, ("shipped".into(), policy.clone()), &mut |_| {}).total_ms;
            learned as f64 / rule as f64
        };
        let ratios: Vec<f64> = (0..40).map(|index| ratio((suite.cases[0].make)(index).unwrap())).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!(mean < most, "{name}: {mean}");
    }
}
