//! One file a command; each has `Args` and `run(Args) -> Result<exit code>`.

pub mod compare;
pub mod demo;
pub mod doctor;
pub mod forecast;
pub mod generate;
pub mod ingest;
pub mod paths;
pub mod policy;
