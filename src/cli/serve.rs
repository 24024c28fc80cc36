//! `railbird serve`.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, CommandFactory, value_parser};
use events::VenueCode;
use ipnet::IpNet;
use jiff::SignedDuration;
use rustix::fs::{Access, access};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;

use super::admin::{ADMIN_DEFAULT, AdminToken};
use super::checks::Checks;
use super::keys::parse_duration;
use super::mailing::MailFlags;
use super::open_files::ConnectionsMax;
use super::reload::reload;
use super::running::{RunningService, STOP_TIMEOUT, keep_files_private};
use super::service_manager::ServiceManager;
use super::snapshot::SnapshotSecretFlag;
use super::variables::unknown_variables;
use super::{Cli, Nats, PlansFlag, WrongConfiguration};
use crate::accounts::{DEV_ENV, WRITE_USE_EVERY};
use crate::app::{Config, Service};
use crate::clock::Clock;
use crate::http::{AccessLog, AdminAccess, FrontRacing, Origins};
use crate::limits::Proxies;
use crate::log::{Durability, NatsConfig};
use crate::shutdown::{Shutdown, Signals};
use crate::tls::{CertificateFiles, TlsServer};

const HTTP_DEFAULT: &str = "127.0.0.1:8080";
/// Balancers ask for readiness every few seconds.
pub(super) const DRAIN_DELAY_DEFAULT: SignedDuration = SignedDuration::from_secs(5);
/// With less, keys would be refused between two answers of NATS.
const KEYS_STALE_MAX_MIN: SignedDuration = SignedDuration::from_secs(10);

const NO_MAIL: &str = "sign-up is closed, and mails wait";
const NO_SNAPSHOTS: &str =
    "--snapshot-secret is not set, so a start without views folds the whole log";

/// The options that `dev` and `serve` share.
#[derive(Debug, Clone, Args)]
pub(super) struct ServiceArgs {
    /// Address for clients: API, live channel and pages; port 0 picks a free port.
    #[arg(long, env = "RAILBIRD_HTTP", value_name = "ADDRESS", default_value = HTTP_DEFAULT)]
    http: SocketAddr,
    /// Address for operators: metrics, status, rebuild. It needs no key: keep it private, or set a token.
    #[arg(long, env = "RAILBIRD_ADMIN", value_name = "ADDRESS", default_value = ADMIN_DEFAULT)]
    admin: SocketAddr,
    /// Other host names of the admin address, such as `railbird` in a network of containers. By default its IP address
    /// and localhost: requests with another `Host` are refused.
    #[arg(long, env = "RAILBIRD_ADMIN_HOSTS")]
    #[arg(value_name = "NAMES", value_delimiter = ',')]
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
    /// Maximum number of HTTP connections, and of WebSockets. Lowered to what the limit of open files allows.
    #[arg(long, env = "RAILBIRD_CONNECTIONS_MAX", default_value_t = 20_000, value_parser = value_parser!(u32).range(1..))]
    pub(super) connections_max: u32,
    /// The same for each network, an IPv4 address or the /64 of an IPv6 address; a /48 may have four times as many.
    /// Trusted proxies are exempt.
    #[arg(long, env = "RAILBIRD_CONNECTIONS_PER_NETWORK", default_value_t = 1_000,
          value_parser = value_parser!(u32).range(1..))]
    connections_per_network: u32,
    /// Addresses or networks of trusted proxies, such as 10.0.0.0/8; X-Forwarded-For is ignored from any other peer.
    #[arg(long, env = "RAILBIRD_TRUSTED_PROXIES", value_name = "CIDR", value_delimiter = ',', value_parser = Proxies::parse)]
    trusted_proxies: Vec<IpNet>,
    /// Origins of other web pages that may send a key, to the API and to the live channel, such as
    /// https://racing.example, or http://localhost:* for any port; * allows all. By default none: keys do not belong in
    /// pages. The service's own pages may; with `railbird dev`, those of localhost.
    #[arg(long, env = "RAILBIRD_ORIGINS", value_name = "ORIGINS", value_delimiter = ',', value_parser = Origins::parse_one)]
    origins: Vec<String>,
    /// Maximum number of sign-ups per hour and network: an IPv4 address, or the /48 of an IPv6 address.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_NETWORK", default_value = "30")]
    sign_ups_per_network: NonZeroU32,
    /// Maximum number of sign-ups per day and email address.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_EMAIL", default_value = "5")]
    sign_ups_per_email: NonZeroU32,
    /// Maximum number of sign-ups per hour in total. Half of them are for networks (/24 of IPv4, /48 of IPv6) that had
    /// none in the last hour.
    #[arg(long, env = "RAILBIRD_SIGN_UPS_PER_HOUR", default_value = "500")]
    sign_ups_per_hour: NonZeroU32,
    /// How often a snapshot of the views is written to NATS, by one replica at a time and if there are 10,000 new
    /// events: a new replica loads it instead of folding the whole log. 0s is never.
    #[arg(long, env = "RAILBIRD_SNAPSHOT_EVERY", value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    snapshot_every: SignedDuration,
    #[command(flatten)]
    snapshot_secret: SnapshotSecretFlag,
    /// Time for which keys are accepted while the service cannot learn whether any was revoked: 10s or more.
    #[arg(long, env = "RAILBIRD_KEYS_STALE_MAX", value_name = "DURATION", default_value = "1h", value_parser = parse_keys_stale_max)]
    keys_stale_max: SignedDuration,
    /// Time for which the views may not be known to hold the whole log, as without NATS, before `/readyz` is 503 and
    /// live clients are closed, so that they use other replicas. Only while another replica answers that it is fresh.
    /// 0s is no limit.
    #[arg(long, env = "RAILBIRD_LAG_MAX", value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    lag_max: SignedDuration,
    /// The racing at `/` for visitors without a key: demo shows an invented meeting, delayed=15m the next races with
    /// the prices of 15 minutes ago, none shows no races.
    #[arg(long, env = "RAILBIRD_FRONT_PAGE", value_name = "RACING", default_value = "demo", value_parser = parse_front_racing)]
    front_page: FrontRacing,
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

/// Whether keys were revoked is asked for every 3 seconds.
fn parse_keys_stale_max(text: &str) -> Result<SignedDuration, &'static str> {
    let duration = parse_duration(text)?;
    let is_enough = duration >= KEYS_STALE_MAX_MIN;
    is_enough.then_some(duration).ok_or("it is 10s or more")
}

fn parse_front_racing(text: &str) -> Result<FrontRacing, &'static str> {
    match (text, text.strip_prefix("delayed=")) {
        ("none", _) => Ok(FrontRacing::None),
        ("demo", _) => Ok(FrontRacing::Demo),
        (_, Some(delay)) => parse_duration(delay).map(FrontRacing::Delayed),
        _ => Err("expected demo, none or delayed=15m"),
    }
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
    /// Reads what the flags name, without the log, the data folder, mails and TLS, which `dev` and `serve` set. `None`
    /// if a part cannot be used.
    pub(super) fn config(&self, checks: &mut Checks) -> Option<Config> {
        let addresses = checks.add("addresses", self.check_addresses(), |()| {
            let (http, admin) = (self.http, self.admin);
            format!("clients {http}, operators {admin}; not bound")
        });
        let admin_token = self.admin_token.read();
        let admin_token = checks.add("admin token", admin_token, |token| match token {
            Some(_) => "set".to_owned(),
            None => "none: who reaches the admin address may use it".to_owned(),
        });
        let connections = ConnectionsMax::within_limit(self.connections_max);
        (checks.0).push(("connections", Ok(connections.to_string())));
        let clock = checks.add("time zone", Clock::new(&self.timezone), |_| {
            self.timezone.clone()
        });
        let plans = checks.add("plans", self.plans.read(), |plans| {
            let built_in = self.plans.file.is_none().then_some("; built in");
            format!("{}{}", plans.names(), built_in.unwrap_or_default())
        });
        let snapshot_secret = self.snapshot_secret.read();
        let snapshot_secret = checks.add("snapshots", snapshot_secret, |secret| match secret {
            Some(_) => "signed".to_owned(),
            None => format!("none: {NO_SNAPSHOTS}"),
        });
        addresses?;
        Some(Config {
            nats: NatsConfig::default(),
            data: PathBuf::new(),
            snapshot_every: self.snapshot_every.unsigned_abs(),
            snapshot_secret: snapshot_secret?,
            http: self.http,
            tls: None,
            admin: self.admin,
            admin_access: AdminAccess::new(self.admin_hosts.clone(), admin_token?.as_deref()),
            clock: clock?,
            venue_order: self.venue_order.clone(),
            plans: plans?,
            keys_stale_max: self.keys_stale_max.unsigned_abs(),
            lag_max: self.lag_max.unsigned_abs(),
            write_use_every: WRITE_USE_EVERY,
            connections_max: connections.allowed as usize,
            connections_per_network: self.connections_per_network as usize,
            proxies: Proxies::new(self.trusted_proxies.clone()),
            origins: Origins::new(self.origins.clone()),
            sign_ups_per_network: self.sign_ups_per_network,
            sign_ups_per_email: self.sign_ups_per_email,
            sign_ups_per_hour: self.sign_ups_per_hour,
            security_contact: self.security_contact.clone(),
            refused_env: None,
            // An invalid one is reported with the mail settings.
            public_url: self.mail.public_url().ok().flatten(),
            mailing: None,
            front_racing: self.front_page,
            access_log: if self.access_log {
                AccessLog::Info
            } else {
                AccessLog::Debug
            },
        })
    }

    fn check_addresses(&self) -> Result<(), String> {
        let (http, admin) = (self.http, self.admin);
        let is_any = http.ip().is_unspecified() || admin.ip().is_unspecified();
        let is_same = http.port() == admin.port() && (http.ip() == admin.ip() || is_any);
        if is_same && http.port() != 0 {
            return Err(format!("--http {http} and --admin {admin} are one address"));
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
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
    /// Time from SIGTERM, when /readyz turns 503, until connections are refused. Balancers need it to notice. Meanwhile
    /// requests are answered, and each answer ends its connection.
    #[arg(long, env = "RAILBIRD_DRAIN_DELAY", value_name = "DURATION", default_value_t = DRAIN_DELAY_DEFAULT, value_parser = parse_duration)]
    drain_delay: SignedDuration,
    /// Time from SIGTERM until the service manager kills the process, such as TimeoutStopSec of systemd. It is an error
    /// if --drain-delay leaves less than 18s of it.
    #[arg(long, env = "RAILBIRD_STOP_TIMEOUT", value_name = "DURATION", value_parser = parse_duration)]
    stop_timeout: Option<SignedDuration>,
    /// Refuse to start if acknowledged events can be lost, by the settings of nats-server or of the streams, or if
    /// these cannot be read; if --public-url is not https; and if NATS is on another machine, without TLS. Accept no
    /// key of `railbird dev` (rb_dev_...).
    #[arg(long, env = "RAILBIRD_PRODUCTION")]
    pub(super) production: bool,
}

impl Serve {
    pub(super) fn tls(&self) -> Result<Option<TlsServer>, WrongConfiguration> {
        let files = match (self.tls_cert.clone(), self.tls_key.clone()) {
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => CertificateFiles { cert, key },
            (Some(_), None) => return Err("--tls-cert needs --tls-key".into()),
            (None, Some(_)) => return Err("--tls-key needs --tls-cert".into()),
        };
        let opened = TlsServer::open(files).map_err(|error| format!("{error:#}"))?;
        Ok(Some(opened))
    }

    fn check_drain(&self) -> Result<(), String> {
        let needed = self.drain_delay.unsigned_abs().saturating_add(STOP_TIMEOUT);
        let drain = self.drain_delay;
        let stop = self.stop_timeout.unwrap_or(SignedDuration::MAX);
        if needed <= stop.unsigned_abs() {
            return Ok(());
        }
        Err(format!(
            "--drain-delay {drain:#} and 18s to end are longer than --stop-timeout {stop:#}, after which the process is \
             killed: raise that, with TimeoutStopSec, stop_grace_period or terminationGracePeriodSeconds"
        ))
    }

    /// Reads and checks all that the flags name, without touching the data folder, the addresses or NATS. `None` if a
    /// part cannot be used.
    pub(super) fn config(&self, checks: &mut Checks) -> Option<Config> {
        let unknown = unknown_variables(&Cli::command());
        if unknown.is_empty() {
            (checks.0).push(("variables", Ok("all are known".to_owned())));
        }
        (checks.0).extend(unknown.into_iter().map(|error| ("variables", Err(error))));
        checks.add("data", check_folder(&self.data), |()| {
            self.data.display().to_string()
        });
        checks.add("stop", self.check_drain(), |()| {
            format!("{:#} to drain, 18s to end", self.drain_delay)
        });
        let config = self.service.config(checks);
        let tls = checks.add("TLS", self.tls(), |tls| match tls {
            Some(tls) => format!("certificate until {}", tls.expires()),
            None => "none: clients connect in plain HTTP".to_owned(),
        });
        let mailing = checks.add("mail", self.service.mail.serve(), |mailing| match mailing {
            Some(mailing) => mailing.transport.to_string(),
            None => format!("none: {NO_MAIL}"),
        });
        let nats = self.nats.config();
        let description = match &nats {
            Ok(nats) => nats.describe().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        checks.0.push(("NATS", description));
        if self.production {
            let https = self.service.mail.check_production();
            checks.add("production", https, |()| {
                "browsers reach the service by https, as far as --public-url says".to_owned()
            });
            let is_encrypted = match &nats {
                Ok(nats) if !self.nats_plain_allowed => check_encrypted(nats),
                _ => Ok(()),
            };
            checks.add("production", is_encrypted, |()| {
                "nobody on the way reads the connection to NATS".to_owned()
            });
        }
        checks.result().ok()?;
        Some(Config {
            nats: nats.ok()?,
            data: self.data.clone(),
            tls: tls?,
            mailing: mailing?,
            refused_env: self.production.then_some(DEV_ENV),
            ..config?
        })
    }

    pub(super) async fn run(self) -> anyhow::Result<()> {
        keep_files_private();
        let mut signals = Signals::install()?;
        let mut hangups = Signals::of(&[SignalKind::hangup()])?;
        let mut checks = Checks::default();
        let config = self.config(&mut checks);
        checks.result()?;
        let config = config.context("the configuration is not complete")?;
        ConnectionsMax::within_limit(self.service.connections_max).warn();
        let manager = ServiceManager::connect();
        let tls = config.tls.clone();
        let signs_snapshots = config.snapshot_secret.is_some();
        let shutdown = Shutdown::new();
        let service = tokio::select! {
            service = Service::start(config, shutdown.clone()) => service?,
            () = signals.next() => {
                tracing::info!("stopped during the start");
                return Ok(());
            }
        };
        tracing::info!(http = %service.http_addr()?, admin = %service.admin_addr()?, "serving");
        if !service.app.health.can_mail {
            tracing::warn!("--smtp-url is not set: {NO_MAIL}");
        }
        if !signs_snapshots {
            tracing::warn!("there are no snapshots: {NO_SNAPSHOTS}");
        }
        manager.listening();
        manager.send_signs_of_life(service.runtimes());
        let app = Arc::clone(&service.app);
        let mut running = RunningService::new(service, shutdown);
        let reloading = async {
            loop {
                hangups.next().await;
                manager.reloading();
                reload(&self.service.plans, &app.keys, tls.as_ref()).await;
                manager.listening();
            }
        };
        let (drain_delay, ended) = tokio::select! {
            error = running.ended() => return Err(error),
            () = signals.next() => (self.drain_delay.unsigned_abs(), Ok(())),
            Err(error) = refuse_risks(app.health.durability.clone()), if self.production => (Duration::ZERO, Err(error.into())),
            () = manager.send_status(&app) => unreachable!("it is sent until dropped"),
            () = reloading => unreachable!("it waits for the next signal"),
        };
        manager.stopping();
        running.stop(drain_delay, &mut signals).await?;
        ended
    }
}

/// Checks that a folder is there or can be created, and that this user may write to it.
fn check_folder(folder: &Path) -> Result<(), String> {
    let ancestors = folder.ancestors();
    for path in ancestors.map(|path| if path == "" { Path::new(".") } else { path }) {
        let reason = match fs::metadata(path) {
            Ok(found) if !found.is_dir() => "is not a folder".to_owned(),
            Ok(_) => match access(path, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return Ok(()),
                Err(error) => format!("cannot be written: {error}"),
            },
            // It would be created. If it is below a file, that is found next.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => continue,
            Err(error) => format!("cannot be read: {error}"),
        };
        let (folder, path) = (folder.display(), path.display());
        return Err(format!("--data {folder}: {path} {reason}"));
    }
    Ok(())
}

fn check_encrypted(nats: &NatsConfig) -> Result<(), WrongConfiguration> {
    let host = nats.plain_remote_host();
    let Some(host) = host.map_err(|error| error.to_string())? else {
        return Ok(());
    };
    Err(format!(
        "--production: the connection to NATS on {host} is not encrypted: use a tls:// address, or \
         --nats-plain-allowed in a network that nothing else can join"
    )
    .into())
}

/// Waits for the first check of the log, and fails if acknowledged events can be lost, or if that cannot be known. What
/// is found later is reported alone: without its replicas the service would lose more than by such a setting.
async fn refuse_risks(
    mut durability: watch::Receiver<Option<Durability>>,
) -> Result<Infallible, WrongConfiguration> {
    let is_judged = |found: &Option<Durability>| {
        let found = found.as_ref();
        found.is_some_and(|found| found.is_complete() || !found.risks().is_empty())
    };
    // After an error the service has ended, which its caller reports.
    let found = durability.wait_for(is_judged).await.ok();
    let risks = found.and_then(|found| found.as_ref().map(Durability::risks));
    let risks = risks.unwrap_or_default();
    if risks.is_empty() {
        return pending().await;
    }
    Err(format!("--production: {}", risks.join("; ")).into())
}
