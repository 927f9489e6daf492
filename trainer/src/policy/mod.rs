//! Training of the placement policy: traffic, the environment, the loop, and the verdict.

pub mod environment;
pub mod kernel;
pub mod normalisation;
pub mod traffic;
pub mod training;
pub mod verdict;

#[cfg(test)]
mod tests;
