//! Training rows: every series is fed to the state that the server uses, and what the state computes is kept.

use berth_models::forecast::{FeatureRow, HORIZON_COUNT, HORIZONS_MS, SeriesState};

use super::{Span, Split, TimedSeries};
use crate::learners::TrainingSet;

/// Most rows of one horizon; beyond it rows are drawn by a seeded hash.
pub const ROWS_MAX: usize = 400_000;
/// A horizon with fewer rows is not trained.
pub const ROWS_MIN: usize = 300;
/// Where the late rows of a series begin, as a share of its training part.
const LATE_SHARE: f64 = 0.8;
/// Rows from the first hour of a series are left out: there is no past to speak of.
const WARM_UP_MS: u64 = 3_600_000;

/// The rows of every horizon, with what was left out.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// In the order of [`HORIZONS_MS`].
    pub horizons: [TrainingSet; HORIZON_COUNT],
    /// Samples before the cut, of all series.
    pub samples: usize,
    /// Rows that were not drawn because of [`ROWS_MAX`], of all horizons.
    pub not_drawn: usize,
}

/// Collect the rows whose target time lies in the training part.
#[must_use]
pub fn collect(series: &[TimedSeries], split: &Split, seed: u64, mut progress: impl FnMut(usize)) -> Rows {
    let mut rows = Rows::default();
    let spans: Vec<Option<Span<'_>>> = series.iter().map(|one| one.span(split)).collect();
    let draw = Draw::new(&spans, seed);
    for (index, span) in spans.iter().enumerate() {
        if let Some(span) = span {
            collect_one(&mut rows, span, index, &draw);
        }
        progress(index + 1);
    }
    rows
}

/// Keeps a share of the rows by a hash of seed, series and time: the same rows in every run.
struct Draw {
    seed: u64,
    share: f64,
}

impl Draw {
    fn new(spans: &[Option<Span<'_>>], seed: u64) -> Self {
        let samples: usize = spans
            .iter()
            .flatten()
            .map(|span| span.points.partition_point(|point| point.0 <= span.cut_ms))
            .sum();
        Self { seed, share: (ROWS_MAX as f64 / samples.max(1) as f64).min(1.0) }
    }

    fn keeps(&self, series: usize, at_ms: u64, span: &Span<'_>) -> bool {
        // A dense series would outweigh the others: one row a minute on average.
        let share = self.share * (span.cadence_ms as f64 / 60_000.0).min(1.0);
        let mixed = splitmix(self.seed ^ splitmix(at_ms ^ splitmix(series as u64)));
        (mixed >> 11) as f64 / (1_u64 << 53) as f64 <= share
    }
}

fn splitmix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn collect_one(rows: &mut Rows, span: &Span<'_>, index: usize, draw: &Draw) {
    let mut state = SeriesState::new();
    let Some(&(first_ms, _)) = span.points.first() else { return };
    let late_ms = first_ms + (span.cut_ms.saturating_sub(first_ms) as f64 * LATE_SHARE) as u64;
    for &(at_ms, value) in span.points.iter().take_while(|point| point.0 <= span.cut_ms) {
        state.observe(at_ms, value);
        rows.samples += 1;
        let wanted = at_ms >= first_ms + WARM_UP_MS;
        let drawn = wanted && draw.keeps(index, at_ms, span);
        // Every forecast is made, drawn or not: the errors of the naive forecasts are features.
        state.predict_detailed(None, |horizon, detail| {
            let target_ms = at_ms + HORIZONS_MS[horizon];
            // The truth itself lies before the cut, not only its target time.
            let before_cut = target_ms + span.cadence_ms / 2 <= span.cut_ms;
            let truth = if wanted && before_cut { span.truth(at_ms, HORIZONS_MS[horizon]) } else { None };
            match truth {
                Some(truth) if drawn => {
                    push(&mut rows.horizons[horizon], &detail.row, truth, target_ms > late_ms);
                }
                Some(_) => rows.not_drawn += 1,
                None => {}
            }
        });
    }
}

fn push(set: &mut TrainingSet, row: &FeatureRow, truth: f64, is_late: bool) {
    let target = ((truth - row.current) / row.scale) as f32;
    if target.is_finite() {
        set.push(&row.values, target, is_late);
    }
}
