//! `berth-trainer forecast`: train or evaluate five-minute load forecasts.

mod data;
mod evaluate;
mod output;
mod train;

/// Arguments of `berth-trainer forecast`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Train a forecast on load series, hold out the end of each, and write the artifact.
    Train(train::Args),
    /// Evaluate an artifact on the held-out end of load series, walking forward as the server does.
    Evaluate(evaluate::Args),
}

/// Run the command; returns the exit code.
///
/// # Errors
/// Unreadable data, a bundle that is refused, or a file that can't be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.command {
        Command::Train(args) => train::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
    }
}
