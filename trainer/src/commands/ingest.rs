//! `berth-trainer ingest`: raw logs into canonical tables, with a data-quality report.

use std::path::PathBuf;

use anyhow::Context as _;
use berth_datasets::{DatasetError, Ingested, Mapping, ReadOptions, ingest};
use indicatif::{ProgressBar, ProgressStyle};

use super::paths;
use crate::cli::EXIT_DONE;

const EXAMPLES: &str = "Examples:
  berth-trainer ingest --data logs/input0.csv --out tables
  berth-trainer ingest --data /var/log/nginx/access.log --out tables
  berth-trainer ingest --data metrics.csv --out tables --map when=at_ms --map host=box_id --map cpu=cpu_cores
  berth-trainer ingest --data balls.ndjson --out tables --mapping balls.json
  berth-trainer ingest --data range.json --out tables --map instance=box_id --map value=cpu_cores --resample 60

A column is named as in the header, by its number where there is no header, by a dotted path in NDJSON, \
or by a label in Prometheus data. Settings: :table=boxes|box_metrics|balls|outcomes \
:time_unit=s|ms|us|ns :separator=CHAR|tab :header=true|false. A file whose columns carry the tables' own \
names needs no mapping. Access logs (Apache, nginx, Envoy, JSON lines), SWF job logs and the public sets that \
`--format` names are told by their content and need no mapping. In an nginx log, add \
rt=$request_time upstream=\"$upstream_addr\" to the format, so that requests have a time and a box.";

/// Arguments of `berth-trainer ingest`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Raw files, ingested folders, or directories of either.
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Folder for the tables: new, empty, or one made before.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Format of the files; told from content and path when absent. A wrong name lists all of them.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// One column of the files as a field of a table; may be repeated.
    #[arg(long = "map", value_name = "COLUMN=FIELD")]
    maps: Vec<String>,
    /// JSON file with a mapping; `--map` adds to it.
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Average samples over windows of this many seconds, stamped with the window's end.
    #[arg(long, value_name = "SECONDS")]
    resample: Option<u32>,
    /// Print the manifest and the quality report as JSON.
    #[arg(long)]
    json: bool,
}

/// Run the command; returns the exit code.
///
/// # Errors
/// When nothing usable was read or the folder can't be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let data = paths::distinct(&args.data)?;
    if let Some(path) = &args.mapping {
        paths::must_exist(path)?;
    }
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {pos} files {wide_msg}")?);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let result = read_options(&args).and_then(|options| {
        let step_ms = args.resample.map(|seconds| i64::from(seconds) * 1000);
        ingest(&data, &options, step_ms, &args.out, &mut |file| {
            bar.inc(1);
            bar.set_message(file.to_owned());
        })
    });
    bar.finish_and_clear();
    print_result(&args, &result.context("cannot ingest")?)?;
    Ok(EXIT_DONE)
}

fn read_options(args: &Args) -> Result<ReadOptions, DatasetError> {
    let mut mapping = match &args.mapping {
        Some(path) => Mapping::read(path)?,
        None => Mapping::default(),
    };
    for text in &args.maps {
        mapping.add(text)?;
    }
    let format = args.format.as_deref().map(str::parse).transpose()?;
    Ok(ReadOptions { format, mapping: (mapping != Mapping::default()).then_some(mapping) })
}

fn print_result(args: &Args, ingested: &Ingested) -> anyhow::Result<()> {
    if args.json {
        let value = serde_json::json!({ "manifest": ingested.manifest, "quality": ingested.report });
        println!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    print!("{}", ingested.report.to_table());
    for (what, count) in &ingested.manifest.repaired {
        println!("{count} {what}");
    }
    let rejected = ingested.report.rejected_total();
    if rejected > 0 {
        println!("{rejected} rows rejected: see {}", args.out.join("rejected.ndjson").display());
    }
    println!("wrote {}", args.out.display());
    for (table, rows) in &ingested.manifest.rows {
        println!("  {:<12} {rows:>9} rows", table.as_str());
    }
    Ok(())
}
