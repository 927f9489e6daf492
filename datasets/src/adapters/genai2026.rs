//! alibaba_genai2026: one measure a file, by container, whose columns come in any order; and a request trace.

use std::path::Path;

use super::{each_line, first_line, folder_and_stem, stem};
use crate::counts::MinuteCounts;
use crate::lines::split_fields;
use crate::rows::BallRow;
use crate::samples::{Measure, RawFile, parse_load};
use crate::time::Clock;
use crate::{DatasetError, RejectReason, TimeUnit};

const SET: &str = "alibaba_genai2026";
/// Files by the start of their names, and what their boxes are called before the container.
const KINDS: [(&str, &str); 6] = [
    ("pod_gpu_duty_cycle", GPU_DUTY),
    ("qps", "qps"),
    ("queue_rt", "queue_ms"),
    ("queue_size", "queue_length"),
    ("pipeline_inference", "inference_ms"),
    ("model_predict", "predict_ms"),
];
const GPU_DUTY: &str = "gpu_percent";
/// A measure that has no container is of the whole system.
const SYSTEM: &str = "system";
const REQUESTS_START: &str = "gmt_create,predict_type,predict_status,exec_time_seconds";

/// Whether a first line is the header of a file of this set.
pub(crate) fn is_genai(first: &str) -> bool {
    let names: Vec<&str> = first.split(',').map(str::trim).collect();
    let has_all = ["timestamp_anon", "value", "container_ip"].iter().all(|name| names.contains(name));
    has_all || first.starts_with(REQUESTS_START)
}

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let header = first_line(path)?;
    if header.starts_with(REQUESTS_START) {
        return read_requests(path, &header);
    }
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let position = |name: &str| {
        names.iter().position(|found| *found == name).ok_or_else(|| {
            DatasetError::malformed(path, format!("header `{header}` has no column `{name}`; it is needed"))
        })
    };
    let at = [position("timestamp_anon")?, position("value")?, position("container_ip")?];
    let file = stem(path);
    let kind = KINDS.iter().find(|(start, _)| file.starts_with(start)).map_or(file.as_str(), |kind| kind.1);
    let mut raw = RawFile::new(path, SET, SET, vec![Measure::of_table("value")]);
    raw.note(
        "stamps are shifted and stretched by their publisher: steps are 57 s; the day is not the real one",
    );
    let clock = Clock::Epoch { unit: TimeUnit::Seconds, plausible: true };
    let mut fields = Vec::new();
    each_line(
        path,
        &mut raw,
        |line| line.trim() == header,
        |raw, _, line| {
            split_fields(line, ',', &mut fields)?;
            if fields.len() != names.len() {
                return Err(RejectReason::BrokenLine);
            }
            let at_ms = clock.parse(&fields[at[0]])?;
            let value = parse_load(&fields[at[1]])?.ok_or(RejectReason::MissingField)?;
            let mut container = fields[at[2]].as_str();
            if container.is_empty() || container == "None" {
                raw.count("rows_without_container");
                container = SYSTEM;
            }
            raw.push(&format!("{kind}/{container}"), at_ms, &[value])
        },
    )?;
    if raw.quality.counted.contains_key("rows_without_container") {
        raw.note("rows without a container are of the whole system: box `system`");
    }
    if kind == GPU_DUTY {
        raw.state_capacity("value", 100.0);
    }
    Ok(raw)
}

/// Requests with their time of service; the log names no server, so the balls have no outcome.
fn read_requests(path: &Path, header: &str) -> Result<RawFile, DatasetError> {
    const COLUMNS: usize = 11;
    let mut raw = RawFile::new(path, SET, SET, vec![Measure::of_table("value")]);
    raw.note("stamps carry no zone; read as UTC");
    raw.note("no server is named: the balls have no outcome");
    let (name, mut counts) = (folder_and_stem(path), MinuteCounts::default());
    let (mut fields, mut last, mut same) = (Vec::new(), None, Vec::<String>::new());
    each_line(
        path,
        &mut raw,
        |line| line.trim() == header,
        |raw, number, line| {
            split_fields(line, ',', &mut fields)?;
            if fields.len() != COLUMNS {
                return Err(RejectReason::BrokenLine);
            }
            let at_ms = Clock::Iso.parse(&fields[0])?;
            let service_s = parse_load(&fields[3])?;
            if fields[5..10].iter().all(String::is_empty) {
                raw.count("rows_without_sizes");
            }
            counts.add("requests", at_ms)?;
            if raw.see_arrival(&mut last, at_ms) {
                if same.iter().any(|earlier| earlier == line) {
                    raw.count("exact_repeats_kept");
                }
            } else {
                same.clear();
            }
            same.push(line.to_owned());
            let work = service_s.filter(|_| fields[2] == "SUCCEED");
            if work.is_none() {
                raw.count("balls_without_work");
                raw.note("a request that failed or was running says nothing about its work: kept without it");
            }
            raw.push_ball(BallRow {
                at_ms,
                ball_id: format!("{name}:{number}"),
                class: "normal".to_owned(),
                kind: fields[1].clone(),
                tenant: fields[4].clone(),
                demand_slots: 1.0,
                work,
                ..BallRow::default()
            });
            Ok(())
        },
    )?;
    counts.write(&mut raw);
    Ok(raw)
}
