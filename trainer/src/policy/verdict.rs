//! The verdict over a trained policy: a regime table on traces that nothing was chosen by.

use anyhow::Context;
use berth_models::policy::bundle::{PROBES_MAX, Probe};
use berth_models::policy::scorer::{HIDDEN, INPUTS};
use berth_models::policy::{Regime, Scorer};

use super::environment::{Chooser, Environment, RULES, row};
use super::traffic::{Family, Purpose, Trace};
use super::training::{batch, ratios};
use crate::learners::policy::{Batch, World};
use crate::suites::bootstrap::interval;

/// Loads at which a policy is judged; a regime reaches half-way to its neighbours.
const LOADS: [f64; 8] = [0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.91, 1.0];
const TRACES: u64 = 60;
const JOBS: usize = 2_000;

/// Judge `scorer` at every load, against the rule that is best there.
///
/// # Errors
/// Never in practice: there is always a rule.
pub fn regimes(family: Family, seed: u64, world: &World, scorer: &Scorer) -> anyhow::Result<Vec<Regime>> {
    let edge = |index: usize| (LOADS[index - 1] + LOADS[index]) / 2.0;
    let one = |(index, load): (usize, &f64)| {
        let first = (index as u64) << 32;
        let traces: Vec<Trace> =
            (0..TRACES).map(|i| family.trace(Purpose::Verdict, seed, first + i, *load, JOBS)).collect();
        let (rule, batch) = best_rule(world, &traces)?;
        let ratio = interval(&ratios(world, &batch, scorer));
        Ok(Regime {
            load_from: if index == 0 { 0.0 } else { edge(index) },
            load_to: if index + 1 == LOADS.len() { 1.1 } else { edge(index + 1) },
            rule,
            ratio: ratio.mean,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            traces: TRACES as u32,
        })
    };
    LOADS.iter().enumerate().map(one).collect()
}

/// The rule with the least total on `traces`, and its totals.
fn best_rule(
    world: &World,
    traces: &[Trace],
) -> anyhow::Result<(berth_models::strategy::StrategyName, Batch)> {
    let batches = RULES.map(|(name, chooser)| (name, batch(&world.speeds, traces.to_vec(), chooser)));
    let total = |batch: &Batch| batch.reference_ms.iter().sum::<u64>();
    batches.into_iter().min_by_key(|(_, batch)| total(batch)).context("there is no rule")
}

/// Probes of `scorer`: rows met in traffic, with outputs by a forward pass of its own, in double precision.
#[must_use]
pub fn probes(family: Family, seed: u64, world: &World, scorer: &Scorer) -> Vec<Probe> {
    let trace = family.trace(Purpose::Verdict, seed, u64::MAX, family.home_load(), 64);
    let mut probes = Vec::new();
    let mut environment = Environment::new(&world.speeds);
    let chooser = Chooser::Scorer(scorer, &world.scale);
    environment.play_observed(&trace, chooser, &mut |(pool, work_ms), boxes| {
        let shared = pool.features(&world.scale, work_ms);
        // One box a decision, another each time.
        if let Some(one) = boxes.get(probes.len() % boxes.len()).filter(|_| probes.len() < PROBES_MAX) {
            let features = row(&shared, &pool.box_features(&world.scale, one)).to_vec();
            let output = forward(scorer, &features) as f32;
            probes.push(Probe { features, output });
        }
    });
    probes
}

fn forward(scorer: &Scorer, features: &[f32]) -> f64 {
    let weights = scorer.parameters();
    let input = |index: usize| {
        (f64::from(features[index]) - f64::from(scorer.mean()[index]))
            * f64::from(scorer.inverse_spread()[index])
    };
    let unit = |unit: usize| {
        let sum: f64 =
            (0..INPUTS).map(|index| input(index) * f64::from(weights[index * HIDDEN + unit])).sum();
        (sum + f64::from(weights[INPUTS * HIDDEN + unit])).max(0.0)
    };
    let learned: f64 = (0..HIDDEN).map(|h| unit(h) * f64::from(weights[(INPUTS + 1) * HIDDEN + h])).sum();
    f64::from(features[berth_models::policy::features::POOL_FEATURES]) + learned
}
