//! The connection to NATS, with TLS and with credentials.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::*;

/// The configuration of a server with this certificate.
fn with_tls(conf: &str, files: &PemFiles) -> String {
    let (cert, key) = (files.cert.display(), files.key.display());
    format!("{conf}\ntls {{ cert_file: \"{cert}\", key_file: \"{key}\" }}\n")
}

/// Writes events as `railbird publish` reads them.
fn events_file(folder: &Path, events: &[Value]) -> String {
    let file = folder.join("events.jsonl");
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    file.display().to_string()
}

/// The key that `railbird keys issue` prints.
fn key_in(output: &Output) -> String {
    let key = output.all.lines().find(|line| line.starts_with("rb_"));
    key.unwrap_or_else(|| panic!("no key: {}", output.all))
        .to_owned()
}

/// Waits until the card of the day has this many races.
async fn until_races(serving: &Serving, key: &str, races: usize) {
    eventually("the card is served", || async {
        let headers = [("x-api-key", key)];
        let path = "/api/v1/racecards/2026-11-21";
        let reply = request(serving.http, "GET", path, &headers).await;
        let card = reply.json();
        card["races"]
            .as_array()
            .is_some_and(|all| all.len() == races)
    })
    .await;
}

#[tokio::test]
async fn the_service_feeders_and_keys_use_nats_with_tls() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let files = authority.issue().write(folder.path());
    let ca = authority.file(folder.path());
    let mut nats = Nats::start_with(|conf| with_tls(&conf, &files));
    let tls = |user: &str| nats.url_of(user).replace("nats://", "tls://");
    let (service_url, keys_url, feeder_url) = (tls("railbird"), tls("keys"), tls("feeder"));
    let flags = [
        "--production",
        "--http",
        "127.0.0.1:0",
        "--nats",
        &service_url,
        "--nats-ca",
        &ca,
    ];
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    eventually("the streams exist", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    let issue = [
        "keys",
        "issue",
        "--plan",
        "default",
        "--nats",
        &keys_url,
        "--nats-ca",
        &ca,
    ];
    let key = key_in(&railbird(issue).await);
    let publish = async |race: u16| {
        let file = events_file(folder.path(), &[card("2026-11-21", "ST", race, 3)]);
        let args = ["publish", &file, "--nats", &feeder_url, "--nats-ca", &ca];
        let output = railbird(args).await;
        assert_eq!(output.code, 0, "{}", output.all);
    };
    publish(1).await;
    until_races(&serving, &key, 1).await;

    // After a restart of NATS, the service connects again, with TLS.
    nats.kill();
    nats.start_again();
    publish(2).await;
    until_races(&serving, &key, 2).await;

    // With an authority, nats:// is TLS, too.
    let plain_url = nats.url_of("keys");
    let list = railbird(["keys", "list", "--nats", &plain_url, "--nats-ca", &ca]).await;
    assert_eq!(list.code, 0, "{}", list.all);
}

#[tokio::test]
async fn a_server_with_a_certificate_of_another_authority_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let files = authority.issue().write(folder.path());
    let nats = Nats::start_with(|conf| with_tls(&conf, &files));
    let other = other.file(folder.path());
    let url = nats.url_of("keys").replace("nats://", "tls://");
    for ca in [&["--nats-ca", &other][..], &[]] {
        let args = [&["keys", "list", "--nats", &url], ca].concat();
        let list = railbird(args).await;
        assert_eq!(list.code, 69, "{}", list.all);
        assert!(
            list.all.contains("invalid peer certificate"),
            "{}",
            list.all
        );
        assert!(!list.all.contains("p-keys"));
    }
    let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--nats-ca", &other];
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    let log = std::fs::read_to_string(nats.folder().join("log"));
    assert!(!log.unwrap().contains("authenticated"));
    eventually("the service reports it", || async {
        let status = request(serving.admin, "GET", "/status", &[]).await.json();
        status["log"]["connected"] == false && status["phase"] == "waiting_for_log"
    })
    .await;
    eventually("the attempts fail", || async {
        let log = std::fs::read_to_string(nats.folder().join("log")).unwrap();
        log.matches("TLS handshake error").count() > 4
    })
    .await;
    let log = serving.stop().await;
    let warned: Vec<_> = log
        .iter()
        .filter(|line| line.contains("NATS cannot be reached"))
        .collect();
    // One for both connections.
    assert_eq!(warned.len(), 1, "{log:#?}");
    assert!(
        warned
            .iter()
            .all(|line| line.contains("invalid peer certificate")),
        "{warned:?}"
    );
}

#[tokio::test]
async fn files_that_cannot_be_used_are_wrong_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "a text").unwrap();
    let (text, missing) = (text.to_str().unwrap(), folder.path().join("missing"));
    for (flag, file, reason) in [
        ("--nats-ca", text, "has no certificate"),
        ("--nats-ca", missing.to_str().unwrap(), "No such file"),
        ("--nats-creds", text, "cannot parse user JWT"),
        ("--nats-creds", missing.to_str().unwrap(), "No such file"),
    ] {
        for command in [
            &["keys", "list"][..],
            &["serve", "--data", folder.path().to_str().unwrap()],
        ] {
            let output = railbird([command, &[flag, file]].concat()).await;
            assert_eq!(output.code, 78, "{}", output.all);
            for text in [flag, file, reason] {
                assert!(output.all.contains(text), "{text}: {}", output.all);
            }
        }
    }
}

#[tokio::test]
async fn without_tls_no_password_is_sent_to_a_tls_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tls://keys:p-keys@{}", listener.local_addr().unwrap());
    let listing = tokio::spawn(railbird([
        "keys".to_owned(),
        "list".into(),
        "--nats".into(),
        url,
    ]));
    let (mut stream, _) = listener.accept().await.unwrap();
    // Somebody on the way pretends that the server has no TLS, and names another one.
    let info = json!({"server_id": "x", "version": "2.12.0", "max_payload": 1024, "connect_urls": ["192.0.2.1:4222"]});
    stream
        .write_all(format!("INFO {info}\r\n").as_bytes())
        .await
        .unwrap();
    let mut sent = [0; 512];
    let bytes = timeout(PATIENCE, stream.read(&mut sent))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(sent[0], 0x16, "a TLS handshake: {:?}", &sent[..bytes]);
    drop(stream);
    assert_eq!(listing.await.unwrap().code, 69);
}

/// A JWT of NATS.
fn jwt(issuer: &KeyPair, subject: &KeyPair, name: &str, nats: &Value) -> String {
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({
        "jti": name, "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": name, "nats": nats,
    });
    let signed = format!("{}.{}", encode(&head), encode(&claims));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// A server whose users have credentials, and the file of one that may do everything with the streams.
fn with_credentials(folder: &Path, files: &PemFiles) -> (Nats, String) {
    let [operator, system, account, user] = [
        KeyPair::new_operator(),
        KeyPair::new_account(),
        KeyPair::new_account(),
        KeyPair::new_user(),
    ];
    let operator_jwt = jwt(
        &operator,
        &operator,
        "operator",
        &json!({"type": "operator", "version": 2}),
    );
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let account_jwt = jwt(
        &operator,
        &account,
        "racing",
        &json!({"limits": limits, "type": "account", "version": 2}),
    );
    let without_streams = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    });
    let system_jwt = jwt(
        &operator,
        &system,
        "SYS",
        &json!({"limits": without_streams, "type": "account", "version": 2}),
    );
    let user_jwt = jwt(
        &account,
        &user,
        "service",
        &json!({"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2}),
    );
    let creds = folder.join("service.creds");
    let seed = user.seed().unwrap();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    std::fs::write(&creds, text).unwrap();
    let conf = format!(
        "operator: {operator_jwt}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {account_jwt}, {}: {system_jwt} }}\n\
         jetstream {{ sync_interval: always }}\n",
        system.public_key(),
        account.public_key(),
        system.public_key(),
    );
    (
        Nats::start_from(&with_tls(&conf, files)),
        creds.display().to_string(),
    )
}

#[tokio::test]
async fn the_service_feeders_and_keys_log_in_with_credentials() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let files = authority.issue().write(folder.path());
    let ca = authority.file(folder.path());
    let (nats, creds) = with_credentials(folder.path(), &files);
    let url = nats.url().replace("nats://", "tls://");
    let access = ["--nats", &url, "--nats-ca", &ca, "--nats-creds", &creds];
    let flags = [&["--http", "127.0.0.1:0"], &access[..]].concat();
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    eventually("the service is ready", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    let issue = [&["keys", "issue", "--plan", "default"], &access[..]].concat();
    let key = key_in(&railbird(issue).await);
    let file = events_file(folder.path(), &[card("2026-11-21", "ST", 1, 3)]);
    let published = railbird([&["publish", &file], &access[..]].concat()).await;
    assert_eq!(published.code, 0, "{}", published.all);
    until_races(&serving, &key, 1).await;

    // Credentials of another operator.
    let other = tempfile::tempdir().unwrap();
    let (_other_nats, other_creds) = with_credentials(other.path(), &files);
    let list = railbird([
        "keys",
        "list",
        "--nats",
        &url,
        "--nats-ca",
        &ca,
        "--nats-creds",
        &other_creds,
    ])
    .await;
    assert_eq!(list.code, 77, "{}", list.all);
    assert!(list.all.contains(&other_creds), "{}", list.all);
    assert!(!list.all.contains("SUA"), "no seed is shown: {}", list.all);
    let anonymous = railbird(["keys", "list", "--nats", &url, "--nats-ca", &ca]).await;
    assert_eq!(anonymous.code, 77, "{}", anonymous.all);
}
