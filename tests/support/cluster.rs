//! [`Cluster`]: three real nats-servers with the project's configuration, which can be killed, frozen and cut off.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::jetstream::stream::Config;
use async_nats::{Client, ConnectError, ConnectOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::nats::Membership;
use super::{Nats, PATIENCE, eventually};

/// The servers of a cluster.
const SERVERS: usize = 3;
/// How long a request waits for a cluster that may have no leader.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Three nats-servers, `node1` to `node3`, numbered from 0. Each has a folder and ports of its own.
pub(crate) struct Cluster {
    servers: Vec<Nats>,
    routes: Routes,
}

impl Cluster {
    /// Starts three servers with the project's configuration, and waits until a stream can have a replica on each.
    pub(crate) fn start() -> Self {
        let routes = Routes::new();
        let servers = (0..SERVERS).map(|server| {
            let nats = Nats::start_in_cluster(Membership {
                name: format!("node{}", server + 1),
                port: 0,
                routes: routes.from(server),
            });
            routes.lead_to(server, nats.route_address());
            nats
        });
        let servers: Vec<Nats> = servers.collect();
        let cluster = Self { servers, routes };
        cluster.until_streams_have_a_place();
        cluster
    }

    /// The addresses of all servers, for services and commands that read the log.
    pub(crate) fn url(&self) -> String {
        self.url_of("railbird")
    }

    pub(crate) fn url_of(&self, user: &str) -> String {
        let urls: Vec<String> = self.servers.iter().map(|nats| nats.url_of(user)).collect();
        urls.join(",")
    }

    /// One of its servers, for what needs no other.
    pub(crate) fn server(&self, server: usize) -> &Nats {
        &self.servers[server]
    }

    /// kill -9.
    pub(crate) fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    /// Starts a killed server again, on the same ports and folder. It may take some seconds to be of use.
    pub(crate) fn restart(&mut self, server: usize) {
        self.servers[server].start_again();
    }

    /// Stops a server without ending it: it keeps its connections and answers nothing.
    pub(crate) fn freeze(&self, server: usize) {
        self.servers[server].freeze();
    }

    /// Lets a frozen server go on.
    pub(crate) fn thaw(&self, server: usize) {
        self.servers[server].thaw();
    }

    /// Cuts a server off from the others, without any of them being informed. Clients still reach it.
    pub(crate) fn partition(&self, server: usize) {
        self.lose(server, Loss::All);
    }

    /// Loses what a server and the others send each other.
    pub(crate) fn lose(&self, server: usize, loss: Loss) {
        self.routes.losses[server].send_replace(loss);
    }

    /// Ends a partition. Everything that was sent meanwhile arrives.
    pub(crate) fn heal(&self, server: usize) {
        self.lose(server, Loss::Nothing);
    }

    /// Addresses of all servers for one client, which can be cut off from them.
    pub(crate) fn routes_of_a_client(&self) -> ClientRoutes {
        let loss = watch::Sender::new(Loss::Nothing);
        let url = |nats: &Nats| {
            let route = Route {
                target: watch::Sender::new(Some(nats.address())).subscribe(),
                losses: vec![(End::From, loss.subscribe())],
            };
            let address = self.routes.relay(route);
            format!("nats://railbird:{}@{address}", nats.password_of("railbird"))
        };
        let urls: Vec<String> = self.servers.iter().map(url).collect();
        let url = urls.join(",");
        ClientRoutes { url, loss }
    }

    /// A client with the login of a user, of a server that is not cut off.
    pub(crate) async fn client_of(&self, user: &str) -> Client {
        let password = self.servers[0].password_of(user);
        connect(self.reached(), user.to_owned(), password)
            .await
            .unwrap()
    }

    /// The servers that are not cut off.
    fn reached(&self) -> Vec<String> {
        let reached = self.servers.iter().zip(&self.routes.losses);
        let reached = reached.filter(|(_, loss)| *loss.borrow() == Loss::Nothing);
        reached
            .map(|(nats, _)| nats.address().to_string())
            .collect()
    }

    /// Creates a stream with a replica on each server, until that succeeds: the leader has to know all of them. Blocks,
    /// as all that starts and ends servers does.
    fn until_streams_have_a_place(&self) {
        let (addresses, password) = (self.reached(), self.servers[0].password_of("admin"));
        let (sender, receiver) = std::sync::mpsc::channel();
        let placed = async move {
            let client = connect(addresses, "admin".to_owned(), password).await;
            let mut context = jetstream::new(client.unwrap());
            context.set_timeout(ANSWER_TIMEOUT);
            let config = Config {
                name: "PLACED".to_owned(),
                subjects: vec!["placed".to_owned()],
                num_replicas: SERVERS,
                ..Config::default()
            };
            while context.create_stream(config.clone()).await.is_err() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            while context.delete_stream("PLACED").await.is_err() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            sender.send(())
        };
        self.routes.runtime.as_ref().unwrap().spawn(placed);
        let placed = receiver.recv_timeout(PATIENCE);
        placed.expect("the leader of JetStream knows all servers");
    }

    /// Waits until all servers have all messages of a stream.
    pub(crate) async fn until_all_have(&self, stream: &str) {
        let context = jetstream::new(self.client_of("admin").await);
        eventually(&format!("all servers have {stream}"), async || {
            let found = context.get_stream(stream).await.ok();
            let cluster = found.and_then(|stream| stream.cached_info().cluster.clone());
            let followers = cluster.map(|cluster| cluster.replicas).unwrap_or_default();
            let whole = followers
                .iter()
                .filter(|it| it.current && it.lag.unwrap_or(0) == 0);
            whole.count() == SERVERS - 1
        })
        .await;
    }

    /// The server that leads a stream. Waits while it has no leader.
    pub(crate) async fn stream_leader(&self, stream: &str) -> usize {
        let until = Instant::now() + PATIENCE;
        let context = self.asking().await;
        loop {
            if let Some(leader) = leader(&context, stream).await {
                return leader;
            }
            assert!(Instant::now() < until, "{stream} has no leader");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// When a stream was last without a leader, from now on until something has happened. `None` if it always had one.
    pub(crate) async fn leaderless_until(
        &self,
        stream: &str,
        happened: impl Future<Output = ()>,
    ) -> Option<Instant> {
        let context = self.asking().await;
        let mut last = None;
        let watching = async {
            loop {
                if leader(&context, stream).await.is_none() {
                    last = Some(Instant::now());
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        };
        tokio::select! {
            () = happened => {}
            () = watching => {}
        }
        last
    }

    async fn asking(&self) -> jetstream::Context {
        let mut context = jetstream::new(self.client_of("admin").await);
        context.set_timeout(ANSWER_TIMEOUT);
        context
    }
}

/// The server that leads a stream, if one says that it does. The servers are node1, node2 and node3.
async fn leader(context: &jetstream::Context, stream: &str) -> Option<usize> {
    let found = context.get_stream(stream).await.ok()?;
    let leader = found.cached_info().cluster.clone()?.leader?;
    let number: usize = leader.strip_prefix("node")?.parse().ok()?;
    Some(number - 1)
}

/// The client library ignores a login in an address.
async fn connect(
    addresses: Vec<String>,
    user: String,
    password: String,
) -> Result<Client, ConnectError> {
    let options = ConnectOptions::with_user_and_password(user, password);
    options
        .connection_timeout(ANSWER_TIMEOUT)
        .connect(addresses)
        .await
}

/// The connections to the servers. A relay leads each, so that it can be cut.
struct Routes {
    /// Where each server listens for the others, once it does.
    listening: [watch::Sender<Option<SocketAddr>>; SERVERS],
    /// What each server and the others lose of what they send each other.
    losses: [watch::Sender<Loss>; SERVERS],
    /// Runs the relays, while a test blocks its own. `None` once it has ended.
    runtime: Option<Runtime>,
}

impl Routes {
    fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        Self {
            listening: std::array::from_fn(|_| watch::Sender::new(None)),
            losses: std::array::from_fn(|_| watch::Sender::new(Loss::Nothing)),
            runtime: Some(runtime),
        }
    }

    /// New addresses, where a server reaches the others.
    fn from(&self, server: usize) -> Vec<SocketAddr> {
        let others = (0..SERVERS).filter(|other| *other != server);
        let to = |other: usize| {
            self.relay(Route {
                target: self.listening[other].subscribe(),
                losses: [(End::From, server), (End::To, other)]
                    .map(|(end, server)| (end, self.losses[server].subscribe()))
                    .to_vec(),
            })
        };
        others.map(to).collect()
    }

    /// From now on a server is reached there by the others.
    fn lead_to(&self, server: usize, address: SocketAddr) {
        self.listening[server].send_replace(Some(address));
    }

    /// A new address that leads along a route.
    fn relay(&self, route: Route) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        self.runtime.as_ref().unwrap().spawn(route.relay(listener));
        address
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which a runtime does not permit.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A way to a server.
#[derive(Clone)]
struct Route {
    target: watch::Receiver<Option<SocketAddr>>,
    /// What the server or client at an end loses.
    losses: Vec<(End, watch::Receiver<Loss>)>,
}

/// The end of a route that connects, or that is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    From,
    To,
}

/// What does not arrive, of a server or client and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Nothing,
    Sent,
    Received,
    All,
}

impl Loss {
    /// Whether what is sent from an end of a route is lost, where this is the loss at `at`.
    fn affects(self, at: End, sender: End) -> bool {
        match self {
            Self::Nothing => false,
            Self::Sent => at == sender,
            Self::Received => at != sender,
            Self::All => true,
        }
    }
}

/// The ways of a client to all servers, which can be cut.
pub(crate) struct ClientRoutes {
    url: String,
    loss: watch::Sender<Loss>,
}

impl ClientRoutes {
    /// The addresses of all servers, for a service.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Loses what the client and all servers send each other, without any side being informed. What was lost arrives
    /// once nothing is lost any more.
    pub(crate) fn lose(&self, loss: Loss) {
        self.loss.send_replace(loss);
    }
}

impl Route {
    async fn relay(self, listener: std::net::TcpListener) {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(self.clone().carry(connection));
        }
    }

    async fn carry(mut self, from: TcpStream) {
        for sender in [End::From, End::To] {
            self.until_passing(sender).await;
        }
        let target = self.target.wait_for(Option::is_some).await;
        let target = target.ok().and_then(|target| *target).unwrap();
        // While the server is down, the other is disconnected.
        let Ok(to) = TcpStream::connect(target).await else {
            return;
        };
        let ((from_read, from_write), (to_read, to_write)) = (from.into_split(), to.into_split());
        // When one side ends, the other is disconnected.
        tokio::select! {
            () = self.clone().pipe(End::From, from_read, to_write) => {}
            () = self.pipe(End::To, to_read, from_write) => {}
        }
    }

    /// As over a network: what is sent during a cut arrives after it, and nobody learns of the end of a connection.
    async fn pipe(mut self, sender: End, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = from.read(&mut buffer).await.unwrap_or(0);
            self.until_passing(sender).await;
            if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }

    async fn until_passing(&mut self, sender: End) {
        let lost = |(at, loss): &(End, watch::Receiver<Loss>)| loss.borrow().affects(*at, sender);
        while self.losses.iter().any(lost) {
            for (at, loss) in &mut self.losses {
                // An error is the end of the cluster.
                let _ = loss.wait_for(|loss| !loss.affects(*at, sender)).await;
            }
        }
    }
}
