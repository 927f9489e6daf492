//! `berth-scheduler`: serve allocation decisions over HTTP.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use berth_scheduler::cli::{Cli, Command, Serve};
use berth_scheduler::{Server, Settings, StartError};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Bad usage or configuration.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let Command::Serve(serve) = Cli::parse().command;
    log(&serve);
    let settings = match serve.settings() {
        Ok(settings) => settings,
        Err(error) => return report(&error, USAGE),
    };
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let is_usage = error.downcast_ref::<StartError>().is_some_and(StartError::is_usage);
            report(&error, if is_usage { USAGE } else { 1 })
        }
    }
}

fn report(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("berth-scheduler: {error:#}");
    ExitCode::from(code)
}

fn log(serve: &Serve) {
    let filter = EnvFilter::try_from_env("BERTH_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if serve.log_json {
        log.json().init();
    } else {
        log.init();
    }
}

fn run(settings: Settings) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        let server = Server::start(settings).await?;
        let mut out = std::io::stdout();
        writeln!(out, "listening on http://{}", server.address())
            .and_then(|()| out.flush())
            .context("writing the address")?;
        let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result.context("listening for SIGINT")?,
            _ = terminated.recv() => {}
        }
        tracing::info!("stopping: requests finish, the log is made durable");
        server.stop().await.context("stopping")
    })
}
