//! The command line: one command per file.

mod admin;
mod api_access;
mod api_client;
pub(crate) mod backup;
mod backup_folders;
mod backup_metrics;
mod check_config;
mod checks;
mod demo;
mod dev;
mod diff;
#[cfg(test)]
#[path = "../../tests/documents/generate/commands.rs"]
mod documents;
mod export;
mod feeders;
mod import;
mod keys;
mod log;
mod log_status;
mod mailing;
mod maintenance;
mod nats_server;
mod open_files;
mod player;
mod publish;
mod rebuild;
mod rejections;
mod reload;
mod report;
mod running;
mod schemas;
mod secret;
mod serve;
mod service_manager;
mod simulate;
mod snapshot;
mod speed;
mod variables;
mod verify;
mod watch;

use std::env;
use std::io::{IsTerminal, Stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::runtime::Builder;
use tracing::Level;
use tracing::subscriber::with_default;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{DefaultFields, Format};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use self::api_client::NoService;
use self::secret::{NATS_VARIABLE, read_secret};
use self::watch::Unwatchable;
use crate::accounts::CommandError;
use crate::limits::plans::Plans;
use crate::log::runtime::build_blocking;
use crate::log::{Log, LogError, NatsConfig, Replicas};
use crate::supervisor::TaskEnded;

/// The version, and the commit that was built.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("RAILBIRD_REVISION"),
    ")"
);

const LOG_JSON_VARIABLE: &str = "RAILBIRD_LOG_JSON";
/// The ends of the help of the commands, each after a line with the name.
const EXAMPLES: &str = include_str!("examples.txt");
/// Without the NATS library, which logs each failed attempt again and again: the service reports each reason once.
const LOG_FILTER: &str = "warn,async_nats=off,railbird=info";

/// Railbird, an event-sourced horse racing data service.
#[derive(Debug, Parser)]
#[command(version = VERSION, max_term_width = 100)]
struct Cli {
    /// Log filter, such as `info` or `railbird=debug,warn`.
    #[arg(long, global = true, env = "RAILBIRD_LOG", value_name = "FILTER", default_value = LOG_FILTER)]
    log: String,
    /// Log as JSON, one object per line.
    #[arg(long, global = true, env = LOG_JSON_VARIABLE)]
    log_json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service on this machine, with a nats-server of its own and simulated racing.
    Dev(dev::Dev),
    /// Run the service against an existing nats-server.
    Serve(serve::Serve),
    /// Check the configuration of `serve` without starting it: the same flags and variables.
    CheckConfig(check_config::CheckConfig),
    /// Convert racing data files to events and publish them.
    Import(import::Import),
    /// Check events and publish them unchanged.
    Publish(publish::Publish),
    /// Publish a simulated race day.
    Simulate(simulate::Simulate),
    /// Issue, list, rotate and revoke API keys, and approve subscriptions.
    Keys(keys::Keys),
    /// Plan maintenance, which /status shows, list it and cancel it.
    Maintenance(maintenance::MaintenanceCommand),
    /// Add feeders to the NATS configuration.
    #[command(subcommand)]
    Feeders(feeders::Feeders),
    /// Show rejected events and the reason for each.
    Rejections(rejections::Rejections),
    /// Rebuild the views of a running service from the log, then swap them in.
    Rebuild(admin::AdminClient),
    /// Show the state of the log, back it up and restore it, and accept one that was lost or replaced.
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Write, list and load snapshots of the views, from which new replicas start.
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Compare views with a fresh fold of the log.
    Verify(verify::Verify),
    /// Show live odds in the terminal.
    Watch(watch::Watch),
    /// Write results, race cards, odds, dividends and form to files, a file for each meeting.
    Export(export::Export),
    /// Show what changed in the answers between two places in the log.
    Diff(diff::Diff),
    /// Write the JSON Schemas of all events, openapi.json and asyncapi.json.
    Schemas(schemas::Schemas),
}

/// The connection to NATS.
#[derive(Debug, Clone, Args)]
struct Nats {
    /// NATS address, or several separated by commas; may include credentials, as in nats://user:password@host:4222.
    /// With tls:// all connections use TLS. RAILBIRD_NATS_FILE names a file with it. [default: nats://127.0.0.1:4222]
    #[arg(long = "nats", global = true, env = NATS_VARIABLE, value_name = "URL", hide_env_values = true)]
    url: Option<String>,
    /// PEM file of the authorities that certificates of NATS are checked against, instead of those of this machine. All
    /// connections use TLS then.
    #[arg(long, global = true, env = "RAILBIRD_NATS_CA", value_name = "FILE")]
    nats_ca: Option<PathBuf>,
    /// Credentials file to log in to NATS with, instead of the user and password in the address: a JWT and its key, as
    /// nsc writes it.
    #[arg(long, global = true, env = "RAILBIRD_NATS_CREDS", value_name = "FILE")]
    nats_creds: Option<PathBuf>,
    /// Servers of a NATS cluster that store each of the streams created by this command: 1, 3 or 5. A stream that
    /// exists keeps its number.
    #[arg(long, global = true, env = "RAILBIRD_REPLICAS", value_name = "NUMBER",
          default_value_t = Replicas::default(), value_parser = Replicas::parse)]
    replicas: Replicas,
}

const NATS_DEFAULT: &str = "nats://127.0.0.1:4222";

impl Nats {
    fn config(&self) -> Result<NatsConfig, WrongConfiguration> {
        let url = read_secret(NATS_VARIABLE, self.url.as_deref())?;
        Ok(NatsConfig {
            url: url.unwrap_or_else(|| NATS_DEFAULT.to_owned()),
            ca: self.nats_ca.clone(),
            creds: self.nats_creds.clone(),
            replicas: self.replicas,
        })
    }

    async fn connect(&self) -> anyhow::Result<Log> {
        Ok(Log::connect(self.config()?, "railbird-cli").await?)
    }
}

#[derive(Debug, Clone, Args)]
struct PlansFlag {
    /// TOML file of the plans for keys and for the pricing page; the default is ops/plans.toml, which is built in. The
    /// service reads it again at SIGHUP.
    #[arg(long = "plans", global = true)]
    #[arg(env = "RAILBIRD_PLANS", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl PlansFlag {
    fn read(&self) -> Result<Plans, WrongConfiguration> {
        let plans = self.file.as_deref().map(Plans::read).transpose();
        let plans = plans.map_err(|error| format!("{error:#}"))?;
        Ok(plans.unwrap_or_default())
    }
}

/// The command line names something that does not exist, and the command did nothing.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongUse(String);

/// The configuration is wrong, and the command did nothing.
#[derive(Debug, thiserror::Error, derive_more::From)]
#[error("{0}")]
#[from(String, &str)]
struct WrongConfiguration(String);

/// The time for blocking work to end after a command.
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(1);

/// docs/commands.md has what each means.
const EXIT_FAILURE: u8 = 1;
/// The code of clap.
const EXIT_USAGE: u8 = 2;
/// `EX_UNAVAILABLE` of sysexits.h, as the others below have their names from there.
const EXIT_UNAVAILABLE: u8 = 69;
const EXIT_SOFTWARE: u8 = 70;
const EXIT_NO_PERMISSION: u8 = 77;
const EXIT_CONFIGURATION: u8 = 78;

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let matches = prepared(Cli::command(), "").try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // Help and the version are no errors.
        Err(error) if error.use_stderr() && wants_json() => {
            report_failure(error.to_string().trim_end(), true);
            return ExitCode::from(EXIT_USAGE);
        }
        Err(error) => error.exit(),
    };
    let as_json = cli.log_json;
    if let Err(error) = init_logging(&cli) {
        report_failure(&format!("{error:#}"), as_json);
        return ExitCode::from(EXIT_CONFIGURATION);
    }
    run(cli.command).unwrap_or_else(|error| {
        report_failure(&format!("{error:#}"), as_json);
        ExitCode::from(exit_code(&error))
    })
}

/// Reports why the command failed, whatever the log filter is.
fn report_failure(error: &str, as_json: bool) {
    if as_json {
        let layer = log_layer().json();
        with_default(registry().with(layer), || {
            tracing::error!(error, "the command failed");
        });
    } else {
        report::line(format_args!("railbird: {error}"));
    }
}

/// Whether a command line that cannot be parsed asks for a log in JSON.
fn wants_json() -> bool {
    let variable = env::var_os(LOG_JSON_VARIABLE);
    variable.is_some_and(|value| value == "true") || env::args_os().any(|arg| arg == "--log-json")
}

/// A command and those below it, with examples in the help. An empty variable counts as unset: Compose passes unset
/// variables as empty ones.
fn prepared(command: clap::Command, parent: &str) -> clap::Command {
    let name = format!("{parent} {}", command.get_name());
    let command = command.mut_args(|arg| {
        let value = arg.get_env().and_then(env::var_os);
        if value.is_some_and(|value| value.is_empty()) {
            arg.env(None::<&str>)
        } else {
            arg
        }
    });
    let examples = EXAMPLES.split_once(&format!("\n##{name}\n"));
    let examples = examples.and_then(|(_, rest)| rest.split("\n## ").next());
    let command = command.after_help(examples.map(str::trim_end));
    command.mut_subcommands(|command| prepared(command, &name))
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let of_command = error.downcast_ref().and_then(|error| match error {
        CommandError::Log(error) => Some(error),
        _ => None,
    });
    if let Some(error) = error.downcast_ref().or(of_command) {
        return match error {
            LogError::Unreachable(_) | LogError::NoStream(_) | LogError::NoLeader(_) => {
                EXIT_UNAVAILABLE
            }
            LogError::LoginRejected(_) | LogError::Denied { .. } => EXIT_NO_PERMISSION,
            LogError::TooOld { .. } | LogError::WrongAddress | LogError::WrongFile { .. } => {
                EXIT_CONFIGURATION
            }
            _ => EXIT_FAILURE,
        };
    }
    let unwatchable = error.downcast_ref::<Unwatchable>();
    if unwatchable.is_some_and(|of| of.0.is_unavailable()) || error.is::<NoService>() {
        EXIT_UNAVAILABLE
    } else if error.is::<WrongUse>() {
        EXIT_USAGE
    } else if error.is::<WrongConfiguration>() {
        EXIT_CONFIGURATION
    } else if error.is::<TaskEnded>() {
        EXIT_SOFTWARE
    } else {
        EXIT_FAILURE
    }
}

/// Runs a command. What blocks a thread after its end is abandoned: a full disk may block one for a minute.
fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = build_blocking(&mut Builder::new_multi_thread())?;
    let ended = runtime.block_on(execute(command));
    runtime.shutdown_timeout(RUNTIME_TIMEOUT);
    ended
}

async fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Import(import) => return import.run().await,
        Command::Publish(publish) => return publish.run().await,
        Command::Rejections(rejections) => return rejections.run().await,
        Command::Verify(verify) => return verify.run().await,
        Command::Dev(dev) => dev.run().await?,
        Command::Serve(serve) => serve.run().await?,
        Command::CheckConfig(check) => check.run().await?,
        Command::Simulate(simulate) => simulate.run().await?,
        Command::Keys(keys) => keys.run().await?,
        Command::Maintenance(maintenance) => maintenance.run().await?,
        Command::Feeders(feeders) => feeders.run()?,
        Command::Rebuild(admin) => rebuild::rebuild(&admin).await?,
        Command::Log(log) => log.run().await?,
        Command::Snapshot(snapshot) => snapshot.run().await?,
        Command::Watch(watch) => watch.run().await?,
        Command::Export(export) => export.run().await?,
        Command::Diff(diff) => diff.run().await?,
        Command::Schemas(schemas) => schemas.run()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn log_layer<S>() -> fmt::Layer<S, DefaultFields, Format, fn() -> Stderr> {
    // If standard error is closed, the service continues. To report that there would panic.
    fmt::layer()
        .with_writer(std::io::stderr as fn() -> Stderr)
        .log_internal_errors(false)
}

fn init_logging(cli: &Cli) -> anyhow::Result<()> {
    // At trace level the NATS client logs its credentials.
    let no_secrets = filter_fn(|metadata| {
        *metadata.level() <= Level::DEBUG || !metadata.target().starts_with("async_nats")
    });
    let filter = EnvFilter::try_new(&cli.log).with_context(|| format!("--log {:?}", cli.log))?;
    let filter = filter.and(no_secrets);
    let layer = log_layer().with_ansi(std::io::stderr().is_terminal());
    if cli.log_json {
        registry().with(layer.json().with_filter(filter)).init();
    } else {
        registry().with(layer.with_filter(filter)).init();
    }
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a task panicked")));
    Ok(())
}
