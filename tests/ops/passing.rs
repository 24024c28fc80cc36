//! Each proxy passes requests and sockets on as they are, with the address of the client, and logs no key.

use std::path::Path;

use super::proxy::{Proxy, ProxyKind, free_address};
use crate::support::*;

const CARD: &str = "/api/v1/racecards/2026-11-21";

#[tokio::test]
async fn nginx_passes_requests_and_sockets_on_and_logs_no_key() {
    passes_on(ProxyKind::Nginx).await;
}

#[tokio::test]
async fn haproxy_passes_requests_and_sockets_on_and_logs_no_key() {
    passes_on(ProxyKind::Haproxy).await;
}

#[tokio::test]
async fn caddy_passes_requests_and_sockets_on_and_logs_no_key() {
    passes_on(ProxyKind::Caddy).await;
}

async fn passes_on(kind: ProxyKind) {
    let (nats, folder, authority) = (
        Nats::start(),
        tempfile::tempdir().unwrap(),
        Authority::new(),
    );
    let railbird = Railbird::start_with(&nats, |config| {
        let loopback = railbird::limits::Proxies::parse("127.0.0.1").unwrap();
        config.proxies = railbird::limits::Proxies::new(vec![loopback]);
    })
    .await;
    let seq = nats.publish([card("2026-11-21", "ST", 1, 3)]).await;
    railbird.until_seq(seq).await;
    // The other replica is away.
    let replicas = [railbird.http, free_address()];
    let Some(proxy) = Proxy::start(kind, folder.path(), &authority, replicas).await else {
        return;
    };
    let tunnel = proxy.tunnel(&authority).await;
    let key = railbird.key.clone();
    let headers = [("x-api-key", key.as_str()), ("host", "racing.example")];
    let reply = request(tunnel.address, "GET", CARD, &headers).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(
        reply.header("strict-transport-security"),
        "max-age=31536000"
    );
    assert_eq!(reply.body, railbird.get(CARD).await.body);

    // The live channel, as a page of the service opens it: by `Host`, its origin is its own.
    let path = format!("/ws/live/odds?api_key={key}");
    let origin = [
        ("host", "racing.example"),
        ("origin", "https://racing.example"),
    ];
    let upgraded = Socket::refused_with(tunnel.address, &path, &origin).await;
    assert_eq!(upgraded.status, 101);
    let mut socket = Socket::connect(tunnel.address, &path).await;
    socket.until("snapshot_complete").await;
    nats.publish([odds("ST", 1, &second(1), &[2.5, 3.5, 9.0])])
        .await;
    socket.until("odds_update").await;
    drop(socket);

    // A client cannot choose its address: all requests without a key count for one.
    let mut limited = false;
    for n in 0..200 {
        let spoofed = format!("198.51.100.{n}");
        let headers = [("x-forwarded-for", spoofed.as_str())];
        limited |= request(tunnel.address, "GET", CARD, &headers).await.status == 429;
    }
    assert!(limited, "the address of the connection is limited");

    // Both replicas are away, which is an error of each request.
    railbird.stop().await;
    let failed = Socket::refused(tunnel.address, &path).await.status;
    assert!([502, 503].contains(&failed), "{failed}");
    let headers = [("x-api-key", key.as_str())];
    let failed = request(tunnel.address, "GET", CARD, &headers).await.status;
    assert!([502, 503].contains(&failed), "{failed}");
    let path = format!("/ws/live/odds\" {failed}");
    let logged = || logs(folder.path());
    match kind {
        ProxyKind::Nginx | ProxyKind::Haproxy => {
            eventually("all are logged", || async {
                let logged = logged();
                logged.contains("GET /ws/live/odds\" 101") && logged.contains(&path)
            })
            .await;
            assert!(logged().contains(reply.header("x-request-id")));
        }
        ProxyKind::Caddy => {
            eventually("the errors are logged", || async {
                let logged = logged();
                logged.contains("\"uri\":\"/ws/live/odds?\"")
                    && logged.contains(&format!("\"uri\":\"{CARD}\""))
            })
            .await;
        }
    }
    assert!(!logged().contains("rb_"), "{}", logged());
}

/// All that a proxy has logged.
fn logs(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.map(|log| std::fs::read_to_string(log).unwrap())
        .collect()
}
