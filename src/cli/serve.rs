//! `railbird serve`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;
use events::{ParseError, VenueCode};
use ipnet::IpNet;
use jiff::SignedDuration;

use super::keys::parse_duration;
use super::mailing::MailFlags;
use super::{Nats, Outcome, WrongConfiguration};
use crate::app::{Config, Service, SignUp};
use crate::clock::Clock;
use crate::http::AccessLog;
use crate::http::state::Origins;
use crate::limits::Proxies;
use crate::limits::plans::Plans;
use crate::log::Log;
use crate::mail::Mailing;
use crate::shutdown::{shutdown, signalled};

/// How a service answers; `dev` and `serve` share it.
#[derive(Debug, Clone, Args)]
pub(super) struct ServiceArgs {
    /// Where clients are served; port 0 takes a free one.
    #[arg(long, env = "RAILBIRD_HTTP", default_value = "127.0.0.1:8080")]
    pub(super) http: SocketAddr,
    /// Where operators are served: metrics, status, rebuild. Keep it private.
    #[arg(long, env = "RAILBIRD_ADMIN", default_value = "127.0.0.1:9090")]
    pub(super) admin: SocketAddr,
    /// The zone of the racing day.
    #[arg(long, env = "RAILBIRD_TIMEZONE", default_value = "Asia/Hong_Kong")]
    pub(super) timezone: String,
    /// Which venue is the primary one of a day with several meetings, first to last.
    #[arg(long, env = "RAILBIRD_VENUE_ORDER", value_delimiter = ',', default_value = "ST,HV", value_parser = parse_venue)]
    pub(super) venue_order: Vec<VenueCode>,
    /// A TOML file of the plans that keys may be on, and that the pricing page shows; without it those of plans.toml, which are built in.
    #[arg(long, env = "RAILBIRD_PLANS", value_name = "FILE")]
    pub(super) plans: Option<PathBuf>,
    /// Connections at a time, and WebSockets at a time.
    #[arg(long, env = "RAILBIRD_CONNECTIONS_MAX", default_value_t = 20_000)]
    pub(super) connections_max: u32,
    /// Proxies in front of the service, by address or network, such as 10.0.0.0/8: only they are believed when they say, by X-Forwarded-For,
    /// where a request comes from.
    #[arg(long, env = "RAILBIRD_TRUSTED_PROXIES", value_name = "CIDR", value_delimiter = ',', value_parser = Proxies::parse)]
    pub(super) trusted_proxies: Vec<IpNet>,
    /// Which web pages may connect to the live channel, such as https://racing.example; any by default.
    #[arg(
        long,
        env = "RAILBIRD_WS_ORIGINS",
        value_delimiter = ',',
        default_value = "*"
    )]
    pub(super) ws_origins: Vec<String>,
    /// What may be asked for on the page /pricing in an hour from one network address; a rotation by the link in a mail counts, too.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_NETWORK", default_value = "30")]
    pub(super) sign_ups_per_network: NonZeroU32,
    /// What may be asked for on the page /pricing in a day with one e-mail address.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_EMAIL", default_value = "5")]
    pub(super) sign_ups_per_email: NonZeroU32,
    /// For how long a key stays valid that was replaced by the link in a mail.
    #[arg(long, env = "RAILBIRD_ROTATION_OVERLAP", value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub(super) rotation_overlap: SignedDuration,
    /// Log each response at `info`, not only at `debug`: request id, method, path, status, latency, and key id.
    #[arg(long, env = "RAILBIRD_ACCESS_LOG")]
    pub(super) access_log: bool,
    #[command(flatten)]
    pub(super) mail: MailFlags,
}

fn parse_venue(text: &str) -> Result<VenueCode, ParseError> {
    VenueCode::parse(text)
}

impl ServiceArgs {
    pub(super) fn config(
        self,
        nats: String,
        data: PathBuf,
        mailing: Option<Mailing>,
    ) -> Result<Config, WrongConfiguration> {
        Clock::new(&self.timezone).map_err(|error| WrongConfiguration(format!("{error:#}")))?;
        let plans = self.plans.as_deref().map(Plans::read).transpose();
        let plans = plans.map_err(|error| WrongConfiguration(error.to_string()))?;
        Ok(Config {
            nats,
            data,
            http: self.http,
            admin: self.admin,
            timezone: self.timezone,
            venue_order: self.venue_order,
            plans: plans.unwrap_or_default(),
            connections_max: self.connections_max as usize,
            proxies: Proxies::new(self.trusted_proxies),
            ws_origins: Origins::new(self.ws_origins),
            sign_up: SignUp {
                per_network: self.sign_ups_per_network,
                per_email: self.sign_ups_per_email,
                overlap: self.rotation_overlap,
            },
            mailing,
            access_log: if self.access_log {
                AccessLog::Info
            } else {
                AccessLog::Debug
            },
        })
    }
}

/// Where the log is, where the views lie, and how strict to be.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird serve --nats nats://railbird:$PASSWORD@nats:4222 --data /var/lib/railbird --http 0.0.0.0:8080"
)]
pub(super) struct Serve {
    #[command(flatten)]
    nats: Nats,
    /// Where the views lie. It may be lost: the log gives it back.
    #[arg(long, env = "RAILBIRD_DATA")]
    data: PathBuf,
    #[command(flatten)]
    answering: ServiceArgs,
    /// Refuse to run against a NATS that acknowledges what is not on disk.
    #[arg(long, env = "RAILBIRD_PRODUCTION")]
    production: bool,
}

impl Serve {
    pub(super) async fn run(self) -> anyhow::Result<Outcome> {
        let mailing = self.answering.mail.serve()?;
        if mailing.is_none() {
            tracing::warn!("there is no --smtp-url: sign-up is closed, and mails with keys wait");
        }
        let answering = self.answering;
        let config = answering.config(self.nats.url, self.data, mailing)?;
        let (trigger, signal) = shutdown();
        let service = Service::start(config, signal).await?;
        tracing::info!(http = %service.http_addr()?, admin = %service.admin_addr()?, "serving");
        let log = service.log().clone();
        let serving = tokio::spawn(service.run());
        let unsafe_log = async {
            match check_durability(&log, self.production).await {
                Ok(()) => std::future::pending().await,
                Err(error) => error,
            }
        };
        let outcome = tokio::select! {
            signalled = signalled() => signalled.map(|()| Outcome::Done).map_err(Into::into),
            error = unsafe_log => Err(error.into()),
        };
        tracing::info!("stopping");
        trigger.pull();
        serving.await?;
        outcome
    }
}

/// Says whether the server acknowledges only what is on disk, once it is there.
async fn check_durability(log: &Log, production: bool) -> Result<(), WrongConfiguration> {
    let connected = log
        .connection()
        .wait_for(|connection| connection.up)
        .await
        .is_ok();
    match log.syncs_always().await {
        Some(true) => {}
        Some(false) if production => {
            return Err(WrongConfiguration(
                "this nats-server acknowledges what is not on disk: set sync_interval to always"
                    .to_owned(),
            ));
        }
        Some(false) => tracing::warn!(
            "this nats-server acknowledges what is not on disk: set sync_interval to always"
        ),
        None if connected => tracing::warn!(
            "it cannot be seen whether this nats-server syncs always; see docs/operating.md"
        ),
        None => {}
    }
    Ok(())
}
