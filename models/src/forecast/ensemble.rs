//! A flat ensemble of regression trees with several outputs, and its evaluation.
//!
//! The arithmetic is the trainer's: `f32` comparisons `value < threshold`, missing values (NaN) by each node's
//! learnt direction, and `f32` sums of leaf values in tree order on top of the base. So a probe recorded by the
//! trainer is met bit for bit.

/// Most nodes of an ensemble: what a bundle claims beyond this is refused before memory is taken.
pub const NODES_MAX: usize = 4_000_000;
/// Most trees of an ensemble.
pub const TREES_MAX: usize = 20_000;
/// Deepest tree.
pub const DEPTH_MAX: usize = 64;
/// Trees walked side by side, so that one walk's memory wait is another's work.
const LANES: usize = 8;
const DEFAULT_LEFT: u32 = 1 << 31;
const MAGIC: &[u8; 8] = b"BERTHENS";

/// Why an ensemble can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnsembleError {
    /// The bytes end early or go on too long.
    #[error("{what}: {have} bytes where {want} are needed; the file was cut or is not an ensemble")]
    Size {
        /// What was being read.
        what: &'static str,
        /// Bytes there.
        have: usize,
        /// Bytes needed.
        want: usize,
    },
    /// The bytes don't begin as an ensemble does.
    #[error("the file does not begin with BERTHENS; it is not an ensemble")]
    Magic,
    /// A count is beyond what is allowed.
    #[error("{what} is {value}, allowed are 1 to {max}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// The count.
        value: usize,
        /// The largest allowed.
        max: usize,
    },
    /// A threshold, leaf or base is not finite.
    #[error("{what} {index} is {value}: every number of an ensemble must be finite; train again")]
    NotFinite {
        /// `threshold`, `leaf value` or `base value`.
        what: &'static str,
        /// Where.
        index: usize,
        /// The value.
        value: String,
    },
    /// A node points where no node can be.
    #[error("node {node}: {what}; the ensemble is corrupt")]
    Structure {
        /// Index of the node.
        node: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// One node: a split when `right` is not its own index, else a leaf.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    /// Feature index; the highest bit says that missing values go left.
    feature: u32,
    threshold: f32,
    left: u32,
    right: u32,
}

impl Node {
    /// Where a leaf's values begin.
    fn offset(self) -> usize {
        self.threshold.to_bits() as usize
    }
}

/// One tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tree {
    root: u32,
    /// First output its leaves add to.
    output: u32,
    depth: u32,
}

/// A node as a trainer describes it; indices are within the tree.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeSpec {
    /// Rows with `value < threshold` go left, missing ones by `default_left`.
    Split {
        /// Index of the feature.
        feature: usize,
        /// Compared with `<`.
        threshold: f32,
        /// Where missing values go.
        default_left: bool,
        /// Index of the left child.
        left: usize,
        /// Index of the right child.
        right: usize,
    },
    /// One value an output of the tree.
    Leaf(Vec<f32>),
}

/// A flat ensemble.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensemble {
    features: usize,
    base: Vec<f32>,
    /// Values of one leaf: 1, or one an output.
    width: usize,
    trees: Vec<Tree>,
    nodes: Vec<Node>,
    /// Values of the leaves, `width` each; a leaf's `threshold` holds the bits of its offset.
    values: Vec<f32>,
}

impl Ensemble {
    /// An ensemble without trees.
    ///
    /// `base` has one value an output; `width` is the number of values of a leaf: 1, or `base.len()`.
    ///
    /// # Errors
    /// A base that is empty or not finite, or a width that fits neither.
    pub fn new(features: usize, base: Vec<f32>, width: usize) -> Result<Self, EnsembleError> {
        let ensemble =
            Self { features, base, width, trees: Vec::new(), nodes: Vec::new(), values: Vec::new() };
        ensemble.validate()?;
        Ok(ensemble)
    }

    /// Append a tree whose leaves add to the outputs from `output` on.
    ///
    /// # Errors
    /// A tree that is not one: a child out of range or reached twice, a feature or output that does not exist, a
    /// number that is not finite, or a limit exceeded.
    pub fn push_tree(&mut self, output: usize, specs: &[NodeSpec]) -> Result<(), EnsembleError> {
        let before = (self.nodes.len(), self.values.len());
        let root = self.nodes.len();
        let tree = Tree { root: root as u32, output: output as u32, depth: 0 };
        let pushed = self
            .push_nodes(specs)
            .and_then(|()| self.check_tree(&tree, self.nodes.len(), self.trees.len()))
            .map(|depth| self.trees.push(Tree { depth, ..tree }));
        if pushed.is_err() {
            self.nodes.truncate(before.0);
            self.values.truncate(before.1);
        }
        pushed
    }

    fn push_nodes(&mut self, specs: &[NodeSpec]) -> Result<(), EnsembleError> {
        let root = self.nodes.len();
        for (index, spec) in specs.iter().enumerate() {
            let node = match spec {
                NodeSpec::Split { feature, threshold, default_left, left, right } => Node {
                    feature: *feature as u32 | if *default_left { DEFAULT_LEFT } else { 0 },
                    threshold: *threshold,
                    left: (root + left) as u32,
                    right: (root + right) as u32,
                },
                NodeSpec::Leaf(values) => self.leaf(root + index, values)?,
            };
            self.nodes.push(node);
        }
        Ok(())
    }

    fn leaf(&mut self, index: usize, values: &[f32]) -> Result<Node, EnsembleError> {
        if values.len() != self.width {
            return Err(EnsembleError::Count {
                what: "values of a leaf",
                value: values.len(),
                max: self.width,
            });
        }
        all_finite("leaf value", values)?;
        let offset = self.values.len() as u32;
        self.values.extend_from_slice(values);
        let threshold = f32::from_bits(offset);
        Ok(Node { feature: 0, threshold, left: index as u32, right: index as u32 })
    }

    /// Number of features of a row.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.base.len()
    }

    /// Number of trees.
    #[must_use]
    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How often each feature splits.
    #[must_use]
    pub fn split_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.features];
        for (index, node) in self.nodes.iter().enumerate() {
            if node.right as usize != index {
                counts[(node.feature & !DEFAULT_LEFT) as usize] += 1;
            }
        }
        counts
    }

    /// Evaluate one row into `out`.
    ///
    /// A row or output of another length than [`Self::features`] and [`Self::outputs`] gives NaN everywhere: a
    /// forecast that can't be made, which the guard takes for an absent model.
    pub fn predict_into(&self, row: &[f32], out: &mut [f32]) {
        if row.len() != self.features || out.len() != self.base.len() {
            out.fill(f32::NAN);
            return;
        }
        out.copy_from_slice(&self.base);
        for group in self.trees.chunks(LANES) {
            let mut at = [0_usize; LANES];
            let mut depth = 0;
            for (lane, tree) in at.iter_mut().zip(group) {
                *lane = tree.root as usize;
                depth = depth.max(tree.depth);
            }
            for _ in 0..depth {
                for lane in &mut at[..group.len()] {
                    *lane = self.step(row, *lane);
                }
            }
            for (lane, tree) in at.iter().zip(group) {
                let offset = self.nodes[*lane].offset();
                let output = tree.output as usize;
                let values = &self.values[offset..offset + self.width];
                for (sum, value) in out[output..output + self.width].iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
    }

    /// One level down; a leaf's children are the leaf itself.
    #[inline]
    fn step(&self, row: &[f32], at: usize) -> usize {
        let node = self.nodes[at];
        let value = row[(node.feature & !DEFAULT_LEFT) as usize];
        // Without short circuits there is no branch to mispredict.
        let left = (value < node.threshold) | (value.is_nan() & (node.feature & DEFAULT_LEFT != 0));
        if left { node.left as usize } else { node.right as usize }
    }

    fn validate(&self) -> Result<(), EnsembleError> {
        let count = |what, value: usize, max| {
            if value == 0 || value > max { Err(EnsembleError::Count { what, value, max }) } else { Ok(()) }
        };
        count("number of features", self.features, 4_096)?;
        count("number of outputs", self.base.len(), 64)?;
        if self.width != 1 && self.width != self.base.len() {
            return Err(EnsembleError::Count {
                what: "values of a leaf",
                value: self.width,
                max: self.base.len(),
            });
        }
        all_finite("base value", &self.base)?;
        all_finite("leaf value", &self.values)?;
        let mut end = self.nodes.len();
        for (index, tree) in self.trees.iter().enumerate().rev() {
            let depth = self.check_tree(tree, end, index)?;
            if depth != tree.depth {
                return Err(EnsembleError::Structure {
                    node: tree.root as usize,
                    what: "depth is not the tree's",
                });
            }
            end = tree.root as usize;
        }
        if end != 0 {
            return Err(EnsembleError::Structure { node: 0, what: "nodes before the first tree" });
        }
        Ok(())
    }

    /// Check the tree whose nodes are `root..end`; returns its depth.
    fn check_tree(&self, tree: &Tree, end: usize, index: usize) -> Result<u32, EnsembleError> {
        let root = tree.root as usize;
        let bad = |node, what| Err(EnsembleError::Structure { node, what });
        if index >= TREES_MAX {
            return Err(EnsembleError::Count { what: "number of trees", value: index + 1, max: TREES_MAX });
        }
        if end > NODES_MAX {
            return Err(EnsembleError::Count { what: "number of nodes", value: end, max: NODES_MAX });
        }
        if root >= end {
            return bad(root, "a tree needs a node");
        }
        if tree.output as usize + self.width > self.base.len() {
            return bad(root, "output out of range");
        }
        let mut level = vec![0_u32; end - root];
        let mut reached = 1;
        let mut deepest = 0;
        for at in root..end {
            let node = self.nodes[at];
            let depth = level[at - root];
            if at > root && depth == 0 {
                return bad(at, "not reached from its root by an earlier node");
            }
            deepest = deepest.max(depth);
            if node.left == node.right {
                if node.left as usize != at
                    || node.offset() + self.width > self.values.len()
                    || node.feature != 0
                {
                    return bad(at, "a leaf without values");
                }
                continue;
            }
            self.check_split(at)?;
            for child in [node.left as usize, node.right as usize] {
                if child <= at || child >= end || level[child - root] != 0 {
                    return bad(at, "a child out of range or reached twice");
                }
                level[child - root] = depth + 1;
                reached += 1;
            }
        }
        if reached != end - root || deepest as usize > DEPTH_MAX {
            return bad(root, "a tree with unreachable nodes or too deep");
        }
        Ok(deepest)
    }

    fn check_split(&self, at: usize) -> Result<(), EnsembleError> {
        let node = self.nodes[at];
        if (node.feature & !DEFAULT_LEFT) as usize >= self.features {
            return Err(EnsembleError::Structure { node: at, what: "a feature that does not exist" });
        }
        if !node.threshold.is_finite() {
            let value = node.threshold.to_string();
            return Err(EnsembleError::NotFinite { what: "threshold", index: at, value });
        }
        Ok(())
    }

    /// The ensemble as little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let counts = [
            self.features,
            self.base.len(),
            self.width,
            self.trees.len(),
            self.nodes.len(),
            self.values.len(),
        ];
        bytes.extend(counts.iter().flat_map(|count| (*count as u32).to_le_bytes()));
        bytes.extend(self.base.iter().flat_map(|value| value.to_le_bytes()));
        for tree in &self.trees {
            bytes.extend([tree.root, tree.output, tree.depth].iter().flat_map(|word| word.to_le_bytes()));
        }
        for node in &self.nodes {
            let words = [node.feature, node.threshold.to_bits(), node.left, node.right];
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.extend(self.values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    /// Read what [`Self::to_bytes`] wrote, and check all of it.
    ///
    /// # Errors
    /// See [`EnsembleError`]; nothing is evaluated that was not checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EnsembleError> {
        let body = bytes.strip_prefix(MAGIC).ok_or(EnsembleError::Magic)?;
        let (words, rest) = body.as_chunks::<4>();
        let header = 6;
        if words.len() < header {
            return Err(EnsembleError::Size { what: "header", have: body.len(), want: header * 4 });
        }
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let [features, outputs, width, trees, nodes, values] =
            [0, 1, 2, 3, 4, 5].map(|at| words[at] as usize);
        let want = 4_u128
            * (header as u128 + outputs as u128 + 3 * trees as u128 + 4 * nodes as u128 + values as u128);
        if want != body.len() as u128 || !rest.is_empty() {
            let want = usize::try_from(want).unwrap_or(usize::MAX);
            return Err(EnsembleError::Size { what: "ensemble", have: body.len(), want });
        }
        let (base, words) = words[header..].split_at(outputs);
        let (tree_words, words) = words.split_at(3 * trees);
        let (node_words, value_words) = words.split_at(4 * nodes);
        let floats = |words: &[u32]| words.iter().map(|word| f32::from_bits(*word)).collect::<Vec<f32>>();
        let ensemble = Self {
            features,
            base: floats(base),
            width,
            trees: tree_words
                .as_chunks::<3>()
                .0
                .iter()
                .map(|&[root, output, depth]| Tree { root, output, depth })
                .collect(),
            nodes: node_words
                .as_chunks::<4>()
                .0
                .iter()
                .map(|&[feature, threshold, left, right]| Node {
                    feature,
                    threshold: f32::from_bits(threshold),
                    left,
                    right,
                })
                .collect(),
            values: floats(value_words),
        };
        ensemble.validate()?;
        Ok(ensemble)
    }
}

fn all_finite(what: &'static str, values: &[f32]) -> Result<(), EnsembleError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(EnsembleError::NotFinite { what, index, value: values[index].to_string() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
