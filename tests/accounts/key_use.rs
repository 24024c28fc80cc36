//! The use of keys: what is counted, kept in the stream `KEY_USE`, and shown to subscribers and operators.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures::future::join_all;
use railbird::accounts::{KeyId, KeyRevoked};
use railbird::limits::Proxies;
use railbird::log::KEY_USE;
use serde_json::{Value, json};

use crate::support::*;

const PATH: &str = "/api/v1/meetings";
const HERE: &str = "127.0.0.0/24";
/// The use of keys is written this often in tests that wait for it.
const OFTEN: Duration = Duration::from_millis(50);

/// A service that writes the use of keys often, and trusts `X-Forwarded-For`.
async fn start(nats: &Nats) -> Railbird {
    Railbird::start_with(nats, |config| {
        config.write_use_every = OFTEN;
        let here = Proxies::parse("127.0.0.1").unwrap();
        config.proxies = Proxies::new(vec![here]);
    })
    .await
}

/// Sends requests with a key from an address.
async fn send(railbird: &Railbird, key: &str, requests: u32, address: &str) {
    let headers = [("x-api-key", key), ("x-forwarded-for", address)];
    for _ in 0..requests {
        let reply = request(railbird.http, "GET", PATH, &headers).await;
        assert_eq!(reply.status, 200);
    }
}

async fn get(http: SocketAddr, path: &str, key: &str) -> Reply {
    request(http, "GET", path, &[("x-api-key", key)]).await
}

fn id(key: &str) -> &str {
    key.split('_').nth(2).unwrap()
}

/// A key in a list of keys.
fn of_key<'a>(rows: &'a [Value], key: &str) -> &'a Value {
    let mut rows = rows.iter();
    rows.find(|row| row["key_id"] == id(key)).unwrap()
}

/// What the account shows of the use of a key: the requests today, and the network. The request counts as well.
async fn account_use(railbird: &Railbird, key: &str) -> (u64, String) {
    let reply = get(railbird.http, "/api/v1/account", key).await;
    let account = reply.json();
    let found = of_key(account["keys"].as_array().unwrap(), key);
    assert!(is_recent(&found["last_used_at"]), "{found}");
    let network = found["network"].as_str().unwrap();
    (
        found["requests_today"].as_u64().unwrap(),
        network.to_owned(),
    )
}

fn is_recent(time: &Value) -> bool {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    (-2.0..120.0).contains(&jiff::Timestamp::now().duration_since(time).as_secs_f64())
}

/// What `railbird keys list` shows of a key, with the rights of `keys`.
async fn listed(nats: &Nats, key: &str) -> Value {
    let url = nats.url_of("keys");
    let list = railbird(["keys", "list", "--json", "--nats", &url]).await;
    assert_eq!(list.code, 0, "{}", list.all);
    let rows = list.all.lines().filter(|line| line.starts_with('{'));
    let rows: Vec<Value> = rows.map(|row| serde_json::from_str(row).unwrap()).collect();
    of_key(&rows, key).clone()
}

async fn until_listed(nats: &Nats, key: &str, requests: u64) {
    eventually(&format!("{requests} requests are listed"), || async {
        listed(nats, key).await["requests_today"] == requests
    })
    .await;
}

/// All messages of the stream, as text.
async fn stored(nats: &Nats) -> Vec<(String, Value)> {
    let client = nats.client_of("admin").await;
    let jetstream = patient_jetstream(client);
    let mut stream = jetstream.get_stream(KEY_USE.name).await.unwrap();
    let last_seq = stream.info().await.unwrap().state.last_sequence;
    let seqs: Vec<u64> = (1..=last_seq).collect();
    let found = join_all(seqs.iter().map(|seq| stream.get_raw_message(*seq))).await;
    let found = found.into_iter().filter_map(Result::ok);
    found
        .map(|message| {
            let payload = serde_json::from_slice(&message.payload).unwrap();
            (message.subject.to_string(), payload)
        })
        .collect()
}

#[tokio::test]
async fn a_subscriber_sees_the_request_that_was_just_made() {
    let nats = Nats::start();
    // Nothing is written meanwhile: the interval is that of operation.
    let railbird = Railbird::start(&nats).await;
    let other = railbird.issue_key(&nats).await;
    for n in 0..3 {
        let (requests, network) = account_use(&railbird, &railbird.key).await;
        assert_eq!((requests, network.as_str()), (2 * n + 1, HERE));
        assert_eq!(railbird.get(PATH).await.status, 200);
    }
    // What is rejected is no use, and a key is not used with another one.
    let bearer = format!("Bearer {other}");
    let wrong = [
        ("x-api-key", railbird.key.as_str()),
        ("authorization", &bearer),
    ];
    let rejected = request(railbird.http, "GET", PATH, &wrong).await;
    assert_eq!(rejected.status, 401);
    assert_eq!(account_use(&railbird, &railbird.key).await.0, 7);
    assert_eq!(account_use(&railbird, &other).await.0, 1);
}

#[tokio::test]
async fn a_key_that_was_never_used_has_no_use() {
    let nats = Nats::start();
    let railbird = start(&nats).await;
    let until: jiff::Timestamp = "2999-01-01T00:00:00Z".parse().unwrap();
    let second = railbird.rotate_key(&nats, until).await;
    send(&railbird, &railbird.key, 2, "203.0.113.77").await;
    until_listed(&nats, &railbird.key, 2).await;
    let account = railbird.get("/api/v1/account").await.json();
    let unused = of_key(account["keys"].as_array().unwrap(), second.reveal());
    let of_use =
        |row: &Value| ["last_used_at", "requests_today", "network"].map(|f| row[f].clone());
    assert_eq!(of_use(unused), [json!(""), json!(0), json!("")]);
    let unused = listed(&nats, second.reveal()).await;
    assert_eq!(of_use(&unused), [Value::Null, json!(0), Value::Null]);
    // The rotation has left the count of the first key as it was, and the second begins its own.
    assert_eq!(account_use(&railbird, &railbird.key).await.0, 4);
    assert_eq!(account_use(&railbird, second.reveal()).await.0, 1);
}

#[tokio::test]
async fn use_is_added_up_over_replicas_and_restarts() {
    let nats = Nats::start();
    let (one, two) = (start(&nats).await, start(&nats).await);
    let key = one.key.clone();
    eventually("both replicas accept the key", || async {
        two.app.keys.check(&key).is_ok()
    })
    .await;
    send(&one, &key, 3, "203.0.113.77").await;
    until_listed(&nats, &key, 3).await;
    send(&two, &key, 4, "2001:db8:a:b:c:d:e:f").await;
    until_listed(&nats, &key, 7).await;
    eventually("each replica knows the use at the other", || async {
        let known = |railbird: &Railbird| {
            let key_id = KeyId::of_key(&key).unwrap();
            let found = railbird
                .app
                .keys
                .uses
                .get(key_id, jiff::Timestamp::now().into());
            found.map(|found| (found.requests, found.network.to_string()))
        };
        let expected = Some((7, "2001:db8:a::/48".to_owned()));
        known(&one) == expected && known(&two) == expected
    })
    .await;
    // The last requests of a service are written when it stops, however long the interval.
    one.stop().await;
    let slow = Railbird::start(&nats).await;
    send(&slow, &key, 5, "").await;
    slow.stop().await;
    assert_eq!(listed(&nats, &key).await["requests_today"], 12);
    let again = start(&nats).await;
    eventually("the new service knows the use before it", || async {
        let key_id = KeyId::of_key(&key).unwrap();
        let found = again
            .app
            .keys
            .uses
            .get(key_id, jiff::Timestamp::now().into());
        found.is_some_and(|found| found.requests == 12)
    })
    .await;
    assert_eq!(account_use(&again, &key).await, (13, HERE.to_owned()));
}

/// A process under the rights of nats.conf.
fn serve(nats: &Nats, data: &Path) -> Serving {
    let url = nats.url_of("railbird");
    Serving::start_with(&["--http", "127.0.0.1:0", "--nats", &url], data)
}

#[tokio::test]
async fn a_killed_service_loses_only_what_it_had_not_written() {
    let nats = Nats::start();
    nats.log().await;
    let key = issue_key(&nats).await;
    let data = tempfile::tempdir().unwrap();
    let use_key = async |service: &Serving, requests: u32| {
        service.until_ready().await;
        for _ in 0..requests {
            assert_eq!(get(service.http, PATH, &key).await.status, 200);
        }
    };
    let stopped = serve(&nats, data.path());
    use_key(&stopped, 3).await;
    stopped.stop().await;
    let mut killed = serve(&nats, data.path());
    use_key(&killed, 2).await;
    killed.kill();
    let after = listed(&nats, &key).await;
    assert_eq!(
        after["requests_today"], 3,
        "what was written stays: {after}"
    );
    assert_eq!(after["network"], HERE);
    // A service that lives longer than the interval has written before it ends.
    let railbird = start(&nats).await;
    send(&railbird, &key, 4, "").await;
    until_listed(&nats, &key, 7).await;
    let service = serve(&nats, data.path());
    service.until_ready().await;
    eventually("all that was written is known", || async {
        let account = get(service.http, "/api/v1/account", &key).await.json();
        let keys = account["keys"].as_array().unwrap();
        of_key(keys, &key)["requests_today"].as_u64().unwrap() > 7
    })
    .await;
}

#[tokio::test]
async fn the_use_of_a_revoked_key_is_listed() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let key = railbird.issue_key(&nats).await;
    send(&railbird, &key, 6, "").await;
    // Revoked before its use is written.
    append_account_event(
        &nats,
        KeyRevoked {
            key_id: KeyId::of_key(&key).unwrap(),
            reason: events::Text::default(),
        },
    )
    .await;
    // A request counts as long as the key is accepted.
    let accepted = Cell::new(6);
    eventually("the key is rejected", async || {
        let status = get(railbird.http, PATH, &key).await.status;
        if status == 200 {
            accepted.set(accepted.get() + 1);
        }
        status == 401
    })
    .await;
    railbird.stop().await;
    let row = listed(&nats, &key).await;
    assert_eq!(row["state"], "revoked");
    assert_eq!(
        (&row["requests_today"], &row["network"]),
        (&json!(accepted.get()), &json!(HERE))
    );
    assert!(is_recent(&row["last_used_at"]), "{row}");
}

#[tokio::test]
async fn an_open_socket_is_a_use_of_its_key() {
    let nats = Nats::start();
    let railbird = start(&nats).await;
    let (_socket, _) = railbird.live("").await;
    until_listed(&nats, &railbird.key, 1).await;
    let last_used = async || listed(&nats, &railbird.key).await["last_used_at"].clone();
    let first = last_used().await;
    // The list has seconds.
    eventually("the socket is in use", async || last_used().await != first).await;
    assert_eq!(listed(&nats, &railbird.key).await["requests_today"], 1);
}

#[tokio::test]
async fn the_stream_has_one_message_for_each_key_and_process_and_no_address() {
    let nats = Nats::start();
    let railbird = start(&nats).await;
    for requests in 1..4_u64 {
        send(&railbird, &railbird.key, 1, "203.0.113.77").await;
        until_listed(&nats, &railbird.key, requests).await;
    }
    let other = railbird.issue_key(&nats).await;
    send(&railbird, &other, 1, "2001:db8:a:b:c:d:e:f").await;
    until_listed(&nats, &other, 1).await;
    railbird.stop().await;
    let stored = stored(&nats).await;
    let networks = stored
        .iter()
        .map(|(_, found)| found["network"].as_str().unwrap());
    assert_eq!(
        networks.collect::<Vec<_>>(),
        ["203.0.113.0/24", "2001:db8:a::/48"]
    );
    let text = format!("{stored:?}");
    for address in ["203.0.113.77", "2001:db8:a:b", "c:d:e:f"] {
        assert!(!text.contains(address), "{text}");
    }
    for (subject, found) in &stored {
        let tokens: Vec<&str> = subject.split('.').collect();
        assert_eq!((tokens[0], tokens.len()), ("key_use", 3));
        assert_eq!(tokens[2].len(), 16, "a random number: {subject}");
        let fields: Vec<_> = found.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["last_used_at", "network", "requests"]);
    }
}

/// Serves requests with a key while the use of keys cannot be kept, and returns what was warned of that.
async fn undisturbed(nats: &Nats) -> Vec<String> {
    let key = issue_key(nats).await;
    let data = tempfile::tempdir().unwrap();
    let service = serve(nats, data.path());
    let (http, admin) = (service.http, service.admin);
    service.until_ready().await;
    assert_eq!(get(http, PATH, &key).await.status, 200);
    for n in 2..4 {
        let account = get(http, "/api/v1/account", &key).await.json();
        let keys = account["keys"].as_array().unwrap();
        assert_eq!(of_key(keys, &key)["requests_today"], n, "{account}");
    }
    assert_eq!(get(http, "/readyz", &key).await.status, 200);
    assert_eq!(listed(nats, &key).await["state"], "valid");
    eventually("the settings of the streams are known", || async {
        let metrics = request(admin, "GET", "/metrics", &[]).await.text();
        let ready = get(http, "/readyz", "").await.json();
        metrics.contains("railbird_log_settings_drift{stream=\"ACCOUNTS\"} 0")
            && ready["log"]["drift"].is_object()
    })
    .await;
    let log = service.stop().await;
    let warnings = log.iter().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_of_use = line["level"] == "WARN" && line.to_string().contains("use of keys");
        is_of_use.then(|| {
            line["fields"]["task"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    });
    warnings.collect()
}

#[tokio::test]
async fn a_full_stream_disturbs_no_request() {
    let nats = Nats::start();
    nats.log().await;
    let client = nats.client_of("admin").await;
    let full = Config {
        name: KEY_USE.name.to_owned(),
        subjects: vec!["key_use.>".to_owned()],
        max_bytes: 10,
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    let jetstream = patient_jetstream(client);
    jetstream.create_stream(full).await.unwrap();
    assert_eq!(undisturbed(&nats).await, ["write"]);
}

/// As with a nats.conf from before the stream.
#[tokio::test]
async fn a_stream_without_permissions_disturbs_no_request() {
    let nats = Nats::start_with(|conf| {
        let is_of_stream = |line: &&str| line.contains("KEY_USE") || line.contains("key_use.>");
        let lines = conf.lines();
        let lines = lines.filter(|line| line.contains("deny") || !is_of_stream(line));
        lines.collect::<Vec<_>>().join("\n")
    });
    nats.log().await;
    assert_eq!(undisturbed(&nats).await, ["read", "write"]);
}

#[tokio::test]
async fn a_stream_that_is_deleted_is_created_again_and_nothing_else_is_lost() {
    let nats = Nats::start();
    let railbird = start(&nats).await;
    send(&railbird, &railbird.key, 3, "").await;
    until_listed(&nats, &railbird.key, 3).await;
    let client = nats.client_of("admin").await;
    let jetstream = patient_jetstream(client);
    jetstream.delete_stream(KEY_USE.name).await.unwrap();
    assert_eq!(railbird.get(PATH).await.status, 200);
    until_listed(&nats, &railbird.key, 4).await;
    let settings = jetstream.get_stream(KEY_USE.name).await.unwrap();
    let settings = &settings.cached_info().config;
    assert_eq!(settings.max_messages_per_subject, 1);
    assert_eq!(settings.max_age, Duration::from_secs(35 * 24 * 60 * 60));
    assert!(settings.max_bytes > 0 && settings.discard == DiscardPolicy::Old);
    assert!(!settings.deny_delete && !settings.deny_purge);
    let durability = nats.log().await.durability().await.unwrap();
    assert_eq!(durability.drift[KEY_USE.name], []);
    assert_eq!(railbird.get_open("/readyz").await.status, 200);
}
