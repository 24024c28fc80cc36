//! Behind each proxy, one of two replicas is cut off from NATS: requests and sockets move to the other one.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::proxy::{Proxy, ProxyKind, free_address};
use crate::support::*;

const CARD: &str = "/api/v1/racecards/2026-11-21";
/// Answers in a row that show that the proxy asks the fresh replica alone: it chooses replicas in turn.
const FRESH_IN_A_ROW: usize = 20;

#[tokio::test]
async fn behind_nginx_clients_leave_a_replica_that_is_cut_off() {
    clients_leave(ProxyKind::Nginx).await;
}

#[tokio::test]
async fn behind_haproxy_clients_leave_a_replica_that_is_cut_off() {
    clients_leave(ProxyKind::Haproxy).await;
}

#[tokio::test]
async fn behind_caddy_clients_leave_a_replica_that_is_cut_off() {
    clients_leave(ProxyKind::Caddy).await;
}

async fn clients_leave(kind: ProxyKind) {
    let (nats, folder, authority) = (
        Nats::start(),
        tempfile::tempdir().unwrap(),
        Authority::new(),
    );
    let cable = Cable::to(nats.address()).await;
    let start = |name, url: &str| {
        let http = free_address().to_string();
        let flags = ["--http", &http, "--nats", url];
        let trusted = ["--trusted-proxies", "127.0.0.1"];
        let flags = [&flags[..], &trusted].concat();
        Serving::start_with(&flags, &folder.path().join(name))
    };
    let cut_off = start("a", &nats.url_by(cable.address));
    let fresh = start("b", &nats.url());
    nats.publish([card("2026-11-21", "ST", 1, 3)]).await;
    let key = issue_key(&nats).await;
    for replica in [&cut_off, &fresh] {
        replica.until_ready().await;
        until_valid(replica.http, &key).await;
        replica.until_it_knows_another_replica().await;
    }
    let replicas = [cut_off.http, fresh.http];
    let Some(proxy) = Proxy::start(kind, folder.path(), &authority, replicas).await else {
        return;
    };
    let tunnel = proxy.tunnel(&authority).await;
    // One at each replica.
    let mut sockets = Vec::new();
    for _ in 0..2 {
        sockets.push(Socket::open(tunnel.address, &key).await);
    }

    cable.cut();
    let seq = nats
        .publish([odds("ST", 1, &second(1), &[2.5, 3.5, 9.0])])
        .await;
    let cut_at = Instant::now();
    let (mut gets, mut stale, mut in_a_row) = (0, 0, 0);
    let moved = async {
        while in_a_row < FRESH_IN_A_ROW {
            gets += 1;
            if is_fresh(tunnel.address, &key, seq).await {
                in_a_row += 1;
            } else {
                (stale, in_a_row) = (stale + 1, 0);
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let moved = timeout(PATIENCE, moved).await;
    assert!(moved.is_ok(), "{stale} of {gets} GETs were stale");
    let name = kind.name();
    eprintln!(
        "{name}: {stale} of {gets} GETs stale, fresh after {:.1?}",
        cut_at.elapsed()
    );
    for mut socket in sockets {
        while !until_price(&mut socket, seq).await {
            socket = Socket::open(tunnel.address, &key).await;
        }
        eprintln!("{name}: a price after {:.1?}", cut_at.elapsed());
    }
}

/// Whether an answer reflects an event.
async fn is_fresh(proxy: SocketAddr, key: &str, seq: u64) -> bool {
    let reply = request(proxy, "GET", CARD, &[("x-api-key", key)]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("railbird-seq").parse::<u64>().unwrap() >= seq
}

/// Waits for the odds of an event, or the end of the connection, with a close code that asks for another one.
async fn until_price(socket: &mut Socket, seq: u64) -> bool {
    while let Some(message) = socket.next().await {
        if message["event"] == "odds_update" && message["seq"].as_u64() >= Some(seq) {
            return true;
        }
        if message["event"] == "closing" {
            assert_eq!(message["code"], 1013, "{message}");
        }
    }
    false
}
