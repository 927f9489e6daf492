//! Standard Workload Format: batch jobs, eighteen fields parted by blanks, `;` before comments.
//!
//! A dialect adds the list of nodes, one entry a processor, that ran a job (`{1241,1241}`), its queue and its
//! request. Only that dialect says which box took a ball. Source of the fields: the Parallel Workloads Archive.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{each_line, folder_and_stem};
use crate::rows::{BallRow, OutcomeRow};
use crate::samples::RawFile;
use crate::time::{ORIGIN_MS, ORIGIN_NOTE, PLAUSIBLE_MS};
use crate::{DatasetError, RejectReason};

const FIELDS: usize = 18;
const BYTES_PER_KB: f64 = 1024.0;
/// A job that runs or waits longer than this many seconds (ten years) has a wrong stamp.
const MAX_RUN_S: f64 = 315_576_000.0;
/// Stamps beyond this (the year 2100) are wrong; below it nothing overflows.
const MAX_STAMP_S: f64 = 4_102_444_800.0;

/// Whether the first line that is no comment is one of this format.
pub(crate) fn is_swf(text: &str) -> bool {
    let row = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with(';'));
    row.is_some_and(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        fields.len() >= FIELDS && fields[..FIELDS].iter().all(|field| field.parse::<f64>().is_ok())
    })
}

/// One job of the log.
struct Job<'a> {
    id: &'a str,
    submit_s: f64,
    wait_s: f64,
    run_s: f64,
    processors: f64,
    memory_bytes: f64,
    requested_s: Option<f64>,
    status: i64,
    user: &'a str,
    queue: &'a str,
    /// Nodes with how many processors of each.
    nodes: BTreeMap<&'a str, u64>,
}

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let mut raw = RawFile::new(path, "swf", "swf", Vec::new());
    let (name, mut start_s, mut last) = (folder_and_stem(path), 0.0, None);
    let mut nodes = BTreeSet::new();
    let start = std::cell::Cell::new(None);
    each_line(
        path,
        &mut raw,
        |line| {
            let stated = line.strip_prefix(';').and_then(|rest| rest.trim().strip_prefix("UnixStartTime:"));
            if let Some(stated) = stated.and_then(|text| text.trim().parse::<f64>().ok()) {
                start.set(Some(stated));
            }
            line.starts_with(';')
        },
        |raw, _, line| {
            let job = parse_job(raw, line)?;
            if last.is_none() {
                start_s = origin_s(raw, start.get(), job.submit_s);
            }
            let at_ms = to_ms(start_s + job.submit_s)?;
            raw.see_arrival(&mut last, at_ms);
            nodes.extend(job.nodes.keys().map(|node| (*node).to_owned()));
            push_job(raw, &name, &job, at_ms);
            Ok(())
        },
    )?;
    if nodes.is_empty() {
        raw.note("the log names no nodes: the balls have no outcome");
    } else {
        raw.quality.counted.insert("nodes".to_owned(), nodes.len() as u64);
        raw.note("memory is taken as bytes of the whole job, as logs with lists of nodes write it");
        raw.note("a job over several nodes is one ball a node, with its share of processors and memory");
    }
    Ok(raw)
}

/// What is added to submit times: they are epoch seconds already, or relative to the header's start.
fn origin_s(raw: &mut RawFile, stated: Option<f64>, first_submit_s: f64) -> f64 {
    match stated {
        _ if first_submit_s * 1000.0 >= PLAUSIBLE_MS.start as f64 => 0.0,
        Some(start_s) => {
            raw.note("submit times are relative to the header's UnixStartTime");
            start_s
        }
        None => {
            raw.note(format!("submit times are relative and the header has no UnixStartTime; {ORIGIN_NOTE}"));
            ORIGIN_MS as f64 / 1000.0
        }
    }
}

fn to_ms(seconds: f64) -> Result<i64, RejectReason> {
    let is_good = seconds.is_finite() && (0.0..MAX_STAMP_S).contains(&seconds);
    is_good.then(|| (seconds * 1000.0).round() as i64).ok_or(RejectReason::ImplausibleTime)
}

fn parse_job<'a>(raw: &mut RawFile, line: &'a str) -> Result<Job<'a>, RejectReason> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.len() < FIELDS {
        return Err(RejectReason::BrokenLine);
    }
    let mut numbers = [0.0; FIELDS];
    for (number, field) in numbers.iter_mut().zip(&fields) {
        *number = field.parse::<f64>().map_err(|_| RejectReason::BadNumber)?;
        if !number.is_finite() {
            return Err(RejectReason::NonFinite);
        }
    }
    let nodes = parse_nodes(fields.get(FIELDS).copied())?;
    let run_s = numbers[3];
    if !(0.0..=MAX_RUN_S).contains(&run_s) || numbers[2] > MAX_RUN_S {
        return Err(RejectReason::Censored);
    }
    if numbers[2] < 0.0 {
        raw.count("waits_unknown_taken_as_none");
    }
    let listed: u64 = nodes.values().sum();
    // What was allocated counts; what was requested stands in where that is unknown (−1).
    let first_known = |first: f64, second: f64| if first > 0.0 { first } else { second };
    let processors = if listed > 0 { listed as f64 } else { first_known(numbers[4], numbers[7]) };
    if processors <= 0.0 {
        return Err(RejectReason::MissingField);
    }
    if listed > 0 && listed as f64 != numbers[4] {
        raw.count("node_lists_of_another_length");
    }
    let memory_bytes = if nodes.is_empty() {
        first_known(numbers[9], numbers[6]).max(0.0) * BYTES_PER_KB * processors
    } else {
        numbers[9].max(0.0)
    };
    Ok(Job {
        id: fields[0],
        submit_s: numbers[1],
        wait_s: numbers[2].max(0.0),
        run_s,
        processors,
        memory_bytes,
        requested_s: Some(numbers[8]).filter(|seconds| (1.0..=MAX_RUN_S).contains(seconds)),
        status: numbers[10] as i64,
        user: fields[11],
        queue: fields.get(FIELDS + 1).copied().unwrap_or(fields[14]),
        nodes,
    })
}

/// `{1241,1241,1242}` as nodes with their counts; without a list, none.
fn parse_nodes(field: Option<&str>) -> Result<BTreeMap<&str, u64>, RejectReason> {
    let mut nodes = BTreeMap::new();
    let Some(open) = field.and_then(|field| field.strip_prefix('{')) else {
        return Ok(nodes);
    };
    let list = open.strip_suffix('}').ok_or(RejectReason::BrokenLine)?;
    for node in list.split(',').map(str::trim).filter(|node| !node.is_empty()) {
        *nodes.entry(node).or_default() += 1;
    }
    Ok(nodes)
}

fn push_job(raw: &mut RawFile, name: &str, job: &Job<'_>, at_ms: i64) {
    let whole = [("", job.processors as u64)];
    let parts: Vec<(&str, u64)> = if job.nodes.is_empty() {
        whole.to_vec()
    } else {
        job.nodes.iter().map(|(node, count)| (*node, *count)).collect()
    };
    if parts.len() > 1 {
        raw.count("jobs_over_several_nodes");
    }
    if job.status == -1 {
        raw.count("status_unknown_taken_as_good");
    }
    raw.quality.see_time(at_ms);
    raw.quality.rows_accepted += 1;
    let started_at_ms = at_ms.saturating_add((job.wait_s * 1000.0) as i64);
    for (node, processors) in &parts {
        let suffix = if parts.len() > 1 { format!("/{node}") } else { String::new() };
        let ball_id = format!("{name}:{}{suffix}", job.id);
        if !node.is_empty() {
            raw.outcomes.push(OutcomeRow {
                ball_id: ball_id.clone(),
                box_id: (*node).to_owned(),
                started_at_ms,
                finished_at_ms: Some(started_at_ms.saturating_add((job.run_s * 1000.0) as i64)),
                succeeded: [1, -1].contains(&job.status),
            });
        }
        let text = |field: &str| if field == "-1" { String::new() } else { field.to_owned() };
        raw.balls.push(BallRow {
            at_ms,
            ball_id,
            tenant: text(job.user),
            class: "normal".to_owned(),
            kind: text(job.queue),
            demand_cpu_cores: *processors as f64,
            demand_memory_bytes: job.memory_bytes * *processors as f64 / job.processors,
            work: Some(job.run_s),
            // The user's own estimate: known when the job comes.
            expected_residence_ms: job.requested_s.map(|seconds| (seconds * 1000.0) as i64),
            ..BallRow::default()
        });
    }
}
