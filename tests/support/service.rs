//! [`Railbird`]: a service under test, in this process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use events::{Text, VenueCode};
use railbird::accounts::{
    AccountEvent, Actor, ApiKey, Fact, KeyId, KeyIssued, KeyRotated, WRITE_USE_EVERY,
};
use railbird::app::{Config, Service};
use railbird::clock::Clock;
use railbird::http::state::App;
use railbird::http::{AccessLog, AdminAccess, FrontRacing, Origins};
use railbird::limits::Proxies;
use railbird::limits::plans::Plans;
use railbird::log::{ACCOUNTS, Outgoing, StreamName};
use railbird::projector::snapshots::SnapshotSecret;
use railbird::shutdown::Shutdown;
use railbird::supervisor::TaskEnded;
use railbird::tls::{CertificateFiles, TlsServer};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tokio_rustls::rustls::version::TLS13;
use tokio_util::sync::DropGuard;

use super::{Authority, Nats, PATIENCE, Reply, Socket, Tunnel, eventually, request};

pub(crate) struct Railbird {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) key: String,
    pub(crate) app: Arc<App>,
    /// Stops the service when dropped.
    shutdown: DropGuard,
    serving: JoinHandle<Result<(), TaskEnded>>,
    /// The tasks of the service, by name.
    tasks: HashMap<String, AbortHandle>,
    /// Those that have to run tasks for the service manager to let the service live.
    pub(crate) runtimes: Vec<Handle>,
    /// Kept for as long as the service lives.
    data: Option<TempDir>,
    /// Of a service with TLS.
    tunnel: Option<Tunnel>,
}

impl Railbird {
    /// Starts a service with an empty store and waits until it is ready.
    pub(crate) async fn start(nats: &Nats) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut railbird = Self::start_in(nats, data.path()).await;
        railbird.data = Some(data);
        railbird
    }

    /// Starts a service on a data folder and waits until it is ready.
    pub(crate) async fn start_in(nats: &Nats, data: &Path) -> Self {
        Self::start_as(nats, config(&nats.url(), data)).await
    }

    /// Starts a service with an empty store and a changed configuration, and waits until it is ready.
    pub(crate) async fn start_with(nats: &Nats, change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config(&nats.url(), data.path());
        change(&mut config);
        let mut railbird = Self::start_as(nats, config).await;
        railbird.data = Some(data);
        railbird
    }

    async fn start_as(nats: &Nats, config: Config) -> Self {
        let mut railbird = Self::start_configured(config).await;
        railbird.key = railbird.issue_key(nats).await;
        railbird.until_ready().await;
        railbird
    }

    /// Starts a service with TLS and an empty store, and waits until it is ready. Its address is that of a tunnel.
    pub(crate) async fn start_with_tls(nats: &Nats) -> Self {
        let (data, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let files = authority.issue().write(data.path());
        let (cert, key) = (files.cert, files.key);
        let mut config = config(&nats.url(), data.path());
        config.tls = Some(TlsServer::open(CertificateFiles { cert, key }).unwrap());
        let mut railbird = Self::start_configured(config).await;
        let tunnel = Tunnel::to(railbird.http, authority.client(&[&TLS13])).await;
        railbird.http = tunnel.address;
        (railbird.data, railbird.tunnel) = (Some(data), Some(tunnel));
        railbird.key = railbird.issue_key(nats).await;
        railbird.until_ready().await;
        railbird
    }

    /// Starts a service on the folder and the address of one that has ended, and waits until it is ready. The keys of
    /// that one stay valid.
    pub(crate) async fn start_on(nats: &Nats, data: &Path, http: SocketAddr) -> Self {
        let config = Config {
            http,
            ..config(&nats.url(), data)
        };
        let railbird = Self::start_configured(config).await;
        railbird.until_ready().await;
        railbird
    }

    /// Starts a service without waiting for it.
    pub(crate) async fn start_unready(nats: &str, data: &Path) -> Self {
        Self::start_configured(config(nats, data)).await
    }

    async fn start_configured(config: Config) -> Self {
        let shutdown = Shutdown::new();
        let service = Service::start(config, shutdown.clone()).await.unwrap();
        let (http, admin) = (service.http_addr().unwrap(), service.admin_addr().unwrap());
        let app = Arc::clone(&service.app);
        let tasks = service.tasks.handles();
        let tasks = tasks.map(|(name, handle)| (name.to_owned(), handle.clone()));
        let tasks = tasks.collect();
        let runtimes = service.runtimes();
        let serving = tokio::spawn(service.run());
        Self {
            http,
            admin,
            key: String::new(),
            app,
            shutdown: shutdown.drop_guard(),
            serving,
            tasks,
            runtimes,
            data: None,
            tunnel: None,
        }
    }

    pub(crate) async fn until_ready(&self) {
        eventually("the service is ready", || async {
            self.get_open("/readyz").await.status == 200
        })
        .await;
    }

    /// Waits until the views reflect an event.
    pub(crate) async fn until_seq(&self, seq: u64) {
        eventually(&format!("the views reflect {seq}"), || async {
            self.seq() >= seq
        })
        .await;
    }

    /// The event that the views reflect; 0 if there are no views.
    pub(crate) fn seq(&self) -> u64 {
        let views = self.app.views.current();
        views.map_or(0, |views| views.seq())
    }

    /// Waits until an event is published to the live channel.
    pub(crate) async fn until_published(&self, seq: u64) {
        eventually(&format!("the live channel has {seq}"), || async {
            self.app.health.feed.position().seq >= seq
        })
        .await;
    }

    /// Waits until a stream has another history than the service has read, and accepts it as an operator does.
    pub(crate) async fn accept_log(&self, stream: StreamName) {
        eventually("the service reports another history", || async {
            self.app
                .health
                .continuity
                .divergences()
                .contains_key(stream.name)
        })
        .await;
        let accepted = request(self.admin, "POST", "/log/accept", &[]).await;
        assert_eq!(accepted.status, 202, "{}", accepted.text());
    }

    /// A GET with the key.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[]).await
    }

    /// A GET with the key and more headers.
    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let headers: Vec<_> = headers
            .iter()
            .copied()
            .chain([("x-api-key", self.key.as_str())])
            .collect();
        request(self.http, "GET", path, &headers).await
    }

    /// A GET without a key.
    pub(crate) async fn get_open(&self, path: &str) -> Reply {
        request(self.http, "GET", path, &[]).await
    }

    /// A GET on the admin address.
    pub(crate) async fn get_admin(&self, path: &str) -> Reply {
        request(self.admin, "GET", path, &[]).await
    }

    pub(crate) fn digest(&self) -> String {
        let views = self.app.views.current().unwrap();
        views.checkpoint().unwrap().digest.to_string()
    }

    /// A new key, once it is valid.
    pub(crate) async fn issue_key(&self, nats: &Nats) -> String {
        self.issue_key_on(nats, "default").await
    }

    /// A new key on a plan, once it is valid.
    pub(crate) async fn issue_key_on(&self, nats: &Nats, plan: &str) -> String {
        let key = issue_key_on(nats, plan).await;
        eventually("the key is valid", || async {
            self.app.keys.check(&key).is_ok()
        })
        .await;
        key
    }

    /// Rotates the key of the service with an overlap. Returns the new key, once it is valid.
    pub(crate) async fn rotate_key(&self, nats: &Nats, valid_until: jiff::Timestamp) -> ApiKey {
        let new = ApiKey::generate("test").unwrap();
        let rotated = KeyRotated {
            key_id: KeyId::of_key(&self.key).unwrap(),
            valid_until: valid_until.into(),
            new_key_id: new.key_id,
            new_sha256: new.hash(),
        };
        append_account_event(nats, rotated).await;
        eventually("the new key is valid", || async {
            self.app.keys.check(new.reveal()).is_ok()
        })
        .await;
        new
    }

    /// A client of the live channel with a query, and its first messages, up to `snapshot_complete`.
    pub(crate) async fn live(&self, query: &str) -> (Socket, Vec<Value>) {
        let mut socket = self.connect(query).await;
        let opening = socket.until("snapshot_complete").await;
        (socket, opening)
    }

    /// A client of the live channel with a query.
    pub(crate) async fn connect(&self, query: &str) -> Socket {
        let path = format!("/ws/live/odds?api_key={}&{query}", self.key);
        Socket::connect(self.http, &path).await
    }

    /// The names of its tasks.
    pub(crate) fn tasks(&self) -> Vec<String> {
        self.tasks.keys().cloned().collect()
    }

    /// Ends one of its tasks, as a panic would, and waits until the service has ended for that.
    pub(crate) async fn lose_task(self, name: &str) -> TaskEnded {
        self.tasks[name].abort();
        let ended = timeout(PATIENCE, self.serving).await.unwrap().unwrap();
        ended.unwrap_err()
    }

    pub(crate) async fn stop(self) {
        drop(self.shutdown);
        self.serving.await.unwrap().unwrap();
    }
}

/// The secret with which the services of tests sign snapshots.
pub(crate) const SNAPSHOT_SECRET: &str = "the-secret-of-the-replicas-of-a-test";

fn config(nats: &str, data: &Path) -> Config {
    Config {
        nats: nats.into(),
        data: data.to_owned(),
        http: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        admin: "127.0.0.1:0".parse().unwrap(),
        admin_access: AdminAccess::default(),
        clock: Clock::new("Asia/Hong_Kong").unwrap(),
        venue_order: ["ST", "HV"]
            .map(|code| VenueCode::parse(code).unwrap())
            .to_vec(),
        plans: Plans::default(),
        keys_stale_max: Duration::from_secs(3600),
        lag_max: Duration::from_secs(30),
        write_use_every: WRITE_USE_EVERY,
        snapshot_every: Duration::ZERO,
        snapshot_secret: SnapshotSecret::new(SNAPSHOT_SECRET),
        connections_max: 256,
        connections_per_network: 256,
        proxies: Proxies::default(),
        origins: Origins::default(),
        sign_ups_per_network: NonZeroU32::new(1_000).unwrap(),
        sign_ups_per_email: NonZeroU32::new(1_000).unwrap(),
        sign_ups_per_hour: NonZeroU32::new(1_000).unwrap(),
        security_contact: None,
        refused_env: None,
        public_url: None,
        mailing: None,
        front_racing: FrontRacing::Demo,
        access_log: AccessLog::Debug,
    }
}

/// The event that makes a key valid.
pub(crate) fn issued(key: &ApiKey) -> Outgoing {
    issued_on(key, "default")
}

fn issued_on(key: &ApiKey, plan: &str) -> Outgoing {
    let plan = Text::parse(plan).unwrap();
    account_event(KeyIssued::new(key, plan, None))
}

/// An account event that the service caused now.
pub(crate) fn account_event(fact: impl Into<Fact>) -> Outgoing {
    let now = jiff::Timestamp::now().into();
    Outgoing::from(&AccountEvent::new(Actor::Service, fact, now))
}

/// Appends an account event that the service caused now.
pub(crate) async fn append_account_event(nats: &Nats, fact: impl Into<Fact>) {
    let log = nats.log().await;
    log.ensure(ACCOUNTS).await.unwrap();
    log.append(account_event(fact)).await.unwrap();
}

/// A new key in the log, which every service reads.
pub(crate) async fn issue_key(nats: &Nats) -> String {
    issue_key_on(nats, "default").await
}

/// Waits until a service is ready and answers to a key: views are served before the live channel is open.
pub(crate) async fn until_valid(http: SocketAddr, key: &str) {
    let headers = [("x-api-key", key)];
    for path in ["/readyz", "/api/v1/meetings"] {
        eventually(&format!("{path} answers to the key"), async || {
            request(http, "GET", path, &headers).await.status == 200
        })
        .await;
    }
}

/// A new key on a plan.
pub(crate) async fn issue_key_on(nats: &Nats, plan: &str) -> String {
    let log = nats.log().await;
    // The servers of a cluster may not have agreed on a leader yet.
    let is_there = async || log.ensure(ACCOUNTS).await.is_ok();
    eventually("the stream of accounts is there", is_there).await;
    let key = ApiKey::generate("test").unwrap();
    log.append(issued_on(&key, plan)).await.unwrap();
    key.reveal().to_owned()
}

/// A table of plans with only the default plan, with these lines.
pub(crate) fn plan_with(lines: &str) -> Plans {
    Plans::parse(&plan("default", lines)).unwrap()
}

/// A plan in TOML, with these lines. It has no live odds unless the lines have them.
pub(crate) fn plan(name: &str, lines: &str) -> String {
    let live = if lines.contains("live_odds") {
        ""
    } else {
        "live_odds = false"
    };
    format!(
        "[[plan]]\nname = {name:?}\nprice = \"\"\ndescription = \"\"\nsign_up = false\n{live}\n{lines}\n"
    )
}
