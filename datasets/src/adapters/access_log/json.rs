//! One JSON object a request, with the names that nginx, Envoy and others give.

use serde_json::Value;

use super::{Request, duration, set_upstream};
use crate::RejectReason;
use crate::time::{Clock, parse_common_log};

/// Names of the stamp, the better first.
const TIME: [&str; 8] =
    ["start_time", "time_iso8601", "@timestamp", "timestamp", "time_local", "time", "msec", "ts"];
/// The stamp of Envoy is that of the arrival.
const ARRIVAL: &str = "start_time";
const STATUS: [&str; 3] = ["status", "response_code", "status_code"];
/// Envoy's name of the status, whose `duration` is in ms; elsewhere it is in seconds.
const ENVOY_STATUS: &str = "response_code";
const BYTES: [&str; 5] = ["body_bytes_sent", "bytes_sent", "size", "bytes", "response_size"];
const METHOD: [&str; 3] = ["request_method", "method", "request"];
const UPSTREAM: [&str; 3] = ["upstream_addr", "upstream_host", "upstream"];
/// Names of a request's time, and what makes them ms.
const DURATION: [(&str, f64); 4] =
    [("request_time", 1000.0), ("request_time_ms", 1.0), ("duration_ms", 1.0), ("duration_s", 1000.0)];
/// One of these tells a request from any other object with a stamp and a status.
const TELLING: [&str; 8] = [
    "request",
    "request_method",
    "method",
    "request_uri",
    "path",
    "upstream_addr",
    "upstream_host",
    "request_time",
];

pub(super) fn parse(line: &str) -> Result<Request, RejectReason> {
    let object: Value = serde_json::from_str(line).map_err(|_| RejectReason::BrokenLine)?;
    if !TELLING.iter().any(|name| object.get(name).is_some()) {
        return Err(RejectReason::MissingField);
    }
    let (name, stamp) = find(&object, &TIME).ok_or(RejectReason::MissingField)?;
    let (status_name, status) = find(&object, &STATUS).ok_or(RejectReason::MissingField)?;
    let (logged_ms, zone_ms) = parse_stamp(&stamp)?;
    let mut request = Request {
        logged_ms,
        zone_ms,
        is_arrival: name == ARRIVAL,
        status: status.parse().map_err(|_| RejectReason::BadNumber)?,
        method: method_of(&object),
        ..Request::default()
    };
    if let Some((_, bytes)) = find(&object, &BYTES) {
        request.bytes = Some(bytes.parse::<u64>().map_err(|_| RejectReason::BadNumber)? as f64);
    }
    let plain = ("duration", if status_name == ENVOY_STATUS { 1.0 } else { 1000.0 });
    for (name, to_ms) in DURATION.into_iter().chain([plain]) {
        if let (None, Some((_, text))) = (request.duration_ms, find(&object, &[name])) {
            let value = text.parse::<f64>().map_err(|_| RejectReason::BadNumber)?;
            request.duration_ms = Some(duration(value, to_ms)?);
        }
    }
    if let Some((_, upstream)) = find(&object, &UPSTREAM) {
        set_upstream(&mut request, &upstream);
    }
    Ok(request)
}

/// The first of some names that holds a text or a number; `-` and empty text are absent.
fn find<'a>(object: &Value, names: &[&'a str]) -> Option<(&'a str, String)> {
    names.iter().find_map(|name| {
        let text = match object.get(name)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        (!text.is_empty() && text != "-").then_some((*name, text))
    })
}

/// A stamp as access logs write it, ISO 8601, or a number since the epoch.
fn parse_stamp(text: &str) -> Result<(i64, i64), RejectReason> {
    if let Some(found) = parse_common_log(text) {
        return Ok(found);
    }
    let clock = Clock::detect(text, None, None, &mut Vec::new()).ok_or(RejectReason::BadTime)?;
    let at_ms = clock.parse(text)?;
    Ok((at_ms, 0))
}

fn method_of(object: &Value) -> String {
    let nested = object.get("request").and_then(|request| request.get("method")).and_then(Value::as_str);
    let text = nested.map(str::to_owned).or_else(|| find(object, &METHOD).map(|(_, text)| text));
    text.and_then(|text| text.split(' ').next().map(str::to_owned)).unwrap_or_default()
}
