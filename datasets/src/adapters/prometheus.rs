//! The reply of Prometheus' `query_range`: a matrix of labelled series.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::stem;
use crate::samples::{METRIC_FIELDS, Measure, RawFile, parse_load};
use crate::time::Clock;
use crate::{DatasetError, Mapping, RejectReason, TimeUnit, source};

/// Labels that name a box, best first; a mapping `LABEL=box_id` comes before them.
const BOX_LABELS: [&str; 7] = ["box", "box_id", "instance", "node", "host", "hostname", "pod"];
/// A reply is read whole; Prometheus itself caps one at 11,000 points a series.
const MAX_FILE_BYTES: u64 = 1 << 30;

#[derive(Deserialize)]
struct Reply {
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    result_type: String,
    #[serde(default)]
    result: Vec<Value>,
}

/// Which label is the box and which measure the values are.
struct Naming {
    box_label: Option<String>,
    /// Metric names (or `value`) to fields of `box_metrics`.
    fields: BTreeMap<String, String>,
}

pub(super) fn read(path: &Path, mapping: Option<&Mapping>) -> Result<RawFile, DatasetError> {
    let data = open(path)?;
    let naming = Naming::new(mapping)?;
    let dimensions: Vec<&str> = data.result.iter().map(|series| naming.field(series)).collect();
    let measures: Vec<Measure> = METRIC_FIELDS
        .iter()
        .filter(|field| dimensions.contains(*field))
        .map(|field| Measure::of_table(field))
        .collect();
    let mut raw = RawFile::new(path, "prometheus", &stem(path), measures);
    let clock = Clock::Epoch { unit: TimeUnit::Seconds, plausible: true };
    let mut owners: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let mut sample = 0;
    for (index, series) in data.result.iter().enumerate() {
        let field = dimensions[index];
        let at = raw.measures.iter().position(|measure| measure.name == field).unwrap_or_default();
        let mut name = naming.box_id(series);
        // Two series of one box and measure are told apart by all of their labels.
        if *owners.entry((name.clone(), field)).or_insert(index) != index {
            name = all_labels(series);
            raw.note("several series share a box; named by all labels (aggregate them in the query)");
        }
        let values = series.get("values").and_then(Value::as_array);
        if values.is_none() {
            raw.count("series_without_values");
        }
        for pair in values.into_iter().flatten() {
            sample += 1;
            raw.quality.rows_read += 1;
            let mut row = vec![f64::NAN; raw.measures.len()];
            let pushed = parse_pair(pair, clock).and_then(|(at_ms, value)| {
                row[at] = value;
                raw.push(&name, at_ms, &row)
            });
            if let Err(reason) = pushed {
                raw.reject(sample, reason, &format!("result[{index}] {name}: {pair}"));
            }
        }
    }
    if raw.measures.len() > 1 {
        // The measures of one box follow each other, so stamps begin anew without going backward.
        raw.quality.backward = 0;
    }
    Ok(raw)
}

/// Check a saved reply of `query_range`; returns how many series it holds.
///
/// # Errors
/// It is no successful reply with a matrix.
pub fn check_prometheus_reply(path: &Path) -> Result<usize, DatasetError> {
    open(path).map(|data| data.result.len())
}

fn open(path: &Path) -> Result<Data, DatasetError> {
    let mut limited = source::open(path)?.take(MAX_FILE_BYTES + 1);
    let parsed = serde_json::from_reader(BufReader::new(&mut limited));
    if limited.limit() == 0 {
        return Err(DatasetError::malformed(
            path,
            format!("more than {MAX_FILE_BYTES} bytes, the most a reply may have: ask for shorter ranges"),
        ));
    }
    let reply: Reply = parsed.map_err(DatasetError::json(path))?;
    if reply.status != "success" {
        let error = reply.error.unwrap_or_default();
        return Err(DatasetError::malformed(
            path,
            format!("status is `{}` ({error}); save a successful reply", reply.status),
        ));
    }
    let data = reply.data.ok_or_else(|| DatasetError::malformed(path, "there is no `data`"))?;
    if data.result_type != "matrix" {
        return Err(DatasetError::malformed(
            path,
            format!("resultType is `{}`; allowed: matrix (use query_range)", data.result_type),
        ));
    }
    Ok(data)
}

impl Naming {
    fn new(mapping: Option<&Mapping>) -> Result<Self, DatasetError> {
        let mut naming = Self { box_label: None, fields: BTreeMap::new() };
        for (column, field) in mapping.into_iter().flat_map(|mapping| &mapping.columns) {
            if field == "box_id" {
                naming.box_label = Some(column.clone());
            } else if METRIC_FIELDS.contains(&field.as_str()) {
                naming.fields.insert(column.clone(), field.clone());
            } else {
                let allowed = METRIC_FIELDS.join(", ");
                return Err(DatasetError::Usage(format!(
                    "field `{field}` is unknown; allowed: box_id, {allowed}"
                )));
            }
        }
        Ok(naming)
    }

    /// The field of a series: by its metric's name as mapped, its own name, `value` as mapped, or `value`.
    fn field<'a>(&'a self, series: &Value) -> &'a str {
        let name = label(series, "__name__").unwrap_or("value");
        let mapped = self.fields.get(name).map(String::as_str);
        let own = METRIC_FIELDS.into_iter().find(|field| *field == name && name != "value");
        mapped.or(own).or_else(|| self.fields.get("value").map(String::as_str)).unwrap_or("value")
    }

    fn box_id(&self, series: &Value) -> String {
        let mapped = self.box_label.as_deref().and_then(|name| label(series, name));
        let known = mapped.or_else(|| BOX_LABELS.into_iter().find_map(|name| label(series, name)));
        known.map_or_else(|| all_labels(series), str::to_owned)
    }
}

fn label<'a>(series: &'a Value, name: &str) -> Option<&'a str> {
    series.get("metric")?.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn all_labels(series: &Value) -> String {
    let labels = series.get("metric").and_then(Value::as_object);
    let pairs =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("")));
    let text = pairs.collect::<Vec<_>>().join(",");
    if text.is_empty() { "all".to_owned() } else { text }
}

/// `[seconds, "number"]`; `"NaN"` and `"+Inf"` are what Prometheus writes for no number.
fn parse_pair(pair: &Value, clock: Clock) -> Result<(i64, f64), RejectReason> {
    let [stamp, value] = pair.as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Err(RejectReason::BrokenLine);
    };
    let at_ms = clock.parse(&stamp.as_number().ok_or(RejectReason::BadTime)?.to_string())?;
    let text = value.as_str().ok_or(RejectReason::BadNumber)?;
    Ok((at_ms, parse_load(text)?.ok_or(RejectReason::MissingField)?))
}
