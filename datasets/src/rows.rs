//! Rows of the canonical tables as plain structs; units in names, times in UTC epoch milliseconds.

/// One box of `boxes`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoxRow {
    /// The box.
    pub box_id: String,
    /// Cores; absent = unknown.
    pub capacity_cpu_cores: Option<f64>,
    /// Bytes of memory; absent = unknown.
    pub capacity_memory_bytes: Option<f64>,
    /// Bits a second; absent = unknown.
    pub capacity_bandwidth_bps: Option<f64>,
    /// Places; absent = unknown.
    pub capacity_slots: Option<f64>,
    /// Work a second per core, 1 for a usual box.
    pub speed: Option<f64>,
    /// Price an hour, in any one currency.
    pub price_per_hour: Option<f64>,
}

/// One sample of one box of `box_metrics`: what is in use, and how much of it a scheduler placed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetricRow {
    /// UTC epoch ms.
    pub at_ms: i64,
    /// The box.
    pub box_id: String,
    /// Cores in use.
    pub cpu_cores: Option<f64>,
    /// Memory in use.
    pub memory_bytes: Option<f64>,
    /// Bits a second in use.
    pub bandwidth_bps: Option<f64>,
    /// Places in use.
    pub slots: Option<f64>,
    /// A source's single measure, in its own unit.
    pub value: Option<f64>,
    /// The placed part of `cpu_cores`; absent = can't be separated.
    pub placed_cpu_cores: Option<f64>,
    /// The placed part of `memory_bytes`.
    pub placed_memory_bytes: Option<f64>,
    /// The placed part of `bandwidth_bps`.
    pub placed_bandwidth_bps: Option<f64>,
    /// The placed part of `slots`.
    pub placed_slots: Option<f64>,
    /// 99th percentile of latency.
    pub latency_ms_p99: Option<f64>,
    /// Share of failures, 0 to 1.
    pub error_rate: Option<f64>,
    /// Balls waiting.
    pub queue_length: Option<f64>,
    /// Share of processor time that the host gave to others (steal), 0 to 1.
    pub cpu_steal_share: Option<f64>,
}

/// One ball of `balls`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BallRow {
    /// Arrival, UTC epoch ms.
    pub at_ms: i64,
    /// The ball; unique.
    pub ball_id: String,
    /// Whose it is; empty = unknown.
    pub tenant: String,
    /// `critical`, `normal` or `low`.
    pub class: String,
    /// What it is; empty = unknown.
    pub kind: String,
    /// Where it comes from; empty = unknown.
    pub region: String,
    /// Cores it needs.
    pub demand_cpu_cores: f64,
    /// Memory it needs.
    pub demand_memory_bytes: f64,
    /// Bits a second it needs.
    pub demand_bandwidth_bps: f64,
    /// Places it needs.
    pub demand_slots: f64,
    /// Work: seconds on a box of speed 1.
    pub work: Option<f64>,
    /// How long it is expected to stay.
    pub expected_residence_ms: Option<i64>,
}

/// What became of a ball, of `outcomes`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutcomeRow {
    /// The ball.
    pub ball_id: String,
    /// The box that took it; empty = refused.
    pub box_id: String,
    /// UTC epoch ms.
    pub started_at_ms: i64,
    /// UTC epoch ms; absent = still running when the log ended.
    pub finished_at_ms: Option<i64>,
    /// Whether it ended well.
    pub succeeded: bool,
}

/// The four tables in memory: what the generator makes and what an ingested folder holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FleetData {
    /// By box id.
    pub boxes: Vec<BoxRow>,
    /// By box id, then time.
    pub metrics: Vec<MetricRow>,
    /// By arrival, then ball id.
    pub balls: Vec<BallRow>,
    /// By start, then ball id.
    pub outcomes: Vec<OutcomeRow>,
}

impl MetricRow {
    /// The measures in the table's order.
    pub(crate) fn measures(&self) -> [Option<f64>; 13] {
        [
            self.cpu_cores,
            self.memory_bytes,
            self.bandwidth_bps,
            self.slots,
            self.value,
            self.placed_cpu_cores,
            self.placed_memory_bytes,
            self.placed_bandwidth_bps,
            self.placed_slots,
            self.latency_ms_p99,
            self.error_rate,
            self.queue_length,
            self.cpu_steal_share,
        ]
    }

    /// The measures in the table's order, to be set.
    pub(crate) fn measures_mut(&mut self) -> [&mut Option<f64>; 13] {
        [
            &mut self.cpu_cores,
            &mut self.memory_bytes,
            &mut self.bandwidth_bps,
            &mut self.slots,
            &mut self.value,
            &mut self.placed_cpu_cores,
            &mut self.placed_memory_bytes,
            &mut self.placed_bandwidth_bps,
            &mut self.placed_slots,
            &mut self.latency_ms_p99,
            &mut self.error_rate,
            &mut self.queue_length,
            &mut self.cpu_steal_share,
        ]
    }
}
