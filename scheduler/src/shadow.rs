//! The candidate in shadow: what it would have chosen, without a say.
//!
//! A thread of its own keeps its own fleet, advanced by the same events. Before it applies a
//! placement it lets the candidate decide for the same ball with the same draw in the same state, and
//! compares. The fleet then follows the *real* placement, so every difference is one decision's, not
//! the sum of a history; what a candidate does to a fleet it rules alone is the simulator's question.
//! Refused balls are no events and are not compared.
//!
//! Events come through a bounded channel that is never waited for. Above half of it decisions are
//! applied without being compared (counted); when it is full events are lost (counted) and the fleet
//! starts over from a copy.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_models::decide::decide_by;
use berth_models::decision::{Decision, Route};
use berth_models::domain::Class;
use berth_models::event::{Event, EventKind};
use berth_models::fleet::Fleet;
use berth_models::forecast::ForecastModel;
use berth_models::policy::PlacementPolicy;
use berth_models::strategy::{Ranking, StrategyName, View};
use serde::Serialize;
use utoipa::ToSchema;

/// Events that may wait for the shadow.
pub const QUEUE_MAX: usize = 16_384;
/// A fleet is copied at most this often to catch up after events were lost.
const RESTART_EVERY: Duration = Duration::from_secs(10);
/// Load differences are kept in steps of this size from −1 to 1.
const STEP: f64 = 0.01;
const STEPS: usize = 201;
/// Times are kept in buckets that grow by a quarter, from 1/8 µs up.
const TIMES: usize = 96;
/// Smaller differences are rounding.
const EQUAL: f64 = 1e-9;

enum Message {
    Event(Event),
    Model(Option<Arc<ForecastModel>>),
    Policy(Option<Arc<PlacementPolicy>>),
    Restart(Box<Fleet>),
}

/// Decisions compared, and those on which both agreed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Agreement {
    /// Decisions compared.
    pub compared: u64,
    /// Those with the same box.
    pub agreed: u64,
    /// `agreed ÷ compared`; absent before any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

impl Agreement {
    fn count(&mut self, agreed: bool) {
        self.compared += 1;
        self.agreed += u64::from(agreed);
        self.share = Some(self.agreed as f64 / self.compared as f64);
    }
}

/// A distribution of differences: load of the chosen box with the ball, minus load of the
/// candidate's choice with the ball; positive: the candidate's is the emptier box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, ToSchema)]
pub struct Difference {
    /// Mean over all compared decisions.
    pub mean: f64,
    /// 5th percentile.
    pub p05: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Decisions in which the candidate's box is emptier.
    pub better: u64,
    /// Decisions in which it is fuller.
    pub worse: u64,
}

/// What the shadow has seen.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ShadowSummary {
    /// The candidate; absent when none is set.
    #[schema(value_type = Option<String>)]
    pub candidate: Option<StrategyName>,
    /// The id its decisions would carry.
    pub strategy_id: Option<String>,
    /// Over all compared decisions, critical ones included.
    pub agreement: Agreement,
    /// By class of ball.
    pub by_class: std::collections::BTreeMap<&'static str, Agreement>,
    /// By route of the real decision.
    pub by_route: std::collections::BTreeMap<&'static str, Agreement>,
    /// Differences in load now.
    pub load_now: Difference,
    /// Differences in the worst load within the ball's stay, forecasts included.
    pub load_ahead: Difference,
    /// Placed balls for which the candidate had no box.
    pub candidate_refused: u64,
    /// Median of the candidate's time for a decision, in microseconds.
    pub decide_us_p50: f64,
    /// 99th percentile of it.
    pub decide_us_p99: f64,
    /// Decisions that were not compared because the candidate needs a policy and none is active.
    pub without_policy: u64,
    /// Decisions that were not compared because the shadow was behind.
    pub skipped: u64,
    /// Events lost because its queue was full.
    pub lost: u64,
    /// Times the shadow's fleet started over from a copy.
    pub restarts: u64,
}

#[derive(Clone)]
struct Spread {
    steps: [u64; STEPS],
    count: u64,
    sum: f64,
    better: u64,
    worse: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { steps: [0; STEPS], count: 0, sum: 0.0, better: 0, worse: 0 }
    }
}

impl Spread {
    fn add(&mut self, difference: f64) {
        if !difference.is_finite() {
            return;
        }
        let step = ((difference.clamp(-1.0, 1.0) + 1.0) / STEP).round() as usize;
        self.steps[step.min(STEPS - 1)] += 1;
        self.count += 1;
        self.sum += difference;
        self.better += u64::from(difference > EQUAL);
        self.worse += u64::from(difference < -EQUAL);
    }

    fn read(&self) -> Difference {
        let at = |share: f64| quantile(&self.steps, share).map_or(0.0, |step| step as f64 * STEP - 1.0);
        Difference {
            mean: if self.count == 0 { 0.0 } else { self.sum / self.count as f64 },
            p05: at(0.05),
            p50: at(0.5),
            p95: at(0.95),
            better: self.better,
            worse: self.worse,
        }
    }
}

fn quantile(counts: &[u64], share: f64) -> Option<usize> {
    let total: u64 = counts.iter().sum();
    let wanted = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    })
}

struct Tally {
    strategy_id: String,
    overall: Agreement,
    by_class: [Agreement; Class::ALL.len()],
    by_route: [Agreement; Route::ALL.len()],
    now: Spread,
    ahead: Spread,
    times: [u64; TIMES],
    candidate_refused: u64,
    without_policy: u64,
    skipped: u64,
    lost: u64,
    restarts: u64,
}

struct Shared {
    candidate: StrategyName,
    depth: AtomicUsize,
    tally: Mutex<Tally>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The evaluation of the candidate set at present.
#[derive(Default)]
pub struct Shadow(Mutex<Option<Arc<Shared>>>);

impl Shadow {
    /// Start evaluating `candidate` from a copy of `fleet`; `None` when the system gives no thread.
    pub fn start(&self, fleet: &Fleet, candidate: StrategyName) -> Option<Feed> {
        let shared = Arc::new(Shared {
            candidate,
            depth: AtomicUsize::new(0),
            tally: Mutex::new(Tally {
                strategy_id: fleet.strategy_id(candidate).to_string(),
                overall: Agreement::default(),
                by_class: Default::default(),
                by_route: Default::default(),
                now: Spread::default(),
                ahead: Spread::default(),
                times: [0; TIMES],
                candidate_refused: 0,
                without_policy: 0,
                skipped: 0,
                lost: 0,
                restarts: 0,
            }),
        });
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("shadow".to_owned());
        let (mine, twin) = (shared.clone(), fleet.clone());
        if let Err(error) = thread.spawn(move || run(&mine, twin, &receiver)) {
            tracing::error!(%error, "the candidate is not evaluated: no thread");
            return None;
        }
        *lock(&self.0) = Some(shared.clone());
        Some(Feed { sender, shared, is_behind: false, restarted: Instant::now() })
    }

    /// What has been seen since the candidate was set; stays readable after it was unset.
    #[must_use]
    pub fn summary(&self) -> Option<ShadowSummary> {
        let shared = lock(&self.0).clone()?;
        let tally = lock(&shared.tally);
        let time =
            |share| quantile(&tally.times, share).map_or(0.0, |bucket| 0.125 * 1.25_f64.powi(bucket as i32));
        Some(ShadowSummary {
            candidate: Some(shared.candidate),
            strategy_id: Some(tally.strategy_id.clone()),
            agreement: tally.overall,
            by_class: Class::ALL.map(|class| (class.name(), tally.by_class[class as usize])).into(),
            by_route: Route::ALL.map(|route| (route.name(), tally.by_route[route as usize])).into(),
            load_now: tally.now.read(),
            load_ahead: tally.ahead.read(),
            candidate_refused: tally.candidate_refused,
            without_policy: tally.without_policy,
            decide_us_p50: time(0.5),
            decide_us_p99: time(0.99),
            skipped: tally.skipped,
            lost: tally.lost,
            restarts: tally.restarts,
        })
    }
}

/// The sequencer's end of the channel.
pub struct Feed {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
    is_behind: bool,
    restarted: Instant,
}

impl Feed {
    /// The candidate.
    #[must_use]
    pub fn candidate(&self) -> StrategyName {
        self.shared.candidate
    }

    /// Hand over the events of a turn, which `fleet` has applied; never waits.
    pub fn send(&mut self, events: &[Event], fleet: &Fleet) {
        if self.is_behind && !events.is_empty() {
            let is_drained = self.shared.depth.load(Ordering::Relaxed) == 0;
            if is_drained && self.restarted.elapsed() >= RESTART_EVERY {
                self.restarted = Instant::now();
                self.is_behind = !self.push(Message::Restart(Box::new(fleet.clone())));
            } else {
                lock(&self.shared.tally).lost += events.len() as u64;
            }
            return;
        }
        for (index, event) in events.iter().enumerate() {
            let is_sent = self.push(Message::Event(event.clone()))
                && match event.kind {
                    EventKind::Activated { .. } => self.push(Message::Model(fleet.model().cloned())),
                    EventKind::PolicyActivated { .. } => self.push(Message::Policy(fleet.policy().cloned())),
                    _ => true,
                };
            if !is_sent {
                self.is_behind = true;
                lock(&self.shared.tally).lost += (events.len() - index) as u64;
                return;
            }
        }
    }

    fn push(&self, message: Message) -> bool {
        self.shared.depth.fetch_add(1, Ordering::Relaxed);
        match self.sender.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.shared.depth.fetch_sub(1, Ordering::Relaxed);
                false
            }
        }
    }
}

fn run(shared: &Shared, mut fleet: Fleet, receiver: &Receiver<Message>) {
    let mut ranking = Ranking::default();
    while let Ok(message) = receiver.recv() {
        let depth = shared.depth.fetch_sub(1, Ordering::Relaxed);
        match message {
            Message::Event(event) => {
                if let EventKind::Decided { decision } = &event.kind {
                    if depth <= QUEUE_MAX / 2 {
                        fleet.advance(event.at_ms);
                        compare(shared, &fleet, decision, &mut ranking);
                    } else {
                        lock(&shared.tally).skipped += 1;
                    }
                }
                fleet.apply(&event);
            }
            Message::Model(model) => {
                fleet.set_model(model);
                name_candidate(shared, &fleet);
            }
            Message::Policy(policy) => {
                fleet.set_policy(policy);
                name_candidate(shared, &fleet);
            }
            Message::Restart(copy) => {
                fleet = *copy;
                name_candidate(shared, &fleet);
                lock(&shared.tally).restarts += 1;
            }
        }
    }
}

/// The id its decisions carry changes with what it learned from.
fn name_candidate(shared: &Shared, fleet: &Fleet) {
    lock(&shared.tally).strategy_id = fleet.strategy_id(shared.candidate).to_string();
}

fn compare(shared: &Shared, fleet: &Fleet, decision: &Decision, ranking: &mut Ranking) {
    if shared.candidate.needs_policy() && fleet.policy().is_none() {
        // What a rule would do in its place is no finding about it.
        lock(&shared.tally).without_policy += 1;
        return;
    }
    let started = Instant::now();
    let (candidate, ball) = (shared.candidate, &decision.ball);
    let twin = decide_by(fleet, ball.clone(), decision.draw, candidate, decision.route, ranking);
    let eighths = (started.elapsed().as_nanos() as f64 / 125.0).max(1.0);
    let bucket = (eighths.log2() / 1.25_f64.log2()).ceil() as usize;
    let view = View::new(fleet, ball, decision.draw);
    let loads = |decision: &Decision| {
        let state = fleet.get_box(decision.box_id()?)?;
        Some((state.load_with(&ball.demand), view.load_ahead(state)))
    };
    let agreed = twin.box_id() == decision.box_id();
    let (chosen, other) = (loads(decision), loads(&twin));

    let mut tally = lock(&shared.tally);
    tally.times[bucket.min(TIMES - 1)] += 1;
    tally.overall.count(agreed);
    tally.by_class[ball.class as usize].count(agreed);
    tally.by_route[decision.route as usize].count(agreed);
    match (chosen, other) {
        (Some(chosen), Some(other)) => {
            tally.now.add(chosen.0 - other.0);
            tally.ahead.add(chosen.1 - other.1);
        }
        _ => tally.candidate_refused += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_keeps_its_mean_its_quantiles_and_its_signs() {
        let mut spread = Spread::default();
        for difference in [-0.5, 0.0, 0.1, 0.2, 9.0, f64::NAN] {
            spread.add(difference);
        }
        let read = spread.read();
        assert!((read.mean - 8.8 / 5.0).abs() < 1e-9);
        assert!(
            (read.p05 + 0.5).abs() < 1e-9 && (read.p50 - 0.1).abs() < 1e-9 && (read.p95 - 1.0).abs() < 1e-9
        );
        assert_eq!((read.better, read.worse), (3, 1));
    }
}
