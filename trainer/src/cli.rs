//! The command line: one variant a command, one file a command under `commands/`.

use std::ffi::OsString;
use std::process::ExitCode;

use berth_datasets::DatasetError;
use clap::{Parser, Subcommand};

use crate::commands::{compare, demo, doctor, forecast, generate, ingest, policy};

/// The command did what was asked.
pub const EXIT_DONE: u8 = 0;
/// The command failed while doing it.
pub const EXIT_FAILED: u8 = 1;
/// The arguments or the configuration can't be used (clap exits with the same code).
pub const EXIT_USAGE: u8 = 2;
/// The command ran, and a bar that was named with a flag was not met.
pub const EXIT_BAR_NOT_MET: u8 = 3;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 bad usage or a named path that isn't there, \
3 a bar that was named is not met.";

/// The command can't be carried out as it was given: the caller's mistake, so it ends with [`EXIT_USAGE`].
#[derive(Debug)]
pub struct Usage(
    /// What is wrong, what is allowed, what to do.
    pub String,
);

impl std::fmt::Display for Usage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[derive(Parser)]
#[command(name = "berth-trainer", version, about = "Learn from logs where load will be in five minutes", long_about = None,
    after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read raw logs into the canonical tables, with a data-quality report.
    Ingest(ingest::Args),
    /// Say whether logs are enough to forecast from, and what to collect next.
    Doctor(doctor::Args),
    /// Generate seeded fleet traffic as canonical tables.
    Generate(generate::Args),
    /// Train or evaluate five-minute load forecasts.
    Forecast(forecast::Args),
    /// Train a placement policy.
    Policy(policy::Args),
    /// Compare strategies on a named suite.
    Compare(compare::Args),
    /// Train, serve and replay held-out traffic over HTTP, end to end.
    Demo(demo::Args),
}

/// Run the command of the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os()))
}

/// Parse `arguments` (the program's name first), run the command, and map its result to an exit code.
#[must_use]
pub fn run<Argument: Into<OsString> + Clone>(arguments: impl IntoIterator<Item = Argument>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help is printed this way, too; where nobody reads it there is nobody to tell.
            error.print().ok();
            return u8::try_from(error.exit_code()).unwrap_or(EXIT_USAGE);
        }
    };
    let result = match cli.command {
        Command::Ingest(args) => ingest::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Forecast(args) => forecast::run(args),
        Command::Policy(args) => policy::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Demo(args) => demo::run(args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("berth-trainer: {error:#}");
            if is_usage(&error) { EXIT_USAGE } else { EXIT_FAILED }
        }
    }
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Usage>()
            || matches!(
                cause.downcast_ref(),
                Some(DatasetError::Usage(_) | DatasetError::UnknownFormat { .. })
            )
    })
}
