//! `berth-scheduler`: serve allocation decisions over HTTP.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_scheduler::cli::{Cli, Command, Serve};
use berth_scheduler::export::Export;
use berth_scheduler::{Server, Settings, StartError};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Bad usage or configuration.
const USAGE: u8 = 2;
/// Longest that work on other threads, such as reading a bundle from a slow disk, holds up the end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let serve = match Cli::parse().command {
        Command::Serve(serve) => serve,
        Command::Export(export) => return export_log(&export),
    };
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

fn export_log(export: &Export) -> ExitCode {
    match export.run() {
        Ok(events) => {
            eprintln!("berth-scheduler: {events} events exported");
            ExitCode::SUCCESS
        }
        Err(error) => report(&error, 1),
    }
}

fn report(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("berth-scheduler: {}", with_causes(error));
    ExitCode::from(code)
}

/// An error and its causes in one line; a cause that was spelt out already is not said again.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
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
    let runtime = runtime.context("starting the runtime")?;
    let served = runtime.block_on(serve(settings));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    served
}

async fn serve(settings: Settings) -> Result<()> {
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
}
