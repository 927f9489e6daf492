//! Suites: what they promise, on as few traces as show it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use berth_models::config::FleetConfig;
use berth_trainer::suites::{Kind, Seeds, Suite, run, summarise};
use indicatif::ProgressBar;
use serde_json::Value;

fn trainer(folder: &Path, line: &str) -> Output {
    let command = env!("CARGO_BIN_EXE_berth-trainer");
    Command::new(command).args(line.split(' ')).current_dir(folder).output().unwrap()
}

fn json(folder: &Path, line: &str) -> Value {
    let output = trainer(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The suite with `traces` traces a case.
fn small(name: &str, traces: usize) -> Suite {
    let mut suite = Suite::new(name, &Seeds::Named, false).unwrap();
    suite.cases.iter_mut().for_each(|case| case.traces = traces);
    suite
}

#[test]
fn the_ramp_costs_no_critical_ball_its_answer_whoever_decides_the_rest() {
    let suite = small("ramp", 1);
    let results = run(&suite, &ProgressBar::hidden()).unwrap();
    let comparison = summarise(&suite, &Seeds::Named, &results);
    assert_eq!(comparison.cases.len(), 2, "10 % and 30 % critical");
    for case in &comparison.cases {
        for row in &case.strategies {
            let critical = row.metrics["errors_critical"];
            if row.kind == "seed" || row.strategy_id.ends_with("headroom 0") {
                assert!(critical > 0.0, "{}: without protection the ramp must hurt", row.strategy_id);
            } else if row.kind == "rule" {
                assert_eq!(critical, 0.0, "{}: {}", case.case, row.strategy_id);
                assert!(row.metrics["error_share_other"] > 0.1, "{}: no overload", row.strategy_id);
            }
        }
    }
}

#[test]
fn the_same_seeds_give_the_same_comparison_and_fresh_ones_another() {
    let compare = |seeds: &Seeds| {
        let mut suite = Suite::new("park", seeds, false).unwrap();
        suite.cases[0].traces = 3;
        let results = run(&suite, &ProgressBar::hidden()).unwrap();
        let mut comparison = summarise(&suite, seeds, &results);
        comparison.busy_s = 0.0;
        serde_json::to_value(&comparison).unwrap()
    };
    let named = compare(&Seeds::Named);
    assert_eq!(named, compare(&Seeds::Named));
    let fresh = compare(&Seeds::Fresh("0123abcd".to_owned()));
    assert_ne!(named["suite_hash"], fresh["suite_hash"]);
    assert_eq!(named["scenario_hash"], fresh["scenario_hash"]);
    let rows = named["strategies"].as_array().unwrap();
    let best = rows.iter().find(|row| row["strategy_id"] == named["best_rule"]).unwrap();
    assert_eq!(best["ratio_best_rule"], 1.0);
    for field in ["sees", "score", "score_low", "score_high", "ratio_low", "ratio_high", "metrics"] {
        assert!(rows.iter().all(|row| !row[field].is_null()), "{field}");
    }
}

#[test]
fn every_scenario_is_one_that_the_engine_takes() {
    for name in ["iclr19", "park", "park-shift", "ramp"] {
        let suite = small(name, 1);
        for case in &suite.cases {
            let trace = (case.make)(0).unwrap();
            for contender in &suite.contenders {
                let scenario = contender.meets(&trace);
                assert_eq!(scenario.config.check(), Ok(()), "{name}");
                assert_ne!(scenario.config, FleetConfig::default());
                assert!(scenario.arrivals.iter().all(|arrival| arrival.ball.check().is_ok()), "{name}");
            }
            assert!(trace.boxes.iter().all(|simulated| simulated.spec.check().is_ok()), "{name}");
            assert!(trace.arrivals.is_sorted_by_key(|arrival| arrival.at_ms), "{name}");
        }
        assert!(suite.contenders.iter().any(|contender| contender.kind == Kind::Rule), "{name}");
    }
}

#[test]
fn ones_own_tables_are_compared_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(trainer(folder, "generate --out tables --days 2 --boxes 4").status.success());
    let comparison = json(folder, "compare --data tables --report which.html --json");
    assert_eq!(comparison["suite"], "data");
    assert_eq!(comparison["traces"], 6);
    let rows = comparison["strategies"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["strategy_id"] == "least_loaded.v1"));
    assert!(rows.iter().all(|row| row["score"].as_f64().unwrap() >= 25.0), "an idle box takes 25 ms");
    let html = std::fs::read_to_string(folder.join("which.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("least_loaded.v1") && !html.contains("<script"));
    let refused = trainer(folder, "compare --data nowhere");
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
}
