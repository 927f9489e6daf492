//! The loop back: serve, traffic, export, ingest, train. What Berth placed is told from what it did not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use berth_datasets::{ReadOptions, load_series, read_folder};
use berth_scheduler::cli::{Cli, Command};
use berth_tests::{Client, serve};
use clap::Parser;
use serde_json::{Value, json};

/// Minutes of traffic, one report a minute.
const MINUTES: u64 = 1_500;
/// Reports of one batch.
const BATCH: usize = 500;
const CORES_PLACED: f64 = 0.5;

/// Load that Berth did not place: a wave over four hours.
fn background_cores(minute: u64) -> f64 {
    let wave = (minute as f64 * std::f64::consts::TAU / 240.0).sin();
    2.0 + wave + (minute * 7_919 % 101) as f64 / 500.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_own_log_trains_the_next_forecast() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("berth.db");
    let url = format!("sqlite:{}", store.display());
    let server =
        serve(&["--store", &url, "--durability", "process", "--seed", "3", "--rule", "least_loaded"]).await;
    let client = Client::of(&server);
    let body = json!({ "capacity": { "cpu_cores": 8.0, "slots": 1000 }, "stage": "mature" });
    expect(&client, "PUT", "/v1/boxes/a", body).await;
    let mut leases = Vec::new();
    for ball in 0..4 {
        let demand = json!({ "cpu_cores": CORES_PLACED });
        let body = json!({ "ball_id": format!("b{ball}"), "class": "normal", "demand": demand, "lease_ms": 86_400_000 });
        let answer = expect(&client, "POST", "/v1/allocate", body).await;
        leases.push(answer["lease_id"].as_u64().unwrap());
    }
    report_all(&client, &leases).await;
    let path = format!("/v1/leases/{}/complete", leases[0]);
    expect(&client, "POST", &path, json!({ "ball_id": "b0", "succeeded": true })).await;
    server.stop().await.unwrap();

    let [log, tables, model] = ["log.ndjson", "tables", "model"].map(|name| folder.path().join(name));
    let all = ["berth-scheduler", "export", "--store", &url, "--out"].map(str::to_owned);
    let all = all.into_iter().chain([log.display().to_string()]);
    let Command::Export(export) = Cli::parse_from(all).command else {
        panic!("the arguments are those of `export`");
    };
    let events = export.run().unwrap();
    assert!(events > MINUTES, "{events}");
    assert!(export.run().unwrap_err().to_string().contains("exists"));

    trainer(&["ingest"], &[("--data", &log), ("--out", &tables)]);
    let data = read_folder(&tables, None).unwrap();
    assert_eq!((data.balls.len(), data.outcomes.len()), (4, 4));
    assert_eq!(data.outcomes.iter().filter(|row| row.finished_at_ms.is_some()).count(), 1);
    assert_eq!(data.boxes[0].capacity_cpu_cores, Some(8.0));
    // A report lists the balls that were on the box then: none, two or four, in turn.
    for row in &data.metrics {
        let (used, placed) = (row.cpu_cores.unwrap(), row.placed_cpu_cores.unwrap());
        let minute = row.queue_length.unwrap() as u64;
        assert_eq!(placed, CORES_PLACED * live_count(minute) as f64, "minute {minute}");
        assert!((used - placed - background_cores(minute)).abs() < 1e-9, "minute {minute}");
    }
    let (series, quality) = load_series(std::slice::from_ref(&tables), &ReadOptions::default()).unwrap();
    let cores = series.iter().find(|one| one.dimension == "cpu_cores").unwrap();
    assert!(cores.is_background && cores.points.len() as u64 == MINUTES, "{}", cores.points.len());
    assert_eq!(quality.rejected_total(), 0);
    trainer(
        &["forecast", "train", "--rounds", "10", "--leaves", "8", "--holdout", "2h"],
        &[("--data", &tables), ("--out", &model)],
    );
    assert!(model.join("manifest.json").exists());
}

fn live_count(minute: u64) -> usize {
    [0, 2, 4][minute as usize % 3]
}

/// A report a minute up to now; `queue_length` carries the minute's number.
async fn report_all(client: &Client, leases: &[u64]) {
    let ready = expect(client, "GET", "/readyz", Value::Null).await;
    let first_ms = ready["wall_ms"].as_u64().unwrap() - MINUTES * 60_000;
    let reports: Vec<Value> = (0..MINUTES)
        .map(|minute| {
            let live = &leases[..live_count(minute)];
            let used = background_cores(minute) + CORES_PLACED * live.len() as f64;
            json!({
                "sampled_at_ms": first_ms + minute * 60_000,
                "window_ms": 60_000,
                "usage": { "cpu_cores": used },
                "live_lease_ids": live,
                "queue_length": minute,
            })
        })
        .collect();
    for batch in reports.chunks(BATCH) {
        let answer = expect(client, "POST", "/v1/boxes/a/report/batch", json!(batch)).await;
        assert_eq!(answer["accepted"], batch.len(), "{answer}");
    }
}

fn trainer(words: &[&str], paths: &[(&str, &Path)]) {
    let mut arguments = vec!["berth-trainer".to_owned()];
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    for (name, path) in paths {
        arguments.extend([(*name).to_owned(), path.display().to_string()]);
    }
    assert_eq!(berth_trainer::cli::run(arguments), berth_trainer::cli::EXIT_DONE, "{words:?}");
}

async fn expect(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = client.send(method, path, body).await;
    assert!(status < 300, "{method} {path}: {status} {answer}");
    answer
}
