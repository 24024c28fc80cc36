//! `railbird check-config`: the configuration of a service, without the service.

use std::net::TcpListener;

use jiff::civil::date;
use tokio::time::timeout;

use crate::support::*;

async fn check(flags: &[&str]) -> Output {
    railbird([&["check-config"], flags].concat()).await
}

#[tokio::test]
async fn a_configuration_is_checked_beside_the_service_that_runs_with_it() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let data = folder.path().join("data");
    let (url, certificate) = (nats.url(), Authority::new().issue());
    let tls = certificate.write(folder.path()).flags();
    let plans = folder.path().join("plans.toml");
    std::fs::write(&plans, plan("ours", "")).unwrap();
    let plans = plans.display().to_string();
    let mut flags = vec![
        "--nats",
        &url,
        "--plans",
        &plans,
        "--timezone",
        "Europe/London",
    ];
    flags.extend(tls.iter().map(String::as_str));
    let serving = Serving::start_with(&[&flags[..], &["--http", "127.0.0.1:0"]].concat(), &data);
    let (http, admin) = (serving.http.to_string(), serving.admin.to_string());
    let data = data.display().to_string();
    flags.extend(["--http", &http, "--admin", &admin, "--data", &data]);
    let output = check(&flags).await;
    assert_eq!(output.code, 0, "{}", output.all);
    for text in [
        "ours",
        "Europe/London",
        &http,
        &admin,
        "4096-01-01",
        "the user \"railbird\" at ",
    ] {
        assert!(output.all.contains(text), "{text}: {}", output.all);
    }
    assert!(!output.all.contains("error"), "{}", output.all);
    assert!(
        !output.all.contains(&nats.password_of("railbird")),
        "{}",
        output.all
    );
}

/// Compose passes unset variables as empty ones.
#[tokio::test]
async fn an_empty_variable_counts_as_unset_for_every_flag() {
    let page = include_str!("../../docs/commands.md");
    let variables = page.split('`').filter(|word| word.starts_with("RAILBIRD_"));
    let variables: Vec<String> = variables.map(str::to_owned).collect();
    assert!(variables.len() > 30, "{variables:?}");
    let empty: Vec<(&str, &str)> = variables.iter().map(|name| (&**name, "")).collect();
    let (code, text) = check_with(&empty).await;
    assert_eq!(code, Some(0), "{text}");
}

/// The configuration of a service with these variables.
async fn check_with(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let data = tempfile::tempdir().unwrap();
    let mut check = command();
    check.arg("check-config");
    check.envs(variables.iter().copied());
    if !variables
        .iter()
        .any(|(name, value)| *name == "RAILBIRD_DATA" && !value.is_empty())
    {
        check.arg("--data").arg(data.path().join("data"));
    }
    let output = tokio::task::spawn_blocking(move || check.output());
    let output = output.await.unwrap().unwrap();
    let texts = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&texts).into_owned();
    (output.status.code(), text)
}

#[tokio::test]
async fn a_variable_that_nobody_reads_is_an_error_that_names_the_right_one() {
    for (wrong, right) in [
        ("RAILBIRD_HTP", "; there is RAILBIRD_HTTP"),
        (
            "RAILBIRD_ADMIN_TOKEN_FLIE",
            "; there is RAILBIRD_ADMIN_TOKEN_FILE",
        ),
        ("RAILBIRD_TIMEZONES", "; there is RAILBIRD_TIMEZONE"),
        ("RAILBIRD_HTTP_ADDR", "; there is RAILBIRD_HTTP"),
        ("RAILBIRD_HTTP_PORT", "; there is RAILBIRD_HTTP"),
        // It is no secret, so it has no file.
        ("RAILBIRD_PLANS_FILE", "; there is RAILBIRD_PLANS"),
        ("RAILBIRD_MAX_CONNECTIONS", "\n"),
    ] {
        let (code, text) = check_with(&[(wrong, "x")]).await;
        let expected = format!("there is no variable {wrong}{right}");
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains(&expected), "{text}");
    }
    // Kubernetes sets these for a service of this name, and the files of Compose and nats-server have the others.
    let others = [
        ("RAILBIRD_PORT", "tcp://10.0.0.1:8080"),
        ("RAILBIRD_SERVICE_HOST", "10.0.0.1"),
        ("RAILBIRD_NATS_KEYS_PASSWORD", "x"),
        ("RAILBIRD_NATS_TLS_CA", "x"),
        ("RAILBIRD_DOMAIN", "x"),
    ];
    let (code, text) = check_with(&others).await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn a_service_does_not_start_with_variables_that_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command();
    serve.args([
        "serve",
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--data",
    ]);
    serve.arg(folder.path().join("data"));
    serve
        .env("RAILBIRD_ADMIN_TOKEN_FLIE", "x")
        .env("RAILBIRD_MAX_CONNECTIONS", "9");
    // One that starts does not end.
    let mut serve = tokio::process::Command::from(serve);
    let output = timeout(PATIENCE, serve.kill_on_drop(true).output()).await;
    let output = output.expect("it ends").unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{text}");
    for expected in [
        "2 errors",
        "there is no variable RAILBIRD_ADMIN_TOKEN_FLIE; there is RAILBIRD_ADMIN_TOKEN_FILE",
        "there is no variable RAILBIRD_MAX_CONNECTIONS",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

/// Mistakes in one variable, and a part of what the error says: what is wrong, where, and why. `DIR` is a folder with a
/// file `file` of one line, and a file `empty`.
const MISTAKES: [(&[(&str, &str)], &str); 38] = [
    (
        &[("HTP", "x")],
        "there is no variable RAILBIRD_HTP; there is RAILBIRD_HTTP",
    ),
    (
        &[("ADMIN_TOKEN_FLIE", "x")],
        "there is no variable RAILBIRD_ADMIN_TOKEN_FLIE; there is RAILBIRD_ADMIN_TOKEN_FILE",
    ),
    (
        &[("HTTP", "8080")],
        "'8080' for '--http <ADDRESS>': invalid socket address",
    ),
    (
        &[("HTTP", "0.0.0.0:9090")],
        "--http 0.0.0.0:9090 and --admin 127.0.0.1:9090 are one address",
    ),
    (
        &[("DATA", "DIR/file")],
        "--data DIR/file: DIR/file is not a folder",
    ),
    (
        &[("DATA", "DIR/file/views")],
        "--data DIR/file/views: DIR/file is not a folder",
    ),
    (
        &[("DRAIN_DELAY", "40s"), ("STOP_TIMEOUT", "45s")],
        "--drain-delay 40s and 18s to end are longer than --stop-timeout 45s",
    ),
    (
        &[("DRAIN_DELAY", "10")],
        "'10' for '--drain-delay <DURATION>': a duration is like",
    ),
    (
        &[("CONNECTIONS_MAX", "0")],
        "'0' for '--connections-max <CONNECTIONS_MAX>': 0 is not in 1..",
    ),
    (
        &[("CONNECTIONS_PER_NETWORK", "0")],
        "'0' for '--connections-per-network <CONNECTIONS_PER_NETWORK>': 0 is not in 1..",
    ),
    (
        &[("SIGN_UPS_PER_HOUR", "0")],
        "'0' for '--sign-ups-per-hour <SIGN_UPS_PER_HOUR>'",
    ),
    (
        &[("KEYS_STALE_MAX", "0s")],
        "'0s' for '--keys-stale-max <DURATION>': it is 10s or more",
    ),
    (
        &[("SMTP_TIMEOUT", "0s")],
        "--smtp-timeout: expected 1s to 10m",
    ),
    (&[("TIMEZONE", "Mars")], "\"Mars\""),
    (
        &[("VENUE_ORDER", "sha-tin")],
        "'sha-tin' for '--venue-order <CODES>': a venue code is 1 to 8 of",
    ),
    (
        &[("PLANS", "DIR/nowhere")],
        "DIR/nowhere cannot be read: No such file",
    ),
    (&[("PLANS", "DIR/file")], "DIR/file: line 1"),
    (&[("TLS_CERT", "DIR/file")], "--tls-cert needs --tls-key"),
    (&[("TLS_KEY", "DIR/file")], "--tls-key needs --tls-cert"),
    (
        &[("TLS_CERT", "DIR/file"), ("TLS_KEY", "DIR/file")],
        "DIR/file",
    ),
    (
        &[("NATS", "nats://")],
        "the address of NATS is not valid: expected nats://user",
    ),
    (
        &[("NATS", "a"), ("NATS_FILE", "DIR/file")],
        "RAILBIRD_NATS and RAILBIRD_NATS_FILE are both set",
    ),
    (
        &[("NATS_FILE", "DIR/empty")],
        "RAILBIRD_NATS_FILE: DIR/empty: the file is empty",
    ),
    (
        &[("NATS_CREDS", "DIR/nowhere")],
        "--nats-creds DIR/nowhere: No such file",
    ),
    (
        &[("NATS_CA", "DIR/file")],
        "--nats-ca DIR/file: it has no certificate",
    ),
    (
        &[("REPLICAS", "2")],
        "'2' for '--replicas <NUMBER>': expected 1, 3 or 5",
    ),
    (
        &[("ADMIN_TOKEN", "short")],
        "--admin-token, or its file: a token is 16",
    ),
    (
        &[("SMTP_URL", "smtp://h")],
        "--mail-from: required together with --smtp-url",
    ),
    (
        &[("SMTP_URL", "smtp://h"), ("MAIL_FROM", "a@b.example")],
        "--public-url: required together with --smtp-url",
    ),
    (
        &[("MAIL_FROM", "nobody")],
        "--mail-from: expected an address such as",
    ),
    (
        &[("PUBLIC_URL", "racing.example")],
        "--public-url: expected the URL",
    ),
    (
        &[
            ("PRODUCTION", "true"),
            ("PUBLIC_URL", "http://racing.example"),
        ],
        "--production: --public-url http://racing.example is not an https URL",
    ),
    (
        &[("PRODUCTION", "true"), ("NATS", "nats://10.0.0.1")],
        "--production: the connection to NATS on 10.0.0.1 is not encrypted",
    ),
    (&[("PRODUCTION", "yes")], "'yes' for '--production'"),
    (
        &[("TRUSTED_PROXIES", "proxy")],
        "'proxy' for '--trusted-proxies <CIDR>': expected an address",
    ),
    (
        &[("ORIGINS", "https://a/b")],
        "'https://a/b' for '--origins <ORIGINS>': an origin is a scheme",
    ),
    (
        &[("SECURITY_CONTACT", "me")],
        "'me' for '--security-contact <URI>': a contact is a URI",
    ),
    (&[("LOG", "railbird=loud")], "--log \"railbird=loud\": "),
];

#[tokio::test]
async fn each_mistake_is_an_error_that_says_what_is_wrong_and_where() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "nothing\n").unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let folder = folder.path().display().to_string();
    for (variables, part) in MISTAKES {
        let of_folder = |text: &str| text.replace("DIR", &folder);
        let variables = variables.iter();
        let variables: Vec<(String, String)> = variables
            .map(|(name, value)| (format!("RAILBIRD_{name}"), of_folder(value)))
            .collect();
        let set: Vec<(&str, &str)> = variables.iter().map(|(n, v)| (&**n, &**v)).collect();
        let (code, text) = check_with(&set).await;
        assert!(
            matches!(code, Some(2 | 78)),
            "{variables:?}: {code:?} {text}"
        );
        assert!(text.contains(&of_folder(part)), "{variables:?}: {text}");
        let mut lines = text.lines();
        let line = lines
            .find_map(|line| Some(line.split_once("error")?.1))
            .unwrap_or(&text);
        println!("{variables:?}: {}", line.trim_start_matches(':').trim());
    }
}

#[tokio::test]
async fn connections_are_tried_and_each_failure_says_where_and_why() {
    let (nats, mut mail) = (Nats::start(), MailServer::start().await);
    let data = tempfile::tempdir().unwrap();
    let (url, smtp) = (nats.url(), format!("smtp://{}", mail.address()));
    let data = data.path().display().to_string();
    let mut flags = vec!["--connect", "--production", "--data", &data];
    flags.extend([
        "--mail-from",
        "a@b.example",
        "--public-url",
        "https://b.example",
    ]);
    flags.extend(["--smtp-url", &smtp]);
    let free = [
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--nats",
        &url,
    ];
    let output = check(&[&flags[..], &free].concat()).await;
    assert_eq!(output.code, 0, "{}", output.all);
    for text in [
        "--http 127.0.0.1:0 is free",
        "--admin 127.0.0.1:0 is free",
        "logged in to nats-server 2.",
        "RACING: none yet, the service creates it",
        "takes mails; none was sent",
    ] {
        assert!(output.all.contains(text), "{text}: {}", output.all);
    }
    assert!(mail.mails().is_empty());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    mail.go_down().await;
    let wrong = format!("nats://railbird:s3cret@{}", nats.address());
    let wrong = ["--http", &taken, "--admin", "127.0.0.1:0", "--nats", &wrong];
    let output = check(&[&flags[..], &wrong].concat()).await;
    assert_eq!(output.code, 78, "{}", output.all);
    for text in [
        format!("--http: cannot listen on {taken}: Address already in use"),
        "NATS rejected the login of the user \"railbird\"".to_owned(),
        format!(
            "--smtp-url: {} without TLS: unreachable: Connection refused",
            mail.address()
        ),
        "3 errors".to_owned(),
    ] {
        assert!(output.all.contains(&text), "{text}: {}", output.all);
    }
    assert!(!output.all.contains("s3cret"), "{}", output.all);
}

/// What collects the log reads nothing but JSON.
#[tokio::test]
async fn a_command_that_fails_says_so_in_one_line_of_json_where_the_log_is_json() {
    for (name, value, expected) in [
        ("RAILBIRD_CONNECTIONS_MAX", "0", "0 is not in 1.."),
        ("RAILBIRD_TIMEZONE", "Mars", "\"Mars\""),
        ("RAILBIRD_LOG", "railbird=loud", "--log \"railbird=loud\""),
        ("RAILBIRD_DATA", "", "--data <DIR>"),
    ] {
        for flag in [true, false] {
            let mut serve = command();
            serve
                .env("RAILBIRD_LOG", "off")
                .env("RAILBIRD_DATA", "views");
            if flag {
                serve.arg("--log-json");
            } else {
                serve.env("RAILBIRD_LOG_JSON", "true");
            }
            serve.arg("serve").env(name, value);
            let output = tokio::task::spawn_blocking(move || serve.output());
            let output = output.await.unwrap().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(matches!(output.status.code(), Some(2 | 78)), "{text}");
            let entry: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(entry["level"], "ERROR", "{text}");
            let error = entry["fields"]["error"].as_str().unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[tokio::test]
async fn all_errors_are_found_at_once_and_nothing_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let (data, plans) = (folder.path().join("data"), folder.path().join("plans.toml"));
    std::fs::write(&plans, "[[plan]]\nname = \"a\"\n").unwrap();
    let expired = Authority::new().issue_until(date(2021, 1, 1));
    let tls = expired.write(folder.path()).flags();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let nats = format!("nats://u:s3cret@{}", listener.local_addr().unwrap());
    let (data_flag, plans) = (data.display().to_string(), plans.display().to_string());
    let mut flags = vec!["--data", &data_flag, "--plans", &plans, "--nats", &nats];
    flags.extend([
        "--http",
        "127.0.0.1:7",
        "--admin",
        "127.0.0.1:7",
        "--timezone",
        "Mars",
    ]);
    flags.extend([
        "--nats-creds",
        "/nowhere/creds",
        "--admin-token",
        "s3cret",
        "--production",
    ]);
    flags.extend([
        "--smtp-url",
        "smtp://s3cret@",
        "--public-url",
        "http://racing.example",
    ]);
    flags.extend(tls.iter().map(String::as_str));
    let output = check(&flags).await;
    assert_eq!(output.code, 78, "{}", output.all);
    for error in [
        "--http 127.0.0.1:7 and --admin 127.0.0.1:7 are one address",
        "\"Mars\"",
        "plans.toml: line 1: missing field",
        "/nowhere/creds",
        "--admin-token",
        "--smtp-url",
        "http://racing.example is not an https URL",
        "has expired at 2021-01-01",
        "8 errors",
    ] {
        assert!(output.all.contains(error), "{error}: {}", output.all);
    }
    assert!(!output.all.contains("s3cret"), "{}", output.all);
    assert!(!data.exists());
    assert!(listener.accept().is_err(), "nobody has connected");

    // `serve` names them too, but starts with an expired certificate, which may be renewed.
    let output = railbird([&["serve"], &flags[..]].concat()).await;
    assert_eq!(output.code, 78, "{}", output.all);
    assert!(output.all.contains("7 errors"), "{}", output.all);
    assert!(!data.exists());
}
