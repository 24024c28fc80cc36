//! A key, its links, its sessions and the address of its holder are driven through all of their life with the finest
//! logs, and must appear nowhere but on the page and in the mail.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use railbird::accounts::{KeyId, SecretHash};

use super::*;

const SERVICE_OUTPUT: &str = "the service's output";

/// All output by name: logs, files, and responses to operators.
#[derive(Default)]
struct Written(Vec<(String, Vec<u8>)>);

impl Written {
    fn add(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        self.0.push((name.to_owned(), bytes.into()));
    }

    fn add_folder(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.add_folder(&path);
            } else {
                self.add(&path.display().to_string(), std::fs::read(&path).unwrap());
            }
        }
    }

    /// The names of the outputs that contain a text.
    fn containing(&self, text: &str) -> Vec<&str> {
        let has = |bytes: &[u8]| {
            let mut windows = bytes.windows(text.len());
            windows.any(|window| window == text.as_bytes())
        };
        let found = self.0.iter().filter(|(_, bytes)| has(bytes));
        found.map(|(name, _)| name.as_str()).collect()
    }
}

/// Runs `railbird keys` with the finest log level. Its standard output is for the operator and may contain a key.
async fn keys(fixture: &MailFixture, args: &[&str], written: &mut Written) -> String {
    let mut command = command();
    let nats = fixture.nats.url_of("keys");
    command
        .arg("keys")
        .args(args)
        .args(["--nats", &nats, "--log", "trace"]);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    written.add(&format!("keys {}", args[0]), output.stderr);
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the mail server hold the first mail, quote the second one in a rejection, and accept the third. Returns all
/// three.
async fn deliver_at_the_third_attempt(fixture: &mut MailFixture) -> Vec<ReceivedMail> {
    fixture.server.at("data", "hold", 1).await;
    fixture.subscribe("anna").await;
    let first = fixture.server.until_mails(1).await.remove(0);
    let quoting = format!(
        "451 {} https://racing.example/account?token={}",
        address("anna"),
        first.token()
    );
    fixture.server.at("data", &quoting, 1).await;
    let delivered = fixture.until_delivered("anna").await;
    assert_eq!(delivered.attempts, 3, "a timeout, a rejection, a success");
    fixture.server.mails()
}

/// Creates a key on the account page. Returns the key.
async fn create_key(service: &Serving, cookie: &str) -> String {
    let nonce = railbird::accounts::random_secret().unwrap();
    let fields = [("do", "create"), ("name", ""), ("nonce", &*nonce)];
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("cookie", cookie),
    ];
    let page = send(service.http, "POST", "/account", &headers, body).await;
    let page = page.text();
    let (_, after) = page.split_once("id=\"key\"").expect(&page);
    let (_, after) = after.split_once('>').unwrap();
    after.split_once('<').unwrap().0.to_owned()
}

/// Sends the key over HTTP and the live channel, wherever a client could put it. Returns an open socket.
async fn use_key(fixture: &MailFixture, service: &Serving, key: &str, token: &str) -> Socket {
    assert_eq!(status_of(service, key).await, 200);
    let mut socket = Socket::open(service.http, key).await;
    socket.until("snapshot_complete").await;
    socket.request(&json!({ "op": key })).await;
    for path in [
        format!("/api/v1/horses/{key}"),
        format!("/api/v1/results/{key}?api_key={key}"),
        format!("/{key}"),
        format!("/account?token={token}"),
        format!("/ws/live/odds?api_key={key}x"),
    ] {
        let headers =
            ["x-api-key", "authorization", "cookie", "x-request-id"].map(|name| (name, key));
        request(service.http, "GET", &path, &headers).await;
    }
    fixture
        .nats
        .publish_raw("racing.odds.2026-11-21.ST.1", b"no event")
        .await;
    socket
}

/// Rotates and revokes a key, named by the whole key. Returns the second key.
async fn rotate_and_revoke(
    fixture: &MailFixture,
    service: &Serving,
    key: &str,
    mut socket: Socket,
    written: &mut Written,
) -> String {
    let second = keys(fixture, &["rotate", key, "--overlap", "0s"], written).await;
    let second = second.trim();
    assert_eq!(socket.until_closed().await.1, Some(4401));
    eventually("the new key works", || async {
        status_of(service, second).await == 200
    })
    .await;
    let mut socket = Socket::open(service.http, second).await;
    keys(fixture, &["revoke", second], written).await;
    assert_eq!(socket.until_closed().await.1, Some(4401));
    assert_eq!(status_of(service, second).await, 401);
    second.to_owned()
}

/// Checks that the output is complete: it contains the key's hash and id, and the finest log level.
fn assert_complete(written: &Written, key: &str) {
    let id = KeyId::of_key(key).unwrap();
    let with_hash = written.containing(&String::from(SecretHash::of(key)));
    assert!(
        with_hash.iter().any(|name| name.contains("ACCOUNTS")),
        "{with_hash:?}"
    );
    assert!(
        with_hash.iter().any(|name| name.ends_with("/log")),
        "NATS logs what it receives: {with_hash:?}"
    );
    let with_id = written.containing(id.as_str());
    for name in ["list", SERVICE_OUTPUT] {
        assert!(with_id.contains(&name), "{name}");
    }
    let service = written.0.iter().find(|(name, _)| name == SERVICE_OUTPUT);
    let log = String::from_utf8_lossy(&service.unwrap().1);
    assert!(log.contains("DEBUG"), "the finest level is logged");
}

/// The key of the address of anna.
async fn address_key(nats: &Nats) -> String {
    let log = nats.log().await;
    let message = log.last_message(ADDRESSES, "addresses.key.anna.1").await;
    let payload = message.unwrap().unwrap().payload;
    String::from_utf8(payload.to_vec()).unwrap()
}

#[tokio::test]
async fn secrets_appear_nowhere_but_on_the_page_the_terminal_and_in_the_mail_that_shows_them() {
    let server = MailServer::start_as(Security::StartTls, true).await;
    let mut fixture = MailFixture::to(server).await;
    fixture.timeout = SHORT;
    fixture.nats = Nats::start_with(|conf| format!("{conf}\ndebug: true\ntrace: true\n"));
    ensure_streams(&fixture.nats).await;
    let mut trusting = command();
    trusting.env("SSL_CERT_FILE", fixture.server.authority());
    let escaped = "p%40ss%2Fw%3Ard%3F%23";
    let url = format!(
        "smtp://{}:{escaped}@{}?tls=required",
        LOGIN[0],
        fixture.server.address()
    );
    let path = fixture.data.path();
    let service = fixture.serve_with(trusting, &url, path).await;
    let mut written = Written::default();

    let mails = deliver_at_the_third_attempt(&mut fixture).await;
    until_link_works(&service, &mails[2]).await;
    let cookie = sign_in(&service, &mails[2].token()).await;
    let key = create_key(&service, &cookie).await;
    eventually("the key works", || async {
        status_of(&service, &key).await == 200
    })
    .await;
    let notices = fixture.server.until_mails(4).await;
    let socket = use_key(&fixture, &service, &key, &mails[2].token()).await;
    let second = rotate_and_revoke(&fixture, &service, &key, socket, &mut written).await;
    for list in ["list", "subscriptions"] {
        let listed = keys(&fixture, &[list, "--json"], &mut written).await;
        written.add(list, listed);
    }
    for path in ["/metrics", "/status", "/rejections", "/views"] {
        let response = request(service.admin, "GET", path, &[]).await;
        written.add(path, response.body);
    }
    let address_key = address_key(&fixture.nats).await;
    written.add(SERVICE_OUTPUT, service.stop().await.join("\n"));
    fixture.nats.kill();
    written.add_folder(fixture.nats.folder());
    written.add_folder(fixture.data.path());
    assert_complete(&written, &key);

    let secret = |key: &str| key.rsplit('_').next().unwrap()[..32].to_owned();
    let mut secrets: Vec<String> = mails.iter().map(ReceivedMail::token).collect();
    secrets.extend([
        secret(&key),
        secret(&second),
        cookie.rsplit('=').next().unwrap().to_owned(),
        escaped.to_owned(),
        LOGIN[1].to_owned(),
        STANDARD.encode(format!("\0{}\0{}", LOGIN[0], LOGIN[1])),
        "p-railbird".to_owned(),
    ]);
    let has_key = |mail: &ReceivedMail| mail.parsed.to_string().contains("rb_");
    assert!(!notices.iter().any(has_key), "no mail has a key");
    for secret in secrets {
        let found = written.containing(&secret);
        assert!(found.is_empty(), "{secret} is in {found:?}");
    }
    let with_address = written.containing(&address("anna"));
    assert!(with_address.is_empty(), "{with_address:?}");
    let found = written.containing(&address_key);
    // NATS traces the messages that it receives.
    let in_nats = |name: &&str| name.contains("ADDRESSES") || name.ends_with("/log");
    assert!(found.iter().all(in_nats) && !found.is_empty(), "{found:?}");
}
