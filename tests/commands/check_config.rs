//! `railbird check-config`: the configuration of a service, without the service.

use std::net::TcpListener;

use jiff::civil::date;

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
    let data = data.path().join("data").display().to_string();
    let mut check = command();
    check.args(["check-config", "--data", &data]);
    check.envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || check.output());
    let output = output.await.unwrap().unwrap();
    let texts = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&texts).into_owned();
    (output.status.code(), text)
}

#[tokio::test]
async fn a_variable_that_is_mistyped_is_an_error_that_names_the_right_one() {
    for (wrong, right) in [
        ("RAILBIRD_HTP", "RAILBIRD_HTTP"),
        ("RAILBIRD_ADMIN_TOKEN_FLIE", "RAILBIRD_ADMIN_TOKEN_FILE"),
        ("RAILBIRD_TIMEZONES", "RAILBIRD_TIMEZONE"),
    ] {
        let (code, text) = check_with(&[(wrong, "x")]).await;
        let expected = format!("there is no variable {wrong}; there is {right}");
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
        "--http and --admin are both 127.0.0.1:7",
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
