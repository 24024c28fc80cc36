//! The composition root: the one place where all is wired.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use events::VenueCode;
use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::accounts::{self, AccountCommands, KeyCache, Ledger};
use crate::clock::Clock;
use crate::http;
use crate::http::state::{App, Origins, Pages};
use crate::limits::plans::Plans;
use crate::limits::{HashedLimiter, Proxies};
use crate::live::feed::Feed;
use crate::live::{FanOut, LiveContext};
use crate::log::Log;
use crate::log::runtime::{DetachedRuntime, LOG_THREADS};
use crate::mail::{Mailing, Outbox, PublicUrl};
use crate::metrics::{self, LiveMetrics};
use crate::projector::Projector;
use crate::projector::announcer::Announcer;
use crate::projector::views::Views;
use crate::shutdown::Shutdown;

/// Operators are few.
const ADMIN_CONNECTIONS_MAX: usize = 32;
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A program whose key has ended may try for a while before somebody looks. Guessing needs more.
const UNAUTHORIZED_PER_MINUTE: NonZeroU32 = NonZeroU32::new(120).expect("some");

/// What the service is told.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of NATS. May hold credentials: it is never logged.
    pub nats: String,
    /// Where the views lie. May be lost.
    pub data: PathBuf,
    /// Where clients are served; port 0 takes a free one.
    pub http: SocketAddr,
    /// Where operators are served; port 0 takes a free one.
    pub admin: SocketAddr,
    /// The zone of the racing day.
    pub timezone: String,
    /// Which venue is the primary one of a day with two, first to last.
    pub venue_order: Vec<VenueCode>,
    /// What those who hold keys may do.
    pub plans: Plans,
    /// Connections at a time, WebSockets included.
    pub connections_max: usize,
    /// Whose word counts on where a request comes from.
    pub proxies: Proxies,
    /// Which web pages may connect to the live channel.
    pub ws_origins: Origins,
    /// How keys are mailed; without it mails wait.
    pub mailing: Option<Mailing>,
    /// How people subscribe.
    pub sign_up: SignUp,
}

/// How people subscribe, and look after their keys.
#[derive(Debug, Clone)]
pub struct SignUp {
    /// What may be asked for in an hour from one network.
    pub per_network: NonZeroU32,
    /// What may be asked for in a day with one e-mail address.
    pub per_email: NonZeroU32,
    /// For how long a key that was replaced stays valid.
    pub overlap: SignedDuration,
}

/// A service that is bound and folds, and serves when it is [run](Service::run).
#[derive(Debug)]
pub struct Service {
    app: Arc<App>,
    http: TcpListener,
    admin: TcpListener,
    connections_max: usize,
    log: Log,
    shutdown: Shutdown,
    tasks: JoinSet<()>,
    reading: DetachedRuntime,
    /// Ends by itself, when what is on its way has arrived.
    outbox: Option<JoinHandle<()>>,
}

impl Service {
    /// Opens the views, binds the addresses and begins to follow the log.
    ///
    /// # Errors
    /// The configuration is wrong, the data folder is not to be had, or an address is taken.
    pub async fn start(config: Config, shutdown: Shutdown) -> anyhow::Result<Self> {
        metrics::install();
        let clock = Clock::new(&config.timezone)?;
        let data = config.data.clone();
        let views = Arc::new(tokio::task::spawn_blocking(move || Views::open(&data)).await??);
        let http = bind(config.http).await?;
        let admin = bind(config.admin).await?;
        let reading = DetachedRuntime::start("log", LOG_THREADS)?;
        let nats = config.nats.clone();
        let connecting = async move { Log::connect_in_background(&nats, "railbird").await };
        let log = reading.handle().spawn(connecting).await??;
        let feed = Feed::default();
        let (announcer, announcing) = Announcer::new(log.clone());
        let (projector, handle) =
            Projector::new(log.clone(), Arc::clone(&views), feed.clone(), announcer);
        let channel = LiveContext {
            feed: feed.clone(),
            metrics: Arc::new(LiveMetrics::default()),
            keys: Arc::new(KeyCache::new(config.plans.clone())),
            projector: handle.status.clone(),
            connection: log.connection(),
            shutdown: shutdown.clone(),
        };
        let fan_out = FanOut::start(&channel, config.connections_max)?;
        let (ledger, known) = watch::channel(Ledger::default());
        let commands = AccountCommands::new(log.clone(), known.clone());
        let app = Arc::new(App {
            views,
            keys: channel.keys,
            ledger: known,
            plans: config.plans,
            unauthenticated_limiter: unauthenticated_limiter(),
            proxies: config.proxies,
            projector: handle,
            connection: log.connection(),
            clock,
            venue_order: config.venue_order,
            feed,
            metrics: Arc::default(),
            fan_out,
            ws_origins: config.ws_origins,
            pages: Pages {
                commands,
                key_env: config
                    .mailing
                    .as_ref()
                    .map_or("live", |mailing| mailing.key_env),
                overlap: config.sign_up.overlap,
                per_network: HashedLimiter::new(config.sign_up.per_network, HOUR),
                per_email: HashedLimiter::new(config.sign_up.per_email, DAY),
            },
            can_mail: config.mailing.is_some(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn_on(projector.run(), reading.handle());
        tasks.spawn_on(announcing, reading.handle());
        let keys = accounts::follow(log.clone(), Arc::clone(&app.keys), ledger);
        tasks.spawn_on(keys, reading.handle());
        let listening = http.local_addr()?;
        let outbox = config.mailing.map(|mailing| {
            let url = mailing.public_url.clone();
            let url = url.unwrap_or_else(|| PublicUrl::of(listening));
            let keys = Arc::clone(&app.keys);
            let outbox = Outbox::new(
                log.clone(),
                app.ledger.clone(),
                keys,
                app.plans.clone(),
                mailing,
                url,
            );
            tokio::spawn(outbox.run(shutdown.clone()))
        });
        Ok(Self {
            app,
            http,
            admin,
            connections_max: config.connections_max,
            log,
            shutdown,
            tasks,
            reading,
            outbox,
        })
    }

    /// Where clients are served.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn http_addr(&self) -> std::io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// Where operators are served.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn admin_addr(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// The log that is followed.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What the service shares with its requests.
    #[must_use]
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Serves until the shutdown, drains, and writes the store to disk.
    pub async fn run(self) {
        let Self {
            app,
            http,
            admin,
            connections_max,
            log: _,
            shutdown,
            mut tasks,
            reading: _reading,
            outbox,
        } = self;
        let router = http::router(Arc::clone(&app));
        let clients = http::server::serve(
            http,
            |peer| http::service(Arc::clone(&app), router.clone(), peer),
            connections_max,
            Arc::clone(&app.metrics),
            shutdown.clone(),
        );
        let admin_router = http::admin_router(Arc::clone(&app));
        let operators = http::server::serve(
            admin,
            |_| admin_router.clone(),
            ADMIN_CONNECTIONS_MAX,
            Arc::clone(&app.metrics),
            shutdown,
        );
        tokio::join!(clients, operators);
        app.fan_out.drain().await;
        if let Some(outbox) = outbox {
            // An error means that it panicked, which is logged.
            let _ = outbox.await;
        }
        tasks.shutdown().await;
        if let Err(error) = app.views.current().flush() {
            tracing::warn!(%error, "the store could not be written to disk; the log gives back what is lost");
        }
    }
}

/// Requests without a valid key that are answered as such, from each network address.
fn unauthenticated_limiter() -> HashedLimiter {
    HashedLimiter::new(UNAUTHORIZED_PER_MINUTE, Duration::from_secs(60))
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{address} cannot be listened on"))
}
