//! Mail settings: TLS, logins, invalid values, no mail server, and `dev`.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// An `smtp` or `smtps` URL with the login, percent-encoded.
fn url(scheme: &str, server: &MailServer, password: &str) -> String {
    let escaped: String = password
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    format!("{scheme}://{}:{escaped}@{}", LOGIN[0], server.address())
}

/// A service that trusts the certificate of the mail server or not.
async fn serve(fixture: &MailFixture, url: &str, trusting: bool) -> Serving {
    let mut command = command();
    if trusting {
        command.env("SSL_CERT_FILE", fixture.server.authority());
    }
    fixture.serve_with(command, url, fixture.data.path()).await
}

#[tokio::test]
async fn a_mail_is_sent_over_tls_with_a_login() {
    for (security, scheme, end) in [
        (Security::StartTls, "smtp", "?tls=required"),
        (Security::Tls, "smtps", ""),
    ] {
        let fixture = MailFixture::to(MailServer::start_as(security, true).await).await;
        let url = url(scheme, &fixture.server, LOGIN[1]) + end;
        let service = serve(&fixture, &url, true).await;
        fixture.subscribe("anna").await;
        fixture.until_delivered("anna").await;
        let mail = &fixture.server.mails()[0];
        assert_eq!(
            [&mail.parsed["tls"], &mail.parsed["login"]],
            [true, true],
            "{security:?}"
        );
        assert_eq!(link_status(&service, mail).await, 200);
    }
}

/// Waits until a service reports why no mail is sent, and returns its log.
async fn log_of_failure(fixture: &MailFixture, service: Serving, reason: &str) -> String {
    fixture.subscribe("anna").await;
    let name = format!("railbird_mails_failed_total{{reason=\"{reason}\"}}");
    until_metric(&service, &name, 1.0).await;
    assert_eq!(fixture.attempts().await, 0);
    assert_eq!(fixture.server.times_at("mail"), 0);
    service.stop().await.join("\n")
}

#[tokio::test]
async fn no_mail_is_sent_to_a_server_with_an_untrusted_certificate() {
    for (security, scheme, end) in [
        (Security::StartTls, "smtp", "?tls=required"),
        (Security::Tls, "smtps", ""),
    ] {
        let fixture = MailFixture::to(MailServer::start_as(security, true).await).await;
        let url = url(scheme, &fixture.server, LOGIN[1]) + end;
        let service = serve(&fixture, &url, false).await;
        let log = log_of_failure(&fixture, service, "tls").await;
        assert!(log.contains("UnknownIssuer"), "the error is logged");
    }
}

#[tokio::test]
async fn no_mail_is_sent_to_a_server_without_the_required_tls() {
    let fixture = MailFixture::start().await;
    let url = format!("smtp://{}?tls=required", fixture.server.address());
    let service = serve(&fixture, &url, false).await;
    let log = log_of_failure(&fixture, service, "tls").await;
    assert!(
        log.contains("STARTTLS is not supported"),
        "the error is logged"
    );
}

#[tokio::test]
async fn a_wrong_password_is_reported_but_not_logged() {
    let fixture = MailFixture::to(MailServer::start_as(Security::StartTls, true).await).await;
    let url = url("smtp", &fixture.server, "not-the-password") + "?tls=required";
    let service = serve(&fixture, &url, true).await;
    let log = log_of_failure(&fixture, service, "login").await;
    assert!(log.contains("login: 535"), "the error is logged");
    for secret in ["not-the-password", "bm90LXRoZS1wYXNzd29yZA", &url] {
        assert!(!log.contains(secret), "{secret}");
    }
    // A server that requires a login rejects a client without one.
    let anonymous = format!("smtp://{}?tls=required", fixture.server.address());
    let service = serve(&fixture, &anonymous, true).await;
    until_metric(
        &service,
        "railbird_mails_failed_total{reason=\"login\"}",
        1.0,
    )
    .await;
}

const SMTP_URL: &str = "smtp://u:secret@mail.test";
const MAIL_FROM: &str = "Railbird <a@r.test>";
const SERVICE_URL: &str = "https://r.test";
const SMTP_FORM: &str = "--smtp-url: expected smtp://";
const LOGIN_FORM: &str = "user and password must be UTF-8";
const LOGIN_INCOMPLETE: &str = "user and password are required together";
const TLS_FORM: &str = "only ?tls=required and ?tls=none";
const FROM_FORM: &str = "--mail-from: expected an address";
const URL_FORM: &str = "--public-url: expected the URL";

/// `railbird serve` with flags that it rejects with exit code 78, and its output, which must not contain a secret.
async fn rejected(flags: &[&str]) -> String {
    let data = tempfile::tempdir().unwrap();
    let serve = ["serve", "--data", data.path().to_str().unwrap()];
    let output = railbird(serve.iter().chain(flags).copied()).await;
    assert_eq!(output.code, 78, "{flags:?}: {}", output.all);
    assert!(!output.all.contains("secret"), "{}", output.all);
    output.all
}

#[tokio::test]
async fn an_invalid_setting_is_reported_without_the_password() {
    for (smtp_url, message) in [
        ("secret", SMTP_FORM),
        ("http://u:secret@mail.test", SMTP_FORM),
        ("smtp://u:secret@", SMTP_FORM),
        ("smtp://u:secret@mail.test:99999", SMTP_FORM),
        ("smtp://u:12/secret@mail.test", SMTP_FORM),
        ("smtp://u:12#secret@mail.test", SMTP_FORM),
        ("smtp://u:12?secret@mail.test", TLS_FORM),
        ("smtp://u:secret@mail.test?tls=maybe", TLS_FORM),
        (
            "smtps://u:secret@mail.test?tls=none",
            "smtps:// takes no ?tls=",
        ),
        ("smtp://:secret@mail.test", LOGIN_INCOMPLETE),
        ("smtp://secret@mail.test", LOGIN_INCOMPLETE),
        ("smtp://u:secret%00@mail.test", LOGIN_FORM),
        ("smtp://u:secret%ff@mail.test", LOGIN_FORM),
    ] {
        let others = ["--mail-from", MAIL_FROM, "--public-url", SERVICE_URL];
        let output = rejected(&[&["--smtp-url", smtp_url], &others[..]].concat()).await;
        assert!(output.contains(message), "{smtp_url}: {output}");
    }
    let mut from_env = command();
    let data = tempfile::tempdir().unwrap();
    from_env
        .args(["serve", "--data", data.path().to_str().unwrap()])
        .env("RAILBIRD_SMTP_URL", "smtp://u:secret@mail.test/x");
    let output = tokio::task::spawn_blocking(move || from_env.output());
    let output = output.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("secret"));
    let help = railbird(["serve", "--help"]).await;
    assert!(help.all.contains("RAILBIRD_SMTP_URL") && help.all.contains("--public-url"));
}

#[tokio::test]
async fn an_invalid_sender_url_or_timeout_is_rejected() {
    for (from, url, message) in [
        ("secret", SERVICE_URL, FROM_FORM),
        ("", SERVICE_URL, FROM_FORM),
        ("A <a@b>\r\nBcc: secret@x", SERVICE_URL, FROM_FORM),
        (MAIL_FROM, "racing.secret", URL_FORM),
        (MAIL_FROM, "ftp://racing.secret", URL_FORM),
        (MAIL_FROM, "https://u:secret@r.test", URL_FORM),
        (MAIL_FROM, "https://r.test?secret", URL_FORM),
    ] {
        let settings = ["--mail-from", from, "--public-url", url];
        let output = rejected(&[&["--smtp-url", SMTP_URL], &settings[..]].concat()).await;
        assert!(output.contains(message), "{from} {url}: {output}");
    }
    for (missing, flag, value) in [
        ("--mail-from", "--public-url", SERVICE_URL),
        ("--public-url", "--mail-from", MAIL_FROM),
    ] {
        let output = rejected(&["--smtp-url", SMTP_URL, flag, value]).await;
        assert!(output.contains(missing), "{output}");
    }
    for timeout in ["0s", "11m", "60", "soon"] {
        let output = rejected(&["--smtp-timeout", timeout]).await;
        let message = "--smtp-timeout: expected 1s to 10m";
        assert!(output.contains(message), "{timeout}: {output}");
    }
}

#[tokio::test]
async fn mails_wait_while_no_mail_server_is_configured() {
    let fixture = MailFixture::start().await;
    let nats = fixture.nats.url_of("railbird");
    let service = Serving::start_with(
        &["--http", "127.0.0.1:0", "--nats", &nats],
        fixture.data.path(),
    );
    service.until_ready().await;
    fixture.subscribe("anna").await;
    until_metric(&service, "railbird_mails_waiting", 1.0).await;
    let log = service.stop().await.join("\n");
    assert!(log.contains("sign-up is closed"), "{log}");
    assert_eq!(fixture.attempts().await, 0);
    let service = fixture.serve().await;
    fixture.until_delivered("anna").await;
    assert_eq!(link_status(&service, &fixture.server.mails()[0]).await, 200);
}

#[tokio::test]
async fn dev_writes_mails_into_a_folder_and_prints_its_path() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &["--no-demo"]);
    let path = dev
        .output
        .iter()
        .find_map(|line| line.strip_prefix("Mail "));
    let folder = std::path::PathBuf::from(path.expect("the folder is printed").trim());
    assert_eq!(folder, data.path().join("mail"));
    let log = railbird::log::Log::connect(dev.nats(), "test")
        .await
        .unwrap();
    for stream in [ACCOUNTS, ADDRESSES] {
        log.ensure(stream).await.unwrap();
    }
    let requested = requested(&log, "anna", &address("anna"), true).await;
    let event = AccountEvent::new(Actor::Service, requested, Timestamp::now().into());
    log.append(Outgoing::from(&event)).await.unwrap();
    let ledger = accounts::read(&log).await.unwrap();
    let subscription = ledger.subscriptions.get(&subscription_id("anna")).unwrap();
    let path = folder.join(format!("{}-1.eml", subscription.link_mail));
    eventually("the mail is there", || async { path.exists() }).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    let mail = std::fs::read_to_string(&path).unwrap();
    let link = format!("http://{}/account?token=", dev.http);
    let (_, token) = mail.split_once(&link).expect("a link");
    let token: String = token
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    let path = format!("/account?token={token}");
    eventually("the link works", || async {
        request(dev.http, "GET", &path, &[]).await.status == 200
    })
    .await;
    dev.interrupt();
}
