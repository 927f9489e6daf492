//! The offline trainer: reads logs, trains forecasts, replays traffic and compares strategies.

pub mod cli;
pub mod commands;
pub mod learners;
