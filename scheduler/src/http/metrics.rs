//! `/metrics`: the Prometheus text format, written by hand.

use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use berth_models::decision::Refusal;
use berth_models::fleet::{BoxState, Fleet, FleetCounters};
use berth_models::strategy::StrategyName;

use super::App;
use crate::telemetry::{BUCKETS_US, Counted, Histogram};

/// Boxes with gauges of their own; of more boxes only the first are shown, and the others counted.
pub const BOXES_MAX: usize = 1_000;

/// All metrics.
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, body = String, content_type = "text/plain")))]
pub async fn metrics(State(app): State<Arc<App>>) -> Response {
    let mut page = Page(String::with_capacity(16_384));
    let fleet = app.sequencer.look(FleetNumbers::new);
    write_decisions(&mut page, &app);
    write_fleet(&mut page, &fleet);
    write_ledger(&mut page, &app);
    write_shadow(&mut page, &app);
    let mut response = Response::new(page.0.into());
    let text = HeaderValue::from_static("text/plain; version=0.0.4");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP berth_{name} {help}\n# TYPE berth_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "berth_{name}");
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let (cumulative, count, sum) = histogram.read();
        let bucket = format!("{name}_bucket");
        for (most, value) in BUCKETS_US.iter().zip(cumulative) {
            self.line(&bucket, &[("le", &format!("{}", *most as f64 / 1e6))], value);
        }
        self.line(&bucket, &[("le", "+Inf")], count);
        self.line(&format!("{name}_sum"), &[], sum);
        self.line(&format!("{name}_count"), &[], count);
    }
}

struct BoxNumbers {
    box_id: Arc<str>,
    gauges: [f64; 4],
}

/// The gauges of a box, in the order of [`BoxNumbers::gauges`].
const GAUGES: [(&str, &str); 4] = [
    ("box_load", "Load now, in shares of the capacity."),
    ("box_load_peak", "Highest load since registration."),
    ("box_weight", "Effective weight."),
    ("box_live_leases", "Live leases of the box."),
];

/// What is read of the fleet under the lock; text is made of it outside.
struct FleetNumbers {
    counters: FleetCounters,
    boxes: Vec<BoxNumbers>,
    /// Boxes that take nothing, by reason; all of them, not only those shown.
    gated: [usize; Refusal::ALL.len()],
    boxes_count: usize,
    live_leases: usize,
    remembered: usize,
    is_panicking: bool,
    has_lost_skill: bool,
    model_weight: Option<f64>,
    rules_only: bool,
    seq: u64,
}

impl FleetNumbers {
    fn new(fleet: &Fleet) -> Self {
        let boxes = fleet.boxes().iter().take(BOXES_MAX);
        let numbers = boxes.map(|state| BoxNumbers {
            box_id: state.box_id().clone(),
            gauges: [state.load(), state.peak_load(), state.weight(), state.live_count() as f64],
        });
        let mut gated = [0; Refusal::ALL.len()];
        for refusal in fleet.boxes().iter().filter_map(BoxState::gate) {
            gated[refusal as usize] += 1;
        }
        Self {
            counters: fleet.counters(),
            boxes: numbers.collect(),
            gated,
            boxes_count: fleet.boxes().len(),
            live_leases: fleet.leases().live_count(),
            remembered: fleet.leases().len(),
            is_panicking: fleet.is_panicking(),
            has_lost_skill: fleet.model().is_some() && fleet.has_lost_skill(),
            model_weight: fleet.model_weight(),
            rules_only: fleet.config().rules_only,
            seq: fleet.seq(),
        }
    }
}

fn write_decisions(page: &mut Page, app: &App) {
    let telemetry = app.sequencer.telemetry();
    page.head("decisions_total", "counter", "Balls placed or refused, by route and class.");
    telemetry.each_route(|route, class, placed, refused| {
        for (result, count) in [("placed", placed), ("refused", refused)] {
            if count > 0 {
                let labels = [("route", route.name()), ("class", class.name()), ("result", result)];
                page.line("decisions_total", &labels, count);
            }
        }
    });
    page.head("placed_total", "counter", "Balls placed, by strategy.");
    for strategy in StrategyName::ALL {
        page.line("placed_total", &[("strategy", strategy.name())], telemetry.placed_by(strategy));
    }
    page.head(
        "refusal_causes_total",
        "counter",
        "Boxes that refused a ball which found no place, by reason.",
    );
    for refusal in Refusal::ALL {
        page.line("refusal_causes_total", &[("cause", refusal.name())], telemetry.caused(refusal));
    }
    page.single("panic_decisions_total", "counter", "Decisions in panic mode.", telemetry.panicking());
    for counted in Counted::ALL {
        let name = format!("{}_total", counted.name());
        page.single(&name, "counter", counted.help(), telemetry.counted(counted));
    }
    page.head("report_fields_set_aside_total", "counter", "Report fields set aside as nonsense.");
    for ((field, reason), count) in telemetry.set_aside() {
        page.line("report_fields_set_aside_total", &[("field", field), ("reason", reason)], count);
    }
    page.histogram(
        "allocate_seconds",
        "Seconds from a parsed ball to its durable answer.",
        &telemetry.allocate_seconds,
    );
}

fn write_fleet(page: &mut Page, fleet: &FleetNumbers) {
    let counters = fleet.counters;
    page.single(
        "leases_expired_total",
        "counter",
        "Leases that ended without a heartbeat.",
        counters.expired,
    );
    page.single("reverted_total", "counter", "Decisions the ledger refused.", counters.reverted);
    page.single("ejections_total", "counter", "Boxes ejected for failures in a row.", counters.ejections);
    page.single(
        "ejections_capped_total",
        "counter",
        "Ejections that the cap prevented.",
        counters.ejections_capped,
    );
    page.single("boxes", "gauge", "Boxes registered.", fleet.boxes_count);
    page.single("live_leases", "gauge", "Live leases.", fleet.live_leases);
    page.single("balls_remembered", "gauge", "Balls remembered, live and ended.", fleet.remembered);
    page.single("panic", "gauge", "1: too few boxes are in order.", u8::from(fleet.is_panicking));
    page.single("rules_only", "gauge", "1: the kill switch is on.", u8::from(fleet.rules_only));
    page.single(
        "forecast_skill_lost",
        "gauge",
        "1: the forecasts have lost their skill.",
        u8::from(fleet.has_lost_skill),
    );
    if let Some(weight) = fleet.model_weight {
        page.single("forecast_model_weight", "gauge", "Mean weight of the model in the forecasts.", weight);
    }
    page.single("event_seq", "gauge", "Seq of the last event.", fleet.seq);
    let hidden = fleet.boxes_count - fleet.boxes.len();
    page.single("boxes_without_gauges", "gauge", "Boxes not shown below.", hidden);
    for (index, (name, help)) in GAUGES.into_iter().enumerate() {
        page.head(name, "gauge", help);
        for numbers in &fleet.boxes {
            page.line(name, &[("box", &numbers.box_id)], numbers.gauges[index]);
        }
    }
    page.head("boxes_gated", "gauge", "Boxes that take nothing at present, by reason.");
    for refusal in Refusal::ALL {
        let count = fleet.gated[refusal as usize];
        if count > 0 {
            page.line("boxes_gated", &[("cause", refusal.name())], count);
        }
    }
}

fn write_ledger(page: &mut Page, app: &App) {
    let journal = app.sequencer.journal();
    let stats = journal.stats();
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    page.single("events_committed_total", "counter", "Events committed.", read(&stats.events));
    page.single("commit_batches_total", "counter", "Batches they were committed in.", read(&stats.batches));
    page.single("commits_refused_total", "counter", "Placements the ledger refused.", read(&stats.refused));
    page.single("ledger_queue", "gauge", "Items that wait for the ledger.", journal.queued());
    page.single(
        "ledger_failed",
        "gauge",
        "1: nothing is acknowledged.",
        u8::from(journal.failure().is_some()),
    );
    page.histogram("commit_seconds", "Seconds a commit took.", &stats.commit_seconds);
    page.single(
        "events_dropped_total",
        "counter",
        "Events the ledger in memory dropped.",
        app.lookup.dropped(),
    );
    page.single(
        "wall_clock_steps_total",
        "counter",
        "Steps of the wall clock.",
        app.sequencer.clock().steps(),
    );
}

fn write_shadow(page: &mut Page, app: &App) {
    let Some(summary) = app.sequencer.shadow().summary() else { return };
    page.single("shadow_compared_total", "counter", "Decisions compared.", summary.agreement.compared);
    page.single(
        "shadow_agreed_total",
        "counter",
        "Decisions on which the candidate agreed.",
        summary.agreement.agreed,
    );
    page.single(
        "shadow_skipped_total",
        "counter",
        "Decisions not compared: the shadow was behind.",
        summary.skipped,
    );
    page.single("shadow_lost_total", "counter", "Events lost: the shadow's queue was full.", summary.lost);
}
