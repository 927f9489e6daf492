//! `berth-trainer policy`: train placement policies.

mod evaluate;
mod folder;
mod output;
mod train;

pub use folder::{is_policy, load};

/// Arguments of `berth-trainer policy`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Train a placement policy in the simulator, judge it on seeds of its own, and write the artifact.
    Train(train::Args),
    /// Measure a policy under other loads and sizes, with the fallbacks that serving has.
    Evaluate(evaluate::Args),
}

/// Run the command; returns the exit code.
///
/// # Errors
/// A folder that holds something else, a checkpoint of other settings, or a file that can't be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.command {
        Command::Train(args) => train::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
    }
}
