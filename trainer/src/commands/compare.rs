//! `berth-trainer compare`.

/// Arguments of `berth-trainer compare`.
#[derive(clap::Args)]
pub struct Args {}

/// Run the command; returns the exit code.
pub fn run(_args: Args) -> anyhow::Result<u8> {
    anyhow::bail!("compare is not built yet")
}
