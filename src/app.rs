//! The composition root: wires the rooms into a [`Service`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use events::VenueCode;
use futures::future;
use jiff::Timestamp;
use projections::Store;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use crate::accounts::{self, AccountCommands, Ended, KeyCache, Ledger, UseLog};
use crate::clock::Clock;
use crate::feed::Feed;
use crate::health::{FeedMonitor, Health};
use crate::http::state::{App, DevKey, Pages};
use crate::http::{self, AccessLog, AdminAccess, HttpServer, Origins, SignUpOutcome, StatusBoard};
use crate::limits::plans::Plans;
use crate::limits::{HashedLimiter, NetworkConnections, Proxies};
use crate::live::{CloseReason, FanOut, LiveContext};
use crate::log::runtime::{DetachedRuntime, LOG_THREADS};
use crate::log::{ACCOUNTS, Continuity, Durability, Lease, Log, NatsConfig, RACING, Role};
use crate::mail::{FailureReason, Mailing, Outbox};
use crate::metrics::{self, HttpMetrics, LiveMetrics};
use crate::projector::announcer::Announcer;
use crate::projector::lag::{Lag, LagWatch};
use crate::projector::snapshots::{SnapshotRequests, SnapshotWriter};
use crate::projector::views::Views;
use crate::projector::{Projector, ProjectorHandle};
use crate::public_url::PublicUrl;
use crate::shutdown::Shutdown;
use crate::supervisor::{Supervisor, TaskEnded};
use crate::tls::TlsServer;

/// Connections of the admin address at a time.
const ADMIN_CONNECTIONS_MAX: usize = 32;
/// The time for a handler. All of them read a local store. An operator may wait an [`HOUR`] for a snapshot.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a client to read an answer. The largest are the scripts of `/docs`. An operator may take an [`HOUR`]
/// to read all views.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The time to write the views to disk at the shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
const NOT_FLUSHED: &str = "flush failed; the next start reads the missing events from the log";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Requests without a valid key that each network may send in a minute. Enough for programs whose key has expired, too
/// few to guess keys.
const UNAUTHORIZED_PER_MINUTE: NonZeroU32 = NonZeroU32::new(120).expect("not zero");

/// Requests for a link to sign in, in an hour. Of one network: a company may be behind one address.
const LINKS_PER_NETWORK: NonZeroU32 = NonZeroU32::new(60).expect("not zero");
/// The same of one mailbox: one every 20 minutes, which is less than a link lasts. So a stranger who uses
/// them up leaves the person at the address a link that works.
const LINKS_PER_EMAIL: NonZeroU32 = NonZeroU32::new(3).expect("not zero");
/// Keys that a subscriber creates and rotates in an hour. Each is an event, and sends a mail.
const CHANGES_PER_HOUR: NonZeroU32 = NonZeroU32::new(60).expect("not zero");

/// The configuration of a service.
#[derive(Debug, Clone)]
pub struct Config {
    pub nats: NatsConfig,
    /// The folder of the views. It may be lost: the views are rebuilt from the log.
    pub data: PathBuf,
    /// How often a snapshot of the views is written; zero is never.
    pub snapshot_every: Duration,
    /// The public address; port 0 takes a free one.
    pub http: SocketAddr,
    /// The TLS of the public address. Without it, that is plain HTTP.
    pub tls: Option<TlsServer>,
    /// The admin address; port 0 takes a free one.
    pub admin: SocketAddr,
    pub admin_access: AdminAccess,
    pub clock: Clock,
    /// The venues by precedence, for days with several meetings.
    pub venue_order: Vec<VenueCode>,
    pub plans: Plans,
    /// Keys are accepted for this long without a proof that none was revoked.
    pub keys_stale_max: Duration,
    /// A replica whose views lag for longer is not ready while another one has fresh views. Zero is no limit.
    pub lag_max: Duration,
    /// How often the use of keys is written.
    pub write_use_every: Duration,
    /// Connections of the public address at a time, and WebSockets at a time.
    pub connections_max: usize,
    /// The same of one network. Trusted proxies may have more.
    pub connections_per_network: usize,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Proxies,
    /// The pages of other origins that may send a key.
    pub origins: Origins,
    /// How mails are sent. Without it they wait.
    pub mailing: Option<Mailing>,
    /// Sign-ups in an hour from one network.
    pub sign_ups_per_network: NonZeroU32,
    /// Sign-ups in a day with one e-mail address.
    pub sign_ups_per_email: NonZeroU32,
    /// All sign-ups in an hour.
    pub sign_ups_per_hour: NonZeroU32,
    /// Where to report a vulnerability, for `/.well-known/security.txt`.
    pub security_contact: Option<String>,
    /// The environment whose keys are not accepted.
    pub refused_env: Option<&'static str>,
    /// The level of the access log of the public address.
    pub access_log: AccessLog,
}

/// A service that listens and follows the log. It serves once it is [run](Service::run).
#[derive(Debug)]
pub struct Service {
    pub app: Arc<App>,
    http: HttpServer,
    admin: HttpServer,
    /// With the address that is bound.
    admin_access: (Arc<AdminAccess>, IpAddr),
    pub tasks: Supervisor,
    use_log: UseLog,
    /// The threads of the tasks that follow the log.
    _log_runtime: DetachedRuntime,
    shutdown: Shutdown,
}

impl Service {
    /// Binds the addresses, and starts to open the views and to follow the log.
    ///
    /// # Errors
    /// Returns an error if the data folder cannot be opened, or an address cannot be bound.
    pub async fn start(config: Config, shutdown: Shutdown) -> anyhow::Result<Self> {
        begin_metrics(config.connections_max);
        // First: from here on connections are accepted, and wait for `run`. None is refused.
        let draining = shutdown.child_token();
        let (http, admin) = servers(&config, &draining, &shutdown).await?;
        let views = Arc::new(Views::open(&config.data)?);
        let log_runtime = DetachedRuntime::start("log", LOG_THREADS)?;
        let (log, accounts_log) = connect(&log_runtime, config.nats.clone()).await?;
        let (mut tasks, runtime) = (Supervisor::default(), log_runtime.handle());
        let continuity = Continuity::open(&config.data)
            .context("the streams that the data folder has seen cannot be read")?;
        let durability = watch_log(&mut tasks, runtime, &log, &continuity);
        let (feed, followed) = (Feed::default(), (log.clone(), continuity.clone()));
        let replica: Arc<str> = Uuid::now_v7().to_string().into();
        let lease = log.lease(Role::Announcer, &replica);
        let announcer = start_announcer(&mut tasks, runtime, &log, lease, shutdown.clone());
        let projector = start_projector(&mut tasks, runtime, followed, (&views, &feed), announcer);
        let watched = (log.clone(), replica, config.lag_max);
        let lag = start_lag_watch(&mut tasks, runtime, watched, &projector);
        let snapshots = start_snapshots(&mut tasks, runtime, (&log, &views, &config), &projector);
        let followed = (accounts_log.clone(), continuity.clone());
        let (keys, ledger, use_log) = follow_accounts(&mut tasks, runtime, followed, &config)?;
        let monitor = FeedMonitor {
            projector: projector.status.clone(),
            connection: log.connection(),
        };
        let live = LiveContext {
            feed: feed.clone(),
            metrics: Arc::new(LiveMetrics::default()),
            keys: Arc::clone(&keys),
            monitor: monitor.clone(),
            shutdown: shutdown.clone(),
        };
        let health = Health {
            monitor,
            feed: feed.clone(),
            views: Arc::clone(&views),
            keys: Arc::clone(&keys),
            ledger: ledger.clone(),
            continuity: continuity.clone(),
            lag,
            draining: draining.clone(),
            can_mail: config.mailing.is_some(),
        };
        let fan_out = start_fan_out(&mut tasks, runtime, &live, &config)?;
        let commands = AccountCommands::new(accounts_log, ledger.clone());
        let app = Arc::new(App {
            pages: pages(&config, http.listener.local_addr()?, commands),
            views,
            keys,
            ledger,
            unauthenticated_limiter: HashedLimiter::new(UNAUTHORIZED_PER_MINUTE, MINUTE),
            proxies: config.proxies,
            projector,
            snapshots,
            health,
            continuity,
            durability,
            draining,
            clock: config.clock,
            venue_order: config.venue_order,
            feed,
            metrics: Arc::clone(&http.metrics),
            fan_out,
            status: StatusBoard::new(Timestamp::now()),
            origins: config.origins,
            security_contact: config.security_contact,
            can_mail: config.mailing.is_some(),
            dev_key: DevKey::default(),
        });
        tasks.spawn("status", http::sample_status(Arc::clone(&app)), runtime);
        start_outbox(&mut tasks, &app, config.mailing, &shutdown);
        Ok(Self {
            http,
            admin,
            admin_access: (Arc::new(config.admin_access), config.admin.ip()),
            shutdown,
            app,
            tasks,
            use_log,
            _log_runtime: log_runtime,
        })
    }

    pub fn http_addr(&self) -> io::Result<SocketAddr> {
        self.http.listener.local_addr()
    }

    pub fn admin_addr(&self) -> io::Result<SocketAddr> {
        self.admin.listener.local_addr()
    }

    /// Serves until the shutdown, drains, and flushes the store.
    ///
    /// # Errors
    /// Returns [`TaskEnded`] if a task of the service ended before the shutdown. The service then shuts itself down.
    pub async fn run(mut self) -> Result<(), TaskEnded> {
        let app = self.app;
        let (router, routes) = http::router(Arc::clone(&app));
        let (access, bound) = self.admin_access;
        let admin = http::admin_service(access, bound, http::admin_router(Arc::clone(&app)));
        let shutdown = self.shutdown.clone();
        if let Some(tls) = self.http.tls.clone() {
            let runtime = Handle::current();
            (self.tasks).spawn("certificate", tls.keep_current(), &runtime);
        }
        // Requests and live clients leave at the same time.
        let mut serving = pin!(future::join3(
            (self.http).run(Some(Arc::new(routes)), |peer| {
                http::service(Arc::clone(&app), router.clone(), peer)
            }),
            self.admin.run(None, |_| admin.clone()),
            async {
                shutdown.cancelled().await;
                app.fan_out.drain().await;
            },
        ));
        let ended = tokio::select! {
            _ = &mut serving => Ok(()),
            ended = self.tasks.ended() => {
                let too_early = !self.shutdown.is_cancelled();
                self.shutdown.cancel();
                serving.await;
                if too_early { Err(ended) } else { Ok(()) }
            }
        };
        self.tasks.stop().await;
        let flush = async {
            if let Some(store) = app.views.current() {
                flush(store).await;
            }
        };
        future::join(self.use_log.finish(), flush).await;
        ended
    }
}

/// Installs the metrics. Counters whose values are known begin at 0, because an alert sees a step only after a 0.
fn begin_metrics(connections_max: usize) {
    metrics::install();
    metrics::connections_max(connections_max);
    metrics::snapshot(Timestamp::UNIX_EPOCH, 0, 0);
    for stream in [RACING, ACCOUNTS] {
        metrics::begin_stream(stream.name);
    }
    metrics::WS_CLOSED.begin(CloseReason::CODES.map(|code| code.to_string()));
    metrics::SIGN_UPS.begin(SignUpOutcome::LABELS.iter().copied());
    metrics::MAILS_FAILED.begin(FailureReason::LABELS.iter().copied());
}

/// Starts to announce rejections, while this replica holds the lease. At the shutdown another one takes it.
fn start_announcer(
    tasks: &mut Supervisor,
    runtime: &Handle,
    log: &Log,
    (lease, keeping): (Lease, impl Future<Output = ()> + Send + 'static),
    shutdown: Shutdown,
) -> Announcer {
    let (announcer, announcing) = Announcer::new(log.clone(), lease.clone());
    tasks.spawn("announcer", announcing, runtime);
    tasks.spawn_finishing("announcer lease", async move {
        let resigning = async {
            shutdown.cancelled().await;
            lease.resign();
        };
        future::join(keeping, resigning).await;
    });
    announcer
}

/// Starts to watch whether this replica lags while others do not.
fn start_lag_watch(
    tasks: &mut Supervisor,
    runtime: &Handle,
    (log, replica, lag_max): (Log, Arc<str>, Duration),
    projector: &ProjectorHandle,
) -> Lag {
    let (watch, lag) = LagWatch::new(log, replica, lag_max, projector.status.clone());
    tasks.spawn("lag", watch.run(), runtime);
    lag
}

/// Starts to fold the log.
fn start_projector(
    tasks: &mut Supervisor,
    runtime: &Handle,
    followed: (Log, Continuity),
    (views, feed): (&Arc<Views>, &Feed),
    announcer: Announcer,
) -> ProjectorHandle {
    let (projector, handle) = Projector::new(followed, Arc::clone(views), feed.clone(), announcer);
    tasks.spawn("projector", projector.run(), runtime);
    handle
}

/// Starts to write snapshots of the views.
fn start_snapshots(
    tasks: &mut Supervisor,
    runtime: &Handle,
    (log, views, config): (&Log, &Arc<Views>, &Config),
    projector: &ProjectorHandle,
) -> SnapshotRequests {
    let (log, views, status) = (log.clone(), Arc::clone(views), projector.status.clone());
    let (writer, snapshots) = SnapshotWriter::new(log, views, status, config.snapshot_every);
    tasks.spawn("snapshots", writer.run(), runtime);
    snapshots
}

/// Starts to read the keys, and to keep their use.
fn follow_accounts(
    tasks: &mut Supervisor,
    runtime: &Handle,
    followed: (Log, Continuity),
    config: &Config,
) -> anyhow::Result<(Arc<KeyCache>, watch::Receiver<Ledger>, UseLog)> {
    let ended = Ended::open(&config.data).context("the keys that were revoked cannot be read")?;
    let keys = KeyCache::new(config.plans.clone(), config.keys_stale_max);
    let keys = Arc::new(keys.refusing(config.refused_env));
    let uses = Arc::clone(keys.uses());
    let use_log = UseLog::new(followed.0.clone(), uses, config.write_use_every);
    tasks.spawn("key-use", use_log.clone().run(), runtime);
    let (ledger_sender, ledger) = watch::channel(Ledger::default());
    let following = accounts::follow(followed, Arc::clone(&keys), ledger_sender, ended);
    tasks.spawn("accounts", following, runtime);
    Ok((keys, ledger, use_log))
}

/// Starts to remember how far the log is read, and to watch its settings.
fn watch_log(
    tasks: &mut Supervisor,
    runtime: &Handle,
    log: &Log,
    continuity: &Continuity,
) -> watch::Receiver<Option<Durability>> {
    let (sender, durability) = watch::channel(None);
    tasks.spawn("continuity", continuity.clone().keep(), runtime);
    tasks.spawn("durability", log.clone().watch_durability(sender), runtime);
    durability
}

/// Starts the threads that serve the clients of the live channel.
fn start_fan_out(
    tasks: &mut Supervisor,
    runtime: &Handle,
    live: &LiveContext,
    config: &Config,
) -> anyhow::Result<FanOut> {
    let per_network = NetworkConnections::new(config.connections_per_network);
    let (fan_out, shards) = FanOut::start(live, config.connections_max, per_network)?;
    for (n, shard) in shards.into_iter().enumerate() {
        tasks.spawn(format!("fan-out-{n}"), shard, runtime);
    }
    Ok(fan_out)
}

/// Binds the public and the admin address.
async fn servers(
    config: &Config,
    draining: &Shutdown,
    shutdown: &Shutdown,
) -> anyhow::Result<(HttpServer, HttpServer)> {
    let metrics: Arc<HttpMetrics> = Arc::default();
    let server = |listener, tls, connections_max, access_log| HttpServer {
        listener,
        tls,
        connections_max,
        per_network: NetworkConnections::new(config.connections_per_network),
        proxies: config.proxies.clone(),
        handler_timeout: HANDLER_TIMEOUT,
        answer_timeout: ANSWER_TIMEOUT,
        access_log,
        metrics: Arc::clone(&metrics),
        draining: draining.clone(),
        shutdown: shutdown.clone(),
    };
    let (public, admin) = (bind(config.http).await?, bind(config.admin).await?);
    let (connections_max, access_log) = (config.connections_max, config.access_log);
    let tls = config.tls.clone();
    Ok((
        server(public, tls, connections_max, access_log),
        HttpServer {
            handler_timeout: HOUR,
            answer_timeout: HOUR,
            ..server(admin, None, ADMIN_CONNECTIONS_MAX, AccessLog::Debug)
        },
    ))
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address}"))
}

/// Writes the views to disk. What is not written is folded from the log again.
async fn flush(store: Arc<Store>) {
    let flushing = tokio::task::spawn_blocking(move || store.flush());
    match timeout(FLUSH_TIMEOUT, flushing).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => tracing::warn!(%error, "{NOT_FLUSHED}"),
        Ok(Err(error)) => tracing::warn!(%error, "{NOT_FLUSHED}"),
        Err(_) => tracing::warn!(timeout = ?FLUSH_TIMEOUT, "{NOT_FLUSHED}"),
    }
}

/// Starts to connect to NATS, on the threads that read the log: a connection for facts, and one for accounts. Messages
/// of feeders may close the connection on which they are read, and must not delay a revocation.
async fn connect(runtime: &DetachedRuntime, nats: NatsConfig) -> anyhow::Result<(Log, Log)> {
    let connecting = async move {
        let log = Log::connect_in_background(&nats, "railbird").await?;
        let accounts_log = log.connect_again("railbird-accounts").await?;
        anyhow::Ok((log, accounts_log))
    };
    runtime.handle().spawn(connecting).await?
}

/// The state of the pages for subscribers. Their links lead to the configured URL, else to the address that the service
/// listens on.
fn pages(config: &Config, listening: SocketAddr, commands: AccountCommands) -> Pages {
    let mailing = config.mailing.as_ref();
    let url = mailing.and_then(|mailing| mailing.public_url.clone());
    Pages {
        commands,
        key_env: mailing.map_or("live", |mailing| mailing.key_env),
        url: url.unwrap_or_else(|| PublicUrl::of(listening)),
        sign_ups_per_network: HashedLimiter::new(config.sign_ups_per_network, HOUR),
        sign_ups_per_email: HashedLimiter::new(config.sign_ups_per_email, DAY),
        sign_ups: HashedLimiter::new(config.sign_ups_per_hour, HOUR),
        links_per_network: HashedLimiter::new(LINKS_PER_NETWORK, HOUR),
        links_per_email: HashedLimiter::new(LINKS_PER_EMAIL, HOUR),
        changes: HashedLimiter::new(CHANGES_PER_HOUR, HOUR),
    }
}

/// Starts to send mails, if that is configured. Those in flight are delivered after the shutdown.
fn start_outbox(tasks: &mut Supervisor, app: &App, mailing: Option<Mailing>, shutdown: &Shutdown) {
    if let Some(mailing) = mailing {
        let (commands, keys) = (app.pages.commands.clone(), Arc::clone(&app.keys));
        let outbox = Outbox::new(commands, keys, mailing, app.pages.url.clone());
        tasks.spawn_finishing("outbox", outbox.run(shutdown.clone()));
    }
}
