//! From outcomes to ratios: per trace, with intervals, against the best rule of the same information.

use std::collections::BTreeMap;

use berth_models::simulation::{Scenario, Seen, Simulated};
use serde::Serialize;

use super::bootstrap::{interval, interval_of_ratio};
use super::runner::{Outcome, Results};
use super::{Contender, Kind, Seeds, Suite};

/// Name of the share of balls that found no place.
pub const REFUSED_SHARE: &str = "refused_share";
/// A strategy that refuses a larger share than the one that refuses least, by more than this, ranks after it.
pub const REFUSED_MORE_MAX: f64 = 0.01;
/// Unloaded latency of a request, in milliseconds, for the latency that a box's load makes.
const LATENCY_MS: f64 = 25.0;
/// Load at which that latency levels off: callers give up.
const LOAD_MOST: f64 = 0.985;

/// A comparison, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The suite.
    pub suite: String,
    /// What it is.
    pub about: String,
    /// Fingerprint of the scenario file.
    pub scenario_hash: String,
    /// Fingerprint of every trace that was run.
    pub suite_hash: String,
    /// Where the seeds came from.
    pub seeds: String,
    /// Traces, over all cases.
    pub traces: usize,
    /// What `score` is; lower is better.
    pub score_name: &'static str,
    /// The rule the ratios of most contenders are against: the best mean score among those rules.
    pub best_rule: String,
    /// Decisions taken, and the processor time they took with everything simulated around them, in seconds.
    pub decisions: u64,
    /// See `decisions`.
    pub busy_s: f64,
    /// Over all cases.
    pub strategies: Vec<Row>,
    /// Every case by itself; empty when there is one.
    pub cases: Vec<CaseSummary>,
}

/// One case of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct CaseSummary {
    /// Its name.
    pub case: String,
    /// Its best rule.
    pub best_rule: String,
    /// Who competed.
    pub strategies: Vec<Row>,
}

/// One contender's figures.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Strategy, version, and what it was given or denied.
    pub strategy_id: String,
    /// What it looks at.
    pub sees: String,
    /// `rule`, `candidate`, `ablation`, `seed` or `bound`.
    pub kind: &'static str,
    /// Mean over traces.
    pub score: f64,
    /// Its 95 % interval.
    pub score_low: f64,
    /// See `score_low`.
    pub score_high: f64,
    /// Mean over traces of score ÷ score of the best rule of the same information.
    pub ratio_best_rule: f64,
    /// Its 95 % interval.
    pub ratio_low: f64,
    /// See `ratio_low`.
    pub ratio_high: f64,
    /// Other figures by name, means over traces; `gap_closed` is the share of the way from the best
    /// rule to the bound.
    pub metrics: BTreeMap<String, f64>,
    /// Score by trace.
    pub traces: Vec<f64>,
}

/// Summarise the results of a suite.
#[must_use]
pub fn summarise(suite: &Suite, seeds: &Seeds, results: &Results) -> Comparison {
    let all: Vec<&Vec<Outcome>> = results.cases.iter().flatten().collect();
    let pooled = Table { suite, traces: all };
    let cases = suite.cases.iter().zip(&results.cases).map(|(case, traces)| {
        let table = Table { suite, traces: traces.iter().collect() };
        CaseSummary { case: case.name.clone(), best_rule: table.best_rule_name(), strategies: table.rows() }
    });
    Comparison {
        suite: suite.name.to_owned(),
        about: suite.about.clone(),
        scenario_hash: suite.scenario_hash.clone(),
        suite_hash: format!("{:016x}", results.traces_hash),
        seeds: seeds.to_string(),
        traces: pooled.traces.len(),
        score_name: suite.score_name,
        best_rule: pooled.best_rule_name(),
        decisions: results.decisions,
        busy_s: results.busy_s,
        strategies: pooled.rows(),
        cases: if suite.cases.len() > 1 { cases.collect() } else { Vec::new() },
    }
}

/// Outcomes by trace and contender.
struct Table<'a> {
    suite: &'a Suite,
    traces: Vec<&'a Vec<Outcome>>,
}

impl Table<'_> {
    fn scores(&self, contender: usize) -> Vec<f64> {
        self.traces.iter().map(|trace| trace[contender].score).collect()
    }

    fn refused_share(&self, contender: usize) -> f64 {
        self.mean_metrics(contender).get(REFUSED_SHARE).copied().unwrap_or(0.0)
    }

    /// The best rule of a group, picked on the very traces that are reported: in the rules' favour. A rule that
    /// turns balls away which others place comes after those: what it doesn't take can't be slow.
    fn best_rule(&self, group: &str) -> Option<usize> {
        let is_rule = |index: &usize| {
            let contender = &self.suite.contenders[*index];
            contender.kind == Kind::Rule && contender.group == group
        };
        let rules: Vec<usize> = (0..self.suite.contenders.len()).filter(is_rule).collect();
        let least = rules.iter().map(|rule| self.refused_share(*rule)).fold(f64::INFINITY, f64::min);
        let rank = |rule: usize| {
            let is_choosy = self.refused_share(rule) > least + REFUSED_MORE_MAX;
            (is_choosy, self.scores(rule).iter().sum::<f64>())
        };
        rules.into_iter().min_by(|a, b| {
            let (a, b) = (rank(*a), rank(*b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }

    fn best_rule_name(&self) -> String {
        self.best_rule("all").map_or_else(String::new, |best| self.suite.contenders[best].id.clone())
    }

    fn rows(&self) -> Vec<Row> {
        (0..self.suite.contenders.len()).map(|index| self.row(index)).collect()
    }

    fn row(&self, index: usize) -> Row {
        let contender: &Contender = &self.suite.contenders[index];
        let scores = self.scores(index);
        let best = self.best_rule(contender.group).map_or_else(|| scores.clone(), |best| self.scores(best));
        let ratios: Vec<f64> =
            scores.iter().zip(&best).map(|(score, best)| ratio_of(*score, *best)).collect();
        let (score, ratio) = (interval(&scores), interval(&ratios));
        let mut metrics = self.mean_metrics(index);
        metrics.insert("ratio_worst_trace".to_owned(), ratios.iter().copied().fold(0.0, f64::max));
        let bound = self.suite.contenders.iter().position(|other| other.kind == Kind::Bound);
        if let Some(bound) = bound.filter(|bound| *bound != index) {
            let difference = |from: &[f64], to: &[f64]| -> Vec<f64> {
                from.iter().zip(to).map(|(from, to)| from - to).collect()
            };
            let gap = difference(&best, &self.scores(bound));
            if gap.iter().sum::<f64>() > 0.0 {
                let closed = interval_of_ratio(&difference(&best, &scores), &gap);
                metrics.insert("gap_closed".to_owned(), closed.mean);
                metrics.insert("gap_closed_low".to_owned(), closed.low);
                metrics.insert("gap_closed_high".to_owned(), closed.high);
            }
        }
        Row {
            strategy_id: contender.id.clone(),
            sees: contender.sees.clone(),
            kind: match contender.kind {
                Kind::Rule => "rule",
                Kind::Candidate => "candidate",
                Kind::Ablation => "ablation",
                Kind::Seed => "seed",
                Kind::Bound => "bound",
            },
            score: score.mean,
            score_low: score.low,
            score_high: score.high,
            ratio_best_rule: ratio.mean,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            metrics,
            traces: scores,
        }
    }

    fn mean_metrics(&self, index: usize) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for trace in &self.traces {
            for (name, value) in &trace[index].metrics {
                *sums.entry((*name).to_owned()).or_default() += value / self.traces.len() as f64;
            }
        }
        sums
    }
}

fn ratio_of(score: f64, best: f64) -> f64 {
    // Two perfect scores are equal.
    if score == best { 1.0 } else { score / best }
}

/// The figures of one run that every suite shows. Balls that came before the measured part don't count.
pub(super) fn metrics(trace: &Scenario, simulated: &Simulated) -> Vec<(&'static str, f64)> {
    let mut times: Vec<u64> = simulated.time_in_system_ms.iter().flatten().copied().collect();
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len().max(1) - 1) as f64 * share) as usize).copied();
    let ms = |time: Option<u64>| time.unwrap_or_default() as f64;
    let arrived = simulated.arrived.iter().sum::<u64>().max(1) as f64;
    let errors = simulated.errors();
    let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    let mut metrics = vec![
        ("time_in_system_ms_mean", times.iter().sum::<u64>() as f64 / times.len().max(1) as f64),
        ("time_in_system_ms_p99", ms(at(0.99))),
        (REFUSED_SHARE, simulated.refused.iter().sum::<u64>() as f64 / arrived),
        ("timed_out_share", simulated.timed_out.iter().sum::<u64>() as f64 / arrived),
        ("errors_critical", errors[0] as f64),
        ("timed_out_critical", simulated.timed_out[0] as f64),
        ("error_share_critical", share(errors[0], simulated.arrived[0])),
        ("error_share_other", share(errors[1] + errors[2], simulated.arrived[1] + simulated.arrived[2])),
    ];
    if !simulated.moments.is_empty() {
        metrics.extend([
            ("utilisation_spread", simulated.imbalance),
            ("overload_share", simulated.overload_share),
            ("load_max", simulated.load_max),
            ("load_p99", load_p99(&simulated.seen)),
            ("latency_ms_p99", latency_ms_p99(&simulated.seen)),
        ]);
    }
    if let Some(slow) = slow_share(trace, simulated) {
        metrics.push(("slow_share", slow));
    }
    metrics
}

/// 99th percentile over balls and moments of a request's latency: that of a single queue,
/// 25 ms ÷ (1 − load), levelled off where callers give up.
#[must_use]
pub fn latency_ms_p99(seen: &[Seen]) -> f64 {
    LATENCY_MS / (1.0 - load_p99(seen).min(LOAD_MOST))
}

/// 99th percentile over balls and moments of the load a ball meets.
fn load_p99(seen: &[Seen]) -> f64 {
    let mut seen: Vec<&Seen> = seen.iter().filter(|seen| seen.balls > 0).collect();
    seen.sort_by(|a, b| a.load.total_cmp(&b.load));
    let total: u64 = seen.iter().map(|seen| u64::from(seen.balls)).sum();
    let mut left = (total as f64 * 0.99) as u64;
    for Seen { load, balls } in seen {
        if left < u64::from(*balls) {
            return *load;
        }
        left -= u64::from(*balls);
    }
    0.0
}

/// Share of uploads that took 1.25 times as long as at their sender's own speed, refused ones included.
fn slow_share(trace: &Scenario, simulated: &Simulated) -> Option<f64> {
    const SLOW_FACTOR: f64 = 1.25;
    let is_link = |discipline| discipline == berth_models::simulation::Discipline::Bandwidth;
    if !trace.boxes.first().is_some_and(|first| is_link(first.discipline)) {
        return None;
    }
    let times = simulated.time_in_system_ms.iter().zip(&trace.arrivals);
    let slow = times.filter(|(time, arrival)| {
        time.is_none_or(|time| time as f64 > arrival.service_ms * SLOW_FACTOR + 1.0)
    });
    Some(slow.count() as f64 / trace.arrivals.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_balls_and_levels_off() {
        let seen = |load: f64, balls: u32| Seen { load, balls };
        assert!((latency_ms_p99(&[seen(0.5, 100), seen(2.0, 1)]) - 50.0).abs() < 1e-9);
        let levelled = latency_ms_p99(&[seen(0.5, 90), seen(2.0, 10)]);
        assert!((levelled - 25.0 / 0.015).abs() < 1e-6);
        assert_eq!(latency_ms_p99(&[seen(2.0, 0)]), 25.0);
    }

    #[test]
    fn equal_scores_have_the_ratio_one() {
        assert_eq!(ratio_of(0.0, 0.0), 1.0);
        assert_eq!(ratio_of(1.0, 2.0), 0.5);
    }
}
