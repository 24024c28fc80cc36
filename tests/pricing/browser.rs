//! All of it as a person does it: in a browser, with a real mail server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::SignedDuration;
use railbird::http::UNAUTHORIZED_BODY;
use railbird::mail::{Mailing, Sender, Smtp, Transport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::*;

const EMAIL: &str = "rail.bird@racing.example";
/// Long enough to see that the old key works, on a slow machine, and short enough to wait for its end.
const OVERLAP: SignedDuration = SignedDuration::from_secs(20);

/// `tests/browser/subscribe.mjs`.
struct Person {
    child: Child,
    hears: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Person {
    fn start(railbird: &Railbird) -> Self {
        let node = tool("RAILBIRD_NODE", "node", ["--eval", "WebSocket"]);
        let browser = tool(
            "RAILBIRD_BROWSER",
            "chromium",
            ["--no-sandbox", "--version"],
        );
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
        let mut child = Command::new(node)
            .arg(folder.join("subscribe.mjs"))
            .args([&format!("http://{}", railbird.http), EMAIL])
            .env("RAILBIRD_BROWSER", browser)
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            hears: child.stdin.take().unwrap(),
            says,
            child,
        }
    }

    /// What was done next.
    async fn done(&mut self) -> Value {
        let line = timeout(PATIENCE, self.says.next_line()).await;
        let line = line.expect("in time").unwrap();
        serde_json::from_str(&line.expect("it says on standard error why not")).unwrap()
    }

    async fn tell(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.hears.write_all(line.as_bytes()).await.unwrap();
    }

    async fn ended(&mut self) {
        let ended = timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("in time").unwrap().success());
    }
}

/// The answer to a request with a key.
async fn asked(railbird: &Railbird, key: &str) -> Reply {
    request(
        railbird.http,
        "GET",
        "/api/v1/meetings",
        &[("x-api-key", key)],
    )
    .await
}

async fn until(railbird: &Railbird, status: u16, key: &str) {
    eventually(&format!("a key gets {status}"), || async {
        asked(railbird, key).await.status == status
    })
    .await;
}

async fn open(railbird: &Railbird, key: &str) -> Socket {
    let mut socket = Socket::open(railbird.http, key).await;
    socket.until("snapshot_complete").await;
    socket
}

/// Holds a key to be of no use, and its socket to be closed for that.
async fn is_over(railbird: &Railbird, key: &str, mut socket: Socket) {
    until(railbird, 401, key).await;
    assert_eq!(asked(railbird, key).await.text(), UNAUTHORIZED_BODY);
    let (messages, code) = socket.until_closed().await;
    assert_eq!(
        (&messages.last().unwrap()["event"], code),
        (&json!("closing"), Some(4401))
    );
}

#[tokio::test]
async fn a_person_subscribes_uses_the_key_replaces_it_and_revokes_it() {
    let nats = Nats::start();
    let server = MailServer::start().await;
    let smtp = format!("smtp://{}", server.address());
    let railbird = Railbird::start_with(&nats, |config| {
        config.sign_up.overlap = OVERLAP;
        config.mailing = Some(Mailing {
            transport: Transport::Smtp(Smtp::parse(&smtp, Duration::from_secs(30)).unwrap()),
            from: Sender::parse("Railbird <keys@racing.example>").unwrap(),
            public_url: None,
            key_env: "test",
        });
    })
    .await;
    let mut person = Person::start(&railbird);
    assert_eq!(person.done().await, json!({ "subscribed": "Standard" }));

    let waiting = ledger(&nats).await;
    let (id, _) = waiting.subscriptions().next().expect("it is written down");
    let approve = ["keys", "approve", &id.to_string(), "--nats", &nats.url()].map(str::to_owned);
    assert_eq!(crate::support::railbird(approve).await.code, 0);
    let mail = server.until_mails(1).await.remove(0);
    assert_eq!(mail.to(), EMAIL);
    let old = mail.key();
    until(&railbird, 200, &old).await;
    let of_old = open(&railbird, &old).await;

    let link = format!(
        "http://{}/keys/manage?token={}",
        railbird.http,
        mail.token()
    );
    person.tell(&link).await;
    let new = person.done().await["key"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    until(&railbird, 200, &new).await;
    let of_new = open(&railbird, &new).await;
    assert_eq!(
        asked(&railbird, &old).await.status,
        200,
        "both work for now"
    );
    let made = ledger(&nats).await.keys().count();
    assert_eq!(made, 3, "that of the test, and two of the subscriber");
    is_over(&railbird, &old, of_old).await;
    assert_eq!(asked(&railbird, &new).await.status, 200);

    person.tell("go on").await;
    assert_eq!(person.done().await, json!({ "revoked": true }));
    is_over(&railbird, &new, of_new).await;
    person.ended().await;
    assert_eq!(server.mails().len(), 1);
}
