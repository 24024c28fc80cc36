//! [`Railbird`]: a service under test, in this process.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use events::VenueCode;
use railbird::app::{Config, Service};
use railbird::keys::ApiKey;
use railbird::log::ACCOUNTS;
use railbird::shutdown::{Trigger, shutdown};
use railbird::state::{App, Origins};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{Nats, Reply, eventually, request};

pub(crate) struct Railbird {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) key: String,
    pub(crate) app: Arc<App>,
    trigger: Trigger,
    serving: JoinHandle<()>,
    /// Kept for as long as the service lives.
    data: Option<TempDir>,
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
        let mut railbird = Self::start_unready(&nats.url(), data).await;
        railbird.key = issue_key(nats, &railbird).await;
        railbird.until_ready().await;
        railbird
    }

    /// Starts a service on a data folder and an address, for those who hold a key already.
    pub(crate) async fn start_at(nats: &Nats, data: &Path, http: SocketAddr, key: &str) -> Self {
        let config = Config {
            http,
            ..config(&nats.url(), data)
        };
        let mut railbird = Self::start_with(config).await;
        key.clone_into(&mut railbird.key);
        railbird.until_ready().await;
        railbird
    }

    /// Starts a service, whatever its log does.
    pub(crate) async fn start_unready(nats: &str, data: &Path) -> Self {
        Self::start_with(config(nats, data)).await
    }

    async fn start_with(config: Config) -> Self {
        let (trigger, signal) = shutdown();
        let service = Service::start(config, signal).await.unwrap();
        let (http, admin) = (service.http_addr().unwrap(), service.admin_addr().unwrap());
        let app = Arc::clone(service.app());
        let serving = tokio::spawn(service.run());
        Self {
            http,
            admin,
            key: String::new(),
            app,
            trigger,
            serving,
            data: None,
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
            self.app.views.current().seq() >= seq
        })
        .await;
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
        self.app
            .views
            .current()
            .checkpoint()
            .unwrap()
            .digest
            .to_string()
    }

    pub(crate) async fn stop(self) {
        self.trigger.pull();
        self.serving.await.unwrap();
    }
}

fn config(nats: &str, data: &Path) -> Config {
    Config {
        nats: nats.to_owned(),
        data: data.to_owned(),
        http: "127.0.0.1:0".parse().unwrap(),
        admin: "127.0.0.1:0".parse().unwrap(),
        timezone: "Asia/Hong_Kong".to_owned(),
        venue_order: ["ST", "HV"]
            .map(|code| VenueCode::parse(code).unwrap())
            .to_vec(),
        connections_max: 256,
        connections_per_key: 256,
        ws_origins: Origins::default(),
    }
}

async fn issue_key(nats: &Nats, railbird: &Railbird) -> String {
    let key = write_key(nats).await;
    eventually("the key is valid", || async {
        railbird.app.keys.check(&key).is_some()
    })
    .await;
    key
}

/// Issues a key, whether or not a service runs.
pub(crate) async fn write_key(nats: &Nats) -> String {
    let log = nats.log().await;
    log.ensure(ACCOUNTS).await.unwrap();
    let key = ApiKey::generate("test").unwrap();
    log.append(key.issued("default", jiff::Timestamp::now().into()))
        .await
        .unwrap();
    key.reveal().to_owned()
}
