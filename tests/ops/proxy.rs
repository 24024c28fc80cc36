//! [`Proxy`]: a proxy with the shipped configuration, on free ports.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio_rustls::rustls::version::TLS13;

use super::shipped;
use crate::support::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProxyKind {
    Nginx,
    Haproxy,
    Caddy,
}

pub(super) struct Proxy {
    /// Ended with the proxy.
    _process: Process,
    /// With TLS.
    pub(super) address: SocketAddr,
}

/// An address that nothing listens on.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// The same port for IPv6.
pub(super) fn of_ipv6(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port())
}

impl ProxyKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
        }
    }

    /// Writes the shipped configuration with these addresses, and returns the command that runs it.
    fn configure(self, folder: &Path, files: &PemFiles, addresses: &Addresses) -> Command {
        match self {
            Self::Nginx => nginx(folder, files, addresses),
            Self::Haproxy => haproxy(folder, files, addresses),
            Self::Caddy => caddy(folder, files, addresses),
        }
    }
}

/// The addresses of a proxy, without and with TLS, and of its replicas.
struct Addresses {
    plain: SocketAddr,
    encrypted: SocketAddr,
    replicas: [SocketAddr; 2],
}

impl Addresses {
    /// Writes the shipped file with these addresses and other changes, and returns its path.
    fn write(&self, folder: &Path, name: &str, more: &[(&str, String)]) -> PathBuf {
        let [a, b] = self.replicas.map(|address| address.to_string());
        let replicas = [("127.0.0.1:8081", a), ("127.0.0.1:8082", b)];
        let conf = folder.join(name);
        std::fs::write(&conf, shipped(name, &[&replicas[..], more].concat())).unwrap();
        conf
    }
}

fn nginx(folder: &Path, files: &PemFiles, addresses: &Addresses) -> Command {
    let Addresses {
        plain, encrypted, ..
    } = addresses;
    let at = "/etc/letsencrypt/live/racing.example";
    let (cert, key) = (format!("{at}/fullchain.pem"), format!("{at}/privkey.pem"));
    let changes = [
        ("listen 80;", format!("listen {plain};")),
        ("listen [::]:80;", format!("listen {};", of_ipv6(*plain))),
        ("listen 443 ssl;", format!("listen {encrypted} ssl;")),
        ("listen [::]:443", format!("listen {}", of_ipv6(*encrypted))),
        (&cert, files.cert.display().to_string()),
        (&key, files.key.display().to_string()),
        ("/var/log/nginx/", format!("{}/", folder.display())),
    ];
    let conf = addresses.write(folder, "nginx.conf", &changes);
    // Its workers read the folder of the test only as its user.
    let user = if rustix::process::geteuid().is_root() {
        "user root; "
    } else {
        ""
    };
    let more = format!("{user}daemon off; pid {}/nginx.pid;", folder.display());
    let mut command = Command::new(program("nginx").unwrap());
    command.arg("-p").arg(folder).arg("-c").arg(&conf);
    command.args(["-e", "stderr", "-g", &more]);
    command
}

fn haproxy(folder: &Path, files: &PemFiles, addresses: &Addresses) -> Command {
    let Addresses {
        plain, encrypted, ..
    } = addresses;
    let both = folder.join("both.pem");
    let pem = [&files.cert, &files.key].map(|file| std::fs::read_to_string(file).unwrap());
    std::fs::write(&both, pem.concat()).unwrap();
    let privileges = "    user haproxy\n    group haproxy\n    chroot /var/lib/haproxy\n";
    let changes = [
        (privileges, String::new()),
        // The hard limit of open files may be lower here.
        ("maxconn 40000", "maxconn 4000".to_owned()),
        (
            "bind :80,:::80 ",
            format!("bind {plain},{} ", of_ipv6(*plain)),
        ),
        (
            "bind :443,:::443 ",
            format!("bind {encrypted},{} ", of_ipv6(*encrypted)),
        ),
        (
            "/etc/haproxy/certs/racing.example.pem",
            both.display().to_string(),
        ),
    ];
    let conf = addresses.write(folder, "haproxy.cfg", &changes);
    let mut command = Command::new(program("haproxy").unwrap());
    command.arg("-f").arg(&conf);
    command
}

fn caddy(folder: &Path, files: &PemFiles, addresses: &Addresses) -> Command {
    let (cert, key) = (files.cert.display(), files.key.display());
    let http_port = format!("admin off\n\thttp_port {}", addresses.plain.port());
    // For every host.
    let site = format!(":{} {{\n\ttls {cert} {key}", addresses.encrypted.port());
    let changes = [("admin off", http_port), ("racing.example {", site)];
    let conf = addresses.write(folder, "Caddyfile", &changes);
    let mut command = Command::new(program("caddy").unwrap());
    command.args(["run", "--adapter", "caddyfile", "--config"]);
    command.arg(&conf).env("HOME", folder);
    command.env("XDG_DATA_HOME", folder);
    command
}

impl Proxy {
    /// Starts a proxy before these replicas, and waits until it listens. `None` if the program is missing.
    pub(super) async fn start(
        kind: ProxyKind,
        folder: &Path,
        authority: &Authority,
        replicas: [SocketAddr; 2],
    ) -> Option<Self> {
        program(kind.name())?;
        let files = authority.issue().write(folder);
        let (plain, encrypted) = (free_address(), free_address());
        let addresses = Addresses {
            plain,
            encrypted,
            replicas,
        };
        let command = kind.configure(folder, &files, &addresses);
        let mut process = Process::start(command, folder.join("output.log"));
        let client = client(authority);
        let listens = || async { client.http(encrypted).await.is_ok() };
        process.until("the proxy listens", listens).await;
        Some(Self {
            _process: process,
            address: encrypted,
        })
    }

    /// An address without TLS, that leads to the proxy.
    pub(super) async fn tunnel(&self, authority: &Authority) -> Tunnel {
        Tunnel::to(self.address, client(authority)).await
    }
}

/// A client of proxies. It offers HTTP/1.1 alone, because they would choose HTTP/2.
pub(super) fn client(authority: &Authority) -> TlsClient {
    authority.client(&[&TLS13]).with_protocols(&["http/1.1"])
}
