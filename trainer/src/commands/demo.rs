//! `berth-trainer demo`.

/// Arguments of `berth-trainer demo`.
#[derive(clap::Args)]
pub struct Args {}

/// Run the command; returns the exit code.
pub fn run(_args: Args) -> anyhow::Result<u8> {
    anyhow::bail!("demo is not built yet")
}
