//! Suites: named sets of traces on which strategies are compared. A suite is fixed before the
//! strategies are tuned: its scenario file is part of the program, and its hash is printed with
//! every result.

pub mod bootstrap;
mod contender;
mod draws;
pub mod feedback;
pub mod fleet;
pub mod hash;
pub mod measured;
mod outlook;
pub mod peak;
pub mod pools;
mod published;
pub mod ramp;
mod runner;
pub(crate) mod summary;
pub mod uploads;
mod world;

use anyhow::bail;
use berth_models::simulation::{Scenario, Simulated};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

pub use contender::{Contender, Kind, Outlook, rules};
pub use outlook::Outlooks;
pub use runner::{Results, run};
pub use summary::{CaseSummary, Comparison, Row, summarise};

/// Where the traces' seeds come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeds {
    /// The seeds the suite names.
    Named,
    /// Seeds derived from a text nobody could choose beforehand, such as a commit's hash.
    Fresh(String),
}

impl Seeds {
    /// The seed of trace `index` of a suite whose first named seed is `first`.
    #[must_use]
    pub fn seed(&self, first: u32, index: usize) -> u32 {
        match self {
            Self::Named => first + index as u32,
            Self::Fresh(text) => xxh3_64_with_seed(text.as_bytes(), index as u64) as u32,
        }
    }
}

impl std::fmt::Display for Seeds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named => formatter.write_str("named"),
            Self::Fresh(text) => write!(formatter, "fresh from {text}"),
        }
    }
}

/// What one run is judged by; lower is better.
pub type Score = fn(&Scenario, &Simulated) -> f64;

/// One setting of a suite with its traces.
pub struct Case {
    /// Its name within the suite.
    pub name: String,
    /// Number of traces.
    pub traces: usize,
    /// Make trace number `index`; the strategy is set by the comparison.
    pub make: Box<dyn Fn(usize) -> anyhow::Result<Scenario> + Send + Sync>,
}

/// A named set of traces with who competes on them.
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is and where it comes from.
    pub about: String,
    /// Fingerprint of the scenario file, in hexadecimal.
    pub scenario_hash: String,
    /// What the score is, with its unit.
    pub score_name: &'static str,
    /// The score.
    pub score: Score,
    /// The settings.
    pub cases: Vec<Case>,
    /// Who competes.
    pub contenders: Vec<Contender>,
    /// Forecasts for those who use them.
    pub outlooks: Outlooks,
}

/// Names of all suites.
pub const NAMES: [&str; 9] =
    ["iclr19", "park", "park-shift", "ramp", "peak", "feedback", "uploads", "hash", "pools"];

/// Run the suite `name` when it measures placements themselves; `None`: it is one of the simulator's.
///
/// # Errors
/// What went wrong in it.
pub fn measure(name: &str) -> anyhow::Result<Option<measured::Measured>> {
    match name {
        "hash" => hash::run().map(Some),
        "pools" => pools::run().map(Some),
        _ => Ok(None),
    }
}

impl Suite {
    /// Make the suite `name` from `seeds`; `full`: with all its traces and cases.
    ///
    /// # Errors
    /// When no suite has that name, or its forecasts can't be trained.
    pub fn new(name: &str, seeds: &Seeds, full: bool) -> anyhow::Result<Self> {
        Ok(match name {
            "iclr19" => published::iclr19(seeds)?,
            "park" => published::park(seeds)?,
            "park-shift" => published::park_shift(seeds, full)?,
            "ramp" => ramp::suite(seeds, full)?,
            "peak" => peak::suite(seeds, full)?,
            "feedback" => feedback::suite(seeds, full)?,
            "uploads" => uploads::suite(seeds, full)?,
            _ => bail!("no suite is called {name:?}; there are: {}", NAMES.join(", ")),
        })
    }
}

/// Fingerprint of a scenario file.
fn hash_text(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// Fingerprint of every box, background and arrival of a trace.
fn hash_trace(trace: &Scenario) -> u64 {
    let mut hash = Xxh3::new();
    for simulated in &trace.boxes {
        hash.update(format!("{:?}", simulated.spec).as_bytes());
        for background in &simulated.background {
            hash.update(&background.at_ms.to_le_bytes());
            background.usage.iter().for_each(|used| hash.update(&used.unwrap_or(-1.0).to_le_bytes()));
        }
    }
    hash.update(format!("{:?}", trace.conditions).as_bytes());
    for arrival in &trace.arrivals {
        hash.update(&arrival.at_ms.to_le_bytes());
        hash.update(&arrival.service_ms.to_le_bytes());
        arrival.demand.0.iter().for_each(|amount| hash.update(&amount.to_le_bytes()));
    }
    hash.digest()
}
