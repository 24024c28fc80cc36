//! Each proxy passes requests and sockets on as they are, with the address of the client, and logs no key.

use std::path::Path;

use super::proxy::{Proxy, ProxyKind, client, free_address, of_ipv6};
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
    assert_a_long_poll_is_waited_for(&tunnel, &key, seq).await;
    let headers = [("x-api-key", key.as_str()), ("host", "racing.example")];
    let reply = request(tunnel.address, "GET", CARD, &headers).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let only_encrypted = reply.header("strict-transport-security");
    assert_eq!(only_encrypted, "max-age=31536000");
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

    assert_clients_are_limited_apart(&tunnel, &proxy, &authority, &key).await;

    // Both replicas are away, which is an error of each request.
    railbird.stop().await;
    let logged = || logs(folder.path());
    let all = match kind {
        // It logs no requests, but errors, once it has noticed.
        ProxyKind::Caddy => ["\"uri\":\"/ws/live/odds?\"", "/racecards/2026-11-21\""],
        _ => ["GET /ws/live/odds\" 50", "/racecards/2026-11-21\" 50"],
    };
    eventually("all errors are logged", || async {
        let headers = [("x-api-key", key.as_str())];
        let failed = request(tunnel.address, "GET", CARD, &headers).await.status;
        assert!([502, 503].contains(&failed), "{failed}");
        let failed = Socket::refused(tunnel.address, &path).await.status;
        assert!([502, 503].contains(&failed), "{failed}");
        let logged = logged();
        all.iter().all(|text| logged.contains(text))
    })
    .await;
    if kind != ProxyKind::Caddy {
        assert!(logged().contains("GET /ws/live/odds\" 101"));
        assert!(logged().contains(reply.header("x-request-id")));
    }
    assert!(!logged().contains("rb_"), "{}", logged());
}

async fn assert_a_long_poll_is_waited_for(tunnel: &Tunnel, key: &str, last: u64) {
    let path = format!("/api/v1/changes?after={last}&wait_ms=8000");
    let polled = request(tunnel.address, "GET", &path, &[("x-api-key", key)]).await;
    assert_eq!(polled.status, 200, "{}", polled.text());
}

/// One by IPv6 is another one than one by IPv4.
async fn assert_clients_are_limited_apart(
    tunnel: &Tunnel,
    proxy: &Proxy,
    authority: &Authority,
    key: &str,
) {
    let ipv6 = Tunnel::to(of_ipv6(proxy.address), client(authority)).await;
    let headers = [("x-api-key", key)];
    let reply = request(ipv6.address, "GET", CARD, &headers).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_the_connection_is_limited(&ipv6).await;
    let reply = request(tunnel.address, "GET", CARD, &[]).await;
    assert_eq!(reply.status, 401, "{}", reply.text());
    assert_the_connection_is_limited(tunnel).await;
}

/// A client cannot choose its address: all requests without a key count for one.
async fn assert_the_connection_is_limited(tunnel: &Tunnel) {
    let mut limited = false;
    for n in 0..200 {
        let spoofed = format!("198.51.100.{n}");
        let headers = [("x-forwarded-for", spoofed.as_str())];
        limited |= request(tunnel.address, "GET", CARD, &headers).await.status == 429;
    }
    assert!(limited, "the address of the connection is limited");
}

#[tokio::test]
async fn nginx_passes_the_answers_of_replicas_that_are_not_ready_on() {
    passes_on_while_unready(ProxyKind::Nginx, "").await;
}

#[tokio::test]
async fn haproxy_passes_the_answers_of_replicas_that_are_not_ready_on() {
    passes_on_while_unready(ProxyKind::Haproxy, " is DOWN").await;
}

#[tokio::test]
async fn caddy_passes_the_answers_of_replicas_that_are_not_ready_on() {
    passes_on_while_unready(ProxyKind::Caddy, "unexpected status code").await;
}

/// Replicas without a log. `noticed` is what the proxy logs about them.
async fn passes_on_while_unready(kind: ProxyKind, noticed: &str) {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let nobody = format!("nats://{}", free_address());
    let flags = ["--http", "127.0.0.1:0", "--nats", &nobody];
    let start = |name| Serving::start_with(&flags, &folder.path().join(name));
    let (a, b) = (start("a"), start("b"));
    let Some(proxy) = Proxy::start(kind, folder.path(), &authority, [a.http, b.http]).await else {
        return;
    };
    let tunnel = proxy.tunnel(&authority).await;
    let logged = || logs(folder.path());
    eventually("the proxy has noticed both", || async {
        logged().matches(noticed).count() >= 2
    })
    .await;
    let reply = request(tunnel.address, "GET", "/readyz", &[]).await;
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["reason"], "the log cannot be reached");
    let max_age = reply.header("strict-transport-security");
    assert_eq!(max_age, "max-age=31536000");
    // Everything else is served, too.
    let page = request(tunnel.address, "GET", "/status", &[]).await;
    assert_eq!(page.status, 200, "{}", page.text());
}

/// All that a proxy has logged.
fn logs(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.map(|log| std::fs::read_to_string(log).unwrap())
        .collect()
}

/// Serves an application on a free port, as a replica.
async fn replica(app: axum::Router) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn nginx_repeats_a_get_at_another_replica_if_one_hangs() {
    repeats_a_get(ProxyKind::Nginx).await;
}

#[tokio::test]
async fn haproxy_repeats_a_get_at_another_replica_if_one_hangs() {
    repeats_a_get(ProxyKind::Haproxy).await;
}

#[tokio::test]
async fn caddy_repeats_a_get_at_another_replica_if_one_hangs() {
    repeats_a_get(ProxyKind::Caddy).await;
}

async fn repeats_a_get(kind: ProxyKind) {
    let ready = || axum::Router::new().route("/readyz", axum::routing::get("ready"));
    let (reached, mut hanging) = tokio::sync::mpsc::channel::<()>(1);
    let hangs = ready().fallback(move || {
        let reached = reached.clone();
        async move {
            reached.send(()).await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    let replicas = [
        replica(hangs).await,
        replica(ready().fallback(|| async { "answered" })).await,
    ];
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let started = Proxy::start(kind, folder.path(), &authority, replicas).await;
    let Some(proxy) = started else {
        return;
    };
    let tunnel = proxy.tunnel(&authority).await;
    // The proxy chooses the replicas in turn.
    while hanging.try_recv().is_err() {
        let reply = request(tunnel.address, "GET", CARD, &[]).await;
        assert_eq!((reply.status, &*reply.text()), (200, "answered"));
    }
}

/// Longer than the service takes for an answer, as docs/limits.md has it, and shorter than our own clients wait.
#[test]
fn each_proxy_gives_a_replica_up_before_clients_give_up() {
    for (file, setting) in [
        ("nginx.conf", "location / {proxy_pass http://railbird;"),
        ("haproxy.cfg", "timeout server "),
        ("Caddyfile", "response_header_timeout "),
    ] {
        let text = super::shipped(file, &[]);
        let lines = text.lines().map(str::trim);
        let text: String = lines.filter(|line| !line.starts_with('#')).collect();
        let (_, after) = text.split_once(setting).unwrap();
        let seconds = after.trim_start_matches("proxy_read_timeout ");
        let (seconds, _) = seconds.split_once('s').unwrap();
        let seconds: u64 = seconds.parse().unwrap();
        assert!((6..10).contains(&seconds), "{file}: {seconds}");
    }
}
