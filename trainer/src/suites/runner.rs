//! Run every contender on every trace: the same arrivals for all, all cores, one trace in memory a core.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_models::simulation::{Moment, Scenario, Simulated, Simulation};
use indicatif::ProgressBar;

use super::{Contender, Outlook, Outlooks, Suite, hash_trace, summary};

/// What is kept of one run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The suite's score.
    pub score: f64,
    /// Figures by name.
    pub metrics: Vec<(&'static str, f64)>,
    /// The fleet over time, of the first trace of a case.
    pub moments: Vec<Moment>,
}

/// Every outcome by case, trace and contender.
pub struct Results {
    /// In this order.
    pub cases: Vec<Vec<Vec<Outcome>>>,
    /// Fingerprint over all traces.
    pub traces_hash: u64,
    /// Decisions taken by all contenders.
    pub decisions: u64,
    /// Processor time of the simulations, in seconds over all cores.
    pub busy_s: f64,
}

/// Number of runs of a suite, for progress.
#[must_use]
pub fn runs(suite: &Suite) -> usize {
    suite.cases.iter().map(|case| case.traces).sum::<usize>() * suite.contenders.len()
}

/// Run a suite.
///
/// # Errors
/// The first trace that can't be made.
pub fn run(suite: &Suite, progress: &ProgressBar) -> anyhow::Result<Results> {
    progress.set_length(runs(suite) as u64);
    let jobs: Vec<(usize, usize)> = (0..suite.cases.len())
        .flat_map(|case| (0..suite.cases[case].traces).map(move |trace| (case, trace)))
        .collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, TraceResult)>> = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        while let Some((number, (case, trace))) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            jobs.get(number).map(|job| (number, *job))
        } {
            let result = run_trace(suite, case, trace, progress)?;
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, result));
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| anyhow::bail!("a simulation ended by a panic; see above"))
        })
    })?;
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let mut results = Results {
        cases: suite.cases.iter().map(|_| Vec::new()).collect(),
        traces_hash: 0,
        decisions: 0,
        busy_s: 0.0,
    };
    for ((_, result), (case, _)) in done.into_iter().zip(&jobs) {
        let mixed = [results.traces_hash.to_le_bytes(), result.hash.to_le_bytes()].concat();
        results.traces_hash = xxhash_rust::xxh3::xxh3_64(&mixed);
        results.decisions += result.decisions;
        results.busy_s += result.busy_s;
        results.cases[*case].push(result.outcomes);
    }
    Ok(results)
}

struct TraceResult {
    outcomes: Vec<Outcome>,
    hash: u64,
    decisions: u64,
    busy_s: f64,
}

fn run_trace(
    suite: &Suite,
    case: usize,
    trace: usize,
    progress: &ProgressBar,
) -> anyhow::Result<TraceResult> {
    let scenario = (suite.cases[case].make)(trace)?;
    let mut result =
        TraceResult { outcomes: Vec::new(), hash: hash_trace(&scenario), decisions: 0, busy_s: 0.0 };
    let began = std::time::Instant::now();
    let warm = Warm::new(&scenario, &suite.outlooks);
    for contender in &suite.contenders {
        let simulated = warm.run(contender);
        result.decisions += simulated.arrived.iter().sum::<u64>();
        let moments = if trace == 0 { simulated.moments.clone() } else { Vec::new() };
        result.outcomes.push(Outcome {
            score: (suite.score)(&scenario, &simulated),
            metrics: summary::metrics(&scenario, &simulated),
            moments,
        });
        progress.inc(1);
    }
    result.busy_s = began.elapsed().as_secs_f64();
    Ok(result)
}

/// A trace with its history run once: what no contender has a part in.
struct Warm<'a> {
    trace: &'a Scenario,
    outlooks: &'a Outlooks,
    history: Simulation<'a>,
}

impl<'a> Warm<'a> {
    fn new(trace: &'a Scenario, outlooks: &'a Outlooks) -> Self {
        let mut history = Simulation::new(trace, outlooks.model.clone());
        let first_ms = trace.arrivals.first().map_or(0, |arrival| arrival.at_ms);
        history.run_until(first_ms, &mut |_| {});
        Self { trace, outlooks, history }
    }

    fn run(&self, contender: &Contender) -> Simulated {
        let scenario = contender.meets(self.trace);
        // Pools and reports of its own make another history; the others share one.
        let shares = scenario.conditions == self.trace.conditions
            && scenario.report_every_ms == self.trace.report_every_ms;
        let mut simulation = if shares {
            let mut simulation = self.history.clone();
            simulation.resume(&scenario);
            simulation
        } else {
            Simulation::new(&scenario, self.outlooks.model.clone())
        };
        let foresight = Outlooks::foresight(contender.outlook, self.trace);
        simulation.set_foresight(foresight.as_ref());
        if contender.outlook == Outlook::None && !contender.strategy.needs_model() {
            simulation.forget_model();
        }
        if let Some(policy) = self.outlooks.policy.as_ref().filter(|_| contender.strategy.needs_policy()) {
            simulation.activate_policy(policy);
        }
        simulation.run_until(u64::MAX, &mut |_| {});
        simulation.finish()
    }
}
