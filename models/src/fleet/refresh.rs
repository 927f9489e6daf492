//! What the passing of time does to boxes: weights, staleness, ejections, panic.

use super::background::{background_ahead, background_now, is_fresh};
use super::cost::CostScale;
use super::{BoxState, Fleet, HORIZONS};
use crate::config::FleetConfig;
use crate::decision::Refusal;
use crate::domain::{DIMENSIONS, Stage};

impl Fleet {
    /// Look at every box again: which dimensions are fresh, who takes part, whether to panic.
    pub(super) fn refresh(&mut self) {
        let grid_at_ms = self.grid_at_ms();
        let mut worst = [0.0_f64; DIMENSIONS];
        for state in &self.boxes {
            for (d, worst) in worst.iter_mut().enumerate() {
                if is_fresh(state, d, grid_at_ms, &self.config) {
                    let ratio = state.rest.background.0[d] as f64 * state.inverse_capacity[d];
                    *worst = worst.max(ratio);
                }
            }
        }
        self.fleet_worst = worst;
        self.cost_scale = CostScale::of(&self.boxes);
        (0..self.boxes.len()).for_each(|position| self.refresh_box(position));
        self.count_admissible();
        self.model_weight = mean_model_weight(&self.boxes);
    }

    pub(super) fn count_admissible(&mut self) {
        let (mut able, mut admissible) = (0_usize, 0_usize);
        self.speed_sum = 0.0;
        for state in &self.boxes {
            match state.gate {
                Some(Refusal::Down | Refusal::Draining | Refusal::WeightZero) => {}
                Some(_) => able += 1,
                None => {
                    able += 1;
                    admissible += 1;
                    self.speed_sum += state.spec.speed * state.weight.min(1.0);
                }
            }
        }
        self.panic = (admissible as f64) < self.config.panic_share * able as f64;
    }

    /// Look at one box again after something happened to it.
    pub(super) fn refresh_box(&mut self, position: usize) {
        let grid_at_ms = self.grid_at_ms();
        let (config, worst) = (&self.config, self.fleet_worst);
        let factor = self.cost_scale.factor(&self.boxes[position].rest.cost);
        let state = &mut self.boxes[position];
        let is_failing = state.rest.health.is_failing(grid_at_ms, config)
            || state
                .rest
                .last_report
                .as_ref()
                .and_then(|report| report.error_rate)
                .is_some_and(|rate| rate > config.observing_failure_share);
        let warmup_ms = state.spec.min_warmup_time_ms;
        let life = state.rest.life.weight(grid_at_ms, warmup_ms, is_failing, config);
        state.weight = state.spec.weight * state.spec.price_weight * life * factor;
        state.inverse_weight = if state.weight > 0.0 { 1.0 / state.weight } else { f64::INFINITY };
        state.failure_load = config.failure_load * state.rest.health.failure_share(grid_at_ms, config);
        state.gate = gate(state, grid_at_ms, config);
        for (d, worst) in worst.into_iter().enumerate() {
            if state.spec.capacity.0[d].is_none() {
                continue;
            }
            let now = background_now(state, d, grid_at_ms, worst, config);
            state.rest.background_ratio[d] = now;
            let ahead = background_ahead(state, d, grid_at_ms, now, config);
            for (h, value) in ahead.into_iter().enumerate() {
                state.rest.background_future[h][d] = value;
            }
        }
        state.settle();
    }
}

fn gate(state: &BoxState, grid_at_ms: u64, config: &FleetConfig) -> Option<Refusal> {
    if state.rest.life.stage >= Stage::Draining {
        let is_down = state.rest.life.stage == Stage::Down;
        return Some(if is_down { Refusal::Down } else { Refusal::Draining });
    }
    if state.weight <= 0.0 {
        return Some(Refusal::WeightZero);
    }
    let silent_ms = state.rest.last_report.as_ref().map(|r| grid_at_ms.saturating_sub(r.sampled_at_ms));
    if silent_ms.is_some_and(|silent_ms| silent_ms > config.report_expired_ms) {
        return Some(Refusal::Stale);
    }
    state.rest.health.is_ejected(grid_at_ms).then_some(Refusal::Ejected)
}

fn mean_model_weight(boxes: &[BoxState]) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for forecast in boxes.iter().flat_map(|b| &b.rest.series).flatten().filter_map(|s| s.forecast.as_ref()) {
        sum += forecast.horizons[HORIZONS - 1].model_weight;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}
