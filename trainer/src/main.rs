//! `berth-trainer`: learn from historical logs, replay them, compare strategies.

use std::process::ExitCode;

fn main() -> ExitCode {
    berth_trainer::cli::main()
}
