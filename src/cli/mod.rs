//! The command line: one command a file.

mod admin;
mod demo;
mod dev;
mod import;
mod keys;
mod mailing;
mod nats_server;
mod player;
mod publish;
mod rebuild;
mod rejections;
mod report;
mod schemas;
mod serve;
mod simulate;
mod verify;
mod watch;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tracing::Level;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, registry};

use self::watch::WatchError;
use crate::log::{Log, LogError};

/// An event-sourced horse racing data service.
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 100,
    after_help = "Example:\n  railbird dev\n  railbird import hkjc-results results/ --nats nats://127.0.0.1:4222"
)]
struct Cli {
    /// What is logged, such as `info` or `railbird=debug,warn`.
    #[arg(
        long,
        global = true,
        env = "RAILBIRD_LOG",
        default_value = "warn,railbird=info"
    )]
    log: String,
    /// Log as JSON, a line an entry.
    #[arg(long, global = true, env = "RAILBIRD_LOG_JSON")]
    log_json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything on this machine, with simulated racing.
    Dev(dev::Dev),
    /// Run the service against an existing NATS.
    Serve(serve::Serve),
    /// Publish files that people already have.
    Import(import::Import),
    /// Publish events as they are, after checking them.
    Publish(publish::Publish),
    /// Publish a made-up race day.
    Simulate(simulate::Simulate),
    /// Manage API keys.
    Keys(keys::Keys),
    /// Show what the service refused, with reasons.
    Rejections(rejections::Rejections),
    /// Fold the log anew beside the live views of a running service, then swap.
    Rebuild(rebuild::Rebuild),
    /// Prove that views equal a fresh fold of the log.
    Verify(verify::Verify),
    /// Show live odds on a terminal, as any client gets them.
    Watch(watch::Watch),
    /// Write the JSON Schemas of all events, and openapi.json.
    Schemas(schemas::Schemas),
}

/// Where the log is.
#[derive(Debug, Clone, Args)]
struct Nats {
    /// The address of NATS; credentials may stand in it, as in nats://user:password@host:4222.
    #[arg(
        long = "nats",
        global = true,
        env = "RAILBIRD_NATS",
        default_value = "nats://127.0.0.1:4222",
        hide_env_values = true
    )]
    url: String,
}

impl Nats {
    async fn connect(&self) -> anyhow::Result<Log> {
        Ok(Log::connect(&self.url, "railbird-cli").await?)
    }
}

/// How a command ended that ended well enough to say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Some input was refused, or a check did not hold.
    Refused,
}

/// The configuration is wrong: nothing was begun.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongConfiguration(String);

const EXIT_REFUSED: u8 = 1;
/// `EX_UNAVAILABLE` of sysexits.h.
const EXIT_AWAY: u8 = 69;
/// `EX_NOPERM` of sysexits.h.
const EXIT_NOT_PERMITTED: u8 = 77;
/// `EX_CONFIG` of sysexits.h.
const EXIT_CONFIGURATION: u8 = 78;

/// Runs the command that the process was called with.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = init_logging(&cli) {
        report::line(format_args!("railbird: {error:#}"));
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    match run(cli.command) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Refused) => ExitCode::from(EXIT_REFUSED),
        Err(error) => {
            report::line(format_args!("railbird: {error:#}"));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let of_log = error.downcast_ref().map(|error| match error {
        LogError::Unreachable(_) | LogError::NoStream(_) => EXIT_AWAY,
        LogError::NotLetIn(_) | LogError::Denied { .. } => EXIT_NOT_PERMITTED,
        LogError::TooOld { .. } | LogError::WrongAddress => EXIT_CONFIGURATION,
        _ => EXIT_REFUSED,
    });
    if let Some(code) = of_log {
        code
    } else if error.downcast_ref().is_some_and(WatchError::is_unavailable) {
        EXIT_AWAY
    } else if error.is::<WrongConfiguration>() {
        EXIT_CONFIGURATION
    } else {
        EXIT_REFUSED
    }
}

#[tokio::main]
async fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Dev(dev) => dev.run().await,
        Command::Serve(serve) => serve.run().await,
        Command::Import(import) => import.run().await,
        Command::Publish(publish) => publish.run().await,
        Command::Simulate(simulate) => simulate.run().await,
        Command::Keys(keys) => keys.run().await,
        Command::Rejections(rejections) => rejections.run().await,
        Command::Rebuild(rebuild) => rebuild.run().await,
        Command::Verify(verify) => verify.run().await,
        Command::Watch(watch) => watch.run().await,
        Command::Schemas(schemas) => schemas.run(),
    }
}

fn init_logging(cli: &Cli) -> anyhow::Result<()> {
    // At trace the NATS client logs how it signs in, password and all.
    let no_secrets = filter_fn(|metadata| {
        *metadata.level() <= Level::DEBUG || !metadata.target().starts_with("async_nats")
    });
    let filter = EnvFilter::try_new(&cli.log)?.and(no_secrets);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    if cli.log_json {
        registry().with(lines.json().with_filter(filter)).init();
    } else {
        registry().with(lines.with_filter(filter)).init();
    }
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a task panicked")));
    Ok(())
}
