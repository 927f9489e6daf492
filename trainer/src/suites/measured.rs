//! The result of a suite that measures placements themselves, not strategies in a simulator, in the
//! shape of every comparison: a head, `strategies` with a `score` and `metrics`, and the bars.

use serde::Serialize;
use serde_json::Value;

use crate::cli::{EXIT_BAR_NOT_MET, EXIT_DONE, Usage};

/// What a suite measured.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Name of the suite.
    pub suite: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What `score` is; lower is better.
    #[serde(rename = "score_name")]
    pub score: &'static str,
    /// Placements measured.
    pub traces: usize,
    /// One row a way of placing.
    pub strategies: Vec<Row>,
    /// The bars and whether they are met.
    pub bars: Vec<Bar>,
}

/// One way of placing.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub strategy_id: &'static str,
    /// The suite's own score.
    pub score: f64,
    /// Everything else by name.
    pub metrics: Value,
}

/// A bar of the suite.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// Its name, for `--bar`.
    pub name: &'static str,
    /// What was measured.
    pub value: f64,
    /// The most it may be.
    pub at_most: f64,
    /// Whether it is met.
    pub met: bool,
}

impl Bar {
    /// A bar that `value` meets up to `at_most`.
    #[must_use]
    pub fn at_most(name: &'static str, value: f64, at_most: f64) -> Self {
        Self { name, value, at_most, met: value <= at_most }
    }
}

impl Measured {
    /// The shape of every comparison; nothing is drawn here, so the interval of a score is the score itself, and there
    /// is no rule to stand in a ratio to.
    fn to_json(&self) -> anyhow::Result<Value> {
        let mut value = serde_json::to_value(self)?;
        for row in value["strategies"].as_array_mut().into_iter().flatten() {
            let score = row["score"].clone();
            row["sees"] = "ids and weights".into();
            row["score_low"] = score.clone();
            row["score_high"] = score;
            for name in ["ratio_best_rule", "ratio_low", "ratio_high"] {
                row[name] = Value::Null;
            }
        }
        Ok(value)
    }

    /// Print the result and return the exit code: 3 when a bar that `named` asks for is missed.
    ///
    /// # Errors
    /// A name that is no bar of this suite.
    pub fn print(&self, json: bool, named: &[String]) -> anyhow::Result<u8> {
        for name in named {
            let names: Vec<_> = self.bars.iter().map(|bar| bar.name).collect();
            let is_known = names.contains(&name.as_str());
            if !is_known {
                let names = names.join(", ");
                return Err(Usage(format!("no bar is called {name:?}; there are: {names}")).into());
            }
        }
        if json {
            println!("{}", self.to_json()?);
        } else {
            println!("suite {} ({})\nscore: {}\n", self.suite, self.about, self.score);
            for row in &self.strategies {
                println!("{:<22} {:>10.3}  {}", row.strategy_id, row.score, row.metrics);
            }
            println!();
            for bar in &self.bars {
                let verdict = if bar.met { "met" } else { "NOT met" };
                println!("bar {:<22} {:>9.4} ≤ {:<9} {verdict}", bar.name, bar.value, bar.at_most);
            }
        }
        let missed = |bar: &Bar| !bar.met && named.iter().any(|name| name == bar.name);
        Ok(if self.bars.iter().any(missed) { EXIT_BAR_NOT_MET } else { EXIT_DONE })
    }
}
