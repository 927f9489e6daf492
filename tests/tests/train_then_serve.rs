//! From logs to decisions: a forecast is trained on generated logs, served, and decides; a damaged one is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use berth_datasets::generator::{GeneratorConfig, generate};
use berth_datasets::{FleetData, write_folder};
use berth_tests::{Client, serve};
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trained_forecast_decides_and_a_damaged_one_does_not_replace_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = GeneratorConfig { days: 2, boxes: 3, ..GeneratorConfig::default() };
    let data = generate(&config, &mut |_, _| {}).unwrap();
    let [tables, model, damaged] = ["tables", "model", "damaged"].map(|name| folder.path().join(name));
    write_folder(&tables, "generated", Some(config.seed), &data).unwrap();
    train(&tables, &model);

    // Engine time goes on where the logs end, so that the held-out day is the past of the boxes.
    let (start_ms, artifact) = (config.end_ms().to_string(), model.display().to_string());
    let arguments =
        ["--store", "memory", "--artifact", &artifact, "--engine-start-ms", &start_ms, "--seed", "3"];
    let server = serve(&arguments).await;
    let client = Client::of(&server);
    register(&client, &data).await;
    backfill(&client, &data, config.end_ms()).await;
    for row in &data.boxes {
        forecasts_by_the_model(&client, &row.box_id).await;
    }
    let ready = expect(&client, "GET", "/readyz", Value::Null).await;
    let artifact_id = ready["artifact_id"].as_str().unwrap();
    assert!(artifact_id.starts_with("forecast_"), "{ready}");
    let strategy_id = format!("predicted_load.v1+{artifact_id}");
    assert_eq!(place(&client, "before").await, strategy_id);

    damage(&model, &damaged);
    let body = json!({ "path": damaged });
    let (status, problem) = client.send("POST", "/v1/artifacts/activate", body).await;
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("hash"), "{problem}");
    let ready = expect(&client, "GET", "/readyz", Value::Null).await;
    assert_eq!(ready["artifact_id"], artifact_id, "{ready}");
    assert_eq!(place(&client, "after").await, strategy_id);
    server.stop().await.unwrap();
}

/// Train a small forecast on the first day, as the command line does.
fn train(tables: &Path, model: &Path) {
    let line = "berth-trainer forecast train --rounds 20 --leaves 15 --holdout 1d --json --data";
    let mut arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    arguments.extend([tables.display().to_string(), "--out".to_owned(), model.display().to_string()]);
    assert_eq!(berth_trainer::cli::run(arguments), berth_trainer::cli::EXIT_DONE);
}

async fn register(client: &Client, data: &FleetData) {
    for row in &data.boxes {
        let capacity = json!({
            "cpu_cores": row.capacity_cpu_cores,
            "memory_bytes": row.capacity_memory_bytes,
            "bandwidth_bps": row.capacity_bandwidth_bps,
            "slots": row.capacity_slots,
        });
        let body = json!({ "capacity": capacity, "stage": "mature" });
        expect(client, "PUT", &format!("/v1/boxes/{}", row.box_id), body).await;
    }
}

/// Report the last day of the logs: every box's load without the balls, for it holds none here.
async fn backfill(client: &Client, data: &FleetData, end_ms: i64) {
    let ready = expect(client, "GET", "/readyz", Value::Null).await;
    let ahead_ms = ready["wall_ms"].as_i64().unwrap() - ready["at_ms"].as_i64().unwrap();
    for row in &data.boxes {
        let of_box = data.metrics.iter().filter(|metric| metric.box_id == row.box_id);
        let last_day = of_box.filter(|metric| metric.at_ms > end_ms - DAY_MS && metric.at_ms <= end_ms);
        let background =
            |used: Option<f64>, placed: Option<f64>| used.zip(placed).map(|(u, p)| (u - p).max(0.0));
        let reports: Vec<Value> = last_day
            .map(|metric| {
                json!({
                    "sampled_at_ms": metric.at_ms + ahead_ms,
                    "window_ms": 1,
                    "usage": {
                        "cpu_cores": background(metric.cpu_cores, metric.placed_cpu_cores),
                        "memory_bytes": background(metric.memory_bytes, metric.placed_memory_bytes),
                        "bandwidth_bps": background(metric.bandwidth_bps, metric.placed_bandwidth_bps),
                        "slots": background(metric.slots, metric.placed_slots),
                    },
                })
            })
            .collect();
        let path = format!("/v1/boxes/{}/report/batch", row.box_id);
        let answer = expect(client, "POST", &path, json!(reports)).await;
        assert!(reports.len() >= 1_439, "{} reports", reports.len());
        assert_eq!(answer["accepted"], reports.len(), "{answer}");
    }
}

/// Every horizon of every forecast says whose value it mostly is, and the model has a say in some.
async fn forecasts_by_the_model(client: &Client, box_id: &str) {
    let view = expect(client, "GET", &format!("/v1/boxes/{box_id}"), Value::Null).await;
    let horizons = view["forecasts"]["cpu_cores"]["horizons"].as_array().unwrap();
    assert_eq!(horizons.len(), 4, "{view}");
    for horizon in horizons {
        let source = &horizon["source"];
        assert!(source == "model" || source["naive"].is_string(), "{horizon}");
        let quantiles = ["p50", "p90", "p99"].map(|name| horizon[name].as_f64().unwrap());
        assert!(quantiles.is_sorted(), "{horizon}");
    }
    let weights = horizons.iter().map(|horizon| horizon["model_weight"].as_f64().unwrap());
    assert!(weights.sum::<f64>() > 0.0, "{view}");
}

/// Place a ball; returns the id of the strategy that decided.
async fn place(client: &Client, ball_id: &str) -> String {
    let body = json!({ "ball_id": ball_id, "class": "normal", "demand": { "cpu_cores": 0.1 } });
    let answer = expect(client, "POST", "/v1/allocate", body).await;
    answer["strategy_id"].as_str().unwrap().to_owned()
}

/// Copy the bundle with one bit of one ensemble turned.
fn damage(model: &Path, damaged: &Path) {
    std::fs::create_dir(damaged).unwrap();
    let mut turned = false;
    for entry in std::fs::read_dir(model).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if !turned && path.extension().is_some_and(|extension| extension == "bin") {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            turned = true;
        }
        std::fs::write(damaged.join(path.file_name().unwrap()), bytes).unwrap();
    }
    assert!(turned, "the bundle has an ensemble");
}

async fn expect(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let (status, answer) = client.send(method, path, body).await;
    assert!(status < 300, "{method} {path}: {status} {answer}");
    answer
}
