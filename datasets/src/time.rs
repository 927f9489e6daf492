//! Stamps: ISO 8601 text and epoch numbers of a stated or detected unit.

use crate::{RejectReason, TimeUnit};

/// 2000-01-01 and 2100-01-01 UTC in epoch ms: the times a log is taken to speak of.
pub(crate) const PLAUSIBLE_MS: std::ops::Range<i64> = 946_684_800_000..4_102_444_800_000;
/// The year 2200: no stamp lies beyond, whatever it counts from.
const FAR_MS: i64 = 7_258_118_400_000;
const DAY_MS: i64 = 86_400_000;

/// Where the time of a log begins that has no stamps, or stamps from an unknown start: 2000-01-01 UTC.
pub(crate) const ORIGIN_MS: i64 = PLAUSIBLE_MS.start;
/// What a report says about such a log.
pub(crate) const ORIGIN_NOTE: &str = "the start of the log is not known: taken as 2000-01-01 00:00 UTC, so hours and days of the week mean nothing";

/// How the stamps of one file are read; decided once, by its first stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Text like `2014-02-14 14:27:00`, UTC unless it carries a zone.
    Iso,
    /// Numbers since the epoch. With `plausible`, every stamp must lie in [`PLAUSIBLE_MS`].
    Epoch {
        /// Their unit.
        unit: TimeUnit,
        /// Whether the first stamp was a plausible time.
        plausible: bool,
    },
}

impl Clock {
    /// Choose the clock by a first stamp. `stated` is the user's word and is obeyed; `claimed` is the
    /// header's and is overruled, with a note, by a stamp that is plausible in another unit only.
    ///
    /// `None` when the text is no stamp at all.
    pub(crate) fn detect(
        text: &str,
        stated: Option<TimeUnit>,
        claimed: Option<TimeUnit>,
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let Ok(number) = text.parse::<f64>() else {
            return parse_iso(text).map(|_| Self::Iso);
        };
        if let Some(unit) = stated {
            let plausible = is_plausible(number, unit);
            if !plausible {
                notes.push(format!(
                    "the stated time unit {} puts {text} outside the years 2000 to 2100",
                    unit.name()
                ));
            }
            return Some(Self::Epoch { unit, plausible });
        }
        let found = TimeUnit::ALL.into_iter().find(|unit| is_plausible(number, *unit));
        let unit = found.or(claimed)?;
        if claimed.is_some_and(|claim| claim != unit) {
            let claim = claimed.map_or("", TimeUnit::name);
            notes.push(format!("the header says {claim} but the stamps are {}", unit.name()));
        }
        Some(Self::Epoch { unit, plausible: found.is_some() })
    }

    /// Read one stamp as epoch ms.
    pub(crate) fn parse(self, text: &str) -> Result<i64, RejectReason> {
        match self {
            Self::Iso => parse_iso(text).ok_or(RejectReason::BadTime),
            Self::Epoch { unit, plausible } => {
                let at_ms = parse_epoch(text, unit).ok_or(RejectReason::BadTime)?;
                // Stamps that count from some start of their own are few; none lies before it or ages away.
                let allowed = if plausible { PLAUSIBLE_MS } else { 0..FAR_MS };
                if !allowed.contains(&at_ms) {
                    return Err(RejectReason::ImplausibleTime);
                }
                Ok(at_ms)
            }
        }
    }
}

impl TimeUnit {
    const ALL: [Self; 4] = [Self::Seconds, Self::Milliseconds, Self::Microseconds, Self::Nanoseconds];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1_000_000,
            Self::Nanoseconds => 1_000_000_000,
        }
    }

    /// The unit that a column's name claims, as in `Timestamp [ms]`, `at_ms` or `time_us`.
    pub(crate) fn claimed_by(column: &str) -> Option<Self> {
        let lower = column.to_ascii_lowercase();
        let word = lower.rsplit(|c: char| !c.is_ascii_alphanumeric()).find(|word| !word.is_empty())?;
        match word {
            "s" | "sec" | "secs" | "seconds" => Some(Self::Seconds),
            "ms" | "millis" | "milliseconds" => Some(Self::Milliseconds),
            "us" | "micros" | "microseconds" => Some(Self::Microseconds),
            "ns" | "nanos" | "nanoseconds" => Some(Self::Nanoseconds),
            _ => None,
        }
    }
}

fn is_plausible(number: f64, unit: TimeUnit) -> bool {
    let at_ms = number / unit.per_second() as f64 * 1000.0;
    at_ms >= PLAUSIBLE_MS.start as f64 && at_ms < PLAUSIBLE_MS.end as f64
}

/// Whole numbers are converted exactly; fractions to the nearest millisecond.
fn parse_epoch(text: &str, unit: TimeUnit) -> Option<i64> {
    if let Ok(whole) = text.parse::<i64>() {
        return match unit.per_second() {
            per @ 0..=1000 => whole.checked_mul(1000 / per),
            per => Some(whole.div_euclid(per / 1000)),
        };
    }
    let at_ms = text.parse::<f64>().ok()? / unit.per_second() as f64 * 1000.0;
    // Beyond 2^53 a float no longer names one millisecond.
    (at_ms.is_finite() && at_ms.abs() < 9.0e15).then(|| at_ms.round() as i64)
}

/// `YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]][Z|±HH[:MM]]]` as epoch ms; UTC without a zone.
fn parse_iso(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = bytes.get(from..to)?;
        part.iter().all(u8::is_ascii_digit).then_some(())?;
        Some(part.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let in_month = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') || !in_month {
        return None;
    }
    let date_ms = days_from_civil(year, month, day) * DAY_MS;
    if bytes.len() == 10 {
        return Some(date_ms);
    }
    if !matches!(bytes[10], b' ' | b'T' | b't') || bytes.get(13) != Some(&b':') {
        return None;
    }
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let (second, rest) = if bytes.get(16) == Some(&b':') {
        (number(17, 19)?, bytes.get(19..)?)
    } else {
        (0, bytes.get(16..)?)
    };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction_ms, zone) = parse_fraction(rest)?;
    let clock_ms = ((hour * 60 + minute) * 60 + second) * 1000 + fraction_ms;
    Some(date_ms + clock_ms - parse_zone_ms(zone)?)
}

/// `DD/Mon/YYYY:HH:MM:SS ±HHMM` of access logs: epoch ms, and the zone's offset in ms.
pub(crate) fn parse_common_log(text: &str) -> Option<(i64, i64)> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (stamp, zone) = text.split_once(' ')?;
    let (date, clock) = stamp.split_once(':')?;
    let mut parts = date.split('/');
    let (day, name, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().position(|known| *known == name)? + 1;
    // In the order of ISO 8601, every check of it holds here too.
    let local_ms = parse_iso(&format!("{year}-{month:02}-{day} {clock}"))?;
    let zone_ms = parse_zone_ms(zone.as_bytes())?;
    parts.next().is_none().then_some((local_ms - zone_ms, zone_ms))
}

/// `YYYYMMDD` as the epoch ms of its midnight, UTC.
pub(crate) fn parse_day(text: &str) -> Option<i64> {
    let is_day = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let at_ms =
        is_day.then(|| parse_iso(&format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]))).flatten()?;
    PLAUSIBLE_MS.contains(&at_ms).then_some(at_ms)
}

/// `.123…` as whole milliseconds (digits beyond the third are cut), and what follows.
fn parse_fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return Some((0, rest));
    }
    let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = (0..3).fold(0, |sum, index| {
        let digit = if index < digits { rest[1 + index] - b'0' } else { 0 };
        sum * 10 + i64::from(digit)
    });
    (digits > 0).then(|| (value, &rest[1 + digits..]))
}

fn parse_zone_ms(zone: &[u8]) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    match zone {
        [] | [b'Z' | b'z'] | [b' ', b'U', b'T', b'C'] => Some(0),
        [sign @ (b'+' | b'-'), a, b] => zone_ms(*sign, [digit(*a)?, digit(*b)?, 0, 0]),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] | [sign @ (b'+' | b'-'), a, b, c, d] => {
            zone_ms(*sign, [digit(*a)?, digit(*b)?, digit(*c)?, digit(*d)?])
        }
        _ => None,
    }
}

fn zone_ms(sign: u8, [a, b, c, d]: [i64; 4]) -> Option<i64> {
    let (hours, minutes) = (a * 10 + b, c * 10 + d);
    let size = (hours * 60 + minutes) * 60_000;
    (hours <= 18 && minutes < 60).then_some(if sign == b'-' { -size } else { size })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar: years start in March, so that the
/// leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_text_is_read_with_and_without_zone() {
        assert_eq!(parse_iso("1970-01-01"), Some(0));
        assert_eq!(parse_iso("2014-02-14 14:27:00"), Some(1_392_388_020_000));
        assert_eq!(parse_iso("2014-02-14T14:27:00.1239999Z"), Some(1_392_388_020_123));
        assert_eq!(parse_iso("2014-02-14T16:27+02:00"), Some(1_392_388_020_000));
        assert_eq!(parse_iso("2000-02-29 00:00:00-0130"), Some(951_787_800_000));
        for bad in
            ["2014-02-30 00:00:00", "2014-13-01", "2014-02-14 24:00:00", "14.02.2014", "2014-02-14 1:2:3", ""]
        {
            assert_eq!(parse_iso(bad), None, "{bad}");
        }
    }

    #[test]
    fn access_log_stamps_and_days_are_read() {
        assert_eq!(parse_common_log("01/Aug/1995:00:00:01 -0400"), Some((807_249_601_000, -14_400_000)));
        assert_eq!(parse_common_log("29/Feb/2016:23:59:59 +0530").map(|stamp| stamp.1), Some(19_800_000));
        for bad in [
            "01/Aug/1995:00:00:01",
            "30/Feb/2016:00:00:00 +0000",
            "1/Aug/1995:00:00:00 +0000",
            "01/08/1995:0",
            "",
        ] {
            assert_eq!(parse_common_log(bad), None, "{bad}");
        }
        assert_eq!(parse_day("20110303"), Some(1_299_110_400_000));
        assert_eq!((parse_day("20111303"), parse_day("19110303"), parse_day("2011-3-3")), (None, None, None));
    }

    #[test]
    fn a_header_is_overruled_by_plausibility_and_a_stated_unit_is_obeyed() {
        let mut notes = Vec::new();
        let clock = Clock::detect("1372629804", None, Some(TimeUnit::Milliseconds), &mut notes);
        assert_eq!(clock, Some(Clock::Epoch { unit: TimeUnit::Seconds, plausible: true }));
        assert_eq!(notes, ["the header says milliseconds but the stamps are seconds"]);
        let clock = Clock::detect("1372629804", Some(TimeUnit::Milliseconds), None, &mut notes).unwrap();
        assert_eq!(clock.parse("1372629804"), Ok(1_372_629_804));
        assert_eq!(notes.len(), 2);
        assert_eq!(Clock::detect("300", None, None, &mut notes), None);
    }

    #[test]
    fn every_unit_is_told_by_its_size() {
        for (text, unit) in [
            ("1628640000", TimeUnit::Seconds),
            ("1628640000000", TimeUnit::Milliseconds),
            ("1628640000000000", TimeUnit::Microseconds),
            ("1628640000000000000", TimeUnit::Nanoseconds),
        ] {
            let clock = Clock::detect(text, None, None, &mut Vec::new()).unwrap();
            assert_eq!(clock, Clock::Epoch { unit, plausible: true });
            assert_eq!(clock.parse(text), Ok(1_628_640_000_000));
        }
        let seconds = Clock::Epoch { unit: TimeUnit::Seconds, plausible: true };
        assert_eq!(seconds.parse("1628640000000"), Err(RejectReason::ImplausibleTime));
        assert_eq!(seconds.parse("1628640000.5"), Ok(1_628_640_000_500));
        assert_eq!(seconds.parse("NaN"), Err(RejectReason::BadTime));
    }

    #[test]
    fn stamps_that_count_from_a_start_of_their_own_are_bounded_too() {
        let clock = Clock::Epoch { unit: TimeUnit::Milliseconds, plausible: false };
        assert_eq!(clock.parse("0"), Ok(0));
        for text in ["-5", "4611686018427387904", "9223372036854775807"] {
            assert_eq!(clock.parse(text), Err(RejectReason::ImplausibleTime), "{text}");
        }
    }
}
