//! `berth-trainer demo`: train on logs, serve by the forecast, replay held-out traffic over HTTP.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use berth_datasets::{FleetData, read_folder};
use berth_models::forecast::{ForecastModel, HORIZON_COUNT};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::cli::{EXIT_DONE, Usage};
use crate::demo::pass::{self, PassResult, Replay};
use crate::demo::report::{self, Named};
use crate::demo::server::{Server, Start};
use crate::demo::{charts, prepare};

/// Engine milliseconds a wall millisecond: two hours in 75 seconds.
const TIME_SCALE: f64 = 96.0;
/// Engine time the boxes get for registering and backfilling, before the first ball.
const LEAD_MS: i64 = 20 * 60_000;

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
    if !args.scheduler.is_file() {
        let message = "is no file: build it with `cargo build --release -p berth-scheduler`";
        return Err(Usage(format!("{} {message}", args.scheduler.display())).into());
    }
    std::fs::create_dir_all(&args.out)?;
    let (tables, model_folder) = (args.out.join("data"), args.out.join("model"));
    step(1, "logs to tables", &read_arguments(&args.data, &tables), Stdio::inherit())?;
    let evaluation = step(
        2,
        "a five-minute forecast, the last day held out",
        &train_arguments(&args.out, &tables),
        Stdio::piped(),
    )?;
    print_forecast(&evaluation)?;
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
    let mut arguments: Vec<String> =
        ["forecast", "train", "--json", "--rounds", "60"].map(str::to_owned).to_vec();
    arguments.extend(["--threads", "2", "--data"].map(str::to_owned));
    arguments.extend([text(tables.to_owned()), "--out".to_owned(), text(out.join("model"))]);
    arguments.extend(["--report".to_owned(), text(out.join("forecast.html"))]);
    arguments
}

/// Run one of our own commands as a user would, and show it; returns its output when `stdout` is a pipe.
fn step(number: usize, what: &str, arguments: &[String], stdout: Stdio) -> anyhow::Result<Vec<u8>> {
    eprintln!("\n[{number}/3] {what}\n$ berth-trainer {}", arguments.join(" "));
    let mut command = Command::new(std::env::current_exe()?);
    let output =
        command.args(arguments).stdout(stdout).stderr(Stdio::inherit()).spawn()?.wait_with_output()?;
    ensure!(output.status.success(), "berth-trainer {} ended with {}", arguments.join(" "), output.status);
    Ok(output.stdout)
}

/// The held-out figures of the forecast, a line a set.
fn print_forecast(evaluation: &[u8]) -> anyhow::Result<()> {
    let evaluation: Value = serde_json::from_slice(evaluation).context("the training's output")?;
    for set in evaluation["sets"].as_array().into_iter().flatten() {
        let figure = |name: &str| set[name].as_f64().unwrap_or(f64::NAN);
        eprintln!(
            "held out, five minutes ahead: error {:.2} × the day-ago value's, {:.2} × the best naive's; {:.1} % of \
             truths at or below p90",
            figure("ratio_day_ago_mean"),
            figure("ratio_best_naive_mean"),
            figure("coverage_p90") * 100.0
        );
    }
    Ok(())
}

fn load(tables: &Path) -> anyhow::Result<(FleetData, i64, i64, Vec<String>)> {
    let mut data = read_folder(tables, None)?;
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
    println!(
        "\nload is use ÷ capacity. imbalance: mean standard deviation of load over boxes. overload: share of box-seconds \
         above 1, where everything on a box slows down.\nstretch: stay ÷ work of a ball; slowed: balls stretched by more \
         than 1 %."
    );
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

/// What the shadow saw while the rule decided, in a sentence.
fn shadow_line(shadow: &Value) -> String {
    let candidate = shadow["candidate"].as_str().unwrap_or("none");
    let agreement = &shadow["agreement"];
    let (Some(compared), Some(share)) = (agreement["compared"].as_u64(), agreement["share"].as_f64()) else {
        return format!("shadow: nothing was compared ({shadow})");
    };
    let ahead = &shadow["load_ahead"];
    format!(
        "shadow: while the rule decided, {candidate} was asked about the same {compared} balls; it chose the same box \
         in {:.1} %, one with less load ahead in {} cases, more in {}.",
        share * 100.0,
        ahead["better"],
        ahead["worse"]
    )
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
