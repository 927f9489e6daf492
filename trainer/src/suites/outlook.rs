//! The forecasts of suites: a model trained on earlier days, and the ablations of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::ensure;
use berth_models::forecast::{ForecastModel, Foresight, HORIZON_COUNT};
use berth_models::simulation::{Artifact, PolicyArtifact, Scenario};
use serde::Deserialize;

use super::Outlook;
use super::world::{self, WorldConfig};
use crate::evaluation::rows::{self, ROWS_MIN};
use crate::evaluation::{Split, TimedSeries};
use crate::learners::Learner;
use crate::learners::hessboost::HessboostLearner;

/// The generated history a suite's model is trained on: other days than any that is evaluated.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Seed of the generated fleet; no trace has it.
    pub seed: u64,
    /// Days.
    pub days: u32,
    /// Boxes.
    pub boxes: u32,
    /// Boosting rounds.
    pub rounds: usize,
}

/// What contenders may ask for.
#[derive(Clone, Default)]
pub struct Outlooks {
    /// The trained model.
    pub model: Option<Artifact>,
    /// The placement policy, for `learned`.
    pub policy: Option<PolicyArtifact>,
}

impl Outlooks {
    /// Train on `history`.
    ///
    /// # Errors
    /// When the history is too short to train on.
    pub fn train(history: &History) -> anyhow::Result<Self> {
        let config =
            WorldConfig { seed: history.seed, days: history.days, boxes: history.boxes, step_ms: 60_000 };
        let series: Vec<TimedSeries> = world::generate_world(&config)?
            .into_iter()
            .map(|generated| TimedSeries {
                set: "history".to_owned(),
                name: generated.box_id.to_string(),
                points: generated.load,
            })
            .collect();
        let split = Split { holdout_ms: 0, skip_ms: 0 };
        let mut rows = rows::collect(&series, &split, history.seed, |_| {});
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let learner = HessboostLearner { rounds: history.rounds, threads, ..HessboostLearner::default() };
        let mut ensembles: [Option<_>; HORIZON_COUNT] = Default::default();
        for (horizon, ensemble) in ensembles.iter_mut().enumerate() {
            let set = std::mem::take(&mut rows.horizons[horizon]);
            if set.len() >= ROWS_MIN {
                *ensemble = Some(learner.fit(horizon, set, &|_| {})?.predictor);
            }
        }
        ensure!(ensembles.iter().any(Option::is_some), "the history has too few rows to train on");
        let model = ForecastModel::new(ensembles)?;
        Ok(Self { model: Some(("suite".into(), Arc::new(model))), policy: None })
    }

    /// What stands in for the model's forecasts; `None`: nothing does.
    #[must_use]
    pub fn foresight(outlook: Outlook, trace: &Scenario) -> Option<Foresight> {
        match outlook {
            Outlook::None | Outlook::Model => None,
            Outlook::Persistence => Some(Arc::new(|_, _, _, now| now)),
            Outlook::Perfect => Some(perfect(trace)),
        }
    }
}

/// Background to come, looked up in the trace.
fn perfect(trace: &Scenario) -> Foresight {
    let boxes: BTreeMap<Arc<str>, (Vec<berth_models::simulation::Background>, [f64; 4])> = trace
        .boxes
        .iter()
        .map(|simulated| {
            let capacity = std::array::from_fn(|d| {
                let dimension = berth_models::domain::Dimension::ALL[d];
                simulated.spec.capacity.0[d].map_or(f64::INFINITY, |base| dimension.to_public(base.max(1)))
            });
            (simulated.spec.box_id.clone(), (simulated.background.clone(), capacity))
        })
        .collect();
    Arc::new(move |box_id, d, at_ms, now| {
        let Some((background, capacity)) = boxes.get(box_id) else { return now };
        let after = background.partition_point(|entry| entry.at_ms <= at_ms);
        let entry = after.checked_sub(1).and_then(|index| background.get(index));
        entry.and_then(|entry| entry.usage[d]).map_or(now, |used| used / capacity[d])
    })
}
