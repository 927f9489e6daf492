//! Berth's own event log, one event a line as `berth-scheduler export` writes it: the loop back into training.
//!
//! Reports become samples, and the placed part of each is what the report had seen of live balls, by the same
//! rule as in the server (`models/src/fleet/background.rs`): the ids the report lists, else the last lease it
//! names, else what was placed `report_delay_ms` before it. Stamps are engine time. A log whose beginning was
//! truncated can be read: what it says of leases and boxes it never saw is counted.

use std::collections::BTreeMap;
use std::path::Path;

use berth_models::config::FleetConfig;
use berth_models::decision::Decision;
use berth_models::domain::{Amounts, BoxReport, BoxSpec, Capacity, Dimension};
use berth_models::event::{Event, EventKind};

use super::{each_line, stem};
use crate::rows::{BallRow, BoxRow, OutcomeRow};
use crate::samples::{METRIC_FIELDS, Measure, RawFile};
use crate::time::PLAUSIBLE_MS;
use crate::{DatasetError, RejectReason};

/// Whether a line is an event.
pub(crate) fn is_event(line: &str) -> bool {
    ["\"seq\":", "\"at_ms\":", "\"wall_ms\":", "\"kind\":"].iter().all(|field| line.contains(field))
        && line.starts_with("{\"seq\":")
}

/// A placed ball, until no report can count it any more.
struct Lease {
    demand: Amounts,
    decided_at_ms: u64,
    left_at_ms: Option<u64>,
}

/// What is carried from event to event.
#[derive(Default)]
struct Log {
    report_delay_ms: u64,
    last_seq: Option<u64>,
    /// By box, then lease id.
    placed: BTreeMap<String, BTreeMap<u64, Lease>>,
    /// The box of each lease that has not ended, and the place of its outcome.
    live: BTreeMap<u64, (String, usize)>,
    /// Specifications by box; the last one counts.
    boxes: BTreeMap<String, BoxRow>,
    /// Outcomes; `None` for a placement that was reverted.
    outcomes: Vec<Option<OutcomeRow>>,
}

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let measures =
        METRIC_FIELDS.iter().filter(|field| **field != "value").map(|field| Measure::of_table(field));
    let mut raw = RawFile::new(path, "berth_log", &stem(path), measures.collect());
    let mut log = Log { report_delay_ms: FleetConfig::default().report_delay_ms, ..Log::default() };
    each_line(
        path,
        &mut raw,
        |_| false,
        |raw, _, line| {
            let event: Event = serde_json::from_str(line).map_err(|_| RejectReason::BrokenLine)?;
            log.take(raw, event)
        },
    )?;
    raw.box_rows = std::mem::take(&mut log.boxes).into_values().collect();
    raw.outcomes = log.outcomes.into_iter().flatten().collect();
    for row in &raw.box_rows {
        if let Some(samples) = raw.boxes.get_mut(&row.box_id) {
            samples.capacity = capacities(row);
        }
    }
    raw.note("stamps are the scheduler's engine time");
    Ok(raw)
}

fn capacities(row: &BoxRow) -> BTreeMap<String, f64> {
    let named = [
        ("cpu_cores", row.capacity_cpu_cores),
        ("memory_bytes", row.capacity_memory_bytes),
        ("bandwidth_bps", row.capacity_bandwidth_bps),
        ("slots", row.capacity_slots),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn stamp(at_ms: u64) -> Result<i64, RejectReason> {
    let at_ms = i64::try_from(at_ms).map_err(|_| RejectReason::ImplausibleTime)?;
    if PLAUSIBLE_MS.contains(&at_ms) { Ok(at_ms) } else { Err(RejectReason::ImplausibleTime) }
}

impl Log {
    fn take(&mut self, raw: &mut RawFile, event: Event) -> Result<(), RejectReason> {
        let at_ms = stamp(event.at_ms)?;
        match self.last_seq {
            Some(last) if event.seq <= last => {
                raw.count("events_seen_before");
                raw.quality.rows_accepted += 1;
                return Ok(());
            }
            Some(last) if event.seq > last + 1 => raw.count("gaps_in_the_log"),
            None if event.seq > 1 => raw.note("the log's beginning was truncated"),
            _ => {}
        }
        self.last_seq = Some(event.seq);
        if let EventKind::Reported { report } = event.kind {
            return self.report(raw, &report);
        }
        raw.quality.rows_accepted += 1;
        raw.quality.see_time(at_ms);
        match event.kind {
            EventKind::Configured { config } => self.report_delay_ms = config.report_delay_ms,
            EventKind::Registered { spec } => self.register(&spec),
            EventKind::Decided { decision } => self.decide(raw, event.seq, event.at_ms, at_ms, &decision),
            EventKind::Reverted { lease_id } => self.revert(raw, lease_id),
            EventKind::Completed { lease_id, outcome } => {
                self.end(raw, lease_id, event.at_ms, at_ms, outcome.succeeded);
            }
            EventKind::Released { lease_id } => {
                raw.count("leases_released");
                self.end(raw, lease_id, event.at_ms, at_ms, true);
            }
            EventKind::Expired { lease_id } => {
                raw.count("leases_expired");
                self.end(raw, lease_id, event.at_ms, at_ms, false);
            }
            _ => raw.count("events_without_load"),
        }
        Ok(())
    }

    fn register(&mut self, spec: &BoxSpec) {
        let Capacity(base) = spec.capacity;
        let public = |d: Dimension| base[d as usize].map(|amount| d.to_public(amount));
        let row = BoxRow {
            box_id: spec.box_id.to_string(),
            capacity_cpu_cores: public(Dimension::CpuCores),
            capacity_memory_bytes: public(Dimension::MemoryBytes),
            capacity_bandwidth_bps: public(Dimension::BandwidthBps),
            capacity_slots: public(Dimension::Slots),
            speed: Some(spec.speed),
            price_per_hour: None,
        };
        self.boxes.insert(row.box_id.clone(), row);
    }

    fn decide(&mut self, raw: &mut RawFile, seq: u64, decided_at_ms: u64, at_ms: i64, decision: &Decision) {
        let ball = &decision.ball;
        let demand = |d: Dimension| d.to_public(ball.demand.0[d as usize]);
        // A ball may come again after it has left: the lease tells its visits apart.
        let ball_id = format!("{}/{}@{seq}", ball.tenant, ball.ball_id);
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        raw.balls.push(BallRow {
            at_ms,
            ball_id: ball_id.clone(),
            tenant: ball.tenant.clone(),
            class: ball.class.name().to_owned(),
            kind: text(&ball.kind),
            region: text(&ball.region),
            demand_cpu_cores: demand(Dimension::CpuCores),
            demand_memory_bytes: demand(Dimension::MemoryBytes),
            demand_bandwidth_bps: demand(Dimension::BandwidthBps),
            demand_slots: demand(Dimension::Slots),
            work: ball.work_ms.map(|work_ms| work_ms / 1000.0),
            expected_residence_ms: ball.expected_residence_ms.and_then(|ms| i64::try_from(ms).ok()),
        });
        let Some(box_id) = decision.box_id() else {
            return;
        };
        let lease = Lease { demand: ball.demand, decided_at_ms, left_at_ms: None };
        self.placed.entry(box_id.to_string()).or_default().insert(seq, lease);
        self.live.insert(seq, (box_id.to_string(), self.outcomes.len()));
        self.outcomes.push(Some(OutcomeRow {
            ball_id,
            box_id: box_id.to_string(),
            started_at_ms: at_ms,
            finished_at_ms: None,
            succeeded: true,
        }));
    }

    fn revert(&mut self, raw: &mut RawFile, lease_id: u64) {
        raw.count("placements_reverted");
        if let Some((box_id, place)) = self.live.remove(&lease_id) {
            self.outcomes[place] = None;
            if let Some(leases) = self.placed.get_mut(&box_id) {
                leases.remove(&lease_id);
            }
        }
    }

    fn end(&mut self, raw: &mut RawFile, lease_id: u64, left_at_ms: u64, at_ms: i64, succeeded: bool) {
        let Some((box_id, place)) = self.live.remove(&lease_id) else {
            raw.count("ends_of_leases_not_in_the_log");
            return;
        };
        if let Some(outcome) = &mut self.outcomes[place] {
            outcome.finished_at_ms = Some(at_ms);
            outcome.succeeded = succeeded;
        }
        if let Some(lease) = self.placed.get_mut(&box_id).and_then(|leases| leases.get_mut(&lease_id)) {
            lease.left_at_ms = Some(left_at_ms);
        }
    }

    fn report(&mut self, raw: &mut RawFile, report: &BoxReport) -> Result<(), RejectReason> {
        let at_ms = stamp(report.sampled_at_ms)?;
        if !self.boxes.contains_key(&*report.box_id) {
            raw.count("reports_of_boxes_whose_registration_is_not_in_the_log");
        }
        let leases = self.placed.entry(report.box_id.to_string()).or_default();
        let covered = covered(leases, report, self.report_delay_ms);
        // A later report is about a later time: what had left by now is of no account to it.
        leases.retain(|_, lease| lease.left_at_ms.is_none_or(|left_at_ms| left_at_ms > report.sampled_at_ms));
        let known = report.live_lease_ids.iter().flatten().filter(|id| leases.contains_key(id)).count();
        let listed = report.live_lease_ids.as_ref().map_or(0, Vec::len);
        if known < listed {
            raw.count("reports_that_list_leases_not_in_the_log");
        }
        let mut fields = BTreeMap::from([
            ("latency_ms_p99", report.latency_ms_p99),
            ("error_rate", report.error_rate),
            ("queue_length", report.queue_length),
        ]);
        for (d, placed) in Dimension::ALL.into_iter().zip(PLACED_FIELDS) {
            let used = report.usage.to_array()[d as usize];
            fields.insert(d.name(), used);
            // No more of the use is placed than there is: the server clamps background at zero, too.
            fields.insert(placed, used.map(|used| d.to_public(covered.0[d as usize]).min(used)));
        }
        let value =
            |measure: &Measure| fields.get(measure.name.as_str()).copied().flatten().unwrap_or(f64::NAN);
        let values: Vec<f64> = raw.measures.iter().map(value).collect();
        if values.iter().all(|value| value.is_nan()) {
            return Err(RejectReason::MissingField);
        }
        raw.push(&report.box_id, at_ms, &values)
    }
}

/// In the order of [`Dimension::ALL`].
const PLACED_FIELDS: [&str; 4] =
    ["placed_cpu_cores", "placed_memory_bytes", "placed_bandwidth_bps", "placed_slots"];

/// Demand of the balls that a report's use includes.
fn covered(leases: &BTreeMap<u64, Lease>, report: &BoxReport, report_delay_ms: u64) -> Amounts {
    let seen = |lease_id: u64, decided_at_ms: u64| match &report.live_lease_ids {
        Some(ids) => ids.binary_search(&lease_id).is_ok(),
        None => report.last_accepted_lease_id.map_or_else(
            || decided_at_ms.saturating_add(report_delay_ms) <= report.sampled_at_ms,
            |last| lease_id <= last,
        ),
    };
    let mut sum = Amounts::ZERO;
    for (lease_id, lease) in leases {
        let was_there = lease.left_at_ms.is_none_or(|left_at_ms| left_at_ms > report.sampled_at_ms);
        if was_there && seen(*lease_id, lease.decided_at_ms) {
            sum.add(&lease.demand);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use crate::samples::RawFile;
    use crate::{ReadOptions, RejectReason};

    fn raw(lines: &[&str]) -> RawFile {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.ndjson");
        std::fs::write(&path, lines.join("\n")).unwrap();
        let found = crate::format::detect(&path, false).unwrap();
        assert_eq!(found.as_str(), "berth_log");
        let raw = crate::adapters::read_file(&path, found, &ReadOptions::default()).unwrap();
        assert_eq!(raw.quality.rows_read, raw.quality.rows_accepted + raw.quality.rejected_total());
        raw
    }

    const BEFORE: &str = r#""at_ms":1772409600000,"wall_ms":1772409600000,"kind""#;

    #[test]
    fn what_the_log_never_saw_is_counted() {
        let report = |seq: u64, fields: &str| {
            format!(r#"{{"seq":{seq},{BEFORE}:"reported","report":{{"box_id":"a",{fields}}}}}"#)
        };
        let lines = [
            report(7, r#""sampled_at_ms":1772409599000,"usage":{"cpu_cores":2.5},"live_lease_ids":[3]"#),
            format!(r#"{{"seq":8,{BEFORE}:"completed","lease_id":3,"outcome":{{"succeeded":true}}}}"#),
            format!(r#"{{"seq":8,{BEFORE}:"completed","lease_id":3,"outcome":{{"succeeded":true}}}}"#),
            r#"{"seq":9,"at_ms":17724"#.to_owned(),
            report(10, r#""sampled_at_ms":5,"usage":{"cpu_cores":2.5}"#),
            report(11, r#""sampled_at_ms":1772409599500"#),
        ];
        let raw = raw(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let rejects: Vec<_> = raw.rejects.iter().map(|reject| (reject.line, reject.reason)).collect();
        assert_eq!(
            rejects,
            [
                (4, RejectReason::BrokenLine),
                (5, RejectReason::ImplausibleTime),
                (6, RejectReason::MissingField)
            ]
        );
        let counted = |what: &str| raw.quality.counted[what];
        let what = [
            "events_seen_before",
            "gaps_in_the_log",
            "ends_of_leases_not_in_the_log",
            "reports_that_list_leases_not_in_the_log",
            "reports_of_boxes_whose_registration_is_not_in_the_log",
        ];
        assert_eq!(what.map(counted), [1, 1, 1, 1, 2]);
        assert!(raw.quality.notes.iter().any(|note| note.contains("truncated")));
        assert_eq!(raw.boxes["a"].at_ms, [1_772_409_599_000]);
    }
}
