//! The life of a key, by the commands of operators, on two replicas that log at the finest level.

use std::net::SocketAddr;
use std::path::Path;

use futures::future::{join_all, try_join_all};
use railbird::accounts::{
    self, AccountCommands, Actor, ApiKey, Email, KeyRevoked, MailAttempted, SubscriptionId,
    new_link,
};
use railbird::http::UNAUTHORIZED_BODY;
use railbird::log::{ACCOUNTS, ADDRESSES, Outgoing};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::*;

const PATH: &str = "/api/v1/meetings";

/// The result of `railbird keys`.
struct CommandResult {
    code: i32,
    stdout: String,
    stderr: String,
}

impl CommandResult {
    /// The key on standard output.
    fn key(&self) -> Key {
        assert_eq!(self.code, 0, "{}", self.stderr);
        let key = self.stdout.trim().to_owned();
        assert!(key.starts_with("rb_live_"), "and nothing else: {key}");
        let id = key.split('_').nth(2).unwrap().to_owned();
        Key { id, key }
    }

    fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// The rows of a list.
    fn rows(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

#[derive(Debug, Clone)]
struct Key {
    id: String,
    key: String,
}

/// Two replicas that follow one log.
struct Replicas {
    nats: Nats,
    folders: [TempDir; 2],
    services: Vec<Serving>,
    /// The log of commands and of services that were stopped.
    logs: Vec<String>,
    secrets: Vec<String>,
}

fn serve(nats: &Nats, data: &Path) -> Serving {
    let url = nats.url_of("railbird");
    let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--log", "trace"];
    Serving::start_with(&flags, data)
}

impl Replicas {
    async fn start() -> Self {
        let nats = Nats::start();
        nats.log().await;
        let mut replicas = Self {
            nats,
            folders: [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()],
            services: Vec::new(),
            logs: Vec::new(),
            secrets: Vec::new(),
        };
        replicas.serve().await;
        replicas
    }

    async fn serve(&mut self) {
        for folder in &self.folders {
            self.services.push(serve(&self.nats, folder.path()));
        }
        for service in &self.services {
            let http = service.http;
            eventually("the service is ready", || async move {
                request(http, "GET", "/readyz", &[]).await.status == 200
            })
            .await;
        }
    }

    async fn stop(&mut self) {
        for service in self.services.drain(..) {
            self.logs.extend(service.stop().await);
        }
    }

    /// Runs `railbird keys` with the finest log level.
    async fn keys(&mut self, args: &[&str]) -> CommandResult {
        let mut command = command();
        let url = self.nats.url_of("keys");
        command
            .args(["keys", "--nats", &url, "--log", "trace"])
            .args(args);
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let result = CommandResult {
            code: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        let keys = result.stdout.lines().filter(|line| line.starts_with("rb_"));
        self.secrets.extend(keys.map(ToOwned::to_owned));
        self.logs
            .extend(result.stderr.lines().map(ToOwned::to_owned));
        result
    }

    /// The row of a key in the list.
    async fn row(&mut self, key: &Key) -> Value {
        let rows = self.keys(&["list", "--json"]).await.succeeded().rows();
        let row = rows.into_iter().find(|row| row["key_id"] == *key.id);
        row.expect("the key is listed")
    }

    /// Waits until every replica accepts a key.
    async fn until_accepted(&self, key: &Key) {
        for service in &self.services {
            let what = format!("{} accepts {}", service.http, key.id);
            eventually(&what, || async {
                get_with_key(service, key).await.status == 200
            })
            .await;
        }
    }

    /// Waits until every replica rejects a key, and checks the response.
    async fn until_rejected(&self, key: &Key) {
        for service in &self.services {
            let what = format!("{} rejects {}", service.http, key.id);
            eventually(&what, || async {
                get_with_key(service, key).await.status != 200
            })
            .await;
            let path = format!("/ws/live/odds?api_key={}", key.key);
            let handshake = Socket::refused(service.http, &path).await;
            for reply in [get_with_key(service, key).await, handshake] {
                let (status, body) = (reply.status, reply.text());
                assert_eq!((status, body.as_str()), (401, UNAUTHORIZED_BODY));
            }
        }
    }

    async fn sockets(&self, key: &Key) -> Vec<Socket> {
        join_all(self.services.iter().map(|service| async {
            let mut socket = Socket::open(service.http, &key.key).await;
            socket.until("snapshot_complete").await;
            socket
        }))
        .await
    }

    /// Stops all services, and checks that no key or password was logged.
    async fn end(mut self) {
        self.stop().await;
        let finest = |line: &String| line.contains("DEBUG");
        assert!(self.logs.iter().any(finest), "the finest level is logged");
        for key in &self.secrets {
            let (_, secret) = key.rsplit_once('_').unwrap();
            let found = self.logs.iter().find(|line| line.contains(secret));
            assert!(found.is_none(), "a key is in the log: {found:?}");
        }
        let password = self.logs.iter().find(|line| line.contains("p-railbird"));
        assert!(password.is_none(), "{password:?}");
    }
}

/// The response to a request with a key.
async fn get_with_key(service: &Serving, key: &Key) -> Reply {
    request(service.http, "GET", PATH, &[("x-api-key", &key.key)]).await
}

/// Checks that sockets are closed because of their key.
async fn assert_closed(sockets: Vec<Socket>) {
    for mut socket in sockets {
        let (messages, code) = socket.until_closed().await;
        let closing = messages.last().expect("a closing message");
        assert_eq!((&closing["event"], code), (&json!("closing"), Some(4401)));
        assert_eq!(closing["retry_after_ms"], 0, "reconnecting is pointless");
    }
}

async fn assert_open(sockets: &mut [Socket]) {
    for socket in sockets {
        socket.request(&json!({ "op": "ping" })).await;
    }
}

fn text(text: &str) -> events::Text {
    events::Text::parse(text).unwrap()
}

#[tokio::test]
async fn a_rotated_key_works_until_the_overlap_ends() {
    let mut replicas = Replicas::start().await;
    let first = replicas.keys(&["issue", "--plan", "standard"]).await.key();
    replicas.until_accepted(&first).await;
    let mut of_first = replicas.sockets(&first).await;

    let second = replicas.keys(&["rotate", &first.id]).await.key();
    replicas.until_accepted(&second).await;
    replicas.until_accepted(&first).await;
    assert_open(&mut of_first).await;
    let row = replicas.row(&first).await;
    assert_eq!(
        (&row["state"], &row["rotated_to"]),
        (&json!("overlapping"), &json!(second.id))
    );
    let row = replicas.row(&second).await;
    assert_eq!(
        (&row["state"], &row["plan"]),
        (&json!("valid"), &json!("standard"))
    );

    let again = replicas.keys(&["rotate", &first.id]).await;
    assert_eq!((again.code, again.stdout.as_str()), (1, ""));
    assert!(again.stderr.contains(&second.id), "{}", again.stderr);

    let mut of_second = replicas.sockets(&second).await;
    // The whole key is accepted instead of its id.
    let third = replicas
        .keys(&["rotate", &second.key, "--overlap", "1s"])
        .await
        .key();
    replicas.until_accepted(&third).await;
    assert_closed(std::mem::take(&mut of_second)).await;
    replicas.until_rejected(&second).await;
    assert_eq!(replicas.row(&second).await["state"], "rotated");
    assert_open(&mut of_first).await;
    assert_open(&mut replicas.sockets(&third).await).await;
    replicas.end().await;
}

#[tokio::test]
async fn a_revoked_key_is_rejected_by_every_replica_and_its_sockets_are_closed() {
    let mut replicas = Replicas::start().await;
    let (revoked, other) = (
        replicas.keys(&["issue", "--plan", "default"]).await.key(),
        replicas.keys(&["issue", "--plan", "default"]).await.key(),
    );
    for key in [&revoked, &other] {
        replicas.until_accepted(key).await;
    }
    let (closing, mut open) = (
        replicas.sockets(&revoked).await,
        replicas.sockets(&other).await,
    );
    let revoke = ["revoke", &revoked.id, "--reason", "seen in a repository"];
    replicas.keys(&revoke).await.succeeded();
    assert_closed(closing).await;
    replicas.until_rejected(&revoked).await;
    assert_open(&mut open).await;
    replicas.until_accepted(&other).await;
    let row = replicas.row(&revoked).await;
    assert_eq!(
        (&row["state"], &row["reason"]),
        (&json!("revoked"), &json!("seen in a repository"))
    );
    replicas.keys(&["revoke", &revoked.id]).await.succeeded();
    assert_eq!(
        replicas.row(&revoked).await,
        row,
        "the first revocation stands"
    );
    for args in [
        ["rotate", &revoked.id].as_slice(),
        &["plan", &revoked.id, "professional"],
    ] {
        let rejected = replicas.keys(args).await;
        assert_eq!(rejected.code, 1, "{args:?}");
        assert!(
            rejected.stderr.contains("is revoked"),
            "{}",
            rejected.stderr
        );
    }
    for service in &replicas.services {
        assert_eq!(service.metric("railbird_keys").await, 1);
        let metrics = request(service.admin, "GET", "/metrics", &[]).await.text();
        let counted = "railbird_unauthorized_total{reason=\"not_valid\"} ";
        let counted = metrics.lines().find_map(|line| line.strip_prefix(counted));
        assert!(counted.unwrap().parse::<u64>().unwrap() >= 2, "{metrics}");
    }
    replicas.end().await;
}

#[tokio::test]
async fn a_key_expires_without_an_event() {
    let mut replicas = Replicas::start().await;
    // On a slow machine, the key has to last longer to be used at all.
    let mut seconds = 2;
    let (expires, sockets) = loop {
        let lasts = format!("{seconds}s");
        let expires = replicas
            .keys(&["issue", "--plan", "default", "--expires", &lasts])
            .await
            .key();
        // A replica that has this key has the previous one.
        let next = replicas
            .keys(&["issue", "--plan", "default", "--expires", "30d"])
            .await
            .key();
        replicas.until_accepted(&next).await;
        let path = format!("/ws/live/odds?api_key={}", expires.key);
        let open = replicas.services.iter();
        let open = open.map(|service| Socket::try_connect(service.http, &path));
        if let Ok(sockets) = try_join_all(open).await {
            break (expires, sockets);
        }
        seconds *= 2;
    };
    assert_closed(sockets).await;
    replicas.until_rejected(&expires).await;
    assert_eq!(replicas.row(&expires).await["state"], "expired");
    let rejected = replicas.keys(&["rotate", &expires.id]).await;
    assert_eq!((rejected.code, rejected.stdout.as_str()), (1, ""));

    // The replacement of a key has its expiry.
    let lasting = replicas
        .keys(&["issue", "--plan", "default", "--expires", "2999-12-31"])
        .await
        .key();
    let next = replicas.keys(&["rotate", &lasting.id]).await.key();
    let row = replicas.row(&next).await;
    assert_eq!(row["valid_until"], "3000-01-01T00:00:00Z");
    replicas.end().await;
}

#[tokio::test]
async fn a_restarted_service_has_the_same_keys() {
    let mut replicas = Replicas::start().await;
    let valid = replicas.keys(&["issue", "--plan", "default"]).await.key();
    let revoked = replicas.keys(&["issue", "--plan", "default"]).await.key();
    let rotated = replicas.keys(&["issue", "--plan", "default"]).await.key();
    let overlapping = replicas.keys(&["issue", "--plan", "default"]).await.key();
    replicas.keys(&["revoke", &revoked.id]).await.succeeded();
    let next = replicas
        .keys(&["rotate", &rotated.id, "--overlap", "0s"])
        .await
        .key();
    let other = replicas.keys(&["rotate", &overlapping.id]).await.key();
    replicas
        .keys(&["plan", &valid.id, "professional"])
        .await
        .succeeded();
    for _ in 0..2 {
        for key in [&valid, &next, &overlapping, &other] {
            replicas.until_accepted(key).await;
        }
        for key in [&revoked, &rotated] {
            replicas.until_rejected(key).await;
        }
        assert_eq!(replicas.row(&valid).await["plan"], "professional");
        replicas.stop().await;
        replicas.serve().await;
    }
    replicas.end().await;
}

#[tokio::test]
async fn a_service_that_has_not_read_all_events_accepts_no_revoked_key() {
    let nats = Nats::start();
    let log = nats.log().await;
    log.ensure(ACCOUNTS).await.unwrap();
    let revoked = ApiKey::generate("test").unwrap();
    log.append(issued(&revoked)).await.unwrap();
    // More than one batch.
    let mut appender = log.appender();
    for _ in 0..12_000 {
        let other = ApiKey::generate("test").unwrap();
        appender.append(issued(&other)).await.unwrap();
    }
    appender.finish().await.unwrap();
    let (key_id, reason) = (revoked.key_id, text("compromised"));
    append_account_event(&nats, KeyRevoked { key_id, reason }).await;

    let data = tempfile::tempdir().unwrap();
    let mut railbird = Railbird::start_unready(&nats.url(), data.path()).await;
    railbird.key = revoked.reveal().to_owned();
    let mut answers = Vec::new();
    while answers.last() != Some(&401) {
        answers.push(railbird.get(PATH).await.status);
        assert!([401, 503].contains(&answers[answers.len() - 1]));
    }
    assert_eq!(railbird.app.keys.count(), 12_000);
}

const EMAIL: &str = "rail.bird@racing.example";

/// A subscriber to a plan with approval, as the pages act for one.
struct Subscriber {
    id: SubscriptionId,
}

impl Subscriber {
    async fn subscribe(nats: &Nats) -> Self {
        let log = nats.log().await;
        let email = Email::parse(EMAIL).unwrap();
        let commands = AccountCommands::at_end(log, Actor::Service).await.unwrap();
        let id = commands.book.id_of(&email).await.unwrap();
        let subscribed = commands.subscribe(&email, text("standard"), false);
        subscribed.await.unwrap();
        Self { id }
    }

    /// The commands with the ledger as of now.
    async fn now(&self, nats: &Nats) -> AccountCommands {
        let network = "203.0.113.0/24".to_owned().try_into().unwrap();
        let session = None;
        let actor = Actor::Subscriber { network, session };
        AccountCommands::at_end(nats.log().await, actor)
            .await
            .unwrap()
    }

    /// Uses the link of a mail, which was sent by nobody.
    async fn confirm(&self, nats: &Nats) {
        let ledger = accounts::read(&nats.log().await).await.unwrap();
        let subscription = ledger.subscriptions.get(&self.id).unwrap();
        let attempted = MailAttempted {
            mail_id: subscription.link_mail.clone(),
            attempt: 1,
            link: Some(new_link("token", jiff::Timestamp::now().into())),
        };
        append_account_event(nats, attempted).await;
        let used = self.now(nats).await;
        used.start_session("token", "cookie").await.unwrap();
    }
}

#[tokio::test]
async fn an_operator_sees_approves_and_ends_a_subscription() {
    let mut replicas = Replicas::start().await;
    let subscriber = Subscriber::subscribe(&replicas.nats).await;
    let id = subscriber.id.to_string();
    let state = async |replicas: &mut Replicas| {
        let rows = replicas.keys(&["subscriptions", "--json"]).await.rows();
        assert_eq!((rows.len(), &rows[0]["subscription_id"]), (1, &json!(id)));
        assert_eq!(rows[0]["plan"], "standard");
        assert_eq!(rows[0].get("email"), None);
        rows[0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&mut replicas).await, "unconfirmed");
    subscriber.confirm(&replicas.nats).await;
    assert_eq!(state(&mut replicas).await, "awaiting_approval");
    for _ in 0..2 {
        let args = ["--as", "alice", "approve", &id];
        let approved = replicas.keys(&args).await.succeeded();
        assert!(approved.stderr.contains("is approved"), "also again");
    }
    assert_eq!(state(&mut replicas).await, "active");

    let key = ApiKey::generate("live").unwrap();
    let named = (&key, text("the website"));
    let commands = subscriber.now(&replicas.nats).await;
    let issued = commands.issue_to_subscriber(subscriber.id.clone(), named, 5);
    issued.await.unwrap();
    let key = Key {
        id: key.key_id.to_string(),
        key: key.reveal().to_owned(),
    };
    replicas.secrets.push(key.key.clone());
    replicas.until_accepted(&key).await;
    let row = replicas.row(&key).await;
    let shown = ["name", "plan", "issued_by", "subscription_id"].map(|name| &row[name]);
    let by = "subscriber 203.0.113.0/24";
    assert_eq!(shown, ["the website", "standard", by, &id]);

    let headers = [("x-api-key", key.key.as_str())];
    let path = "/api/v1/account";
    let account = request(replicas.services[0].http, "GET", path, &headers).await;
    assert_eq!(account.json()["keys"][0]["name"], "the website");

    // An operator who revokes the last key ends what the subscriber could undo with another one.
    let revoke = ["--as", "alice", "revoke", &key.id, "--reason", "not paid"];
    replicas.keys(&revoke).await.succeeded();
    let row = replicas.row(&key).await;
    assert_eq!(row["revoked_by"], "operator alice");
    assert_eq!(state(&mut replicas).await, "awaiting_approval");
    let commands = subscriber.now(&replicas.nats).await;
    let another = ApiKey::generate("live").unwrap();
    let named = (&another, text("another"));
    let denied = commands.issue_to_subscriber(subscriber.id.clone(), named, 5);
    assert!(denied.await.is_err());

    let list = replicas.keys(&["subscriptions", "--emails"]).await;
    let list = list.succeeded().stdout;
    let rows: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..3], ["SUBSCRIPTION_ID", "STATE", "PLAN"]);
    assert_eq!(rows[1].last(), Some(&EMAIL));
    replicas.end().await;
}

#[tokio::test]
async fn every_event_of_the_stream_names_its_actor() {
    let mut replicas = Replicas::start().await;
    let issue = [
        "--as",
        "alice",
        "issue",
        "--plan",
        "default",
        "--name",
        "the website",
    ];
    let key = replicas.keys(&issue).await.key();
    let rotated = replicas
        .keys(&["--as", "bob", "rotate", &key.id])
        .await
        .key();
    let row = replicas.row(&key).await;
    let shown = ["name", "issued_by", "rotated_by"].map(|name| &row[name]);
    assert_eq!(shown, ["the website", "operator alice", "operator bob"]);
    let row = replicas.row(&rotated).await;
    let shown = ["name", "issued_by"].map(|name| &row[name]);
    assert_eq!(shown, ["the website", "operator bob"]);
    let log = replicas.nats.log().await;
    let end = log.state(ACCOUNTS).await.unwrap().last_seq;
    let mut actors = Vec::new();
    for seq in 1..=end {
        let message = log.message_at(ACCOUNTS, seq).await.unwrap().unwrap();
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        actors.push(event["data"]["actor"].clone());
    }
    let operator = |name: &str| json!({ "kind": "operator", "name": name });
    assert_eq!(actors, [operator("alice"), operator("bob")]);
    replicas.end().await;
}

/// The files in a folder whose bytes contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let mut windows = bytes.windows(text.len());
        if windows.any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The secret of an address, as the stream `ADDRESSES` holds it.
async fn secret_of(nats: &Nats, id: &SubscriptionId) -> Option<String> {
    let subject = format!("addresses.key.{id}.1");
    let log = nats.log().await;
    let message = log.last_message(ADDRESSES, &subject).await.unwrap();
    message.map(|message| String::from_utf8(message.payload.to_vec()).unwrap())
}

#[tokio::test]
async fn nobody_can_read_an_address_that_is_forgotten() {
    let mut replicas = Replicas::start().await;
    let subscriber = Subscriber::subscribe(&replicas.nats).await;
    let secret = secret_of(&replicas.nats, &subscriber.id).await.unwrap();
    let folder = replicas.nats.folder().to_owned();
    assert_eq!(files_with(&folder, EMAIL), Vec::<String>::new());
    let has_secret = files_with(&folder, &secret);
    assert!(
        has_secret.iter().all(|name| name.contains("ADDRESSES")) && !has_secret.is_empty(),
        "{has_secret:?}"
    );

    let forget = ["forget", "Rail.Bird+odds@RACING.example"];
    replicas.keys(&forget).await.succeeded();
    assert_eq!(secret_of(&replicas.nats, &subscriber.id).await, None);
    let listed = replicas
        .keys(&["subscriptions", "--emails", "--json"])
        .await;
    let row = &listed.succeeded().rows()[0];
    assert_eq!(
        (&row["state"], &row["email"]),
        (&json!("forgotten"), &Value::Null)
    );
    let unknown = replicas.keys(&["forget", "nobody@racing.example"]).await;
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("no subscription of this address"));
    for data in &replicas.folders {
        assert_eq!(files_with(data.path(), EMAIL), Vec::<String>::new());
    }
    replicas.stop().await;
    replicas.nats.kill();
    assert_eq!(files_with(&folder, &secret), Vec::<String>::new());
    assert!(!replicas.logs.iter().any(|line| line.contains(EMAIL)));
}

#[tokio::test]
async fn an_event_that_cannot_be_decoded_is_skipped_and_counted() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let later = json!({
        "specversion": "1.0", "id": "1", "source": "later", "type": "accounts.key.lent.v9", "time": "2026-11-21T06:32:00Z", "data": {},
    });
    let before = skipped(&railbird).await;
    let log = nats.log().await;
    for payload in [later.to_string(), "nonsense".to_owned()] {
        let outgoing = Outgoing {
            subject: "accounts.key.00000000".to_owned(),
            id: payload.clone(),
            payload: payload.into_bytes(),
        };
        log.append(outgoing).await.unwrap();
    }
    railbird.issue_key(&nats).await;
    assert!(skipped(&railbird).await >= before + 2);
    assert_eq!(railbird.get(PATH).await.status, 200);
}

/// The counter of all services of this process, which share one recorder.
async fn skipped(railbird: &Railbird) -> u64 {
    let metrics = railbird.get_admin("/metrics").await.text();
    let name = "railbird_account_events_skipped_total ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn a_rejected_command_explains_why_and_changes_nothing() {
    let mut replicas = Replicas::start().await;
    let nothing = replicas.keys(&["list"]).await.succeeded();
    assert_eq!(nothing.stdout.lines().count(), 1, "a heading and no rows");
    let key = replicas.keys(&["issue", "--plan", "default"]).await.key();
    let before = replicas.keys(&["list", "--json"]).await.succeeded().stdout;
    let typo = format!("{}x", key.key);
    for (args, code, message) in [
        (
            ["rotate", "00000000"].as_slice(),
            1,
            "there is no key 00000000",
        ),
        (&["revoke", "00000000"], 1, "railbird keys list"),
        (&["revoke", "nonsense!"], 1, "a key id is"),
        (&["revoke", &typo], 1, "a key id is"),
        (&["plan", "00000000", "professional"], 1, "there is no key"),
        (&["approve", "sub-1"], 1, "there is no subscription sub-1"),
        (&["approve", "sub.1"], 2, "an id is"),
        (
            &["issue", "--plan", "default", "--expires", "soon"],
            2,
            "an end is a date",
        ),
        (
            &["issue", "--plan", "default", "--expires", "2020-01-01"],
            2,
            "the end is in the past",
        ),
        (
            &["issue", "--plan", "default", "--env", "LIVE"],
            2,
            "1 to 8 of a-z",
        ),
        (&["rotate", &key.id, "--overlap", "24"], 2, "a duration is"),
        (&["plan", &key.id], 2, "PLAN"),
        (&["issue"], 2, "--plan"),
        (
            &["issue", "--plan", "standart"],
            2,
            "there is no plan \"standart\"; there are free, standard, professional, default",
        ),
        (&["plan", &key.id, "gold"], 2, "there is no plan \"gold\""),
    ] {
        let rejected = replicas.keys(args).await;
        assert_eq!(rejected.code, code, "{args:?}: {}", rejected.stderr);
        assert!(
            rejected.stderr.contains(message),
            "{args:?}: {}",
            rejected.stderr
        );
        assert_eq!(rejected.stdout, "", "{args:?}");
    }
    let after = replicas.keys(&["list", "--json"]).await.succeeded().stdout;
    assert_eq!(after, before);
    // Of two rotations at the same time, one fails.
    let (one, other) = (replicas.nats.url_of("keys"), replicas.nats.url_of("admin"));
    let rotate = |url: String| {
        let args = ["keys", "rotate", &key.id, "--nats", &url].map(ToOwned::to_owned);
        async move { railbird(args).await }
    };
    let (one, other) = tokio::join!(rotate(one), rotate(other));
    let mut codes = [one.code, other.code];
    codes.sort_unstable();
    assert_eq!(codes, [0, 1], "{} {}", one.all, other.all);
    replicas.end().await;
}

/// The regular expression that docs/keys.md publishes for secret scanners.
fn published_expression() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/keys.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page
        .split_once("```regex\n")
        .and_then(|(_, after)| after.split_once("\n```"));
    block.expect("a block with the expression").0.to_owned()
}

#[test]
fn the_published_expression_finds_every_key_and_nothing_like_it() {
    let schema = json!({ "pattern": published_expression() });
    let finds = |text: &str| jsonschema::is_valid(&schema, &json!(text));
    for env in ["live", "dev", "test", "a", "abcdefgh"] {
        for _ in 0..1_000 {
            let key = ApiKey::generate(env).unwrap();
            let key = key.reveal();
            assert!(finds(key), "{key}");
            assert!(finds(&format!("RAILBIRD_API_KEY=\"{key}\"")), "{key}");
            assert!(finds(&format!("wss://x/ws/live/odds?api_key={key}&date=")));
            assert!(!finds(&key[1..]) && !finds(&key[..key.len() - 1]), "{key}");
            assert!(
                !finds(&format!("{key}0")) && !finds(&format!("x{key}")),
                "{key}"
            );
            assert!(!finds(&key.to_uppercase()), "{key}");
        }
    }
    for text in ["rb_...", "rb_live_7k2m9x4q", "rb_<env>_<key id>_<secret>"] {
        assert!(!finds(text), "{text}");
    }
}

/// What a key gets on the API and the live channel, in each way to send it: 200 stands for an open WebSocket, too.
async fn statuses_of(http: SocketAddr, key: &str) -> Vec<u16> {
    let bearer = format!("Bearer {key}");
    let (live, of_query) = ("/ws/live/odds", format!("/ws/live/odds?api_key={key}"));
    let mut replies = Vec::new();
    for header in [("x-api-key", key), ("authorization", &bearer)] {
        replies.push(request(http, "GET", PATH, &[header]).await);
        replies.push(Socket::refused_with(http, live, &[header]).await);
    }
    replies.push(Socket::refused(http, &of_query).await);
    for reply in &replies {
        assert!(reply.status != 401 || reply.text() == UNAUTHORIZED_BODY);
    }
    let status = |reply: Reply| {
        if reply.status == 101 {
            200
        } else {
            reply.status
        }
    };
    replies.into_iter().map(status).collect()
}

#[tokio::test]
async fn a_key_of_dev_opens_no_service_in_production() {
    let nats = Nats::start();
    let url = nats.url();
    let [dev, test, live] = ["dev", "test", "live"].map(|env| ApiKey::generate(env).unwrap());
    let log = nats.log().await;
    log.ensure(ACCOUNTS).await.unwrap();
    for key in [&dev, &test, &live] {
        log.append(issued(key)).await.unwrap();
    }
    for production in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let flags = ["--http", "127.0.0.1:0", "--nats", &url, "--production"];
        let flags = if production { &flags[..] } else { &flags[..4] };
        let serving = Serving::start_with(flags, data.path());
        until_valid(serving.http, live.reveal()).await;
        let of_dev = if production { 401 } else { 200 };
        for (key, expected) in [(&dev, of_dev), (&test, 200), (&live, 200)] {
            let statuses = statuses_of(serving.http, key.reveal()).await;
            assert_eq!(statuses, [expected; 5], "{key:?}, production: {production}");
        }
        serving.stop().await;
    }
}
