//! CPU seconds of this process.

/// Clock ticks in a second, as Linux reports them to every process.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds this process has used so far, user and system; `None` where `/proc` does not tell.
#[must_use]
pub fn process_cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command in parentheses may hold spaces; the fields after it do not. User time is field 14 of all.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / TICKS_PER_SECOND)
}
