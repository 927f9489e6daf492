//! The command line: one variant a command, one file a command under `commands/`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{compare, demo, forecast, generate, ingest};

/// The command did what was asked.
pub const EXIT_DONE: u8 = 0;
/// The command failed while doing it.
pub const EXIT_FAILED: u8 = 1;
/// The arguments or the configuration can't be used (clap exits with the same code).
pub const EXIT_USAGE: u8 = 2;
/// The command ran, and a bar that was named with a flag was not met.
pub const EXIT_BAR_NOT_MET: u8 = 3;

#[derive(Parser)]
#[command(name = "berth-trainer", version, about = "Learn from logs where load will be in five minutes", long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read raw logs into the canonical tables, with a data-quality report.
    Ingest(ingest::Args),
    /// Generate seeded fleet traffic as canonical tables.
    Generate(generate::Args),
    /// Train or evaluate five-minute load forecasts.
    Forecast(forecast::Args),
    /// Compare strategies on a named suite.
    Compare(compare::Args),
    /// Train, serve and replay held-out traffic over HTTP, end to end.
    Demo(demo::Args),
}

/// Parse the arguments, run the command, and map its result to an exit code.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Ingest(args) => ingest::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Forecast(args) => forecast::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Demo(args) => demo::run(args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("berth-trainer: {error:#}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}
