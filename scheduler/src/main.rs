//! `berth-scheduler`: serve allocation decisions over HTTP.

fn main() {}
