//! `berth-trainer demo`: train on logs, serve by the forecast, replay held-out traffic over HTTP.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use berth_datasets::{FleetData, Manifest, read_folder};
use berth_models::forecast::{ForecastModel, HORIZON_COUNT};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::cli::EXIT_DONE;
use crate::demo::pass::{self, PassResult, Replay};
use crate::demo::report::{self, Named};
use crate::demo::server::{Server, Start};
use crate::demo::{charts, prepare};

/// Engine milliseconds a wall millisecond: two hours in 75 seconds.
const TIME_SCALE: f64 = 96.0;
/// Engine time the boxes get for registering and backfilling, before the first ball.
const LEAD_MS: i64 = 20 * 60_000;
/// Two days before the replay are read: the day that boxes backfill, and some more.
const READ_MS: i64 = 2 * 24 * 3_600_000;

/// Arguments of `berth-trainer demo`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  berth-trainer demo --scheduler target/release/berth-scheduler --out demo
  berth-trainer demo --scheduler target/release/berth-scheduler --out demo --data my-logs/")]
pub struct Args {
    /// The berth-scheduler binary.
    #[arg(long, value_name = "FILE")]
    scheduler: PathBuf,
    /// Folder for data, model, logs and report.html.
    #[arg(long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,
    /// Your own logs; without it, seven days of traffic are generated.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    data: Vec<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Run the command; returns the exit code.
///
/// # Errors
/// When a step fails; each names its log or the command to repeat it.
pub fn run(args: Args) -> anyhow::Result<u8> {
    ensure!(
        args.scheduler.is_file(),
        "{} is no file: build it with `cargo build --release -p berth-scheduler`",
        args.scheduler.display()
    );
    std::fs::create_dir_all(&args.out)?;
    let (tables, model_folder) = (args.out.join("data"), args.out.join("model"));
    step(1, "logs to tables", &read_arguments(&args.data, &tables))?;
    step(2, "a five-minute forecast, the last day held out", &train_arguments(&args.out, &tables))?;
    let (data, from_ms, to_ms, notes) = load(&tables)?;
    let replay = Replay { data: &data, from_ms, to_ms, time_scale: TIME_SCALE };
    eprintln!(
        "\n[3/3] two held-out hours over HTTP, {TIME_SCALE} × real time: first by the rule with the forecast in \
         shadow, then by the forecast"
    );
    let rule = serve(&args, &model_folder, &replay, "least_loaded", "predicted_load")?;
    let predicted = serve(&args, &model_folder, &replay, "predicted_load", "least_loaded")?;
    finish(&args, &replay, &model_folder, &notes, &rule, &predicted)?;
    Ok(EXIT_DONE)
}

fn read_arguments(data: &[PathBuf], tables: &Path) -> Vec<String> {
    let tables = tables.display().to_string();
    if data.is_empty() {
        return ["generate", "--out", &tables].map(str::to_owned).to_vec();
    }
    let mut arguments = vec!["ingest".to_owned(), "--out".to_owned(), tables, "--data".to_owned()];
    arguments.extend(data.iter().map(|path| path.display().to_string()));
    arguments
}

fn train_arguments(out: &Path, tables: &Path) -> Vec<String> {
    let text = |path: PathBuf| path.display().to_string();
    let mut arguments: Vec<String> = ["forecast", "train", "--rounds", "60"].map(str::to_owned).to_vec();
    arguments.extend(["--threads", "2", "--data"].map(str::to_owned));
    arguments.extend([text(tables.to_owned()), "--out".to_owned(), text(out.join("model"))]);
    arguments.extend(["--report".to_owned(), text(out.join("forecast.html"))]);
    arguments
}

/// Run one of our own commands as a user would, and show it.
fn step(number: usize, what: &str, arguments: &[String]) -> anyhow::Result<()> {
    eprintln!("\n[{number}/3] {what}\n$ berth-trainer {}", arguments.join(" "));
    let status = Command::new(std::env::current_exe()?).args(arguments).status()?;
    ensure!(status.success(), "berth-trainer {} ended with {status}", arguments.join(" "));
    Ok(())
}

fn load(tables: &Path) -> anyhow::Result<(FleetData, i64, i64, Vec<String>)> {
    let manifest = Manifest::read(tables)?;
    let from_ms = manifest.split_time(READ_MS).context("the tables hold no samples")?;
    let mut data = read_folder(tables, Some(from_ms..i64::MAX))?;
    let notes = prepare::fill(&mut data)?;
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let (from_ms, to_ms) = prepare::busiest(&data);
    Ok((data, from_ms, to_ms, notes))
}

fn serve(
    args: &Args,
    model: &Path,
    replay: &Replay,
    primary: &str,
    candidate: &str,
) -> anyhow::Result<PassResult> {
    let store = args.out.join(format!("{primary}.db"));
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{suffix}", store.display())).ok();
    }
    let log = args.out.join(format!("{primary}.log"));
    let server = Server::start(&Start {
        binary: &args.scheduler,
        store: format!("sqlite:{}", store.display()),
        artifact: model,
        primary,
        candidate,
        engine_start_ms: replay.from_ms - LEAD_MS,
        time_scale: replay.time_scale,
        log,
    })?;
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{prefix:>14} {bar:40} {pos}/{len} s, {eta} left, {msg}");
    style.map(|style| bar.set_style(style)).ok();
    bar.set_prefix(primary.to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let result = runtime.block_on(pass::run(&server.api(), replay, &bar))?;
    bar.finish();
    Ok(result)
}

fn finish(
    args: &Args,
    replay: &Replay,
    model: &Path,
    notes: &[String],
    rule: &PassResult,
    predicted: &PassResult,
) -> anyhow::Result<()> {
    let passes = [
        Named { name: "rule: least_loaded", result: rule },
        Named { name: "predicted_load", result: predicted },
    ];
    let shadow = shadow_line(&rule.shadow);
    let model: ForecastModel = crate::artifact_folder::load(model)?.into_model();
    let charts = charts::forecasts(replay, &model, HORIZON_COUNT - 1);
    let box_ids: Vec<String> = replay.data.boxes.iter().map(|row| row.box_id.clone()).collect();
    let mut all_notes = vec![shadow.clone()];
    all_notes.extend(notes.iter().cloned());
    let path = args.out.join("report.html");
    std::fs::write(&path, report::page(&passes, &box_ids, &all_notes, &charts))?;
    if args.json {
        let json = json!({ "rule": rule, "predicted": predicted, "notes": notes });
        println!("{}", serde_json::to_string(&json)?);
        return Ok(());
    }
    print_table(&passes);
    println!("{shadow}");
    println!("\nstretch is stay ÷ work: 1 means undisturbed, overload stretches a stay.");
    println!("report: {}   forecast: {}", path.display(), args.out.join("forecast.html").display());
    println!(
        "\ntry next:\n  {0} serve --artifact {1}/model      then: curl -s localhost:7700/v1/strategies\n  \
         berth-trainer forecast evaluate --artifact {1}/model --data {1}/data\n  berth-trainer compare --suite park\n  \
         make demo DATA=path/to/your/logs",
        args.scheduler.display(),
        args.out.display()
    );
    Ok(())
}

fn shadow_line(shadow: &serde_json::Value) -> String {
    let candidate = shadow["candidate"].as_str().unwrap_or("none");
    let number = |name: &str| shadow[name].as_f64();
    match (number("compared"), number("agreement")) {
        (Some(compared), Some(agreement)) => format!(
            "shadow: while the rule decided, {candidate} was asked {compared:.0} times and chose the same box in \
             {:.1} %",
            agreement * 100.0
        ),
        _ => format!("shadow: no comparison ({shadow})"),
    }
}

fn print_table(passes: &[Named]) {
    let (header, rows) = report::table(passes);
    println!();
    for cells in [vec![header.iter().map(|name| (*name).to_owned()).collect()], rows].concat() {
        let line: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(column, cell)| if column == 0 { format!("{cell:<22}") } else { format!("{cell:>16}") })
            .collect();
        println!("{}", line.concat());
    }
}
