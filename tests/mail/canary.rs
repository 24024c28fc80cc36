//! A key is driven through all of its life, while everything that can log does so as much as it can: it stands nowhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use railbird::accounts::KeyId;

use super::*;

/// All that is written, by name: logs, files, answers to operators.
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

    /// Where something stands.
    fn places(&self, text: &str) -> Vec<&str> {
        let has = |bytes: &[u8]| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        let found = self.0.iter().filter(|(_, bytes)| has(bytes));
        found.map(|(name, _)| name.as_str()).collect()
    }
}

/// `railbird keys`, which logs all that it can; what it prints is for whoever asked.
async fn keys(post: &Post, args: &[&str], written: &mut Written) -> String {
    let mut command = command();
    let nats = post.nats.url_of("railbird");
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

#[tokio::test]
async fn a_key_stands_nowhere_but_in_the_mail_and_on_the_terminal_that_asked() {
    let server = MailServer::start_as(Manner::StartTls, true).await;
    let mut post = Post::to(server).await;
    post.timeout = SHORT;
    post.nats = Nats::start_with(|conf| format!("{conf}\ndebug: true\ntrace: true\n"));
    post.nats.log().await.ensure(ACCOUNTS).await.unwrap();
    let mut trusting = command();
    trusting.env("SSL_CERT_FILE", post.server.authority());
    let escaped = "p%40ss%2Fw%3Ard%3F%23";
    let url = format!(
        "smtp://{}:{escaped}@{}?tls=required",
        LOGIN[0],
        post.server.address()
    );
    let service = post.serve_with(trusting, &url, post.data.path()).await;
    let mut written = Written::default();

    // The wish, a mail that is not taken, and one that is. The first answer repeats what it was sent.
    post.server.at("data", "hold", 1).await;
    post.subscribe("anna").await;
    let first = post.server.until_mails(1).await.remove(0);
    let repeated = format!(
        "451 {} {} https://racing.example/keys/manage?token={}",
        address("anna"),
        first.key(),
        first.token()
    );
    post.server.at("data", &repeated, 1).await;
    let delivered = post.until_delivered("anna").await;
    assert_eq!(delivered.attempts(), 3, "no answer, a bad one, a good one");
    let mails = post.server.mails();
    let key = mails[2].key();

    // On HTTP and on the live channel, in every place where somebody could put it.
    assert_eq!(status_of(&service, &key).await, 200);
    let mut socket = Socket::open(service.http, &key).await;
    socket.until("snapshot_complete").await;
    socket.request(&json!({ "op": key })).await;
    for path in [
        format!("/api/v1/horses/{key}"),
        format!("/api/v1/results/{key}?api_key={key}"),
        format!("/{key}"),
        format!("/keys/manage?token={}", mails[2].token()),
        format!("/ws/live/odds?api_key={key}x"),
    ] {
        let headers = [
            ("x-api-key", key.as_str()),
            ("authorization", key.as_str()),
            ("cookie", key.as_str()),
        ];
        request(service.http, "GET", &path, &headers).await;
    }
    post.nats
        .publish_raw("racing.odds.2026-11-21.ST.1", b"no event")
        .await;

    // Rotation and revocation, named by the whole key.
    let second = keys(&post, &["rotate", &key, "--overlap", "0s"], &mut written).await;
    let second = second.trim();
    assert_eq!(socket.until_closed().await.1, Some(4401));
    eventually("the new key works", || async {
        status_of(&service, second).await == 200
    })
    .await;
    let mut socket = Socket::open(service.http, second).await;
    keys(&post, &["revoke", second], &mut written).await;
    assert_eq!(socket.until_closed().await.1, Some(4401));
    assert_eq!(status_of(&service, second).await, 401);
    for list in ["list", "subscriptions"] {
        let listed = keys(&post, &[list, "--json"], &mut written).await;
        written.add(list, listed);
    }
    for path in ["/metrics", "/status", "/rejections", "/views"] {
        let answer = request(service.admin, "GET", path, &[]).await;
        written.add(path, answer.body);
    }
    written.add("the service's output", service.stop().await.join("\n"));
    post.nats.kill();
    written.add_folder(post.nats.folder());
    written.add_folder(post.data.path());

    // All of it is there to be found: the key by its id and by its hash.
    let id = KeyId::of_key(&key).unwrap();
    let places = written.places(&String::from(SecretHash::of(&key)));
    assert!(
        places.iter().any(|place| place.contains("ACCOUNTS")),
        "{places:?}"
    );
    assert!(
        places.iter().any(|place| place.ends_with("/log")),
        "NATS logs what it is sent: {places:?}"
    );
    for place in ["list", "the service's output"] {
        assert!(written.places(id.as_str()).contains(&place), "{place}");
    }
    let service_log = &written
        .0
        .iter()
        .find(|(name, _)| name == "the service's output")
        .unwrap()
        .1;
    assert!(
        String::from_utf8_lossy(service_log).contains("DEBUG"),
        "all is logged"
    );

    let tokens: Vec<String> = mails.iter().map(ReceivedMail::token).collect();
    let all_keys: Vec<String> = mails.iter().map(ReceivedMail::key).collect();
    let secret = |key: &str| key.rsplit('_').next().unwrap()[..32].to_owned();
    let mut secrets: Vec<String> = all_keys.iter().map(|key| secret(key)).collect();
    secrets.extend([
        secret(second),
        escaped.to_owned(),
        LOGIN[1].to_owned(),
        STANDARD.encode(format!("\0{}\0{}", LOGIN[0], LOGIN[1])),
        "p-railbird".to_owned(),
    ]);
    secrets.extend(tokens);
    for secret in secrets {
        let places = written.places(&secret);
        assert!(places.is_empty(), "{secret} stands in {places:?}");
    }
    let places = written.places(&address("anna"));
    let in_nats = |place: &&str| place.contains("ACCOUNTS") || place.ends_with("/log");
    assert!(
        places.iter().all(in_nats),
        "an address belongs into no log: {places:?}"
    );
}
