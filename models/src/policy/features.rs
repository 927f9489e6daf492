//! What the scorer sees of a ball, a box and the fleet. The only place where it is computed.

use serde::{Deserialize, Serialize};

/// Features that are the same for every box of one decision.
pub const POOL_FEATURES: usize = 6;
/// Features of one box.
pub const BOX_FEATURES: usize = 7;
/// Names, pool first; their hash is the schema of an artifact.
pub const NAMES: [&str; POOL_FEATURES + BOX_FEATURES] = [
    "ball_work",
    "pool_work_left_mean",
    "pool_work_left_min",
    "pool_end_min",
    "pool_idle_share",
    "pool_idle_speed_max",
    "work_left",
    "service",
    "end",
    "work_left_above_min",
    "speed",
    "live",
    "is_idle",
];

/// Units in which times and work are counted, from the traffic of the training.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Mean work of a ball at speed 1, in milliseconds.
    pub work_ms: f64,
    /// Mean work ÷ mean speed of a box, in milliseconds.
    pub time_ms: f64,
}

/// One box as a decision sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxInput {
    /// Milliseconds of accepted work left, divided by the box's weight.
    pub work_left_ms: f64,
    /// Milliseconds the ball would be served, divided by the box's weight.
    pub service_ms: f64,
    /// Speed relative to the reference box.
    pub speed: f64,
    /// Balls it holds.
    pub live: usize,
}

/// What all boxes together look like to one ball: a fold over those that may take it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    weighted_work_left: f64,
    speed_sum: f64,
    speed_max: f64,
    idle_speed_sum: f64,
    idle_speed_max: f64,
    work_left_min_ms: f64,
    end_min_ms: f64,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            weighted_work_left: 0.0,
            speed_sum: 0.0,
            speed_max: 0.0,
            idle_speed_sum: 0.0,
            idle_speed_max: 0.0,
            work_left_min_ms: f64::INFINITY,
            end_min_ms: f64::INFINITY,
        }
    }
}

impl Pool {
    /// Take one more box into account.
    #[inline]
    pub fn add(&mut self, one: &BoxInput) {
        self.weighted_work_left += one.work_left_ms * one.speed;
        self.speed_sum += one.speed;
        self.speed_max = self.speed_max.max(one.speed);
        if one.work_left_ms <= 0.0 {
            self.idle_speed_sum += one.speed;
            self.idle_speed_max = self.idle_speed_max.max(one.speed);
        }
        self.work_left_min_ms = self.work_left_min_ms.min(one.work_left_ms);
        self.end_min_ms = self.end_min_ms.min(one.work_left_ms + one.service_ms);
    }

    /// The features every box of this decision shares, for a ball of `work_ms`.
    #[must_use]
    pub fn features(&self, scale: &Scale, work_ms: f64) -> [f32; POOL_FEATURES] {
        let log = |ms: f64| logarithm(ms / scale.time_ms);
        [
            logarithm(work_ms / scale.work_ms),
            log(self.weighted_work_left / self.speed_sum),
            log(self.work_left_min_ms),
            log(self.end_min_ms),
            (self.idle_speed_sum / self.speed_sum) as f32,
            (self.idle_speed_max / self.speed_max) as f32,
        ]
    }

    /// The features of one box.
    #[must_use]
    #[inline]
    pub fn box_features(&self, scale: &Scale, one: &BoxInput) -> [f32; BOX_FEATURES] {
        let log = |ms: f64| logarithm(ms / scale.time_ms);
        [
            log(one.work_left_ms),
            log(one.service_ms),
            log(one.work_left_ms + one.service_ms),
            log(one.work_left_ms - self.work_left_min_ms),
            (one.speed / self.speed_max) as f32,
            logarithm(one.live as f64),
            f32::from(u8::from(one.work_left_ms <= 0.0)),
        ]
    }
}

/// ln(1 + x): times span four orders of magnitude.
#[inline]
fn logarithm(value: f64) -> f32 {
    libm::log1pf(value as f32)
}
