//! Autoscaling: boxes in reserve are started and drained by the fleet's mean load.

use crate::fleet::Fleet;

/// When to start another box and when to drain one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Time between two looks at the fleet, in milliseconds.
    pub every_ms: u64,
    /// Mean load above which the next box in reserve is started.
    pub load_high: f64,
    /// Mean load below which the last started box is drained.
    pub load_low: f64,
    /// Whether the load of a look is the worst expected within five minutes, by the forecasts.
    pub looks_ahead: bool,
    /// Time from the order to the registration, in milliseconds; it is paid for.
    pub start_ms: u64,
    /// Boxes that run from the beginning and are never drained: the first of the scenario.
    pub boxes_min: usize,
}

/// What a look says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Start,
    Drain,
    Stay,
}

impl Scaling {
    /// Look at the fleet of the first scheduler.
    pub(super) fn wish(&self, fleet: &Fleet) -> Wish {
        let load = |state: &crate::fleet::BoxState| {
            let ahead = if self.looks_ahead { crate::fleet::HORIZONS } else { 0 };
            state.load_ahead(&crate::domain::Amounts::ZERO, &[1.0; crate::fleet::HORIZONS], ahead)
        };
        let loads: Vec<f64> = fleet.boxes().iter().filter(|b| b.gate().is_none()).map(load).collect();
        let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
        if loads.is_empty() || mean > self.load_high {
            Wish::Start
        } else if mean < self.load_low {
            Wish::Drain
        } else {
            Wish::Stay
        }
    }
}
