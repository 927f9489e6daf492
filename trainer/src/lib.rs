//! The offline trainer: reads logs, trains forecasts, replays traffic and compares strategies.

pub mod artifact_folder;
pub mod cli;
pub mod commands;
pub mod demo;
pub mod evaluation;
pub mod learners;
pub mod policy;
pub mod prometheus_pull;
pub mod report;
pub mod suites;
