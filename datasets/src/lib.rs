//! Log readers, data-quality reports, canonical tables and the traffic generator.
//!
//! Raw files of a known format become [`LoadSeries`] for forecasts ([`load_series`]) or canonical
//! tables ([`ingest`]). Nothing that is read is dropped in silence: [`QualityReport`] counts it.

mod adapters;
mod counts;
mod error;
mod folder;
mod format;
pub mod generator;
mod ingest;
mod lines;
mod mapping;
mod placed;
mod quality;
pub mod rows;
mod samples;
mod series;
mod source;
mod tables;
mod time;

pub use adapters::prometheus::check_prometheus_reply;
pub use error::DatasetError;
pub use folder::{Manifest, SourceFile, read_folder, write_folder};
pub use format::FormatName;
pub use ingest::{Ingested, ingest};
pub use mapping::{Mapping, Table, TimeUnit};
pub use quality::{FileQuality, QualityReport, Reject, RejectReason};
pub use rows::{BallRow, BoxRow, FleetData, MetricRow, OutcomeRow};
pub use series::{LoadPoint, LoadSeries, ReadOptions, load_series};

#[cfg(test)]
mod real_traces;
