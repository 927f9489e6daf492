//! `berth-trainer ingest`: raw logs into canonical tables, with a data-quality report.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use berth_datasets::{DatasetError, FormatName, Ingested, Mapping, ReadOptions, ingest};
use indicatif::{ProgressBar, ProgressStyle};

use super::paths;
use crate::cli::EXIT_DONE;
use crate::evaluation::parse_duration_ms;
use crate::prometheus_pull::Pull;

const EXAMPLES: &str = "Examples:
  berth-trainer ingest --data logs/input0.csv --out tables
  berth-trainer ingest --data /var/log/nginx/access.log --out tables
  berth-trainer ingest --data metrics.csv --out tables --map when=at_ms --map host=box_id --map cpu=cpu_cores
  berth-trainer ingest --data balls.ndjson --out tables --mapping balls.json
  berth-trainer ingest --data range.json --out tables --map instance=box_id --map value=cpu_cores --resample 60
  berth-trainer ingest --prometheus http://localhost:9090 --query 'sum by (instance) (rate(node_cpu_seconds_total{mode!=\"idle\"}[1m]))' \
      --range 7d --step 60s --map value=cpu_cores --out tables
  berth-trainer ingest --data log.ndjson --out tables   (of berth-scheduler export)

A column is named as in the header, by its number where there is no header, by a dotted path in NDJSON, \
or by a label in Prometheus data. Settings: :table=boxes|box_metrics|balls|outcomes \
:time_unit=s|ms|us|ns :separator=CHAR|tab :header=true|false. A file whose columns carry the tables' own \
names needs no mapping; files may be gzip. Access logs (Apache, nginx, Envoy, JSON lines), SWF job logs and the public sets that \
`--format` names are told by their content and need no mapping. In an nginx log, add \
rt=$request_time upstream=\"$upstream_addr\" to the format, so that requests have a time and a box.";

/// Arguments of `berth-trainer ingest`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Raw files, ingested folders, or directories of either.
    #[arg(long, value_name = "PATH", required_unless_present = "prometheus", num_args = 1..)]
    data: Vec<PathBuf>,
    /// Pull from a Prometheus server, such as http://localhost:9090; its replies are kept in the folder OUT-pulled.
    #[arg(long, value_name = "ADDRESS", requires = "query", conflicts_with_all = ["data", "format"])]
    prometheus: Option<String>,
    /// The expression to pull, one series a box.
    #[arg(long, value_name = "EXPRESSION", requires = "prometheus")]
    query: Option<String>,
    /// How far back to pull.
    #[arg(long, value_name = "LENGTH", default_value = "7d", value_parser = parse_duration_ms)]
    range: u64,
    /// Time between the samples pulled.
    #[arg(long, value_name = "LENGTH", default_value = "60s", value_parser = parse_duration_ms)]
    step: u64,
    /// End of the range in epoch seconds; now when not given.
    #[arg(long, value_name = "SECONDS")]
    until: Option<u64>,
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
    let data = if args.prometheus.is_some() { pull(&args)? } else { paths::distinct(&args.data)? };
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

/// Pull from a Prometheus server; returns the files with its replies.
fn pull(args: &Args) -> anyhow::Result<Vec<PathBuf>> {
    let now_s = || Ok::<u64, anyhow::Error>(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let until_s = args.until.map_or_else(now_s, Ok)?;
    let pull = Pull {
        address: args.prometheus.clone().unwrap_or_default(),
        query: args.query.clone().unwrap_or_default(),
        from_s: until_s.saturating_sub(args.range / 1000),
        until_s,
        step_s: args.step / 1000,
    };
    let mut folder = args.out.clone().into_os_string();
    folder.push("-pulled");
    let bar = super::generate::progress_bar("pulling")?;
    let files = pull.run(&PathBuf::from(folder), &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    files.context("cannot pull")
}

fn read_options(args: &Args) -> Result<ReadOptions, DatasetError> {
    let mut mapping = match &args.mapping {
        Some(path) => Mapping::read(path)?,
        None => Mapping::default(),
    };
    for text in &args.maps {
        mapping.add(text)?;
    }
    // What was pulled is known; a long reply may say what it is only at its end.
    let pulled = args.prometheus.is_some().then_some(FormatName::Prometheus);
    let format = args.format.as_deref().map(str::parse).transpose()?.or(pulled);
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
