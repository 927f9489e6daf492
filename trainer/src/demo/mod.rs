//! The demo: train, serve and replay held-out traffic over real HTTP, end to end.

pub mod charts;
pub mod fleet;
pub mod pass;
pub mod prepare;
pub mod report;
pub mod server;
