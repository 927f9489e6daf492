//! Forecasts against truth on the replayed stretch, for the demo's report.

use berth_models::forecast::{ForecastModel, HORIZONS_MS, SeriesState};

use super::fleet::EmulatedFleet;
use super::pass::Replay;
use crate::report::chart::{Band, Line, band_chart};

/// Boxes whose forecasts are drawn.
const BOXES_DRAWN: usize = 3;

/// Background load of the first boxes: truth, and what was forecast for that time `horizon` before.
#[must_use]
pub fn forecasts(replay: &Replay, model: &ForecastModel, horizon: usize) -> Vec<String> {
    let fleet = EmulatedFleet::new(replay.data);
    fleet
        .boxes
        .iter()
        .take(BOXES_DRAWN)
        .filter_map(|emulated| {
            let capacity = emulated.row.capacity_cpu_cores?;
            let mut state = SeriesState::new();
            let (mut truth, mut median, mut band) = (Vec::new(), Vec::new(), Vec::new());
            for (at_ms, usage) in emulated.background.iter().filter(|(at_ms, _)| *at_ms < replay.to_ms) {
                state.observe(*at_ms as u64, usage[0] / capacity);
                let minute = |ms: i64| (ms - replay.from_ms) as f64 / 60_000.0;
                let Some(forecast) = state.predict(Some(model)) else { continue };
                let target_ms = at_ms + HORIZONS_MS[horizon] as i64;
                if *at_ms >= replay.from_ms {
                    truth.push((minute(*at_ms), usage[0] / capacity));
                }
                if (replay.from_ms..replay.to_ms).contains(&target_ms) {
                    let ahead = forecast.horizons[horizon];
                    median.push((minute(target_ms), ahead.p50));
                    band.push((minute(target_ms), ahead.p50, ahead.p90));
                }
            }
            let title = format!(
                "{}: cores by others, {} min ahead",
                emulated.row.box_id,
                HORIZONS_MS[horizon] / 60_000
            );
            let lines = [
                Line { name: "truth".into(), points: truth },
                Line { name: "forecast".into(), points: median },
            ];
            let band = Band { name: "p50 to p90".into(), points: band };
            Some(band_chart(&title, "minute", "use ÷ capacity", &lines, Some(&band)))
        })
        .collect()
}
