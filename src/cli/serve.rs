//! `railbird serve`.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use events::VenueCode;
use ipnet::IpNet;
use jiff::SignedDuration;
use tokio::sync::watch;

use super::admin::{ADMIN_DEFAULT, AdminToken};
use super::keys::parse_duration;
use super::mailing::MailFlags;
use super::running::{RunningService, keep_files_private};
use super::{Nats, PlansFlag, WrongConfiguration};
use crate::accounts::{DEV_ENV, WRITE_USE_EVERY};
use crate::app::{Config, Service};
use crate::clock::Clock;
use crate::http::{AccessLog, AdminAccess, Origins};
use crate::limits::Proxies;
use crate::log::{Durability, NatsConfig};
use crate::mail::Mailing;
use crate::shutdown::{Shutdown, Signals};
use crate::tls::{CertificateFiles, TlsServer};

/// Balancers ask for readiness every few seconds.
pub(super) const DRAIN_DELAY_DEFAULT: SignedDuration = SignedDuration::from_secs(5);

const KEY_IS_MISSING: &str = "--tls-cert needs --tls-key";
const CERT_IS_MISSING: &str = "--tls-key needs --tls-cert";

/// The options that `dev` and `serve` share.
#[derive(Debug, Clone, Args)]
pub(super) struct ServiceArgs {
    /// Address for clients: API, live channel and pages; port 0 picks a free port.
    #[arg(
        long,
        env = "RAILBIRD_HTTP",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080"
    )]
    http: SocketAddr,
    /// Address for operators: metrics, status, rebuild. It needs no key: keep it private, or set a token.
    #[arg(long, env = "RAILBIRD_ADMIN", value_name = "ADDRESS", default_value = ADMIN_DEFAULT)]
    admin: SocketAddr,
    /// Other host names of the admin address, such as `railbird` in a network of containers. By default its IP address
    /// and localhost: requests with another `Host` are refused.
    #[arg(
        long,
        env = "RAILBIRD_ADMIN_HOSTS",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    admin_hosts: Vec<String>,
    #[command(flatten)]
    admin_token: AdminToken,
    /// Time zone of the racing day, an IANA name.
    #[arg(long, env = "RAILBIRD_TIMEZONE", default_value = "Asia/Hong_Kong")]
    timezone: String,
    /// Venue codes in order of precedence, for days with several meetings: the first that races is the primary meeting.
    #[arg(long, env = "RAILBIRD_VENUE_ORDER", value_name = "CODES", value_delimiter = ',', default_value = "ST,HV", value_parser = VenueCode::parse)]
    venue_order: Vec<VenueCode>,
    #[command(flatten)]
    plans: PlansFlag,
    /// Maximum number of HTTP connections, and of WebSockets.
    #[arg(long, env = "RAILBIRD_CONNECTIONS_MAX", default_value_t = 20_000)]
    connections_max: u32,
    /// The same for each network, an IPv4 address or the /64 of an IPv6 address; trusted proxies are exempt.
    #[arg(
        long,
        env = "RAILBIRD_CONNECTIONS_PER_NETWORK",
        default_value_t = 1_000
    )]
    connections_per_network: u32,
    /// Addresses or networks of trusted proxies, such as 10.0.0.0/8; X-Forwarded-For is ignored from any other peer.
    #[arg(long, env = "RAILBIRD_TRUSTED_PROXIES", value_name = "CIDR", value_delimiter = ',', value_parser = Proxies::parse)]
    trusted_proxies: Vec<IpNet>,
    /// Origins of other web pages that may send a key, to the API and to the live channel, such as
    /// https://racing.example; * allows all. By default none: keys do not belong in pages. The service's own pages may.
    #[arg(long, env = "RAILBIRD_ORIGINS", value_name = "ORIGINS", value_delimiter = ',', value_parser = Origins::parse_one)]
    origins: Vec<String>,
    /// Maximum number of sign-ups per hour and network: an IPv4 address, or the /48 of an IPv6 address.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_NETWORK", default_value = "30")]
    sign_ups_per_network: NonZeroU32,
    /// Maximum number of sign-ups per day and email address.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_EMAIL", default_value = "5")]
    sign_ups_per_email: NonZeroU32,
    /// Maximum number of sign-ups per hour in total.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_HOUR", default_value = "500")]
    sign_ups_per_hour: NonZeroU32,
    /// Time for which keys are accepted while the service cannot learn whether any was revoked.
    #[arg(long, env = "RAILBIRD_KEYS_STALE_MAX", value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    keys_stale_max: SignedDuration,
    /// Log each response at `info`, not only at `debug`: request id, method, path, status, latency, and key id.
    #[arg(long, env = "RAILBIRD_ACCESS_LOG")]
    access_log: bool,
    /// Where to report a vulnerability of this service, such as mailto:security@racing.example or an https URL: the
    /// contact in /.well-known/security.txt, which does not exist without it.
    #[arg(long, env = "RAILBIRD_SECURITY_CONTACT", value_name = "URI", value_parser = parse_contact)]
    security_contact: Option<String>,
    #[command(flatten)]
    pub(super) mail: MailFlags,
}

/// RFC 9116, 2.5.3.
fn parse_contact(text: &str) -> Result<String, &'static str> {
    let schemes = ["mailto:", "https://", "tel:"];
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    let is_uri =
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic()));
    let contact = is_uri.then(|| text.to_owned());
    contact.ok_or("a contact is a URI that begins with mailto:, https:// or tel:")
}

impl ServiceArgs {
    pub(super) fn config(
        self,
        nats: NatsConfig,
        data: PathBuf,
        mailing: Option<Mailing>,
    ) -> Result<Config, WrongConfiguration> {
        Ok(Config {
            nats,
            data,
            http: self.http,
            tls: None,
            admin: self.admin,
            admin_access: AdminAccess::new(self.admin_hosts, self.admin_token.read()?.as_deref()),
            clock: Clock::new(&self.timezone).map_err(WrongConfiguration)?,
            venue_order: self.venue_order,
            plans: self.plans.read()?,
            keys_stale_max: self.keys_stale_max.unsigned_abs(),
            write_use_every: WRITE_USE_EVERY,
            connections_max: self.connections_max as usize,
            connections_per_network: self.connections_per_network as usize,
            proxies: Proxies::new(self.trusted_proxies),
            origins: Origins::new(self.origins),
            sign_ups_per_network: self.sign_ups_per_network,
            sign_ups_per_email: self.sign_ups_per_email,
            sign_ups_per_hour: self.sign_ups_per_hour,
            security_contact: self.security_contact,
            refused_env: None,
            mailing,
            access_log: match self.access_log {
                true => AccessLog::Info,
                false => AccessLog::Debug,
            },
        })
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  railbird serve --nats nats://railbird:$PASSWORD@nats:4222 --data /var/lib/railbird --http 0.0.0.0:8080"
)]
pub(super) struct Serve {
    #[command(flatten)]
    nats: Nats,
    /// Folder for the views. It may be lost: the service rebuilds it from the log.
    #[arg(long, env = "RAILBIRD_DATA", value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    service: ServiceArgs,
    /// PEM file of the certificate of the public address, followed by those that lead to a root. Without it, the
    /// address is plain HTTP. Renewed files are used within seconds.
    #[arg(long, env = "RAILBIRD_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(long, env = "RAILBIRD_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// With --production: accept nats:// to another machine. Anybody on the way reads and changes all of it, passwords
    /// too: only for a network that nothing else can join.
    #[arg(long, env = "RAILBIRD_NATS_PLAIN_ALLOWED")]
    nats_plain_allowed: bool,
    /// Time from SIGTERM, when /readyz turns 503, until connections are refused. Balancers need it to notice.
    #[arg(long, env = "RAILBIRD_DRAIN_DELAY", value_name = "DURATION", default_value_t = DRAIN_DELAY_DEFAULT, value_parser = parse_duration)]
    drain_delay: SignedDuration,
    /// Exit if acknowledged events can be lost, by the settings of nats-server or of the streams, or if these cannot be
    /// read; if --public-url is not https; and if NATS is on another machine, without TLS. Accept no key of `railbird
    /// dev` (rb_dev_...).
    #[arg(long, env = "RAILBIRD_PRODUCTION")]
    production: bool,
}

impl Serve {
    fn tls(&self) -> Result<Option<TlsServer>, WrongConfiguration> {
        // An empty text counts as unset: Compose passes unset variables as empty ones.
        let set = |file: &Option<PathBuf>| file.clone().filter(|file| !file.as_os_str().is_empty());
        let files = match (set(&self.tls_cert), set(&self.tls_key)) {
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => CertificateFiles { cert, key },
            (Some(_), None) => return Err(WrongConfiguration(KEY_IS_MISSING.to_owned())),
            (None, Some(_)) => return Err(WrongConfiguration(CERT_IS_MISSING.to_owned())),
        };
        let opened = TlsServer::open(files);
        opened
            .map(Some)
            .map_err(|error| WrongConfiguration(error.to_string()))
    }

    pub(super) async fn run(self) -> anyhow::Result<()> {
        keep_files_private();
        let mailing = self.service.mail.serve()?;
        let (tls, nats) = (self.tls()?, self.nats.config()?);
        if self.production {
            self.service.mail.check_production()?;
            if !self.nats_plain_allowed {
                check_encrypted(&nats)?;
            }
        }
        let mut signals = Signals::install()?;
        let mut config = self.service.config(nats, self.data, mailing)?;
        config.tls = tls;
        config.refused_env = self.production.then_some(DEV_ENV);
        let shutdown = Shutdown::new();
        let service = tokio::select! {
            service = Service::start(config, shutdown.clone()) => service?,
            () = signals.next() => {
                tracing::info!("stopped during the start");
                return Ok(());
            }
        };
        tracing::info!(http = %service.http_addr()?, admin = %service.admin_addr()?, "serving");
        if !service.app.can_mail {
            tracing::warn!("--smtp-url is not set: sign-up is closed, and mails wait");
        }
        let durability = service.app.durability.clone();
        let mut running = RunningService::new(service, shutdown);
        let (drain_delay, ended) = tokio::select! {
            error = running.ended() => return Err(error),
            () = signals.next() => (self.drain_delay.unsigned_abs(), Ok(())),
            Err(error) = wait_for_risks(durability), if self.production => (Duration::ZERO, Err(error.into())),
        };
        running.stop(drain_delay, &mut signals).await?;
        ended
    }
}

fn check_encrypted(nats: &NatsConfig) -> anyhow::Result<()> {
    let Some(host) = nats.plain_remote_host()? else {
        return Ok(());
    };
    let text = format!(
        "--production: the connection to NATS on {host} is not encrypted: use a tls:// address, or \
         --nats-plain-allowed in a network that nothing else can join"
    );
    Err(WrongConfiguration(text).into())
}

/// Waits until the log is known to be one that can lose acknowledged events, or that cannot be known.
async fn wait_for_risks(
    mut durability: watch::Receiver<Option<Durability>>,
) -> Result<Infallible, WrongConfiguration> {
    let is_risky = |found: &Option<Durability>| {
        let risks = found.as_ref().map(Durability::risks);
        risks.is_some_and(|risks| !risks.is_empty())
    };
    let risks = match durability.wait_for(is_risky).await {
        Ok(found) => found.as_ref().map(Durability::risks),
        // The service has ended, which its caller reports.
        Err(_) => return pending().await,
    };
    let risks = risks.unwrap_or_default().join("; ");
    Err(WrongConfiguration(format!("--production: {risks}")))
}
