//! Secrets from files: `RAILBIRD_..._FILE`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::*;

/// Each variable with a secret, and a command that uses it.
const SECRETS: [(&str, &[&str]); 5] = [
    ("RAILBIRD_NATS", &["keys", "list"]),
    ("RAILBIRD_SMTP_URL", &["serve", "--data", "nowhere"]),
    ("RAILBIRD_SNAPSHOT_SECRET", &["serve", "--data", "nowhere"]),
    (
        "RAILBIRD_ADMIN_TOKEN",
        &["rejections", "--admin", "127.0.0.1:1"],
    ),
    ("RAILBIRD_API_KEY", &["watch", "--url", "ws://127.0.0.1:1"]),
];
const SECRET: &str = "s3cret-not-to-be-shown";

/// Runs a command to its end.
async fn run(mut command: Command) -> (i32, String) {
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.code().unwrap(), text)
}

fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    file
}

#[tokio::test]
async fn a_mistake_is_wrong_configuration_and_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "secret", SECRET);
    let empty = write(folder.path(), "empty", "\n");
    let missing = folder.path().join("missing");
    for (variable, args) in SECRETS {
        let of_file = format!("{variable}_FILE");
        let both = (
            Some(SECRET),
            &file,
            format!("{variable} and {of_file} are both set"),
        );
        let not_there = (
            None,
            &missing,
            format!("{of_file}: {}: No such file", missing.display()),
        );
        let is_empty = (
            Some(""),
            &empty,
            format!("{of_file}: {}: the file is empty", empty.display()),
        );
        for (value, file, expected) in [both, not_there, is_empty] {
            let mut command = command();
            command
                .current_dir(folder.path())
                .args(args)
                .env(&of_file, file);
            if let Some(value) = value {
                command.env(variable, value);
            }
            let (code, text) = run(command).await;
            assert!(text.contains(&expected), "{expected}: {text}");
            assert_eq!(code, 78, "{text}");
            assert!(!text.contains(SECRET), "{text}");
        }
    }
    // An address that does not parse is not repeated either.
    let mut nats = command();
    nats.args(["keys", "list"]).env(
        "RAILBIRD_NATS_FILE",
        write(folder.path(), "nats", &format!("nats://{SECRET} x")),
    );
    let (code, text) = run(nats).await;
    assert_eq!(code, 78, "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_secret_is_the_content_of_a_file_without_its_last_line_end() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let railbird = Railbird::start(&nats).await;
    for (name, end) in [("none", ""), ("lf", "\n"), ("crlf", "\r\n")] {
        let file = |secret: &str| write(folder.path(), name, &format!("{secret}{end}"));
        let mut list = command();
        list.args(["keys", "list", "--json"])
            .env("RAILBIRD_NATS_FILE", file(&nats.url_of("keys")));
        // Compose passes unset variables as empty ones.
        list.env("RAILBIRD_NATS", "");
        let (code, text) = run(list).await;
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("\"default\""), "{text}");
    }
    // A flag takes precedence.
    let wrong = write(folder.path(), "wrong", "nats://127.0.0.1:1");
    let mut list = command();
    list.args(["keys", "list", "--nats", &nats.url_of("keys")])
        .env("RAILBIRD_NATS_FILE", wrong);
    assert_eq!(run(list).await.0, 0);

    let token = write(folder.path(), "token", "a-token-of-sixteen-characters\n");
    let mut serve = command();
    serve.env("RAILBIRD_ADMIN_TOKEN_FILE", &token).env(
        "RAILBIRD_NATS_FILE",
        write(folder.path(), "nats", &nats.url()),
    );
    let serving = Serving::start_as(
        serve,
        &["--http", "127.0.0.1:0"],
        &folder.path().join("data"),
    );
    assert_eq!(
        request(serving.admin, "GET", "/status", &[]).await.status,
        401
    );
    let bearer = ("authorization", "Bearer a-token-of-sixteen-characters");
    assert_eq!(
        request(serving.admin, "GET", "/status", &[bearer])
            .await
            .status,
        200
    );
    eventually("it reads the log", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;

    let mut watch = command();
    let url = format!("ws://{}", railbird.http);
    watch.args(["watch", "--json", "--url", &url]).env(
        "RAILBIRD_API_KEY_FILE",
        write(folder.path(), "key", &railbird.key),
    );
    watch.stdout(Stdio::piped());
    let mut watching = watch.spawn().unwrap();
    let output = BufReader::new(watching.stdout.take().unwrap());
    // On another thread, because the service runs on this one.
    let first = tokio::task::spawn_blocking(|| output.lines().next().unwrap().unwrap());
    assert!(first.await.unwrap().contains("\"welcome\""));
    watching.kill().unwrap();
    watching.wait().unwrap();
}

/// Without it, each new replica folds the whole log, as it does where snapshots fail.
#[tokio::test]
async fn a_service_without_the_secret_of_snapshots_warns_of_it_at_the_start() {
    let (nats, folder) = (Nats::start(), tempfile::tempdir().unwrap());
    let secret = write(folder.path(), "secret", SNAPSHOT_SECRET);
    for file in [None, Some(secret)] {
        let mut serve = command();
        serve.envs(
            file.as_ref()
                .map(|file| ("RAILBIRD_SNAPSHOT_SECRET_FILE", file)),
        );
        let flags = ["--http", "127.0.0.1:0", "--nats", &nats.url()];
        let serving = Serving::start_as(serve, &flags, &folder.path().join("data"));
        let log = serving.stop().await.join("\n");
        let warns = log.contains("there are no snapshots: --snapshot-secret is not set");
        assert_eq!(warns, file.is_none(), "{log}");
    }
}
