//! One pass of the demo: held-out traffic over real HTTP, faster than real time, in an open loop.
//!
//! Balls are sent when their time has come, whether or not earlier answers are there. Emulated
//! boxes hold what they are given, report every ten seconds and finish balls as their load allows.

use std::ops::Range;
use std::time::{Duration, Instant};

use berth_datasets::{BallRow, FleetData};
use indicatif::ProgressBar;
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::fleet::{DIMENSIONS, EmulatedFleet};
use super::server::Api;

/// Time between two reports of a box, in engine milliseconds.
const REPORT_MS: i64 = 10_000;
/// Step of the emulation, in engine milliseconds.
const STEP_MS: i64 = 1_000;
/// Boxes backfill at most this many old reports in one request.
const BACKFILL_BATCH: usize = 1_000;
/// History a box backfills before the replay, in milliseconds: a day and a bit.
const BACKFILL_MS: i64 = 25 * 3_600_000;
/// Most answers waiting to be taken in.
const ANSWERS_MAX: usize = 100_000;

/// What to replay.
pub struct Replay<'a> {
    /// The recorded tables.
    pub data: &'a FleetData,
    /// First moment, in epoch milliseconds.
    pub from_ms: i64,
    /// Last moment, in epoch milliseconds.
    pub to_ms: i64,
    /// Engine milliseconds a wall millisecond.
    pub time_scale: f64,
}

/// What came of a pass.
#[derive(Debug, Clone, Serialize)]
pub struct PassResult {
    /// Balls sent.
    pub balls: usize,
    /// Refused balls that were critical.
    pub refused_critical: usize,
    /// Other refused balls.
    pub refused_other: usize,
    /// Requests that got no usable answer.
    pub failed: usize,
    /// Mean over time of the standard deviation of load over boxes.
    pub imbalance: f64,
    /// Share of (box, second) pairs with a load above 1.
    pub overload_share: f64,
    /// 99th percentile of stay ÷ work over the balls that ended: 1 is undisturbed.
    pub stretch_p99: f64,
    /// Share of the balls that ended which overload slowed by more than 1 %.
    pub slowed_share: f64,
    /// 99th percentile of the answer's time, in wall milliseconds, from the scheduled moment.
    pub answer_ms_p99: f64,
    /// Load of every box, a sample a report interval: (engine time, loads).
    #[serde(skip)]
    pub loads: Vec<(i64, Vec<f64>)>,
    /// The shadow summary at the end.
    pub shadow: Value,
}

/// What a request brought.
enum Answer {
    Placed { index: usize, lease_id: u64, box_id: String, answer_ms: f64 },
    Refused { index: usize, answer_ms: f64 },
    Failed,
}

/// Translation of trace time to the server's wall clock, from what `/readyz` says.
#[derive(Clone, Copy)]
struct Clock {
    wall_ms: f64,
    engine_ms: f64,
    scale: f64,
    read_at: Instant,
}

impl Clock {
    fn engine_now_ms(&self) -> i64 {
        (self.engine_ms + self.read_at.elapsed().as_secs_f64() * 1e3 * self.scale) as i64
    }

    fn wall_of(&self, engine_ms: i64) -> u64 {
        (self.wall_ms + (engine_ms as f64 - self.engine_ms) / self.scale) as u64
    }
}

/// Register, backfill and replay; the server's engine time must lie before `replay.from_ms`.
///
/// # Errors
/// When the scheduler refuses what it should take.
pub async fn run(api: &Api, replay: &Replay<'_>, bar: &ProgressBar) -> anyhow::Result<PassResult> {
    let mut fleet = EmulatedFleet::new(replay.data);
    register(api, &fleet).await?;
    let mut clock = read_clock(api).await?;
    bar.set_message("boxes backfill a day of reports");
    let mut from_ms = replay.from_ms - BACKFILL_MS;
    // Engine time runs on meanwhile: a second round brings what the first one's time has added.
    for _ in 0..2 {
        let to_ms = replay.from_ms.min(clock.engine_now_ms());
        backfill(api, &fleet, &clock, from_ms..to_ms, bar).await?;
        (from_ms, clock) = (to_ms, read_clock(api).await?);
    }
    bar.set_message("replaying held-out traffic");
    let mut pass = Pass::new(api.clone(), replay, clock);
    pass.run(&mut fleet, bar).await;
    let shadow = api.expect(Method::GET, "/v1/shadow", None).await?;
    Ok(pass.summarise(shadow))
}

async fn register(api: &Api, fleet: &EmulatedFleet) -> anyhow::Result<()> {
    for emulated in &fleet.boxes {
        let names = ["cpu_cores", "memory_bytes", "bandwidth_bps", "slots"];
        let capacity: serde_json::Map<String, Value> = names
            .into_iter()
            .zip(emulated.capacity())
            .filter_map(|(name, capacity)| Some((name.to_owned(), json!(capacity?))))
            .collect();
        let body = json!({
            "capacity": capacity,
            "endpoint": "http://boxes.invalid/",
            "stage": "mature",
        });
        api.expect(Method::PUT, &box_path(&emulated.row.box_id, ""), Some(&body)).await?;
    }
    Ok(())
}

async fn read_clock(api: &Api) -> anyhow::Result<Clock> {
    let ready = api.expect(Method::GET, "/readyz", None).await?;
    let number = |name: &str| ready[name].as_f64().unwrap_or_default();
    Ok(Clock {
        wall_ms: number("wall_ms"),
        engine_ms: number("at_ms"),
        scale: number("time_scale"),
        read_at: Instant::now(),
    })
}

async fn backfill(
    api: &Api,
    fleet: &EmulatedFleet,
    clock: &Clock,
    stretch_ms: Range<i64>,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    for emulated in &fleet.boxes {
        let past = emulated.background.iter().filter(|(at_ms, _)| stretch_ms.contains(at_ms));
        let reports: Vec<Value> =
            past.map(|(at_ms, usage)| report(clock, *at_ms, usage, &emulated.capacity())).collect();
        for chunk in reports.chunks(BACKFILL_BATCH) {
            let path = box_path(&emulated.row.box_id, "/report/batch");
            api.expect(Method::POST, &path, Some(&json!(chunk))).await?;
        }
        bar.tick();
    }
    Ok(())
}

fn report(
    clock: &Clock,
    at_ms: i64,
    usage: &[f64; DIMENSIONS],
    capacity: &[Option<f64>; DIMENSIONS],
) -> Value {
    let names = ["cpu_cores", "memory_bytes", "bandwidth_bps", "slots"];
    let usage: serde_json::Map<String, Value> = names
        .into_iter()
        .zip(usage.iter().zip(capacity))
        .filter(|(_, (_, capacity))| capacity.is_some())
        .map(|(name, (used, _))| (name.to_owned(), json!(used)))
        .collect();
    json!({ "sampled_at_ms": clock.wall_of(at_ms), "window_ms": 1, "usage": usage })
}

struct Pass<'a> {
    api: Api,
    replay: &'a Replay<'a>,
    clock: Clock,
    balls: &'a [BallRow],
    sender: mpsc::Sender<Answer>,
    receiver: mpsc::Receiver<Answer>,
    next: usize,
    leases: Vec<Option<u64>>,
    last_lease: Vec<u64>,
    stretches: Vec<f64>,
    answers_ms: Vec<f64>,
    imbalance: f64,
    overloads: usize,
    steps: usize,
    result: PassResult,
}

impl<'a> Pass<'a> {
    fn new(api: Api, replay: &'a Replay<'a>, clock: Clock) -> Self {
        let all = &replay.data.balls;
        let first = all.partition_point(|ball| ball.at_ms < replay.from_ms);
        let end = all.partition_point(|ball| ball.at_ms < replay.to_ms);
        let (sender, receiver) = mpsc::channel(ANSWERS_MAX);
        Self {
            api,
            replay,
            clock,
            balls: &all[first..end],
            sender,
            receiver,
            next: 0,
            leases: vec![None; end - first],
            last_lease: Vec::new(),
            stretches: Vec::new(),
            answers_ms: Vec::new(),
            imbalance: 0.0,
            overloads: 0,
            steps: 0,
            result: PassResult {
                balls: end - first,
                refused_critical: 0,
                refused_other: 0,
                failed: 0,
                imbalance: 0.0,
                overload_share: 0.0,
                stretch_p99: 0.0,
                slowed_share: 0.0,
                answer_ms_p99: 0.0,
                loads: Vec::new(),
                shadow: Value::Null,
            },
        }
    }

    async fn run(&mut self, fleet: &mut EmulatedFleet, bar: &ProgressBar) {
        self.last_lease = vec![0; fleet.boxes.len()];
        bar.set_length(((self.replay.to_ms - self.replay.from_ms) / STEP_MS) as u64);
        // Boxes report from now on; balls come and figures count from `from_ms` on.
        let mut at_ms = self.replay.from_ms.min(self.clock.engine_now_ms() / STEP_MS * STEP_MS);
        while at_ms < self.replay.to_ms {
            let wait_ms = (at_ms - self.clock.engine_now_ms()) as f64 / self.replay.time_scale;
            if wait_ms > 0.0 {
                tokio::time::sleep(Duration::from_secs_f64(wait_ms / 1e3)).await;
            }
            self.take_answers(fleet);
            for ended in fleet.advance(at_ms, STEP_MS as f64) {
                self.stretches.push(ended.stretch);
                self.complete(ended.index);
            }
            self.send_due(at_ms);
            self.report_due(fleet, at_ms);
            if at_ms >= self.replay.from_ms {
                self.measure(fleet, at_ms);
                bar.inc(1);
            }
            at_ms += STEP_MS;
        }
    }

    fn take_answers(&mut self, fleet: &mut EmulatedFleet) {
        while let Ok(answer) = self.receiver.try_recv() {
            match answer {
                Answer::Placed { index, lease_id, box_id, answer_ms } => {
                    self.answers_ms.push(answer_ms);
                    self.leases[index] = Some(lease_id);
                    let Some(position) = fleet.position(&box_id) else { continue };
                    let last = &mut self.last_lease[position];
                    *last = lease_id.max(*last);
                    fleet.place(index, position, demand(&self.balls[index]), work_ms(&self.balls[index]));
                }
                Answer::Refused { index, answer_ms } => {
                    self.answers_ms.push(answer_ms);
                    if self.balls[index].class == "critical" {
                        self.result.refused_critical += 1;
                    } else {
                        self.result.refused_other += 1;
                    }
                }
                Answer::Failed => self.result.failed += 1,
            }
        }
    }

    fn send_due(&mut self, at_ms: i64) {
        while let Some(ball) = self.balls.get(self.next).filter(|ball| ball.at_ms <= at_ms) {
            let (api, sender, index) = (self.api.clone(), self.sender.clone(), self.next);
            let (body, due) = (allocation(ball), Instant::now());
            tokio::spawn(async move {
                let answer = allocate(&api, index, &body, due).await;
                sender.send(answer.unwrap_or(Answer::Failed)).await.ok();
            });
            self.next += 1;
        }
    }

    fn complete(&mut self, index: usize) {
        let ball = &self.balls[index];
        let Some(lease_id) = self.leases[index].take() else { return };
        let body = json!({
            "tenant": tenant(ball),
            "ball_id": ball.ball_id,
            "succeeded": true,
        });
        let api = self.api.clone();
        tokio::spawn(async move {
            let path = format!("/v1/leases/{lease_id}/complete");
            api.send(Method::POST, &path, Some(&body)).await.ok();
        });
    }

    fn report_due(&self, fleet: &EmulatedFleet, at_ms: i64) {
        for (position, emulated) in fleet.boxes.iter().enumerate() {
            // Boxes report in turn, not all at once.
            let phase_ms = position as i64 * STEP_MS;
            if (at_ms + phase_ms) % REPORT_MS != 0 {
                continue;
            }
            let usage = emulated.usage_at(at_ms);
            let mut body = report(&self.clock, at_ms, &usage, &emulated.capacity());
            body["last_accepted_lease_id"] = json!(self.last_lease[position]);
            let (api, path) = (self.api.clone(), box_path(&emulated.row.box_id, "/report"));
            tokio::spawn(async move {
                api.send(Method::POST, &path, Some(&body)).await.ok();
            });
        }
    }

    fn measure(&mut self, fleet: &EmulatedFleet, at_ms: i64) {
        let loads = fleet.loads_at(at_ms);
        let count = loads.len() as f64;
        let mean = loads.iter().sum::<f64>() / count;
        let variance = loads.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / count;
        self.imbalance += variance.sqrt();
        self.overloads += loads.iter().filter(|load| **load > 1.0).count();
        self.steps += 1;
        if at_ms % REPORT_MS == 0 {
            self.result.loads.push((at_ms, loads));
        }
    }

    fn summarise(mut self, shadow: Value) -> PassResult {
        let steps = self.steps.max(1) as f64;
        let boxes = self.last_lease.len().max(1) as f64;
        self.result.imbalance = self.imbalance / steps;
        self.result.overload_share = self.overloads as f64 / (steps * boxes);
        let slowed = self.stretches.iter().filter(|stretch| **stretch > 1.01).count();
        self.result.slowed_share = slowed as f64 / self.stretches.len().max(1) as f64;
        self.result.stretch_p99 = percentile_99(&mut self.stretches);
        self.result.answer_ms_p99 = percentile_99(&mut self.answers_ms);
        self.result.shadow = shadow;
        self.result
    }
}

async fn allocate(api: &Api, index: usize, body: &Value, due: Instant) -> anyhow::Result<Answer> {
    let (status, answer) = api.send(Method::POST, "/v1/allocate", Some(body)).await?;
    let answer_ms = due.elapsed().as_secs_f64() * 1e3;
    Ok(match (status, answer["lease_id"].as_u64(), answer["box_id"].as_str()) {
        (200 | 201, Some(lease_id), Some(box_id)) => {
            Answer::Placed { index, lease_id, box_id: box_id.to_owned(), answer_ms }
        }
        (503, _, _) if answer["causes"].is_object() => Answer::Refused { index, answer_ms },
        _ => Answer::Failed,
    })
}

/// Path of a box, whatever its id is made of.
fn box_path(box_id: &str, rest: &str) -> String {
    let box_id = percent_encoding::utf8_percent_encode(box_id, percent_encoding::NON_ALPHANUMERIC);
    format!("/v1/boxes/{box_id}{rest}")
}

fn tenant(ball: &BallRow) -> &str {
    if ball.tenant.is_empty() { "default" } else { &ball.tenant }
}

fn work_ms(ball: &BallRow) -> f64 {
    ball.work
        .map_or_else(|| ball.expected_residence_ms.unwrap_or(60_000) as f64, |work_s| work_s * 1e3)
        .max(1.0)
}

fn demand(ball: &BallRow) -> [f64; DIMENSIONS] {
    [ball.demand_cpu_cores, ball.demand_memory_bytes, ball.demand_bandwidth_bps, ball.demand_slots]
}

fn allocation(ball: &BallRow) -> Value {
    let [cpu_cores, memory_bytes, bandwidth_bps, slots] = demand(ball);
    json!({
        "tenant": tenant(ball),
        "ball_id": ball.ball_id,
        "class": ball.class,
        "demand": {
            "cpu_cores": cpu_cores,
            "memory_bytes": memory_bytes.round(),
            "bandwidth_bps": bandwidth_bps.round(),
            "slots": slots,
        },
        "expected_residence_ms": ball.expected_residence_ms,
        "lease_ms": 86_400_000_u64,
    })
}

fn percentile_99(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}
