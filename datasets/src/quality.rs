//! The data-quality report: what was read, what was rejected and why, what was repaired.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Why a row (or one value of it) was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// Too few or too many fields, an unclosed quote, or no JSON object.
    BrokenLine,
    /// The line is longer than a line may be.
    LineTooLong,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The stamp can't be parsed.
    BadTime,
    /// The stamp parses, but not to a time in the years 2000 to 2100 as the rest of the file does.
    ImplausibleTime,
    /// A value can't be parsed as a number.
    BadNumber,
    /// NaN or an infinity.
    NonFinite,
    /// A negative value of something that can't be negative.
    Negative,
    /// A field that the table needs is absent or empty.
    MissingField,
    /// A word that is not one of those allowed.
    UnknownWord,
    /// More boxes than one file may hold.
    TooManyBoxes,
    /// A job or request whose end isn't known: a run time (or wait) that is negative or absurd.
    Censored,
}

/// One rejected row, as written to `rejected.ndjson`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reject {
    /// The file.
    pub file: String,
    /// Its line, counted from 1 (for Parquet the row; for Prometheus the sample of the file).
    pub line: u64,
    /// Why.
    pub reason: RejectReason,
    /// The field and its value, or the start of the line.
    pub detail: String,
}

/// What reading one file found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileQuality {
    /// The file.
    pub file: String,
    /// The format it was read as.
    pub format: String,
    /// Boxes seen in it.
    pub boxes: u64,
    /// Data rows read (the header and blank lines don't count).
    pub rows_read: u64,
    /// Rows accepted, before duplicates were folded.
    pub rows_accepted: u64,
    /// Rows rejected, by reason; `rows_read = rows_accepted + sum`.
    pub rejected: BTreeMap<RejectReason, u64>,
    /// Rows of a stamp that a later row of the same box repeats; the last one counts.
    pub duplicates: u64,
    /// Rows whose stamp is before that of the row before them; the file was sorted.
    pub backward: u64,
    /// Steps longer than three times the median step.
    pub gaps: u64,
    /// The longest step, in ms.
    pub longest_gap_ms: i64,
    /// The median step, in ms (0 with fewer than two points).
    pub median_step_ms: i64,
    /// The first stamp, UTC epoch ms.
    pub first_ms: Option<i64>,
    /// The last stamp, UTC epoch ms.
    pub last_ms: Option<i64>,
    /// Other things counted, for example `switched_off_rows` or `capacity_changes`.
    pub counted: BTreeMap<String, u64>,
    /// What was decided while reading, in words.
    pub notes: Vec<String>,
}

impl FileQuality {
    /// Rows rejected for any reason.
    #[must_use]
    pub fn rejected_total(&self) -> u64 {
        self.rejected.values().sum()
    }
}

/// What a reading found, file by file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QualityReport {
    /// Files read.
    pub files: Vec<FileQuality>,
    /// Files of a directory that hold no known format, with what was seen.
    pub skipped: Vec<String>,
    /// Rejected rows that are counted in `files` but are too many for the side file.
    pub rejects_not_kept: u64,
    /// Rejected rows kept for the side file, at most [`QualityReport::REJECTS_KEPT_PER_FILE`] a file;
    /// the counts in `files` are complete.
    #[serde(skip)]
    pub rejects: Vec<Reject>,
}

impl QualityReport {
    /// Rejected rows of one file that are kept with their text; more are only counted.
    pub const REJECTS_KEPT_PER_FILE: u64 = 100_000;
    /// Rejected rows that are kept in all.
    pub const REJECTS_KEPT: usize = 1_000_000;

    /// Add what reading one file found.
    pub(crate) fn add(&mut self, quality: FileQuality, rejects: Vec<Reject>) {
        let room = Self::REJECTS_KEPT.saturating_sub(self.rejects.len());
        let kept = rejects.len().min(room);
        self.rejects_not_kept += quality.rejected_total() - kept as u64;
        self.rejects.extend(rejects.into_iter().take(room));
        self.files.push(quality);
    }

    /// Rows rejected in all files.
    #[must_use]
    pub fn rejected_total(&self) -> u64 {
        self.files.iter().map(FileQuality::rejected_total).sum()
    }

    /// A table for people: one line a file, then notes.
    #[must_use]
    pub fn to_table(&self) -> String {
        let width = self.files.iter().map(|file| file.file.len()).max().unwrap_or(4).clamp(4, 48);
        let wide = self.files.iter().map(|file| file.format.len()).max().unwrap_or(0).max(13);
        let mut text = format!(
            "{:<width$} {:<wide$} {:>5} {:>9} {:>9} {:>8} {:>7} {:>8} {:>6} {:>11} {:>9}\n",
            "file",
            "format",
            "boxes",
            "rows",
            "accepted",
            "rejected",
            "repeats",
            "backward",
            "gaps",
            "longest",
            "step"
        );
        for file in &self.files {
            let name = tail(&file.file, width);
            let _ = writeln!(
                text,
                "{name:<width$} {:<wide$} {:>5} {:>9} {:>9} {:>8} {:>7} {:>8} {:>6} {:>9} s {:>7} s",
                file.format,
                file.boxes,
                file.rows_read,
                file.rows_accepted,
                file.rejected_total(),
                file.duplicates,
                file.backward,
                file.gaps,
                file.longest_gap_ms / 1000,
                file.median_step_ms / 1000,
            );
        }
        let mut notes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for file in &self.files {
            write_counts(&mut text, file, width);
            for note in &file.notes {
                notes.entry(note).or_default().push(&file.file);
            }
        }
        for (note, files) in notes {
            let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
            let _ = writeln!(text, "{}{more}: {note}", tail(files[0], width));
        }
        for skipped in &self.skipped {
            let _ = writeln!(text, "skipped {skipped}");
        }
        text
    }
}

fn write_counts(text: &mut String, file: &FileQuality, width: usize) {
    let name = tail(&file.file, width);
    for (reason, count) in &file.rejected {
        let reason = serde_json::to_string(reason).unwrap_or_default();
        let _ = writeln!(text, "{name}: {count} rejected: {}", reason.trim_matches('"'));
    }
    for (what, count) in &file.counted {
        let _ = writeln!(text, "{name}: {count} {what}");
    }
}

/// The end of a path that fits a column, cut at a character boundary.
fn tail(path: &str, width: usize) -> String {
    let count = path.chars().count();
    path.chars().skip(count.saturating_sub(width)).collect()
}
