//! Log readers, data-quality reports, canonical tables and the traffic generator.
//!
//! Raw files of a known format become [`LoadSeries`] for forecasts ([`load_series`]) or canonical
//! tables. Nothing that is read is dropped in silence: [`QualityReport`] counts it.

mod error;
mod format;
mod mapping;
mod quality;
pub mod rows;
mod series;

pub use error::DatasetError;
pub use format::FormatName;
pub use mapping::{Mapping, Table, TimeUnit};
pub use quality::{FileQuality, QualityReport, Reject, RejectReason};
pub use rows::{BallRow, BoxRow, MetricRow, OutcomeRow};
pub use series::{LoadPoint, LoadSeries, ReadOptions, load_series};
