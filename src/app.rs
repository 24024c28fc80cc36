//! The composition root: wires the rooms into a [`Service`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use events::VenueCode;
use futures::future;
use jiff::Timestamp;
use projections::Store;
use strum::VariantNames;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use crate::accounts::{self, AccountCommands, KeyCache, Ledger, Revocations, UseLog};
use crate::clock::Clock;
use crate::feed::Feed;
use crate::health::{FeedMonitor, Health};
use crate::http::state::{App, Pages};
use crate::http::{
    self, AccessLog, AdminAccess, AsyncApiDocuments, ExportFiles, FrontPage, FrontRacing,
    HttpServer, Origins, SignUpOutcome, StatusBoard,
};
use crate::limits::plans::Plans;
use crate::limits::{HashedLimiter, NetworkConnections, Proxies};
use crate::live::{CloseReason, FanOut, LiveContext};
use crate::log::runtime::{DetachedRuntime, LOG_THREADS};
use crate::log::{ACCOUNTS, Continuity, Durability, Log, NatsConfig, RACING, Role};
use crate::mail::{FailureReason, Mailing, Outbox};
use crate::metrics::{self, HttpMetrics, LiveMetrics};
use crate::past::Past;
use crate::projector::announcer::Announcer;
use crate::projector::lag::{Lag, LagWatch};
use crate::projector::snapshots::{SnapshotRequests, SnapshotSecret, SnapshotWriter};
use crate::projector::views::Views;
use crate::projector::{Projector, ProjectorHandle};
use crate::public_url::PublicUrl;
use crate::shutdown::Shutdown;
use crate::supervisor::{Supervisor, TaskEnded};
use crate::tls::TlsServer;

/// Connections of the admin address at a time.
const ADMIN_CONNECTIONS_MAX: usize = 32;
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
/// KiB of the pages and documents that need no key, for each network in a minute: some hundred people who read the docs
/// for the first time. To serve them takes a hundredth of a core.
const OPEN_KIB_PER_MINUTE: NonZeroU32 = NonZeroU32::new(64 * 1024).expect("not zero");

/// Requests for a link to sign in, in an hour. Of one network: a company may be behind one address.
const LINKS_PER_NETWORK: NonZeroU32 = NonZeroU32::new(60).expect("not zero");
/// Requests for a link to one mailbox, in an hour: one every 20 minutes, which is less than a link lasts. So a stranger
/// who uses them up leaves the person at the address a link that works.
const LINKS_PER_EMAIL: NonZeroU32 = NonZeroU32::new(3).expect("not zero");
/// Keys that a subscriber creates and rotates in an hour. Each is an event, and sends a mail.
const CHANGES_PER_HOUR: NonZeroU32 = NonZeroU32::new(60).expect("not zero");

/// The path of the picture of the board.
const PICTURE: &str = "assets/picture.png";

/// The configuration of a service.
#[derive(Debug, Clone)]
pub struct Config {
    pub nats: NatsConfig,
    /// The folder of the views. It may be lost: the views are rebuilt from the log.
    pub data: PathBuf,
    /// How often a snapshot of the views is written; zero is never.
    pub snapshot_every: Duration,
    /// Signs the snapshots. Without it, none is written or loaded.
    pub snapshot_secret: Option<SnapshotSecret>,
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
    /// Connections of one network at a time. Trusted proxies may have more.
    pub connections_per_network: usize,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Proxies,
    /// The pages of other origins that may send a key.
    pub origins: Origins,
    /// Where people find the service; without it, the address that it listens on.
    pub public_url: Option<PublicUrl>,
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
    /// The racing that visitors without a key are shown.
    pub front_racing: FrontRacing,
    /// The level of the access log of the public address.
    pub access_log: AccessLog,
}

/// A service that listens and follows the log. It serves once it is [run](Service::run).
#[derive(Debug)]
pub struct Service {
    pub app: Arc<App>,
    http: (TcpListener, HttpServer),
    admin: (TcpListener, HttpServer),
    /// With the address that is bound.
    admin_access: (Arc<AdminAccess>, IpAddr),
    pub tasks: Supervisor,
    use_log: UseLog,
    /// The threads of the tasks that follow the log.
    log_runtime: DetachedRuntime,
    _background: DetachedRuntime,
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
        let [http, admin] = servers(&config, &draining, &shutdown).await?;
        // Creates the data folder, in which the others have files.
        let views = Arc::new(Views::open(&config.data)?);
        let mut start = Start::new(&config, &shutdown)?;
        let logs = start.connect().await?;
        // Others ask it in plain HTTP.
        let plain = config.tls.is_none().then(|| http.0.local_addr());
        let (projector, feed, lag, snapshots) = start.fold(&views, &logs, plain.transpose()?);
        let (keys, ledger, use_log) = start.follow_accounts(&logs)?;
        let health = Health {
            monitor: FeedMonitor::new(projector.status.clone(), logs.events.connection()),
            feed,
            views: Arc::clone(&views),
            keys: Arc::clone(&keys),
            ledger,
            continuity: logs.continuity,
            durability: logs.durability,
            lag,
            snapshots,
            draining,
            can_mail: config.mailing.is_some(),
        };
        let sources = health.monitor.sources.clone();
        start.spawn("sources", sources.follow(logs.events.clone()));
        let fan_out = start.fan_out(&health)?;
        let commands = AccountCommands::new(logs.accounts.clone(), health.ledger.clone());
        let pages = pages(&config, http.0.local_addr()?, commands);
        let app = Arc::new(App {
            asyncapi: AsyncApiDocuments::new(pages.url.clone(), config.tls.is_some()),
            pages,
            views,
            keys,
            unauthenticated_limiter: HashedLimiter::new(UNAUTHORIZED_PER_MINUTE, MINUTE),
            open_limiter: HashedLimiter::new(OPEN_KIB_PER_MINUTE, MINUTE),
            proxies: config.proxies.clone(),
            projector,
            health,
            clock: config.clock.clone(),
            venue_order: config.venue_order.clone(),
            past: Past::new(logs.past.clone()),
            exports: ExportFiles::new(config.data.clone()),
            metrics: Arc::clone(&http.1.metrics),
            fan_out,
            status: StatusBoard::new(Timestamp::now()),
            origins: config.origins.clone(),
            security_contact: config.security_contact.clone(),
            front_page: FrontPage::new(config.front_racing),
            dev_key: OnceLock::new(),
        });
        start.spawn("status", http::keep_status(Arc::clone(&app)));
        if let FrontRacing::Delayed(delay) = config.front_racing {
            start.spawn("front page", http::keep_front_page(Arc::clone(&app), delay));
        }
        start.send_mails(&app);
        Ok(Self {
            tasks: start.tasks,
            log_runtime: start.log_runtime,
            _background: start.background,
            admin_access: (Arc::new(config.admin_access), config.admin.ip()),
            http,
            admin,
            shutdown,
            app,
            use_log,
        })
    }

    pub fn http_addr(&self) -> io::Result<SocketAddr> {
        self.http.0.local_addr()
    }

    pub fn admin_addr(&self) -> io::Result<SocketAddr> {
        self.admin.0.local_addr()
    }

    /// The threads of requests, of the log, and of the live channel.
    pub fn runtimes(&self) -> Vec<Handle> {
        let mut runtimes = vec![Handle::current(), self.log_runtime.handle().clone()];
        runtimes.extend(self.app.fan_out.runtimes());
        runtimes
    }

    /// Serves until the shutdown, drains, and flushes the store.
    ///
    /// # Errors
    /// Returns [`TaskEnded`] if a task of the service ended before the shutdown. The service then shuts itself down.
    pub async fn run(mut self) -> Result<(), TaskEnded> {
        let app = self.app;
        // Not in a debug build: tests start hundreds of processes, of which few are asked for a document.
        if !cfg!(debug_assertions) {
            tokio::task::spawn_blocking(http::render_documents);
        }
        let (router, routes) = http::router(Arc::clone(&app));
        let (access, bound) = self.admin_access;
        let admin = http::admin_service(access, bound, http::admin_router(Arc::clone(&app)));
        let shutdown = self.shutdown.clone();
        let ((listener, server), (admin_listener, admin_server)) = (self.http, self.admin);
        if let Some(tls) = server.tls.clone() {
            let runtime = Handle::current();
            (self.tasks).spawn("certificate", tls.keep_current(), &runtime);
        }
        // Requests and live clients leave at the same time.
        let mut serving = pin!(future::join3(
            server.run(listener, Some(routes), |peer| {
                http::service(Arc::clone(&app), router.clone(), peer)
            }),
            admin_server.run(admin_listener, None, |_| admin.clone()),
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
        future::join3(self.use_log.finish(), http::finish_status(&app), flush).await;
        ended
    }
}

/// Installs the metrics. Counters whose values are known begin at 0, because an alert sees a step only after a 0.
fn begin_metrics(connections_max: usize) {
    metrics::install();
    metrics::set("railbird_connections_max", connections_max as f64);
    metrics::snapshot(Timestamp::UNIX_EPOCH, 0, 0);
    for stream in [RACING, ACCOUNTS] {
        metrics::begin_stream(stream.name);
    }
    metrics::WS_CLOSED.begin(CloseReason::CODES.map(|code| code.to_string()));
    metrics::SIGN_UPS.begin(SignUpOutcome::VARIANTS.iter().copied());
    metrics::MAILS_FAILED.begin(FailureReason::VARIANTS.iter().copied());
}

/// The phases of the start. Each needs what the ones before have made.
struct Start<'a> {
    config: &'a Config,
    shutdown: &'a Shutdown,
    tasks: Supervisor,
    /// The threads that read the log.
    log_runtime: DetachedRuntime,
    /// The threads that rebuild views.
    background: DetachedRuntime,
}

/// The log, by three connections. Messages of feeders may close the one on which they are read, and must not delay a
/// revocation; and no answer about the past may delay the views.
struct Logs {
    events: Log,
    accounts: Log,
    past: Log,
    continuity: Continuity,
    durability: watch::Receiver<Option<Durability>>,
}

impl<'a> Start<'a> {
    fn new(config: &'a Config, shutdown: &'a Shutdown) -> anyhow::Result<Self> {
        Ok(Self {
            config,
            shutdown,
            tasks: Supervisor::default(),
            log_runtime: DetachedRuntime::start("log", LOG_THREADS)?,
            background: DetachedRuntime::start_in_background("rebuild")?,
        })
    }

    /// Starts a task on the threads that read the log.
    fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(name, task, self.log_runtime.handle());
    }

    /// Starts to connect to NATS, to remember how far the log is read, and to watch its settings.
    async fn connect(&mut self) -> anyhow::Result<Logs> {
        let nats = self.config.nats.clone();
        let connecting = async move {
            let events = Log::connect_in_background(&nats, "railbird").await?;
            let accounts = events.connect_again("railbird-accounts").await?;
            let past = events.connect_again("railbird-past").await?;
            anyhow::Ok((events, accounts, past))
        };
        let (events, accounts, past) = self.log_runtime.handle().spawn(connecting).await??;
        let continuity = Continuity::open(&self.config.data)
            .context("the streams that the data folder has seen cannot be read")?;
        let (sender, durability) = watch::channel(None);
        self.spawn("continuity", continuity.clone().keep());
        self.spawn("streams", continuity.clone().keep_streams(accounts.clone()));
        self.spawn("durability", events.clone().watch_durability(sender));
        Ok(Logs {
            events,
            accounts,
            past,
            continuity,
            durability,
        })
    }

    /// Starts to fold the log, to watch whether this replica lags while others do not, and to write snapshots.
    fn fold(
        &mut self,
        views: &Arc<Views>,
        logs: &Logs,
        http: Option<SocketAddr>,
    ) -> (ProjectorHandle, Feed, Lag, SnapshotRequests) {
        let feed = Feed::default();
        let replica: Arc<str> = Uuid::now_v7().to_string().into();
        let announcer = self.announce(&logs.events, &replica);
        let (task, projector) = Projector::new(
            (logs.events.clone(), logs.continuity.clone()),
            Arc::clone(views),
            feed.clone(),
            announcer,
            self.config.snapshot_secret.clone(),
            self.background.handle().clone(),
        );
        self.spawn("projector", task.run());
        let log = &logs.events;
        let status = &projector.status;
        let lag_max = self.config.lag_max;
        let (task, lag) = LagWatch::new(log.clone(), replica, http, lag_max, status.clone());
        self.spawn("lag", task.run());
        let (task, snapshots) = SnapshotWriter::new(
            log.clone(),
            Arc::clone(views),
            status.clone(),
            self.config.snapshot_secret.clone(),
            self.config.snapshot_every,
        );
        self.spawn("snapshots", task.run());
        (projector, feed, lag, snapshots)
    }

    /// Starts to announce rejections, while this replica holds the lease. At the shutdown another one takes it.
    fn announce(&mut self, log: &Log, replica: &Arc<str>) -> Announcer {
        let (lease, keeping) = log.lease(Role::Announcer, replica);
        let (announcer, announcing) = Announcer::new(log.clone(), lease.clone());
        self.spawn("announcer", announcing);
        let shutdown = self.shutdown.clone();
        self.tasks.spawn_finishing("announcer lease", async move {
            let resigning = async {
                shutdown.cancelled().await;
                lease.resign();
            };
            future::join(keeping, resigning).await;
        });
        announcer
    }

    /// Starts to read the keys, and to keep their use.
    fn follow_accounts(
        &mut self,
        logs: &Logs,
    ) -> anyhow::Result<(Arc<KeyCache>, watch::Receiver<Ledger>, UseLog)> {
        let config = self.config;
        let ended =
            Revocations::open(&config.data).context("the keys that were revoked cannot be read")?;
        let mut keys = KeyCache::new(config.plans.clone(), config.keys_stale_max);
        keys.refused_env = config.refused_env;
        let keys = Arc::new(keys);
        let uses = Arc::clone(&keys.uses);
        let use_log = UseLog::new(logs.accounts.clone(), uses, config.write_use_every);
        self.spawn("key-use", use_log.clone().run());
        let (sender, ledger) = watch::channel(Ledger::default());
        let followed = (logs.accounts.clone(), logs.continuity.clone());
        let following = accounts::follow(followed, Arc::clone(&keys), sender, ended);
        self.spawn("accounts", following);
        Ok((keys, ledger, use_log))
    }

    /// Starts the threads that serve the clients of the live channel.
    fn fan_out(&mut self, health: &Health) -> anyhow::Result<FanOut> {
        let live = LiveContext {
            is_replay: false,
            feed: health.feed.clone(),
            metrics: Arc::new(LiveMetrics::default()),
            keys: Arc::clone(&health.keys),
            monitor: health.monitor.clone(),
            lag: health.lag.clone(),
            shutdown: self.shutdown.clone(),
        };
        let per_network = NetworkConnections::new(self.config.connections_per_network);
        let (fan_out, shards) = FanOut::start(&live, self.config.connections_max, per_network)?;
        for (n, shard) in shards.into_iter().enumerate() {
            self.spawn(format!("fan-out-{n}"), shard);
        }
        Ok(fan_out)
    }

    /// Starts to send mails, if that is configured. Those in flight are delivered after the shutdown.
    fn send_mails(&mut self, app: &App) {
        if let Some(mailing) = self.config.mailing.clone() {
            let commands = app.pages.commands.clone();
            let keys = Arc::clone(&app.keys);
            let outbox = Outbox::new(commands, keys, mailing, app.pages.url.clone());
            self.tasks
                .spawn_finishing("outbox", outbox.run(self.shutdown.clone()));
        }
    }
}

/// Binds the public and the admin address.
async fn servers(
    config: &Config,
    draining: &Shutdown,
    shutdown: &Shutdown,
) -> anyhow::Result<[(TcpListener, HttpServer); 2]> {
    let metrics: Arc<HttpMetrics> = Arc::default();
    let server = |tls, connections_max, access_log| HttpServer {
        tls,
        connections_max,
        per_network: NetworkConnections::new(config.connections_per_network),
        proxies: config.proxies.clone(),
        answer_timeout: ANSWER_TIMEOUT,
        access_log,
        metrics: Arc::clone(&metrics),
        draining: draining.clone(),
        shutdown: shutdown.clone(),
    };
    let tls = config.tls.clone();
    let public = server(tls, config.connections_max, config.access_log);
    let admin = HttpServer {
        answer_timeout: HOUR,
        ..server(None, ADMIN_CONNECTIONS_MAX, AccessLog::Debug)
    };
    Ok([
        (bind(config.http).await?, public),
        (bind(config.admin).await?, admin),
    ])
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

fn half(number: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new(number.get().div_ceil(2)).unwrap_or(number)
}

/// The state of the pages for subscribers. Their links lead to the configured URL, else to the address that the service
/// listens on.
fn pages(config: &Config, listening: SocketAddr, commands: AccountCommands) -> Pages {
    let mailing = config.mailing.as_ref();
    let url = config.public_url.clone();
    let base = url.as_ref().map(|url| format!("{url}/"));
    Pages {
        commands,
        key_env: mailing.map_or("live", |mailing| mailing.key_env),
        picture: base.unwrap_or_default() + PICTURE,
        url: url.unwrap_or_else(|| PublicUrl::of(listening)),
        sign_ups_per_network: HashedLimiter::new(config.sign_ups_per_network, HOUR),
        sign_ups_per_email: HashedLimiter::new(config.sign_ups_per_email, DAY),
        first_sign_ups: HashedLimiter::new(NonZeroU32::MIN, HOUR),
        sign_ups: HashedLimiter::new(half(config.sign_ups_per_hour), HOUR),
        links_per_network: HashedLimiter::new(LINKS_PER_NETWORK, HOUR),
        links_per_email: HashedLimiter::new(LINKS_PER_EMAIL, HOUR),
        changes: HashedLimiter::new(CHANGES_PER_HOUR, HOUR),
    }
}
