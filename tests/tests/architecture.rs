//! The architecture is law: dependencies point at `models`, and the server links no trainer.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Direct dependencies of each member on other members, from `cargo metadata`; dev-dependencies
/// don't count.
fn member_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let names = dependencies
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .filter_map(|dependency| dependency["name"].as_str())
                .map(str::to_owned)
                .collect();
            (package["name"].as_str().expect("name").to_owned(), names)
        })
        .collect()
}

fn members_of(dependencies: &BTreeSet<String>) -> Vec<&str> {
    dependencies.iter().map(String::as_str).filter(|name| name.starts_with("berth-")).collect()
}

#[test]
fn dependencies_point_at_models() {
    let all = member_dependencies();
    assert_eq!(members_of(&all["berth-models"]), Vec::<&str>::new());
    assert!(members_of(&all["berth-datasets"]).iter().all(|name| *name == "berth-models"));
    assert_eq!(members_of(&all["berth-trainer"]), ["berth-datasets", "berth-models"]);
    assert_eq!(members_of(&all["berth-scheduler"]), ["berth-models"]);
}

#[test]
fn the_core_has_no_runtime_and_the_server_no_learner() {
    let all = member_dependencies();
    for name in ["tokio", "axum", "polars", "rusqlite", "rand", "tracing", "anyhow"] {
        assert!(!all["berth-models"].contains(name), "models depends on {name}");
    }
    for name in ["polars", "hessboost", "linfa", "smartcore", "tch", "torch-sys"] {
        assert!(!all["berth-scheduler"].contains(name), "scheduler depends on {name}");
    }
}

#[test]
fn only_the_given_names_stand_at_the_top() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    for name in ["Cargo.toml", "trainer", "scheduler", "models", "datasets", "tests", "README.md"] {
        assert!(root.join(name).exists(), "{name} is missing at the top level");
    }
}
