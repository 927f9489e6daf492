//! The demo: train, serve and replay held-out traffic over real HTTP, end to end.

pub mod fleet;
pub mod pass;
pub mod report;
pub mod server;
