//! How mail is configured: TLS, logins, wrong values, none at all, and `dev`.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// `smtp` or `smtps`, with the login in the address and its special letters escaped.
fn url(scheme: &str, server: &MailServer, password: &str) -> String {
    let escaped: String = password
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    format!("{scheme}://{}:{escaped}@{}", LOGIN[0], server.address())
}

/// A service that trusts the certificate of the mail server, or does not.
async fn serve(post: &Post, url: &str, trusting: bool) -> Serving {
    let mut command = command();
    if trusting {
        command.env("SSL_CERT_FILE", post.server.authority());
    }
    post.serve_with(command, url, post.data.path()).await
}

#[tokio::test]
async fn a_mail_goes_over_tls_with_a_login() {
    for (manner, scheme, end) in [
        (Manner::StartTls, "smtp", "?tls=required"),
        (Manner::Tls, "smtps", ""),
    ] {
        let post = Post::to(MailServer::start_as(manner, true).await).await;
        let url = url(scheme, &post.server, LOGIN[1]) + end;
        let service = serve(&post, &url, true).await;
        post.subscribe("anna").await;
        post.until_delivered("anna").await;
        let mail = &post.server.mails()[0];
        assert_eq!(
            [&mail.parsed["tls"], &mail.parsed["login"]],
            [true, true],
            "{manner:?}"
        );
        assert_eq!(status_of(&service, &mail.key()).await, 200);
    }
}

/// Waits until a service says why no mail goes out, and returns all that it logged.
async fn fails(post: &Post, service: Serving, reason: &str) -> String {
    post.subscribe("anna").await;
    let name = format!("railbird_mails_failed_total{{reason=\"{reason}\"}}");
    until_metric(&service, &name, 1.0).await;
    assert_eq!(post.keys().await, (0, 0), "no key is made for nothing");
    assert_eq!(post.server.times_at("mail"), 0);
    service.stop().await.join("\n")
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_stops_every_mail() {
    for (manner, scheme, end) in [
        (Manner::StartTls, "smtp", "?tls=required"),
        (Manner::Tls, "smtps", ""),
    ] {
        let post = Post::to(MailServer::start_as(manner, true).await).await;
        let url = url(scheme, &post.server, LOGIN[1]) + end;
        let service = serve(&post, &url, false).await;
        let log = fails(&post, service, "tls").await;
        assert!(log.contains("UnknownIssuer"), "it says what is wrong");
    }
}

#[tokio::test]
async fn no_mail_goes_to_a_server_without_the_tls_that_is_required() {
    let post = Post::start().await;
    let url = format!("smtp://{}?tls=required", post.server.address());
    let service = serve(&post, &url, false).await;
    let log = fails(&post, service, "tls").await;
    assert!(
        log.contains("STARTTLS is not supported"),
        "it says what is wrong"
    );
}

#[tokio::test]
async fn a_wrong_password_is_said_and_not_repeated() {
    let post = Post::to(MailServer::start_as(Manner::StartTls, true).await).await;
    let url = url("smtp", &post.server, "not-the-password") + "?tls=required";
    let service = serve(&post, &url, true).await;
    let log = fails(&post, service, "login").await;
    assert!(log.contains("login: 535"), "it says what is wrong");
    for secret in ["not-the-password", "bm90LXRoZS1wYXNzd29yZA", &url] {
        assert!(!log.contains(secret), "{secret}");
    }
    // A server that wants a login says so to whoever comes without.
    let anonymous = format!("smtp://{}?tls=required", post.server.address());
    let service = serve(&post, &anonymous, true).await;
    until_metric(
        &service,
        "railbird_mails_failed_total{reason=\"login\"}",
        1.0,
    )
    .await;
}

#[tokio::test]
async fn wrong_settings_are_said_without_the_password() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let (good, from, to) = (
        "smtp://u:secret@mail.test",
        "Railbird <a@r.test>",
        "https://r.test",
    );
    for (url, sender, public, said) in [
        ("secret", from, to, "--smtp-url: it is smtp://"),
        (
            "http://u:secret@mail.test",
            from,
            to,
            "--smtp-url: it is smtp://",
        ),
        ("smtp://u:secret@", from, to, "--smtp-url: it is smtp://"),
        (
            "smtp://u:secret@mail.test:99999",
            from,
            to,
            "--smtp-url: it is smtp://",
        ),
        (
            "smtp://u:12/secret@mail.test",
            from,
            to,
            "--smtp-url: it is smtp://",
        ),
        (
            "smtp://u:12#secret@mail.test",
            from,
            to,
            "--smtp-url: it is smtp://",
        ),
        (
            "smtp://u:12?secret@mail.test",
            from,
            to,
            "tls=required or tls=none",
        ),
        (
            "smtp://u:secret@mail.test?tls=maybe",
            from,
            to,
            "tls=required or tls=none",
        ),
        (
            "smtps://u:secret@mail.test?tls=none",
            from,
            to,
            "nothing behind ?",
        ),
        ("smtp://:secret@mail.test", from, to, "a password a user"),
        ("smtp://secret@mail.test", from, to, "a user has a password"),
        (
            "smtp://u:secret%00@mail.test",
            from,
            to,
            "user and password are",
        ),
        (
            "smtp://u:secret%ff@mail.test",
            from,
            to,
            "user and password are",
        ),
        (good, "secret", to, "--mail-from: it is an address"),
        (good, "", to, "--mail-from: it is needed beside --smtp-url"),
        (
            good,
            "A <a@b>\r\nBcc: secret@x",
            to,
            "--mail-from: it is an address",
        ),
        (good, from, "racing.secret", "--public-url: it is where"),
        (
            good,
            from,
            "ftp://racing.secret",
            "--public-url: it is where",
        ),
        (
            good,
            from,
            "https://u:secret@r.test",
            "--public-url: it is where",
        ),
        (
            good,
            from,
            "https://r.test?secret",
            "--public-url: it is where",
        ),
    ] {
        let flags = [
            "serve",
            "--data",
            data,
            "--smtp-url",
            url,
            "--mail-from",
            sender,
            "--public-url",
            public,
        ];
        let refused = railbird(flags).await;
        assert_eq!(refused.code, 78, "{url} {sender} {public}: {}", refused.all);
        assert!(
            refused.all.contains(said),
            "{url} {sender} {public}: {}",
            refused.all
        );
        assert!(!refused.all.contains("secret"), "{}", refused.all);
    }
    for (missing, others) in [
        ("--mail-from", ["--public-url", to]),
        ("--public-url", ["--mail-from", from]),
    ] {
        let flags = ["serve", "--data", data, "--smtp-url", good];
        let refused = railbird(flags.into_iter().chain(others)).await;
        assert_eq!(refused.code, 78);
        assert!(refused.all.contains(missing), "{}", refused.all);
    }
    for timeout in ["0s", "11m", "60", "soon"] {
        let refused = railbird(["serve", "--data", data, "--smtp-timeout", timeout]).await;
        assert_eq!(refused.code, 78, "{timeout}");
        assert!(
            refused.all.contains("--smtp-timeout: it is 1s to 10m"),
            "{}",
            refused.all
        );
    }
    let mut from_env = command();
    from_env
        .args(["serve", "--data", data])
        .env("RAILBIRD_SMTP_URL", "smtp://u:secret@mail.test/x");
    let refused = tokio::task::spawn_blocking(move || from_env.output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(refused.status.code(), Some(78));
    assert!(!String::from_utf8_lossy(&refused.stderr).contains("secret"));
    let help = railbird(["serve", "--help"]).await;
    assert!(help.all.contains("RAILBIRD_SMTP_URL") && help.all.contains("--public-url"));
}

#[tokio::test]
async fn without_a_mail_server_mails_wait_for_one() {
    let post = Post::start().await;
    let nats = post.nats.url_of("railbird");
    let service = Serving::start_with(
        &["--http", "127.0.0.1:0", "--nats", &nats],
        post.data.path(),
    );
    until_ready(&service).await;
    post.subscribe("anna").await;
    until_metric(&service, "railbird_mails_waiting", 1.0).await;
    let log = service.stop().await.join("\n");
    assert!(log.contains("sign-up is closed"), "{log}");
    assert_eq!(post.keys().await, (0, 0));
    let service = post.serve().await;
    post.until_delivered("anna").await;
    assert_eq!(
        status_of(&service, &post.server.mails()[0].key()).await,
        200
    );
}

#[tokio::test]
async fn dev_writes_mails_into_a_folder_that_it_names() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &["--no-demo"]);
    let said = dev
        .output
        .iter()
        .find_map(|line| line.strip_prefix("Mail "));
    let folder = std::path::PathBuf::from(said.expect("it says where").trim());
    assert_eq!(folder, data.path().join("mail"));
    let log = railbird::log::Log::connect(dev.nats(), "test")
        .await
        .unwrap();
    let event = AccountEvent::new(requested("anna", true), Timestamp::now().into());
    log.append(Outgoing::from(&event)).await.unwrap();
    let path = folder.join("anna-1.eml");
    eventually("the mail is there", || async { path.exists() }).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    let mail = std::fs::read_to_string(&path).unwrap();
    let key = mail
        .split_whitespace()
        .find(|word| word.starts_with("rb_dev_"))
        .unwrap();
    let headers = [("x-api-key", key)];
    eventually("the key works", || async {
        request(dev.http, "GET", "/api/v1/meetings", &headers)
            .await
            .status
            == 200
    })
    .await;
    let link = format!("http://{}/keys/manage?token=", dev.http);
    assert!(mail.contains(&link), "{mail}");
    dev.interrupt();
}
