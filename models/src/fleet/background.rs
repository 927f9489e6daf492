//! From reports to background: the part of a box's load that Berth did not place there.
//!
//! `background = reported use − live balls the report had seen`, never below zero. The load the
//! fleet counts with is then `background + live balls`, so a ball placed between two reports
//! counts at once and a ball that has left stops counting at once.
//!
//! Unknown is never empty: a dimension whose last report is missing, set aside as nonsense or too
//! old counts as the larger of its own last background and the largest fresh background of the
//! fleet, so that such a box never looks better than any box that reports.

use std::sync::Arc;

use super::Fleet;
use super::box_state::{BackgroundSeries, BoxState, Expectation, HORIZONS, LastReport};
use crate::config::FleetConfig;
use crate::domain::{Amounts, BoxReport, DIMENSIONS};
use crate::forecast::{
    ForecastModel, Foresight, HORIZONS_MS, QUANTILES, SeriesForecast, SeriesState, foresee,
};

impl Fleet {
    pub(super) fn apply_report(&mut self, report: &BoxReport, at_ms: u64) {
        let Some(position) = self.position(&report.box_id) else {
            return;
        };
        let covered = self.covered(position, report);
        let (model, foresight) = (self.model.clone(), self.foresight.clone());
        let state = &mut self.boxes[position];
        state.rest.expectation = Expectation::of(report, &covered);
        state.rest.cost.update(report);
        // What the box says of itself counts, unless it was given a ball since.
        if let Some(next_ms) = report.next_accept_at_ms
            && state.rest.placed_at_ms <= report.sampled_at_ms
        {
            state.rest.next_accept_at_ms = next_ms;
        }
        for d in 0..DIMENSIONS {
            measure(state, d, report, &covered, model.as_deref(), foresight.as_ref());
        }
        state.rest.departures.retain(|d| d.left_at_ms > report.sampled_at_ms);
        if let Some(stage) = report.stage {
            state.rest.life.reports_stage = true;
            state.set_stage(stage, at_ms);
        }
        state.rest.last_report = Some(LastReport {
            sampled_at_ms: report.sampled_at_ms,
            usage: report.usage.to_array(),
            error_rate: report.error_rate,
            queue_length: report.queue_length,
            latency_ms_p99: report.latency_ms_p99,
        });
        self.refresh_box(position);
        let state = &mut self.boxes[position];
        state.rest.peak_load = state.rest.peak_load.max(state.load());
    }

    /// Demand of the balls on the box that the report's use includes.
    fn covered(&self, position: usize, report: &BoxReport) -> Amounts {
        let state = &self.boxes[position];
        let seen = |lease_id: u64, decided_at_ms: u64| match &report.live_lease_ids {
            Some(ids) => ids.binary_search(&lease_id).is_ok(),
            None => report.last_accepted_lease_id.map_or_else(
                || decided_at_ms.saturating_add(self.config.report_delay_ms) <= report.sampled_at_ms,
                |last| lease_id <= last,
            ),
        };
        let mut covered = Amounts::ZERO;
        for lease_id in &state.rest.live {
            if let Some(lease) = self.leases.get(*lease_id)
                && seen(*lease_id, lease.decided_at_ms)
            {
                covered.add(lease.decision.demand());
            }
        }
        for departure in &state.rest.departures {
            if departure.left_at_ms > report.sampled_at_ms
                && seen(departure.lease_id, departure.decided_at_ms)
            {
                covered.add(&departure.demand);
            }
        }
        covered
    }
}

/// Take one dimension of a report: its background, its series and its next forecast.
fn measure(
    state: &mut BoxState,
    d: usize,
    report: &BoxReport,
    covered: &Amounts,
    model: Option<&ForecastModel>,
    foresight: Option<&Foresight>,
) {
    let (Some(used), Some(capacity)) = (report.usage.to_array()[d], state.spec.capacity.0[d]) else {
        state.rest.known[d] = false;
        return;
    };
    // Nonsense far above any capacity was set aside; this keeps every amount one that can be written.
    let used = crate::domain::Dimension::ALL[d].to_base(used).min(crate::domain::amounts::AMOUNT_MAX);
    state.rest.known[d] = true;
    state.rest.background.0[d] = used.saturating_sub(covered.0[d]);
    let ratio = state.rest.background.0[d] as f64 / capacity.max(1) as f64;
    let series = state.rest.series[d]
        .get_or_insert_with(|| Arc::new(BackgroundSeries { state: SeriesState::new(), forecast: None }));
    // Shared with copies of the fleet until one of them reports.
    let series = Arc::make_mut(series);
    series.state.observe(report.sampled_at_ms, ratio);
    series.forecast = match foresight {
        Some(foresight) => Some(foresee(foresight, &report.box_id, d, report.sampled_at_ms, ratio)),
        None => series.state.predict(model),
    };
}

/// Background of one dimension as it stands at `grid_at_ms`: the last measurement, or the policy
/// for unknown.
pub(super) fn background_now(
    state: &BoxState,
    d: usize,
    grid_at_ms: u64,
    fleet_worst: f64,
    config: &FleetConfig,
) -> f64 {
    let last = state.rest.background.0[d] as f64 * state.inverse_capacity[d];
    if is_fresh(state, d, grid_at_ms, config) { last } else { last.max(fleet_worst) }
}

/// Whether dimension `d` was measured and its report is not stale.
pub(super) fn is_fresh(state: &BoxState, d: usize, grid_at_ms: u64, config: &FleetConfig) -> bool {
    state.rest.known[d]
        && state
            .rest
            .last_report
            .as_ref()
            .is_some_and(|report| grid_at_ms.saturating_sub(report.sampled_at_ms) <= config.report_stale_ms)
}

/// Background at each horizon after `grid_at_ms`, read off the last forecast at its age; without a
/// fresh forecast the background now.
pub(super) fn background_ahead(
    state: &BoxState,
    d: usize,
    grid_at_ms: u64,
    now: f64,
    config: &FleetConfig,
) -> [f64; HORIZONS] {
    let forecast = state.rest.series[d].as_ref().and_then(|series| series.forecast.as_ref());
    let Some(forecast) = forecast.filter(|_| is_fresh(state, d, grid_at_ms, config)) else {
        return [now; HORIZONS];
    };
    let age_ms = grid_at_ms.saturating_sub(forecast.at_ms);
    HORIZONS_MS.map(|horizon_ms| value_at(forecast, age_ms + horizon_ms, now, config))
}

/// The forecast at `ahead_ms` after it was made, between its horizons by straight lines.
fn value_at(forecast: &SeriesForecast, ahead_ms: u64, now: f64, config: &FleetConfig) -> f64 {
    let quantile = QUANTILES.iter().position(|q| *q == config.forecast_quantile).unwrap_or(0);
    let (mut left_ms, mut left) = (0, now);
    for (horizon_ms, point) in HORIZONS_MS.iter().zip(&forecast.horizons) {
        let right = [point.p50, point.p90, point.p99][quantile];
        // A forecast that is no number says nothing; the value before it stands.
        let right = if right.is_finite() { right.max(0.0) } else { left };
        if ahead_ms <= *horizon_ms {
            let share = (ahead_ms - left_ms) as f64 / (*horizon_ms - left_ms) as f64;
            return left + (right - left) * share;
        }
        (left_ms, left) = (*horizon_ms, right);
    }
    left
}
