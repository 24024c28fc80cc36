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
    let data = tempfile::tempdir().unwrap();
    let data = data.path().join("data").display().to_string();
    let mut check = command();
    check.args(["check-config", "--data", &data]);
    check.envs(variables.iter().map(|variable| (variable, "")));
    let output = tokio::task::spawn_blocking(move || check.output());
    let output = output.await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
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
