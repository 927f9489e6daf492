//! `berth-trainer forecast`.

/// Arguments of `berth-trainer forecast`.
#[derive(clap::Args)]
pub struct Args {}

/// Run the command; returns the exit code.
pub fn run(_args: Args) -> anyhow::Result<u8> {
    anyhow::bail!("forecast is not built yet")
}
