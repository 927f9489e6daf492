//! `berth-trainer ingest`.

/// Arguments of `berth-trainer ingest`.
#[derive(clap::Args)]
pub struct Args {}

/// Run the command; returns the exit code.
pub fn run(_args: Args) -> anyhow::Result<u8> {
    anyhow::bail!("ingest is not built yet")
}
