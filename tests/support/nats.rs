//! [`Nats`]: a real nats-server on a free port, with a folder of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use railbird::log::{
    LEASES, Log, LogError, LogMessage, NatsConfig, Outgoing, RACING, ReadPosition, Replicas,
};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use super::{PATIENCE, command, eventually, patient_jetstream};

pub(crate) struct Nats {
    folder: TempDir,
    child: Child,
    port: u16,
    /// Those of added feeders.
    passwords: HashMap<String, String>,
    /// Of a server of a cluster.
    membership: Option<Membership>,
    /// Of a server that is down: nothing else gets its ports.
    kept_ports: Vec<Socket>,
}

/// A server's place in a cluster.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) name: String,
    /// The port for routes; 0 is any.
    pub(super) port: u16,
    /// Where the other servers are reached.
    pub(super) routes: Vec<SocketAddr>,
}

/// Repeats a request until it succeeds. A busy server, or one whose clock has just been moved, may miss the time that a
/// request has.
async fn patiently<T>(request: impl AsyncFn() -> Result<T, LogError>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match request().await {
            Ok(found) => return found,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    }
}

impl Nats {
    /// Starts a server with the project's configuration.
    pub(crate) fn start() -> Self {
        Self::start_with(|conf| conf)
    }

    /// The same, with a changed configuration.
    pub(crate) fn start_with(change: impl FnOnce(String) -> String) -> Self {
        Self::start_with_feeders(&[], change)
    }

    /// The same, with feeders that `railbird feeders add` has added, each with its subjects.
    pub(crate) fn start_with_feeders(
        feeders: &[(&str, &str)],
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("feeders.conf");
        std::fs::copy(shipped("feeders.conf"), &file).unwrap();
        let passwords = feeders.iter().map(|(name, subjects)| {
            let password = add_feeder(&file, name, subjects);
            ((*name).to_owned(), password)
        });
        let passwords = passwords.collect();
        let conf = change(std::fs::read_to_string(shipped("nats.conf")).unwrap());
        std::fs::write(folder.path().join("nats.conf"), conf).unwrap();
        Self::start_in(folder, passwords, None)
    }

    /// Starts a server of a cluster, with the project's configuration.
    pub(super) fn start_in_cluster(membership: Membership) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ops")).unwrap();
        for name in ["feeders.conf", "nats.conf", "ops/nats-cluster.conf"] {
            std::fs::copy(shipped(name), folder.path().join(name)).unwrap();
        }
        Self::start_in(folder, HashMap::new(), Some(membership))
    }

    /// Starts a server with another configuration.
    pub(crate) fn start_from(conf: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nats.conf"), conf).unwrap();
        Self::start_in(folder, HashMap::new(), None)
    }

    /// Starts a server with a changed configuration by a command, which is made for the folder of its streams.
    pub(crate) fn start_by(
        launch: impl FnOnce(&Path) -> Command,
        change: impl FnOnce(String) -> String,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(shipped("feeders.conf"), folder.path().join("feeders.conf")).unwrap();
        let conf = change(std::fs::read_to_string(shipped("nats.conf")).unwrap());
        std::fs::write(folder.path().join("nats.conf"), conf).unwrap();
        let store = folder.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let child = spawn(launch(&store), &folder, None, None);
        Self::listening(folder, child, HashMap::new(), None)
    }

    /// Starts a server with the configuration in a folder.
    fn start_in(
        folder: TempDir,
        passwords: HashMap<String, String>,
        membership: Option<Membership>,
    ) -> Self {
        let child = spawn(nats_server(), &folder, None, membership.as_ref());
        Self::listening(folder, child, passwords, membership)
    }

    /// A server that starts.
    fn listening(
        folder: TempDir,
        child: Child,
        passwords: HashMap<String, String>,
        membership: Option<Membership>,
    ) -> Self {
        let mut nats = Self {
            folder,
            child,
            port: 0,
            passwords,
            membership,
            kept_ports: Vec::new(),
        };
        let ports = nats.wait_until_listening();
        nats.port = ports.clients;
        if let (Some(membership), Some(port)) = (&mut nats.membership, ports.routes) {
            membership.port = port;
        }
        nats
    }

    /// Where a server of a cluster listens for the others.
    pub(super) fn route_address(&self) -> SocketAddr {
        let membership = self.membership.as_ref().unwrap();
        SocketAddr::from(([127, 0, 0, 1], membership.port))
    }

    /// How many clients are connected.
    pub(crate) fn connections(&self) -> usize {
        let address = format!(":{:04X}", self.port);
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let sockets = table.lines().map(|line| line.split_whitespace().skip(1));
        let ends = sockets.filter_map(|mut fields| Some((fields.next()?, fields.nth(1)?)));
        ends.filter(|(local, state)| local.ends_with(&address) && *state == "01")
            .count()
    }

    /// For services, and commands that read the log.
    pub(crate) fn url(&self) -> String {
        self.url_of("railbird")
    }

    pub(crate) fn url_of(&self, user: &str) -> String {
        let password = self.password_of(user);
        format!("nats://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// The same by a connection that can be cut.
    pub(crate) fn url_by(&self, address: SocketAddr) -> String {
        self.url()
            .replace(&self.address().to_string(), &address.to_string())
    }

    pub(crate) fn password_of(&self, user: &str) -> String {
        let password = self.passwords.get(user).cloned();
        password.unwrap_or_else(|| format!("p-{user}"))
    }

    /// Adds a feeder to the running server.
    pub(crate) async fn add_feeder(&mut self, name: &str, subjects: &str) {
        let password = add_feeder(&self.folder().join("feeders.conf"), name, subjects);
        self.passwords.insert(name.to_owned(), password);
        self.reload().await;
        self.reload().await;
    }

    /// Removes all added feeders from the running server.
    pub(crate) async fn remove_feeders(&self) {
        std::fs::copy(shipped("feeders.conf"), self.folder().join("feeders.conf")).unwrap();
        self.reload().await;
    }

    /// Has the server read its configuration again.
    pub(crate) async fn reload(&self) {
        let reloads = || {
            let log = std::fs::read_to_string(self.folder().join("log")).unwrap();
            log.matches("Reloaded server configuration").count()
        };
        let before = reloads();
        self.signal("HUP");
        eventually("the configuration is read", async || reloads() > before).await;
    }

    /// Changes the file of its configuration, which the server reads at the start and at a reload.
    pub(crate) fn change_file(&self, change: impl FnOnce(String) -> String) {
        let file = self.folder().join("nats.conf");
        let conf = change(std::fs::read_to_string(&file).unwrap());
        std::fs::write(file, conf).unwrap();
    }

    /// A client with the login of a user. The client library ignores one in an address.
    pub(crate) async fn client_of(&self, user: &str) -> async_nats::Client {
        let password = self.password_of(user);
        let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password);
        loop {
            match options.clone().connect(self.address().to_string()).await {
                Ok(client) => return client,
                // On a busy machine the login can take longer than the server waits for it.
                Err(error) if error.to_string().contains("Authentication Timeout") => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The folder of its configuration, its log and its streams.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.until_ended();
    }

    /// Ends the server in order: its streams are closed before its connections are.
    pub(crate) fn stop(&mut self) {
        self.signal("TERM");
        self.until_ended();
    }

    fn until_ended(&mut self) {
        self.child.wait().unwrap();
        let routes = self.membership.as_ref().map(|membership| membership.port);
        let ports = [Some(self.port), routes];
        self.kept_ports = ports.into_iter().flatten().map(kept_port).collect();
        for file in self.ports_files() {
            std::fs::remove_file(file).unwrap();
        }
    }

    /// Stops the server without ending it: it keeps its connections and answers nothing.
    pub(crate) fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen server go on.
    pub(crate) fn thaw(&self) {
        self.signal("CONT");
    }

    /// Has the server announce to its clients that it shuts down. It ends their connections later.
    pub(crate) fn announce_end(&self) {
        self.signal("USR2");
    }

    fn signal(&self, signal: &str) {
        let (signal, pid) = (format!("-{signal}"), self.child.id().to_string());
        let status = Command::new("kill").args([signal, pid]).status().unwrap();
        assert!(status.success());
    }

    /// Starts the server again, on the same port and folder.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(
            nats_server(),
            &self.folder,
            Some(self.port),
            self.membership.as_ref(),
        );
        assert_eq!(self.wait_until_listening().clients, self.port);
        self.kept_ports.clear();
    }

    /// Deletes a stream from the disk. Only while the server is down.
    pub(crate) fn lose(&self, stream: &str) {
        std::fs::remove_dir_all(self.stream_folder(stream)).unwrap();
    }

    /// Restarts the server without any stream, as if its disk was lost.
    pub(crate) fn lose_all(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.folder.path().join("store")).unwrap();
        self.start_again();
    }

    /// A copy of a stream on the disk. Only while the server is down.
    pub(crate) fn back_up(&self, stream: &str) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(&self.stream_folder(stream), copy.path());
        copy
    }

    /// Replaces a stream on the disk with a copy. Only while the server is down.
    pub(crate) fn put_back(&self, stream: &str, copy: &TempDir) {
        let folder = self.streams_folder().join(stream);
        let _ = std::fs::remove_dir_all(&folder);
        copy_folder(copy.path(), &folder);
    }

    /// Replaces the log by a copy of it and other events after that, as if it had lost its last ones and grown again.
    /// Only while the server is down; services see nothing of it before it is started again. Returns the sequence of
    /// the last event.
    pub(crate) async fn rewrite_after(
        &mut self,
        copy: &TempDir,
        events: impl IntoIterator<Item = Value>,
    ) -> u64 {
        self.put_back(RACING.name, copy);
        let port = self.port;
        self.child = spawn(nats_server(), &self.folder, None, None);
        self.port = self.wait_until_listening().clients;
        let seq = self.publish(events).await;
        self.kill();
        self.port = port;
        seq
    }

    fn stream_folder(&self, stream: &str) -> PathBuf {
        self.streams_folder().join(stream)
    }

    /// The folder of the streams of the only account that has any.
    fn streams_folder(&self) -> PathBuf {
        let accounts = self.folder.path().join("store/jetstream");
        let folders = std::fs::read_dir(accounts).unwrap();
        folders
            .map(|account| account.unwrap().path().join("streams"))
            .find(|folder| folder.is_dir())
            .unwrap()
    }

    /// Deletes the log while the server runs. The keys are in another stream.
    pub(crate) async fn lose_log(&self) {
        let client = self.client_of("admin").await;
        let jetstream = patient_jetstream(client);
        jetstream.delete_stream(RACING.name).await.unwrap();
    }

    /// Creates the log before the service does, with almost no dedupe window.
    pub(crate) async fn create_log_that_forgets_ids(&self) {
        self.create_log(Config {
            // The shortest that the server accepts.
            duplicate_window: Duration::from_millis(100),
            ..Config::default()
        })
        .await;
    }

    /// Waits until such a log takes an id again.
    pub(crate) async fn until_ids_are_forgotten(&self) {
        let log = self.log().await;
        let marker = Outgoing {
            subject: "racing.marker".to_owned(),
            id: uuid::Uuid::now_v7().to_string(),
            payload: Vec::new(),
        };
        log.append(marker.clone()).await.unwrap();
        eventually("the server has forgotten the ids it has seen", || async {
            !log.append(marker.clone()).await.unwrap().duplicate
        })
        .await;
    }

    /// Creates the log before the service does, with room for this many events.
    pub(crate) async fn create_log_of(&self, events: i64) {
        self.create_log(Config {
            max_messages: events,
            discard: DiscardPolicy::New,
            ..Config::default()
        })
        .await;
    }

    /// Creates the bucket of leases before the service does, with a term of its own.
    pub(crate) async fn create_leases(&self, term: Duration) {
        let client = self.client_of("admin").await;
        let config = Config {
            name: LEASES.name.to_owned(),
            subjects: vec!["$KV.LEASES.>".to_owned()],
            max_messages_per_subject: 1,
            max_age: term,
            allow_direct: true,
            ..Config::default()
        };
        let jetstream = patient_jetstream(client);
        jetstream.create_stream(config).await.unwrap();
    }

    /// Has the bucket of leases keep its entries for an hour, as after a step back of the server's clock.
    pub(crate) async fn keep_leases(&self) {
        let jetstream = patient_jetstream(self.client_of("admin").await);
        let leases = jetstream.get_stream(LEASES.name).await.unwrap();
        let config = Config {
            max_age: Duration::from_secs(60 * 60),
            ..leases.cached_info().config.clone()
        };
        jetstream.update_stream(config).await.unwrap();
    }

    /// Creates the log before the service does, with these settings.
    pub(crate) async fn create_log(&self, config: Config) {
        let client = self.client_of("admin").await;
        let config = Config {
            name: RACING.name.to_owned(),
            subjects: vec!["racing.>".to_owned()],
            allow_direct: true,
            ..config
        };
        let jetstream = patient_jetstream(client);
        jetstream.create_stream(config).await.unwrap();
    }

    /// Deletes an event of the log, which must allow that.
    pub(crate) async fn delete_event(&self, seq: u64) {
        let client = self.client_of("admin").await;
        let jetstream = patient_jetstream(client);
        let stream = jetstream.get_stream(RACING.name).await.unwrap();
        assert!(stream.delete_message(seq).await.unwrap());
    }

    /// The log, for an administrator.
    pub(crate) async fn log(&self) -> Log {
        // Streams that this creates before the service does are as those of the service.
        let replicas = self.membership.as_ref().map_or("1", |_| "3");
        let nats = NatsConfig {
            replicas: Replicas::parse(replicas).unwrap(),
            ..NatsConfig::from(self.url_of("admin"))
        };
        let log = patiently(async || Log::connect(nats.clone(), "test").await).await;
        patiently(async || log.state_or_create(RACING).await).await;
        log
    }

    /// The sequence of the last event of the log.
    pub(crate) async fn last_seq(&self) -> u64 {
        let log = self.log().await;
        patiently(async || log.state(RACING).await).await.last_seq
    }

    /// Waits until the log has this many messages.
    pub(crate) async fn until_logged(&self, count: u64) {
        eventually(&format!("the log has {count} messages"), || async {
            self.last_seq().await >= count
        })
        .await;
    }

    /// When the log recorded an event.
    pub(crate) async fn recorded_at(&self, seq: u64) -> String {
        let found = self.log().await.message_at(RACING, seq).await.unwrap();
        found.unwrap().recorded_at.to_string()
    }

    /// Every message of the log.
    pub(crate) async fn messages(&self) -> Vec<LogMessage> {
        let log = self.log().await;
        let state = log.state(RACING).await.unwrap();
        let start = ReadPosition {
            log: state.identity,
            seq: 0,
            recorded_at: None,
        };
        let (mut reader, mut messages) = (log.reader(RACING, start), Vec::new());
        while messages.last().map_or(0, |last: &LogMessage| last.seq) < state.last_seq {
            messages.extend(reader.next().await.unwrap().messages);
        }
        messages.retain(|message| message.seq <= state.last_seq);
        messages
    }

    /// Publishes events and returns the sequence of the last one.
    pub(crate) async fn publish(&self, events: impl IntoIterator<Item = Value>) -> u64 {
        let log = self.log().await;
        let mut appender = log.appender();
        for event in events {
            appender.append(outgoing(&event)).await.unwrap();
        }
        appender
            .finish()
            .await
            .unwrap()
            .last()
            .map_or(0, |appended| appended.seq)
    }

    /// Has a source show that it is alive.
    pub(crate) async fn show_alive(&self, source: &str) {
        let feeder = self.client_of("feeder").await;
        let sent = feeder.publish(format!("alive.{source}"), "".into()).await;
        sent.unwrap();
        feeder.flush().await.unwrap();
    }

    /// The same again and again, until a service has subscribed.
    pub(crate) async fn keep_alive(&self, source: &str) -> std::convert::Infallible {
        loop {
            self.show_alive(source).await;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Publishes bytes on a subject, and returns their sequence.
    pub(crate) async fn publish_raw(&self, subject: &str, payload: &[u8]) -> u64 {
        let id = uuid::Uuid::now_v7().to_string();
        let outgoing = Outgoing {
            subject: subject.to_owned(),
            id,
            payload: payload.to_vec(),
        };
        self.log().await.append(outgoing).await.unwrap().seq
    }

    fn wait_until_listening(&mut self) -> Ports {
        let until = Instant::now() + PATIENCE;
        loop {
            for file in self.ports_files() {
                let ports: Option<Value> = std::fs::read(&file)
                    .ok()
                    .and_then(|text| serde_json::from_slice(&text).ok());
                let port = |name: &str| -> Option<u16> {
                    let url = ports.as_ref()?[name][0].as_str()?;
                    url.rsplit(':').next()?.parse().ok()
                };
                if let Some(clients) = port("nats") {
                    let routes = port("cluster");
                    return Ports { clients, routes };
                }
            }
            let log =
                || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "nats-server ended: {}",
                log()
            );
            assert!(
                Instant::now() < until,
                "nats-server does not listen: {}",
                log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ports_files(&self) -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        files
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "ports")
            })
            .collect()
    }
}

/// The ports on which a server listens.
struct Ports {
    clients: u16,
    routes: Option<u16>,
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The configuration of a server that acknowledges events before they are on disk.
pub(crate) fn without_sync(conf: String) -> String {
    conf.replace("sync_interval: always", "sync_interval: \"2m\"")
}

/// The configuration of before the bucket of leases.
pub(crate) fn without_leases(conf: String) -> String {
    let lines = conf.lines().filter(|line| !line.contains("LEASES"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Keeps a port, or a free one if it is 0, from every other process. Connections to it are refused.
pub(crate) fn kept_port(port: u16) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // As a server does, so that both can have the port until one of them listens.
    socket.set_reuse_address(true).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port)).into();
    let until = Instant::now() + PATIENCE;
    // A server that is traced ends a moment after its tracer.
    while let Err(error) = socket.bind(&address) {
        assert!(Instant::now() < until, "port {port}: {error}");
        std::thread::sleep(Duration::from_millis(5));
    }
    socket
}

/// A file of the repository.
fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Adds a feeder to a file as an operator does, and returns its password.
fn add_feeder(file: &Path, name: &str, subjects: &str) -> String {
    let mut add = command();
    add.args(["feeders", "add", name, "--subjects", subjects, "--file"]);
    let output = add.arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let to = to.join(entry.file_name().unwrap());
        if entry.is_dir() {
            copy_folder(&entry, &to);
        } else {
            std::fs::copy(&entry, &to).unwrap();
        }
    }
}

/// The command of nats-server.
pub(crate) fn nats_server() -> Command {
    let program = std::env::var_os("RAILBIRD_NATS_SERVER");
    Command::new(program.unwrap_or_else(|| "nats-server".into()))
}

fn spawn(
    mut command: Command,
    folder: &TempDir,
    port: Option<u16>,
    membership: Option<&Membership>,
) -> Child {
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let conf = match membership {
        Some(_) => "ops/nats-cluster.conf",
        None => "nats.conf",
    };
    command.arg("--config").arg(folder.path().join(conf));
    let port = port.map_or("-1".to_owned(), |port| port.to_string());
    command.args(["--addr", "127.0.0.1", "--port", &port]);
    command
        .arg("--store_dir")
        .arg(folder.path().join("store"))
        .arg("--ports_file_dir")
        .arg(folder.path())
        .env("RAILBIRD_NATS_PASSWORD", "p-railbird")
        .env("RAILBIRD_NATS_KEYS_PASSWORD", "p-keys")
        .env("RAILBIRD_NATS_FEEDER_PASSWORD", "p-feeder")
        .env("RAILBIRD_NATS_ADMIN_PASSWORD", "p-admin")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    if let Some(membership) = membership {
        membership.configure(&mut command);
    }
    command.spawn().unwrap_or_else(|error| {
        panic!("{command:?} cannot be started ({error}); script/test finds or installs one")
    })
}

impl Membership {
    fn configure(&self, command: &mut Command) {
        let port = match self.port {
            0 => "-1".to_owned(),
            port => port.to_string(),
        };
        let routes: Vec<String> = self
            .routes
            .iter()
            .map(|at| format!("nats://{at}"))
            .collect();
        command
            .args(["--name", &self.name])
            // Servers name each other's addresses to the others. This one leads nowhere, so that all routes are those
            // that the test has given.
            .args(["--cluster_advertise", "127.0.0.1:1"])
            .env(
                "RAILBIRD_NATS_CLUSTER_LISTEN",
                format!("\"127.0.0.1:{port}\""),
            )
            .env("RAILBIRD_NATS_ROUTES", Value::from(routes).to_string());
    }
}

/// An event as it is published, on the subject of its data.
pub(crate) fn outgoing(event: &Value) -> Outgoing {
    let payload = event.to_string().into_bytes();
    let envelope =
        events::Envelope::from_json(&payload).unwrap_or_else(|error| panic!("{error}: {event}"));
    Outgoing::new(&envelope, payload)
}
