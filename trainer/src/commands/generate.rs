//! `berth-trainer generate`: seeded fleet traffic as canonical tables.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use berth_datasets::generator::{GeneratorConfig, generate};
use berth_datasets::{FleetData, Manifest, write_folder};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::EXIT_DONE;

const EXAMPLES: &str = "Examples:
  berth-trainer generate --out traffic
  berth-trainer generate --out small --days 2 --boxes 5 --seed 7 --json";

/// Arguments of `berth-trainer generate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder for the tables: new, empty, or one made before.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Seed; the same seed and sizes give the same tables.
    #[arg(long, value_name = "N", default_value_t = GeneratorConfig::default().seed)]
    seed: u64,
    /// Days of traffic, from Monday 2026-03-02.
    #[arg(long, value_name = "N", default_value_t = GeneratorConfig::default().days)]
    days: u32,
    /// Boxes; arrivals grow with them.
    #[arg(long, value_name = "N", default_value_t = GeneratorConfig::default().boxes)]
    boxes: u32,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Run the command; returns the exit code.
///
/// # Errors
/// When the folder can't be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let config =
        GeneratorConfig { seed: args.seed, days: args.days, boxes: args.boxes, ..GeneratorConfig::default() };
    let bar = progress_bar("placing balls")?;
    let generated = generate(&config, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let data = generated?;
    let bar = progress_bar("writing tables")?;
    let written = write_folder(&args.out, "generated", Some(args.seed), &data);
    bar.finish_and_clear();
    let manifest = written.with_context(|| format!("cannot write the tables to {}", args.out.display()))?;
    let summary = Summary::of(&data);
    if args.json {
        let mut value = serde_json::to_value(&manifest)?;
        value["utilisation"] = serde_json::to_value(&summary)?;
        println!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print_summary(&args.out, &manifest, &summary);
    }
    Ok(EXIT_DONE)
}

/// How full the boxes' cores are, over all boxes and samples.
#[derive(serde::Serialize)]
struct Summary {
    mean: f64,
    p50: f64,
    p95: f64,
    share_above_one: f64,
    background_mean: f64,
    placed_mean: f64,
    refused: usize,
}

impl Summary {
    fn of(data: &FleetData) -> Self {
        let capacity: std::collections::BTreeMap<&str, f64> = data
            .boxes
            .iter()
            .map(|row| (row.box_id.as_str(), row.capacity_cpu_cores.unwrap_or(1.0)))
            .collect();
        let cores = |box_id: &str| capacity.get(box_id).copied().unwrap_or(1.0);
        let mut shares: Vec<f64> =
            data.metrics.iter().map(|row| row.cpu_cores.unwrap_or(0.0) / cores(&row.box_id)).collect();
        let placed: f64 =
            data.metrics.iter().map(|row| row.placed_cpu_cores.unwrap_or(0.0) / cores(&row.box_id)).sum();
        shares.sort_unstable_by(f64::total_cmp);
        let count = shares.len().max(1) as f64;
        let quantile = |share: f64| shares.get((share * (count - 1.0)) as usize).copied().unwrap_or(0.0);
        let mean = shares.iter().sum::<f64>() / count;
        let placed_mean = placed / count;
        Self {
            mean,
            p50: quantile(0.5),
            p95: quantile(0.95),
            share_above_one: shares.iter().filter(|share| **share > 1.0).count() as f64 / count,
            background_mean: mean - placed_mean,
            placed_mean,
            refused: data.outcomes.iter().filter(|row| row.box_id.is_empty()).count(),
        }
    }
}

fn print_summary(out: &std::path::Path, manifest: &Manifest, summary: &Summary) {
    println!("wrote {}", out.display());
    for (table, rows) in &manifest.rows {
        println!("  {:<12} {rows:>9} rows", table.as_str());
    }
    println!(
        "core utilisation: mean {:.2} (background {:.2}, placed {:.2}), median {:.2}, p95 {:.2}, above capacity {:.1} %; {} balls refused",
        summary.mean,
        summary.background_mean,
        summary.placed_mean,
        summary.p50,
        summary.p95,
        summary.share_above_one * 100.0,
        summary.refused
    );
    println!("next: berth-trainer forecast train --data {} --out artifact --holdout 1d", out.display());
}

/// A bar on stderr, hidden where stderr is no terminal.
pub(super) fn progress_bar(message: &'static str) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{spinner} {msg} {bar:40} {pos}/{len} {elapsed}")?;
    let bar = ProgressBar::new(0).with_style(style).with_message(message);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}
