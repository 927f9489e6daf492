//! What came of a run.

/// The load of a box at one moment, and how many balls met it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Largest share of the capacity that is wanted.
    pub load: f64,
    /// Balls on the box.
    pub balls: u32,
}

/// The fleet at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// When, in engine milliseconds.
    pub at_ms: u64,
    /// Mean load of the boxes that are up.
    pub load_mean: f64,
    /// Highest load.
    pub load_max: f64,
}

/// What came of a run. Loads are looked at from `measured_from_ms` on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simulated {
    /// Time in the system by arrival, in milliseconds; `None`: refused, failed or given up.
    pub time_in_system_ms: Vec<Option<u64>>,
    /// Sum of the times in the system, in milliseconds.
    pub total_ms: u64,
    /// Arrivals by class.
    pub arrived: [u64; 3],
    /// Arrivals that no box could take, by class.
    pub refused: [u64; 3],
    /// Balls given up by their senders, by class.
    pub timed_out: [u64; 3],
    /// Balls that were on a box when it crashed, or were sent to one that was down, by class.
    pub failed: [u64; 3],
    /// Mean over moments of the standard deviation of utilisation over boxes; what a link can't
    /// carry is load, not utilisation.
    pub imbalance: f64,
    /// Share of (box, moment) pairs with a load above 1.
    pub overload_share: f64,
    /// Highest load of any box at any moment.
    pub load_max: f64,
    /// Events the engines made.
    pub events: u64,
    /// Time that boxes ran, in milliseconds over all boxes.
    pub box_ms: u64,
    /// What that time cost, in the currency of the scenario's price.
    pub price: f64,
    /// Every box at every moment.
    pub seen: Vec<Seen>,
    /// The fleet at every moment.
    pub moments: Vec<Moment>,
}

impl Simulated {
    /// Refusals, failures and balls given up, by class.
    #[must_use]
    pub fn errors(&self) -> [u64; 3] {
        std::array::from_fn(|class| self.refused[class] + self.timed_out[class] + self.failed[class])
    }
}
