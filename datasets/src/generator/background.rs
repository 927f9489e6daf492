//! Background load: what boxes do besides the balls that a scheduler places on them.
//!
//! Per box: a daily pattern with the box's own phase and weekly factor, jobs that start at fixed minutes,
//! slow noise, level shifts and short bursts. All shares are of the box's cores.

use super::random::Random;
use super::{DAY_MS, GeneratorConfig};

/// A job that a box starts at fixed times.
struct Job {
    period_ms: i64,
    offset_ms: i64,
    duration_ms: i64,
    share: f64,
    /// The share of a start's own height that varies.
    wobble: f64,
}

/// Something that came and will go, unannounced.
struct Episode {
    from_ms: i64,
    until_ms: i64,
    share: f64,
}

/// The shape of one box's background.
struct Shape {
    base: f64,
    amplitude: f64,
    phase_ms: i64,
    weekend: f64,
    memory_base: f64,
    bandwidth_factor: f64,
    jobs: Vec<Job>,
    episodes: Vec<Episode>,
}

/// Background of one box at every sample, as shares of capacity.
pub(super) struct Background {
    pub cpu: Vec<f64>,
    pub memory: Vec<f64>,
    pub bandwidth: Vec<f64>,
}

/// The daily pattern in [0, 1]: a low night, a peak in the early afternoon, a shoulder in the evening.
pub(super) fn day_profile(at_ms: i64) -> f64 {
    let turn = std::f64::consts::TAU * (at_ms.rem_euclid(DAY_MS) as f64 / DAY_MS as f64);
    let first = libm::cos(turn - std::f64::consts::TAU * 14.5 / 24.0);
    let second = libm::cos(2.0 * turn - std::f64::consts::TAU * 2.0 * 20.0 / 24.0);
    ((first + 0.35 * second + 1.25) / 2.6).clamp(0.0, 1.0)
}

/// Whether a time falls on Saturday or Sunday; day 0 of the epoch was a Thursday.
pub(super) fn is_weekend(at_ms: i64) -> bool {
    matches!(at_ms.div_euclid(DAY_MS).rem_euclid(7), 2 | 3)
}

/// The background of box number `index` over the whole time.
pub(super) fn of_box(config: &GeneratorConfig, index: u64) -> Background {
    let mut random = Random::new(config.seed, 1_000 + index);
    let shape = Shape::draw(config, &mut random);
    let samples = config.samples();
    let mut background = Background {
        cpu: Vec::with_capacity(samples),
        memory: Vec::with_capacity(samples),
        bandwidth: Vec::with_capacity(samples),
    };
    let (mut slow, mut memory_slow) = (0.0, 0.0);
    // Noise was tuned at 60 s; the decay keeps its time scale (about ten minutes) at other steps.
    let minutes = config.step_ms as f64 / 60_000.0;
    let (decay, memory_decay) = (libm::pow(0.9, minutes), libm::pow(0.99, minutes));
    let innovation = config.noise * libm::sqrt(1.0 - decay * decay);
    let memory_innovation = 0.03 * libm::sqrt(1.0 - memory_decay * memory_decay);
    for sample in 0..samples {
        let at_ms = config.start_ms + sample as i64 * config.step_ms;
        slow = decay * slow + innovation * random.normal();
        memory_slow = memory_decay * memory_slow + memory_innovation * random.normal();
        let steady = shape.steady(at_ms);
        let extra = shape.jobs_at(config.seed, index, at_ms) + shape.episodes_at(at_ms);
        let white = 0.25 * config.noise * random.normal();
        background.cpu.push((steady + extra + slow + white).clamp(0.01, 0.97));
        background
            .memory
            .push((shape.memory_base + 0.15 * steady + 0.2 * extra + memory_slow).clamp(0.05, 0.9));
        let bandwidth = shape.bandwidth_factor * (steady + 0.4 * extra) + 0.5 * slow;
        background.bandwidth.push(bandwidth.clamp(0.0, 0.9));
    }
    background
}

impl Shape {
    fn draw(config: &GeneratorConfig, random: &mut Random) -> Self {
        let base = config.background_share * random.between(0.75, 1.25);
        let mut shape = Self {
            base,
            amplitude: config.daily_amplitude * random.between(0.8, 1.2),
            phase_ms: (random.between(-1.5, 1.5) * 3_600_000.0) as i64,
            weekend: random.between(0.7, 0.9),
            memory_base: random.between(0.25, 0.45),
            bandwidth_factor: random.between(0.5, 1.0),
            jobs: draw_jobs(config, random),
            episodes: Vec::new(),
        };
        draw_episodes(config, random, &mut shape.episodes);
        shape
    }

    fn steady(&self, at_ms: i64) -> f64 {
        let wave = 2.0 * day_profile(at_ms + self.phase_ms) - 1.0;
        let week = if is_weekend(at_ms) { self.weekend } else { 1.0 };
        self.base * week * (1.0 + self.amplitude * wave)
    }

    fn jobs_at(&self, seed: u64, index: u64, at_ms: i64) -> f64 {
        let height = |(number, job): (usize, &Job)| {
            let start = (at_ms - job.offset_ms).div_euclid(job.period_ms);
            let into_ms = (at_ms - job.offset_ms).rem_euclid(job.period_ms);
            if into_ms >= job.duration_ms {
                return 0.0;
            }
            // One start has one height, whatever the sampling step.
            let mut random = Random::new(seed ^ start as u64, 1_000_000 + index * 16 + number as u64);
            job.share * (1.0 + job.wobble * (2.0 * random.unit() - 1.0))
        };
        self.jobs.iter().enumerate().map(height).sum()
    }

    fn episodes_at(&self, at_ms: i64) -> f64 {
        let running = self.episodes.iter().filter(|e| (e.from_ms..e.until_ms).contains(&at_ms));
        running.map(|episode| episode.share).sum()
    }
}

/// An hourly job, one every few hours, and one a night; their minutes differ from box to box.
fn draw_jobs(config: &GeneratorConfig, random: &mut Random) -> Vec<Job> {
    const MINUTE_MS: i64 = 60_000;
    const HOUR_MS: i64 = 60 * MINUTE_MS;
    let mut job = |period_ms: i64, minutes: (f64, f64), share: (f64, f64)| {
        let offset_ms = random.below((period_ms / MINUTE_MS) as usize) as i64 * MINUTE_MS;
        Job {
            period_ms,
            offset_ms,
            duration_ms: random.between(minutes.0, minutes.1) as i64 * MINUTE_MS,
            share: config.job_share * random.between(share.0, share.1),
            wobble: 0.1,
        }
    };
    let hourly = job(HOUR_MS, (9.0, 16.0), (0.8, 1.2));
    let second = job(2 * HOUR_MS, (12.0, 25.0), (0.5, 0.9));
    let nightly = job(DAY_MS, (30.0, 90.0), (0.5, 0.8));
    // Most boxes work off their nightly job between 01:00 and 05:00.
    let nightly = Job { offset_ms: HOUR_MS + nightly.offset_ms % (4 * HOUR_MS), ..nightly };
    vec![hourly, second, nightly]
}

/// Level shifts (hours) and bursts (minutes), as two Poisson processes.
fn draw_episodes(config: &GeneratorConfig, random: &mut Random, episodes: &mut Vec<Episode>) {
    let day = DAY_MS as f64;
    let kinds = [(config.level_shifts_per_day, 0.5 * day, 0.06), (config.bursts_per_day, day / 288.0, 0.25)];
    for (number, (per_day, mean_ms, size)) in kinds.into_iter().enumerate() {
        if per_day <= 0.0 {
            continue;
        }
        let mut at_ms = config.start_ms as f64 + random.exponential(day / per_day);
        while at_ms < config.end_ms() as f64 {
            let until_ms = at_ms + random.exponential(mean_ms).clamp(0.4 * mean_ms, 3.0 * mean_ms);
            let share = if number == 0 { size * random.normal() } else { size * random.between(0.6, 1.4) };
            episodes.push(Episode { from_ms: at_ms as i64, until_ms: until_ms as i64, share });
            at_ms += random.exponential(day / per_day);
        }
    }
}
