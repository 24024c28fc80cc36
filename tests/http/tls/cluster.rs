//! ops/nats-cluster-tls.conf: servers that show each other certificates, and clients that have to use TLS.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use tempfile::TempDir;

use crate::support::*;

const USERS: [&str; 4] = ["", "KEYS_", "FEEDER_", "ADMIN_"];

/// A nats-server of a cluster.
struct Server {
    process: Process,
    _folder: TempDir,
}

/// The ports of a server: for clients, for the other servers, and of its health.
#[derive(Debug, Clone, Copy)]
struct Ports {
    client: u16,
    routes: u16,
    monitor: u16,
}

impl Ports {
    fn free() -> Self {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
        let [client, routes, monitor] = ports;
        Self {
            client,
            routes,
            monitor,
        }
    }

    fn monitor(self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.monitor))
    }

    async fn is_healthy(self) -> bool {
        tokio::net::TcpStream::connect(self.monitor()).await.is_ok()
            && request(self.monitor(), "GET", "/healthz", &[]).await.status == 200
    }
}

impl Server {
    /// Starts a server with the shipped files and this certificate, whose routes lead to all of these.
    fn start(
        name: &str,
        ports: Ports,
        routes: &[Ports],
        certificate: &PemCertificate,
        ca: &str,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = certificate.write(folder.path());
        let routes = routes
            .iter()
            .map(|of| format!("\"nats://127.0.0.1:{}\"", of.routes));
        let routes = routes.collect::<Vec<_>>().join(", ");
        let program = std::env::var_os("RAILBIRD_NATS_SERVER");
        let mut command = Command::new(program.unwrap_or_else(|| "nats-server".into()));
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        command
            .arg("--config")
            .arg(root.join("ops/nats-cluster-tls.conf"));
        command.args(["--name", name, "--addr", "127.0.0.1"]);
        command.args(["--port", &ports.client.to_string()]);
        command.args(["--http_port", &ports.monitor.to_string()]);
        command.arg("--store_dir").arg(folder.path().join("store"));
        for user in USERS {
            command.env(format!("RAILBIRD_NATS_{user}PASSWORD"), "p-secret");
        }
        let listen = format!("\"127.0.0.1:{}\"", ports.routes);
        command.env("RAILBIRD_NATS_CLUSTER_LISTEN", listen);
        command.env("RAILBIRD_NATS_ROUTES", format!("[{routes}]"));
        for (name, file) in [
            ("CERT", &files.cert),
            ("KEY", &files.key),
            ("CA", &ca.into()),
        ] {
            command.env(format!("RAILBIRD_NATS_TLS_{name}"), format!("{file:?}"));
        }
        Self {
            process: Process::start(command, folder.path().join("log")),
            _folder: folder,
        }
    }
}

#[tokio::test]
async fn only_servers_with_a_certificate_of_the_authority_join_and_clients_use_tls() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let ca = authority.file(folder.path());
    let all = [(); 4].map(|()| Ports::free());
    let members = &all[..3];
    let both = [ServerAuth, ClientAuth];
    let mut servers: Vec<_> = (1..)
        .zip(members)
        .map(|(n, ports)| {
            let certificate = authority.issue_for(&both);
            Server::start(&format!("n{n}"), *ports, members, &certificate, &ca)
        })
        .collect();
    for (server, ports) in servers.iter_mut().zip(members) {
        let process = &mut server.process;
        process
            .until("the cluster has a leader", || ports.is_healthy())
            .await;
    }

    // A replica, with several addresses, of which the first has the login.
    let addresses = |user: &str, scheme: &str| {
        let [a, b, c] = [members[0], members[1], members[2]].map(|ports| ports.client);
        let at = format!("{scheme}://127.0.0.1");
        format!("{scheme}://{user}:p-secret@127.0.0.1:{a},{at}:{b},{at}:{c}")
    };
    let (service, keys) = (addresses("railbird", "tls"), addresses("keys", "tls"));
    let nats = ["--nats", &service, "--nats-ca", &ca, "--replicas", "3"];
    let flags = [&["--production", "--http", "127.0.0.1:0"], &nats[..]].concat();
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    eventually("the replica is ready", || async {
        let ready = request(serving.http, "GET", "/readyz", &[]).await;
        ready.status == 200 && ready.text().contains("\"settings\":[]")
    })
    .await;
    let list = railbird(["keys", "list", "--nats", &keys, "--nats-ca", &ca]).await;
    assert_eq!(list.code, 0, "{}", list.all);

    // Servers of another authority, and with a certificate that is for servers alone.
    for certificate in [
        Authority::new().issue_for(&both),
        authority.issue_for(&[ServerAuth]),
    ] {
        let stranger = Server::start("stranger", all[3], members, &certificate, &ca);
        eventually("the stranger is refused again and again", || async {
            stranger
                .process
                .output()
                .matches("Router connection closed")
                .count()
                > 4
        })
        .await;
        assert!(!all[3].is_healthy().await);
        for (server, ports) in servers.iter().zip(members) {
            eventually("the others go on", || ports.is_healthy()).await;
            let routes = request(ports.monitor(), "GET", "/routez", &[]).await.text();
            assert!(!routes.contains("stranger"), "{routes}");
            assert!(
                !server
                    .process
                    .output()
                    .contains("new metadata peer: stranger")
            );
        }
    }
}

/// The file with TLS is the plain one and TLS.
#[test]
fn the_file_of_a_cluster_with_tls_has_the_settings_of_the_plain_one() {
    let settings = |file: &str| {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut is_tls = false;
        let plain = lines.filter(|line| {
            let was_tls = is_tls;
            is_tls = line.starts_with("tls {") || (is_tls && *line != "}");
            !was_tls && !is_tls
        });
        plain.map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = settings("ops/nats-cluster.conf");
    assert!(plain.len() > 4, "{plain:?}");
    assert_eq!(settings("ops/nats-cluster-tls.conf"), plain);
}
