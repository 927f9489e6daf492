//! What the command line refuses, with which exit code, and what it leaves alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const BAR_NOT_MET: i32 = 3;

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Run the binary in `folder` with `line` split at spaces.
fn run(folder: &Path, line: &str) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_berth-trainer"))
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Run and insist on a code and on words in the message.
fn check(folder: &Path, line: &str, code: i32, words: &[&str]) -> Outcome {
    let outcome = run(folder, line);
    assert_eq!(outcome.code, code, "{line}: {}", outcome.stderr);
    for word in words {
        assert!(outcome.stderr.contains(word), "{line}: no {word:?} in: {}", outcome.stderr);
    }
    outcome
}

/// A folder with `tables` (two days of one box), `model` trained on them, and `one.csv` of a single sample.
fn made() -> TempDir {
    let made = tempfile::tempdir().unwrap();
    let folder = made.path();
    std::fs::write(folder.join("one.csv"), "at_ms,box_id,cpu_cores\n1772409600000,a,1\n").unwrap();
    check(folder, "generate --out tables --days 2 --boxes 1", DONE, &[]);
    let train = "forecast train --data tables --out model --rounds 2 --leaves 4 --report model/report.html";
    check(folder, train, DONE, &["artifact forecast_", "report: model/report.html"]);
    made
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn training_writes_into_nobody_elses_folder() {
    let made = made();
    let folder = made.path();
    let before = std::fs::read(folder.join("tables/manifest.json")).unwrap();
    let files = names(&folder.join("tables"));
    let small = "--rounds 1 --leaves 2";
    let refused =
        check(folder, &format!("forecast train --data tables --out tables {small}"), USAGE, &["tables"]);
    assert!(!refused.stderr.contains("rows:"), "refused before any work: {}", refused.stderr);
    assert_eq!(std::fs::read(folder.join("tables/manifest.json")).unwrap(), before);
    assert_eq!(names(&folder.join("tables")), files);

    std::fs::create_dir(folder.join("mine")).unwrap();
    std::fs::write(folder.join("mine/notes.txt"), "mine").unwrap();
    check(folder, &format!("forecast train --data tables --out mine {small}"), USAGE, &["mine", "notes.txt"]);
    assert_eq!(names(&folder.join("mine")), ["notes.txt"]);
    check(folder, &format!("forecast train --data tables --out one.csv {small}"), USAGE, &["one.csv"]);

    // An empty folder is free, and so is what training wrote before.
    std::fs::create_dir(folder.join("free")).unwrap();
    for _ in 0..2 {
        check(
            folder,
            &format!("forecast train --data tables --out free {small}"),
            DONE,
            &["artifact forecast_"],
        );
    }
}

#[test]
fn options_out_of_range_are_named() {
    let made = made();
    let folder = made.path();
    for (option, value) in [
        ("--rounds", "0"),
        ("--rounds", "5001"),
        ("--leaves", "0"),
        ("--leaves", "1"),
        ("--leaves", "1025"),
        ("--threads", "0"),
        ("--threads", "100000"),
        ("--learning-rate", "0"),
        ("--learning-rate", "nan"),
        ("--learning-rate", "1e9"),
        ("--learning-rate", "-0.1"),
    ] {
        let line = format!("forecast train --data tables --out never {option}={value}");
        check(folder, &line, USAGE, &[option, value]);
    }
    for value in ["nan", "inf", "0", "-1"] {
        let line = format!("forecast evaluate --artifact model --data tables --max-ratio-day-ago={value}");
        check(folder, &line, USAGE, &["--max-ratio-day-ago", value]);
    }
    assert!(!folder.join("never").exists());
}

#[test]
fn a_bar_is_met_or_has_its_own_code() {
    let made = made();
    let folder = made.path();
    let evaluate = "forecast evaluate --artifact model --data tables --json --max-ratio-day-ago";
    let met = check(folder, &format!("{evaluate} 1000"), DONE, &[]);
    let figures: Value = serde_json::from_str(&met.stdout).unwrap();
    assert!(figures["sets"][0]["rows"].as_u64().unwrap() > 1_000, "{}", met.stdout);
    check(folder, &format!("{evaluate} 0.000001"), BAR_NOT_MET, &["the bar is"]);
}

#[test]
fn what_is_not_there_is_usage_and_what_is_refused_is_failure() {
    let made = made();
    let folder = made.path();
    check(folder, "forecast train --data nowhere --out never", USAGE, &["nowhere"]);
    check(folder, "forecast evaluate --artifact model --data nowhere", USAGE, &["nowhere"]);
    check(folder, "ingest --data nowhere --out never", USAGE, &["nowhere"]);
    check(folder, "ingest --data one.csv --out never --mapping nowhere.json", USAGE, &["nowhere.json"]);
    check(folder, "generate --out never --days 0", USAGE, &["days"]);
    check(folder, "forecast evaluate --artifact nowhere --data tables", USAGE, &["nowhere"]);
    check(folder, "compare --suite park --policy nowhere", USAGE, &["nowhere"]);
    // A folder of something else is no artifact, a damaged one is refused.
    check(folder, "forecast evaluate --artifact . --data tables", USAGE, &["manifest.json"]);
    std::fs::create_dir(folder.join("damaged")).unwrap();
    for name in names(&folder.join("model")) {
        let mut bytes = std::fs::read(folder.join("model").join(&name)).unwrap();
        if name.ends_with(".bin") {
            bytes.pop();
        }
        std::fs::write(folder.join("damaged").join(&name), bytes).unwrap();
    }
    check(folder, "forecast evaluate --artifact damaged --data tables", FAILED, &["damaged", "hash"]);
    check(folder, "compare --suite park --policy damaged", FAILED, &["damaged", "hash"]);
    let help = run(folder, "--help");
    for word in ["0 done", "1 failed", "2 bad usage", "3 "] {
        assert!(help.stdout.contains(word), "no {word:?} in: {}", help.stdout);
    }
}

#[test]
fn an_evaluation_of_nothing_fails() {
    let made = made();
    let folder = made.path();
    let evaluate = "forecast evaluate --artifact model";
    check(folder, &format!("{evaluate} --data tables --holdout 0d"), FAILED, &["--holdout"]);
    let report = format!("{evaluate} --data one.csv --report empty.html");
    check(folder, &report, FAILED, &["1 series", "1 samples"]);
    assert!(!folder.join("empty.html").exists());
}

#[test]
fn data_named_twice_is_read_once() {
    let made = made();
    let folder = made.path();
    let evaluate = "forecast evaluate --artifact model --json --data tables";
    let once = check(folder, evaluate, DONE, &[]);
    let twice = check(folder, &format!("{evaluate} ./tables"), DONE, &["named twice"]);
    assert_eq!(once.stdout, twice.stdout);
    std::fs::create_dir_all(folder.join("logs")).unwrap();
    std::fs::copy(folder.join("one.csv"), folder.join("logs/one.csv")).unwrap();
    check(folder, "ingest --out never --data logs logs/one.csv", USAGE, &["logs/one.csv", "inside"]);
}
