//! [`Cluster`]: three real nats-servers with the project's configuration, which can be killed, frozen and cut off.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::nats::Membership;
use super::{Nats, PATIENCE};

/// The servers of a cluster.
const SERVERS: usize = 3;
/// How long a request waits for a cluster that may have no leader.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Three nats-servers, `node1` to `node3`, numbered from 0. Each has a folder and ports of its own.
pub(crate) struct Cluster {
    servers: Vec<Nats>,
    routes: Routes,
}

impl Cluster {
    /// Starts three servers with the project's configuration, and waits until JetStream has a leader that all know.
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
        for server in &cluster.servers {
            until_it_knows_a_leader(server);
        }
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
        self.routes.cut_off[server].send_replace(true);
    }

    /// Ends a partition. Everything that was sent meanwhile arrives.
    pub(crate) fn heal(&self, server: usize) {
        self.routes.cut_off[server].send_replace(false);
    }

    /// A client with the login of a user, of a server that is not cut off. The client library ignores one in an address.
    pub(crate) async fn client_of(&self, user: &str) -> async_nats::Client {
        let reached = self.servers.iter().zip(&self.routes.cut_off);
        let reached = reached.filter(|(_, cut_off)| !*cut_off.borrow());
        let addresses: Vec<String> = reached
            .map(|(nats, _)| nats.address().to_string())
            .collect();
        let password = self.servers[0].password_of(user);
        let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password)
            .connection_timeout(ANSWER_TIMEOUT);
        options.connect(addresses).await.unwrap()
    }

    /// The server that leads a stream. Waits while it has no leader.
    pub(crate) async fn stream_leader(&self, stream: &str) -> usize {
        let until = Instant::now() + PATIENCE;
        let mut context = jetstream::new(self.client_of("admin").await);
        context.set_timeout(ANSWER_TIMEOUT);
        loop {
            let found = context.get_stream(stream).await.ok();
            let leader = found.and_then(|stream| stream.cached_info().cluster.clone()?.leader);
            // The servers are node1, node2 and node3.
            let number = leader.and_then(|name| name.strip_prefix("node")?.parse::<usize>().ok());
            if let Some(number) = number {
                return number - 1;
            }
            assert!(Instant::now() < until, "{stream} has no leader");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Blocks, as all that starts and ends servers does.
fn until_it_knows_a_leader(server: &Nats) {
    let until = Instant::now() + PATIENCE;
    let log = || std::fs::read_to_string(server.folder().join("log")).unwrap();
    // What the leader logs of itself, and what the others log of it.
    let known = [
        "Self is new JetStream cluster metadata leader",
        "JetStream cluster new metadata leader",
    ];
    while !known.iter().any(|line| log().contains(line)) {
        assert!(Instant::now() < until, "no leader of JetStream: {}", log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The connections between the servers. A relay for each direction of each pair leads them, so that they can be cut.
struct Routes {
    /// Where each server reaches each other one.
    relays: Vec<RouteAddress>,
    /// Where each server listens, once it does.
    listening: [watch::Sender<Option<SocketAddr>>; SERVERS],
    /// Whether each server is cut off from the others.
    cut_off: [watch::Sender<bool>; SERVERS],
    /// Runs the relays, while a test blocks its own. `None` once it has ended.
    runtime: Option<Runtime>,
}

struct RouteAddress {
    from: usize,
    address: SocketAddr,
}

impl Routes {
    fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let listening = std::array::from_fn(|_| watch::Sender::new(None));
        let cut_off = std::array::from_fn(|_| watch::Sender::new(false));
        let mut relays = Vec::new();
        for from in 0..SERVERS {
            for to in (0..SERVERS).filter(|to| *to != from) {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                listener.set_nonblocking(true).unwrap();
                let address = listener.local_addr().unwrap();
                relays.push(RouteAddress { from, address });
                let route = Route {
                    target: listening[to].subscribe(),
                    cut: [cut_off[from].subscribe(), cut_off[to].subscribe()],
                };
                runtime.spawn(route.relay(listener));
            }
        }
        Self {
            relays,
            listening,
            cut_off,
            runtime: Some(runtime),
        }
    }

    /// Where a server reaches the others.
    fn from(&self, server: usize) -> Vec<SocketAddr> {
        let relays = self.relays.iter().filter(|relay| relay.from == server);
        relays.map(|relay| relay.address).collect()
    }

    /// From now on a server is reached there.
    fn lead_to(&self, server: usize, address: SocketAddr) {
        self.listening[server].send_replace(Some(address));
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

/// The way from one server to another.
#[derive(Clone)]
struct Route {
    target: watch::Receiver<Option<SocketAddr>>,
    /// Of both servers.
    cut: [watch::Receiver<bool>; 2],
}

impl Route {
    async fn relay(self, listener: std::net::TcpListener) {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(self.clone().carry(connection));
        }
    }

    async fn carry(mut self, from: TcpStream) {
        self.until_open().await;
        let target = self.target.wait_for(Option::is_some).await;
        let target = target.ok().and_then(|target| *target).unwrap();
        // While the server is down, the other is disconnected.
        let Ok(to) = TcpStream::connect(target).await else {
            return;
        };
        let ((from_read, from_write), (to_read, to_write)) = (from.into_split(), to.into_split());
        // When one side ends, the other is disconnected.
        tokio::select! {
            () = self.clone().pipe(from_read, to_write) => {}
            () = self.pipe(to_read, from_write) => {}
        }
    }

    /// As over a network: what is sent during a cut arrives after it, and nobody learns of the end of a connection.
    async fn pipe(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = from.read(&mut buffer).await.unwrap_or(0);
            self.until_open().await;
            if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }

    async fn until_open(&mut self) {
        while self.cut.iter().any(|cut| *cut.borrow()) {
            for cut in &mut self.cut {
                // An error is the end of the cluster.
                let _ = cut.wait_for(|is_cut| !is_cut).await;
            }
        }
    }
}
