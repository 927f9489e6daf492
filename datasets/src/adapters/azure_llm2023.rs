//! azure_llm2023: requests to a language model with their tokens; no server, no time of service.

use std::path::Path;

use super::{each_line, folder_and_stem};
use crate::counts::MinuteCounts;
use crate::lines::split_fields;
use crate::rows::BallRow;
use crate::samples::{Measure, RawFile, parse_load};
use crate::time::Clock;
use crate::{DatasetError, RejectReason};

const SET: &str = "azure_llm2023";
pub(crate) const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";
/// Work that is assumed for a token: the log has none. Only the ratio matters for who waits for whom: tokens
/// of a context are read together, generated ones come one after the other.
const SECONDS_PER_CONTEXT_TOKEN: f64 = 0.000_25;
const SECONDS_PER_GENERATED_TOKEN: f64 = 0.03;

pub(super) fn read(path: &Path) -> Result<RawFile, DatasetError> {
    let mut raw = RawFile::new(path, SET, SET, vec![Measure::of_table("value")]);
    raw.note("stamps carry no zone; read as UTC, digits beyond the millisecond are cut");
    raw.note(format!(
        "work is assumed, not measured: {SECONDS_PER_CONTEXT_TOKEN} s a context token and \
         {SECONDS_PER_GENERATED_TOKEN} s a generated one; no server is named, so the balls have no outcome"
    ));
    let name = folder_and_stem(path);
    let mut counts = MinuteCounts::default();
    let (mut fields, mut last) = (Vec::new(), None);
    each_line(
        path,
        &mut raw,
        |line| line.trim() == HEADER,
        |raw, number, line| {
            split_fields(line, ',', &mut fields)?;
            let [stamp, context, generated] = fields.as_slice() else {
                return Err(RejectReason::BrokenLine);
            };
            let at_ms = Clock::Iso.parse(stamp)?;
            let context = parse_load(context)?.ok_or(RejectReason::MissingField)?;
            let generated = parse_load(generated)?.ok_or(RejectReason::MissingField)?;
            counts.add("requests", at_ms)?;
            raw.see_arrival(&mut last, at_ms);
            raw.push_ball(BallRow {
                at_ms,
                ball_id: format!("{name}:{number}"),
                class: "normal".to_owned(),
                kind: "inference".to_owned(),
                demand_slots: 1.0,
                work: Some(context * SECONDS_PER_CONTEXT_TOKEN + generated * SECONDS_PER_GENERATED_TOKEN),
                ..BallRow::default()
            });
            Ok(())
        },
    )?;
    counts.write(&mut raw);
    Ok(raw)
}
