//! `berth-trainer generate`.

/// Arguments of `berth-trainer generate`.
#[derive(clap::Args)]
pub struct Args {}

/// Run the command; returns the exit code.
pub fn run(_args: Args) -> anyhow::Result<u8> {
    anyhow::bail!("generate is not built yet")
}
