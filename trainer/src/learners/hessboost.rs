//! Gradient-boosted trees by `hessboost`: one model a horizon, shared trees for all quantiles.

use std::ops::ControlFlow;

use anyhow::Context;
use berth_models::forecast::ensemble::{Ensemble, NodeSpec};
use berth_models::forecast::{FEATURE_COUNT, HORIZON_COUNT, QUANTILES};
use hessboost::config::{GrowPolicy, LeafEstimation, MultiStrategy, TrainingParams, TreeMethod};
use hessboost::data::DMatrix;
use hessboost::model::BoostedModel;
use hessboost::objective::{Objective, Quantiles};
use hessboost::training::Trainer;
use hessboost::tree::RegTree;

use super::{Fitted, Learner, TrainingSet, probe_inputs};

/// Settings, chosen on days before the held-out one.
#[derive(Debug, Clone, PartialEq)]
pub struct HessboostLearner {
    /// Boosting rounds of the last horizon; the others, where little changes, get half as many.
    pub rounds: usize,
    /// Leaves of a tree, grown best first.
    pub leaves: usize,
    /// Deepest leaf: a bound on the time of a forecast.
    pub depth: usize,
    /// Shrinkage of a round.
    pub learning_rate: f64,
    /// Share of the rows a round's structure is chosen on.
    pub row_share: f64,
    /// Share of the features a tree may use.
    pub feature_share: f64,
    /// Smallest sum of curvature in a leaf.
    pub leaf_weight_min: f64,
    /// Whether one tree serves all quantiles.
    pub shared_trees: bool,
    /// Seed of the row and feature draws.
    pub seed: u64,
    /// Threads; the model does not depend on their number.
    pub threads: usize,
}

impl Default for HessboostLearner {
    fn default() -> Self {
        Self {
            rounds: 150,
            leaves: 63,
            depth: 8,
            learning_rate: 0.08,
            row_share: 0.7,
            feature_share: 0.5,
            leaf_weight_min: 15.0,
            shared_trees: true,
            seed: 0,
            threads: 1,
        }
    }
}

impl HessboostLearner {
    /// Rounds of the fit of one horizon (an index into the horizons).
    #[must_use]
    pub fn rounds(&self, horizon: usize) -> usize {
        if horizon + 1 == HORIZON_COUNT { self.rounds } else { self.rounds.div_ceil(2) }
    }

    fn params(&self) -> anyhow::Result<TrainingParams> {
        let strategy =
            if self.shared_trees { MultiStrategy::MultiOutputTree } else { MultiStrategy::OneOutputPerTree };
        TrainingParams::builder()
            .objective(Objective::Quantile(Quantiles::new(QUANTILES)?))
            .leaf_estimation(LeafEstimation::Exact)
            .tree_method(TreeMethod::Hist)
            .grow_policy(GrowPolicy::LossGuide)
            .multi_strategy(strategy)
            .max_depth(self.depth)
            .max_leaves(self.leaves)
            .eta(self.learning_rate)
            .subsample(self.row_share)
            .colsample_bytree(self.feature_share)
            .min_child_weight(self.leaf_weight_min)
            .seed(self.seed)
            .nthread(self.threads)
            .build()
            .context("settings of the learner")
    }
}

impl Learner for HessboostLearner {
    fn name(&self) -> &'static str {
        "hessboost"
    }

    fn describe(&self) -> String {
        format!(
            "hessboost 0.4.6: {} rounds (half as many for shorter horizons), {} leaves, depth {}, learning rate {}, rows {}, features {}, leaf weight {}, {}",
            self.rounds,
            self.leaves,
            self.depth,
            self.learning_rate,
            self.row_share,
            self.feature_share,
            self.leaf_weight_min,
            if self.shared_trees { "one tree for all quantiles" } else { "one tree a quantile" },
        )
    }

    fn fit(
        &self,
        horizon: usize,
        rows: TrainingSet,
        progress: &(dyn Fn(usize) + Sync),
    ) -> anyhow::Result<Fitted> {
        let count = rows.len();
        let inputs = probe_inputs(&rows);
        let matrix =
            DMatrix::from_dense_vec(rows.values, count, FEATURE_COUNT)?.with_labels(&rows.targets)?;
        let params = self.params()?;
        let trained = Trainer::new(&params, &matrix, self.rounds(horizon))
            .on_round(|round| {
                progress(round.iteration() + 1);
                ControlFlow::Continue(())
            })
            .train()
            .context("fitting the trees")?;
        let ensemble = export(&trained.model)?;
        let probes = inputs
            .into_iter()
            .map(|input| {
                let mut outputs = vec![0.0; QUANTILES.len()];
                trained.model.predict_row_into(&input, .., &mut outputs)?;
                Ok((input, outputs))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Fitted { predictor: ensemble.into(), probes })
    }
}

/// Copy a fitted model into the flat form that the server evaluates.
fn export(model: &BoostedModel) -> anyhow::Result<Ensemble> {
    let width = if model.has_vector_leaves() { model.n_outputs() } else { 1 };
    let mut ensemble = Ensemble::new(model.n_features(), model.base_scores().to_vec(), width)?;
    for ((tree, outputs), weight) in model.trees().iter().zip(model.tree_outputs()).zip(model.tree_weights())
    {
        ensemble.push_tree(outputs.start, &nodes_of(tree, weight))?;
    }
    Ok(ensemble)
}

fn nodes_of(tree: &RegTree, weight: f32) -> Vec<NodeSpec> {
    let nodes = tree.nodes().iter().enumerate();
    nodes
        .map(|(index, node)| {
            if node.is_leaf() {
                NodeSpec::Leaf(tree.leaf_vector(index).iter().map(|value| weight * value).collect())
            } else {
                NodeSpec::Split {
                    feature: node.split_feature as usize,
                    threshold: node.split_cond,
                    default_left: node.default_left,
                    left: node.left as usize,
                    right: node.right as usize,
                }
            }
        })
        .collect()
}
