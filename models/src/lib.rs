//! The deciding core of Berth: a synchronous, deterministic function from values to a value.
//!
//! Nothing in this crate reads a clock, the environment, a file or a source of randomness. Time and
//! chance are arguments, so the server, the simulator, the shadow twin and crash recovery run the
//! same code and reach the same decisions.

pub mod artifact;
pub mod chance;
pub mod config;
pub mod decide;
pub mod decision;
pub mod domain;
pub mod engine;
pub mod event;
pub mod evidence;
pub mod fleet;
pub mod forecast;
pub mod policy;
pub mod pools;
pub mod simulation;
pub mod strategy;
