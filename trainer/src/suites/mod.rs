//! Suites: named sets of traces on which strategies are compared. A suite is fixed before the
//! strategies are tuned; its hash says so.

pub mod bootstrap;
pub mod fleet;
pub mod hash;
pub mod measured;
pub mod pools;
mod published;

use anyhow::bail;
use berth_models::simulation::Scenario;
use xxhash_rust::xxh3::Xxh3;

/// Where the traces' seeds come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeds {
    /// The seeds the suite names.
    Named,
    /// Seeds derived from a text nobody could choose beforehand, such as a commit's hash.
    Fresh(String),
}

/// A named set of traces.
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is and where it comes from.
    pub about: &'static str,
    /// One scenario a trace; the strategy is set by the comparison.
    pub traces: Vec<Scenario>,
}

/// Names of all suites.
pub const NAMES: [&str; 4] = ["iclr19", "park", "hash", "pools"];

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

/// Traces in each published suite.
const TRACES: u64 = 100;

impl Suite {
    /// Make the suite `name` from `seeds`.
    ///
    /// # Errors
    /// When no suite has that name.
    pub fn new(name: &str, seeds: &Seeds) -> anyhow::Result<Self> {
        let seed = |index: u64, first: u32| match seeds {
            Seeds::Named => first + index as u32,
            Seeds::Fresh(text) => xxhash_rust::xxh3::xxh3_64_with_seed(text.as_bytes(), index) as u32,
        };
        let all = 0..TRACES;
        Ok(match name {
            "iclr19" => Self {
                name: "iclr19",
                about: "uniform sizes, ten servers (hongzimao/input_driven_rl_example)",
                traces: all.map(|i| published::iclr19(seed(i, 100_000_000))).collect(),
            },
            "park" => Self {
                name: "park",
                about: "Pareto sizes, ten servers (Park load_balance)",
                traces: all.map(|i| published::park(seed(i, 1_000))).collect(),
            },
            _ => bail!("no suite is called {name:?}; there are: {}", NAMES.join(", ")),
        })
    }

    /// A fingerprint of every box and arrival, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Xxh3::new();
        for trace in &self.traces {
            for simulated in &trace.boxes {
                hash.update(format!("{:?}", simulated.spec).as_bytes());
            }
            for arrival in &trace.arrivals {
                hash.update(&arrival.at_ms.to_le_bytes());
                hash.update(&arrival.service_ms.to_le_bytes());
            }
        }
        format!("{:016x}", hash.digest())
    }
}
