//! Access logs: Apache and nginx text (common, combined, and what is written behind it), Envoy's text, and
//! JSON lines. Each line tells its own kind, so files may mix them.
//!
//! A request is a ball. Where the line names the server behind (upstream), the ball has an outcome too. The
//! requests a minute of each server, or of the whole log without servers, are a load series.

mod json;
mod text;

use std::path::Path;

use super::each_line;
use crate::counts::MinuteCounts;
use crate::rows::{BallRow, OutcomeRow};
use crate::samples::{Measure, RawFile};
use crate::{DatasetError, RejectReason};

/// Lines that are tried before a file is taken for something else: the first ones may be broken.
const LINES_TRIED: usize = 5;
/// Shortest time of a request: logs write 0.000 for less.
const LEAST_MS: f64 = 1.0;
/// Longest time of a request; a longer one is a wrong number.
const MOST_MS: f64 = 30.0 * 86_400_000.0;
/// The status that nginx writes when the client went away, and Envoy's of a broken connection.
const CLIENT_GONE: [u16; 2] = [499, 0];

/// One request of a log.
#[derive(Debug, Clone, Default, PartialEq)]
struct Request {
    /// The line's stamp, epoch ms.
    logged_ms: i64,
    /// Whether the stamp is that of the arrival; else of the end.
    is_arrival: bool,
    /// Offset of the stamp's zone.
    zone_ms: i64,
    status: u16,
    method: String,
    bytes: Option<f64>,
    duration_ms: Option<f64>,
    /// The server that answered.
    upstream: Option<String>,
    /// Servers that were tried before it.
    retries: u64,
    /// Whole numbers behind the line's end whose meaning nothing tells.
    unkeyed: u64,
}

/// Whether one of the first lines is that of an access log.
pub(crate) fn is_access_log(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(LINES_TRIED).any(|line| parse(line).is_ok())
}

fn parse(line: &str) -> Result<Request, RejectReason> {
    match line.trim_start().as_bytes().first() {
        Some(b'{') => json::parse(line),
        _ => text::parse(line),
    }
}

/// What is carried from line to line.
#[derive(Default)]
struct State {
    counts: MinuteCounts,
    last_ms: Option<i64>,
    zone_ms: Option<i64>,
}

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let site = site_of(path);
    let mut raw = RawFile::new(path, "access_log", &site, vec![Measure::of_table("value")]);
    // The whole name: `access.log.1` and `access.log.2` are two files with lines of their own.
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = folder.map_or_else(|| name.clone(), |folder| format!("{folder}/{name}"));
    let mut state = State::default();
    each_line(
        path,
        &mut raw,
        |_| false,
        |raw, number, line| {
            let request = parse(line)?;
            let at_ms = arrival_ms(&request);
            state.counts.add(request.upstream.as_deref().unwrap_or(&site), at_ms)?;
            count_oddities(raw, &mut state, &request);
            push_request(raw, format!("{name}:{number}"), &request, at_ms);
            Ok(())
        },
    )?;
    state.counts.write(&mut raw);
    if raw.outcomes.is_empty() {
        raw.note("no line names the server behind: the balls have no outcome");
    }
    Ok(raw)
}

/// What a log's requests are called together: the file's name up to its first dot, so that rotated files join.
fn site_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('.').next().filter(|site| !site.is_empty()).unwrap_or(&name).to_owned()
}

/// The arrival: the stamp, less the time of the request where the stamp is that of the end.
fn arrival_ms(request: &Request) -> i64 {
    match request.duration_ms.filter(|_| !request.is_arrival) {
        Some(duration_ms) => request.logged_ms - duration_ms.round() as i64,
        None => request.logged_ms,
    }
}

/// Whether the time of the request says how long its work was: it must have run to a good end.
fn is_censored(request: &Request) -> bool {
    request.status >= 500 || CLIENT_GONE.contains(&request.status)
}

fn push_request(raw: &mut RawFile, ball_id: String, request: &Request, at_ms: i64) {
    let seconds = request.duration_ms.map_or(1.0, |duration_ms| duration_ms.max(LEAST_MS) / 1000.0);
    let work = request.duration_ms.filter(|_| !is_censored(request)).map(|_| seconds);
    if let Some(upstream) = &request.upstream {
        let ended_ms = at_ms + request.duration_ms.unwrap_or(0.0).round() as i64;
        raw.outcomes.push(OutcomeRow {
            ball_id: ball_id.clone(),
            box_id: upstream.clone(),
            started_at_ms: at_ms,
            finished_at_ms: Some(ended_ms),
            succeeded: !is_censored(request),
        });
    }
    raw.push_ball(BallRow {
        at_ms,
        ball_id,
        class: "normal".to_owned(),
        kind: request.method.clone(),
        demand_bandwidth_bps: request.bytes.unwrap_or(0.0) * 8.0 / seconds,
        demand_slots: 1.0,
        work,
        ..BallRow::default()
    });
}

fn count_oddities(raw: &mut RawFile, state: &mut State, request: &Request) {
    raw.see_arrival(&mut state.last_ms, request.logged_ms);
    if state.zone_ms.is_some_and(|zone_ms| zone_ms != request.zone_ms) {
        raw.count("zone_changes");
    }
    state.zone_ms = Some(request.zone_ms);
    if request.bytes.is_none() {
        raw.count("rows_without_bytes");
    }
    if request.duration_ms.is_none() {
        raw.count("rows_without_request_time");
        raw.note(
            "without a request time a stamp is taken for the arrival, and bytes as sent within one second",
        );
    } else if is_censored(request) {
        raw.count("censored_requests");
        raw.note(
            "a request that failed (5xx) or whose client left says nothing about its work: kept without it",
        );
    }
    if request.retries > 0 {
        raw.count("retried_requests");
        raw.note("of several upstream addresses the last one, which answered, is taken");
    }
    if request.unkeyed > 0 {
        raw.count("rows_with_unkeyed_whole_numbers");
        raw.note("whole numbers behind a line's known fields are not read; write them as key=value, for example rt=0.012");
    }
}

/// A time of a request in ms, if it is one.
fn duration(value: f64, to_ms: f64) -> Result<f64, RejectReason> {
    let duration_ms = value * to_ms;
    if !duration_ms.is_finite() {
        return Err(RejectReason::NonFinite);
    }
    if duration_ms < 0.0 {
        return Err(RejectReason::Negative);
    }
    if duration_ms > MOST_MS { Err(RejectReason::Censored) } else { Ok(duration_ms) }
}

/// Take the last of the addresses that nginx writes, `a:80, b:80 : c:80`; `-` is none.
fn set_upstream(request: &mut Request, text: &str) {
    let addresses = text.split([',', ' ']).filter(|part| !["", "-", ":"].contains(part));
    for address in addresses {
        if request.upstream.replace(address.to_owned()).is_some() {
            request.retries += 1;
        }
    }
}

#[cfg(test)]
mod tests;
