//! ops/nginx.conf, with a real nginx. Prints a note and passes where there is none.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio_rustls::rustls::version::TLS13;

use crate::support::*;

/// nginx with the shipped configuration, on free ports.
struct Nginx {
    child: Child,
    address: std::net::SocketAddr,
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Nginx {
    /// `None` if there is no nginx.
    fn start(folder: &Path, files: &PemFiles, service: std::net::SocketAddr) -> Option<Self> {
        let nginx = program("nginx")?;
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/nginx.conf");
        let mut conf = std::fs::read_to_string(shipped).unwrap();
        let (plain, encrypted) = (free_port(), free_port());
        for (from, to) in [
            ("listen 80;", format!("listen 127.0.0.1:{plain};")),
            (
                "listen 443 ssl;",
                format!("listen 127.0.0.1:{encrypted} ssl;"),
            ),
            ("server 127.0.0.1:8080;", format!("server {service};")),
            (
                "/etc/letsencrypt/live/racing.example/fullchain.pem",
                files.cert.display().to_string(),
            ),
            (
                "/etc/letsencrypt/live/racing.example/privkey.pem",
                files.key.display().to_string(),
            ),
            ("/var/log/nginx/", format!("{}/", folder.display())),
        ] {
            assert!(conf.contains(from), "{from}");
            conf = conf.replace(from, &to);
        }
        std::fs::write(folder.join("nginx.conf"), conf).unwrap();
        let mut command = Command::new(nginx);
        // Its workers read the folder of the test only as its user.
        let user = if rustix::process::geteuid().is_root() {
            "user root; "
        } else {
            ""
        };
        let more = format!("{user}daemon off; pid {}/nginx.pid;", folder.display());
        command
            .arg("-p")
            .arg(folder)
            .arg("-c")
            .arg(folder.join("nginx.conf"));
        command
            .args(["-e", "stderr", "-g", &more])
            .stdin(Stdio::null());
        Some(Self {
            child: command.spawn().unwrap(),
            address: ([127, 0, 0, 1], encrypted).into(),
        })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, which ends its workers, too.
        let id = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_example_for_nginx_passes_requests_and_sockets_on_and_logs_no_key() {
    let (nats, folder, authority) = (
        Nats::start(),
        tempfile::tempdir().unwrap(),
        Authority::new(),
    );
    let proxies = |config: &mut railbird::app::Config| {
        let loopback = railbird::limits::Proxies::parse("127.0.0.1").unwrap();
        config.proxies = railbird::limits::Proxies::new(vec![loopback]);
    };
    let railbird = Railbird::start_with(&nats, proxies).await;
    let seq = nats.publish([card("2026-11-21", "ST", 1, 3)]).await;
    railbird.until_seq(seq).await;
    let files = authority.issue().write(folder.path());
    let Some(nginx) = Nginx::start(folder.path(), &files, railbird.http) else {
        return;
    };
    let client = authority.client(&[&TLS13]);
    eventually("nginx listens", || async {
        client.http(nginx.address).await.is_ok()
    })
    .await;
    let tunnel = Tunnel::to(nginx.address, client).await;

    let key = ("x-api-key", railbird.key.as_str());
    let host = ("host", "racing.example");
    let reply = request(tunnel.address, "GET", super::CARD, &[key, host]).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("strict-transport-security"),
        "max-age=31536000"
    );

    // The live channel, as a page of the service opens it: by `Host`, its origin is its own.
    let path = format!("/ws/live/odds?api_key={}", railbird.key);
    let origin = ("origin", "https://racing.example");
    let upgraded = Socket::refused_with(tunnel.address, &path, &[host, origin]).await;
    assert_eq!(upgraded.status, 101);
    let mut socket = Socket::connect(tunnel.address, &path).await;
    socket.until("snapshot_complete").await;
    nats.publish([odds("ST", 1, &second(1), &[2.5, 3.5, 9.0])])
        .await;
    socket.until("odds_update").await;

    // A client cannot choose its address: all requests without a key count for one.
    let mut limited = false;
    for n in 0..200 {
        let spoofed = format!("198.51.100.{n}");
        let headers = [("x-forwarded-for", spoofed.as_str()), host];
        limited |= request(tunnel.address, "GET", super::CARD, &headers)
            .await
            .status
            == 429;
    }
    assert!(limited, "the address of the connection is limited");

    let logged = || std::fs::read_to_string(folder.path().join("railbird.log")).unwrap();
    drop(socket);
    eventually("the socket is logged", || async {
        logged().contains("GET /ws/live/odds\" 101")
    })
    .await;
    let errors = std::fs::read_to_string(folder.path().join("error.log")).unwrap();
    assert!(!logged().contains("rb_") && !errors.contains("rb_"));
    assert!(
        logged().contains(reply.header("x-request-id")),
        "{}",
        logged()
    );
}
