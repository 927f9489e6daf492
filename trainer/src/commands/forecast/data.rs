//! The load series of a command line.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use berth_datasets::{ReadOptions, load_series};
use xxhash_rust::xxh3::Xxh3Default;

use crate::commands::paths;
use crate::evaluation::TimedSeries;

/// Read the series of `paths`, and say on standard error what was read and what was left out.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<TimedSeries>> {
    let paths = paths::distinct(paths)?;
    let (series, quality) =
        load_series(&paths, &ReadOptions::default()).context("reading the load series")?;
    let rejected: u64 = quality.files.iter().flat_map(|file| file.rejected.values()).sum();
    let duplicates: u64 = quality.files.iter().map(|file| file.duplicates).sum();
    let mut before_1970 = 0;
    let series: Vec<TimedSeries> = series
        .iter()
        .map(|one| {
            let (timed, left_out) = TimedSeries::new(one);
            before_1970 += left_out;
            timed
        })
        .filter(|one| !one.points.is_empty())
        .collect();
    let samples: usize = series.iter().map(|one| one.points.len()).sum();
    eprintln!(
        "read {} series, {samples} samples; {rejected} rows rejected, {duplicates} repeated stamps folded, \
         {before_1970} samples before 1970 left out",
        series.len()
    );
    ensure!(
        !series.is_empty(),
        "no load series in {paths:?}: name files of a known format, or a folder of them"
    );
    Ok(series)
}

/// Hash of names, stamps and values up to each series' cut.
pub fn fingerprint(series: &[TimedSeries], until_ms: impl Fn(&TimedSeries) -> u64) -> String {
    let mut hasher = Xxh3Default::new();
    for one in series {
        let until_ms = until_ms(one);
        hasher.update(format!("{}\0{}\0", one.set, one.name).as_bytes());
        for point in one.points.iter().take_while(|point| point.0 <= until_ms) {
            hasher.update(&point.0.to_le_bytes());
            hasher.update(&point.1.to_bits().to_le_bytes());
        }
    }
    format!("xxh3-128:{:032x}", hasher.digest128())
}
