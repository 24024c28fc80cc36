//! `railbird export`: its files are read by Polars, pandas and DuckDB, and compared with the API's answers by Python.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use simulator::{RaceDay, script};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::*;

const DATE: &str = "2026-11-21";
const KINDS: [&str; 5] = ["results", "racecards", "odds", "dividends", "form"];

/// A simulated day of two meetings, and a meeting with an amended result, a withdrawal and empty races.
fn events() -> Vec<Value> {
    let day = RaceDay::new(events::RacingDate::parse(DATE).unwrap(), 2, 11);
    let midnight: Timestamp = "2026-11-20T16:00:00Z".parse().unwrap();
    let script = script(&day, &day.as_in_life(midnight));
    let events = script.iter().map(events::Envelope::encode);
    let mut events: Vec<Value> = events
        .map(|event| serde_json::from_slice(&event).unwrap())
        .collect();
    let mut card_with_terms = card(DAY, "ST", 1, 4);
    card_with_terms["data"]["each_way"] = json!({ "places": 3, "divisor": 4 });
    card_with_terms["data"]["runners"][0]["reserve"] = json!(true);
    events.extend([
        card_with_terms,
        card(DAY, "ST", 2, 3),
        odds("ST", 1, &second(0), &[3.5, 4.0, 12.34, 7.0]),
        withdrawn("ST", 1, &second(1), "H4"),
        odds("ST", 1, &second(2), &[3.25, 4.0, 12.0]),
        result(DAY, "ST", 1, 3, 1),
        dividends(DAY, "ST", 1, 1),
        card("2026-10-10", "HV", 1, 3),
        result("2026-10-10", "HV", 1, 3, 1),
    ]);
    events
}

async fn service(nats: &Nats) -> Railbird {
    let railbird = Railbird::start(nats).await;
    railbird.until_seq(nats.publish(events()).await).await;
    railbird
}

fn export(http: SocketAddr, key: &str, folder: &Path, args: &[&str]) -> Command {
    let mut command = command();
    command.args([
        "export",
        "--url",
        &format!("http://{http}"),
        "--api-key",
        key,
        "--out",
    ]);
    command.arg(folder).args(args);
    command
}

async fn exported(railbird: &Railbird, folder: &Path, args: &[&str]) -> Output {
    let command = export(railbird.http, &railbird.key, folder, args);
    crate::support::railbird(command.get_args()).await
}

/// The rows of each kind, after Python has compared all of them with the API.
async fn compared(railbird: &Railbird, folder: &Path) -> BTreeMap<String, u64> {
    let python = tool(
        "RAILBIRD_DOCUMENTS_PYTHON",
        "python3",
        ["-c", "import duckdb, pandas, polars, pyarrow"],
    );
    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/export.py");
    command
        .arg(script)
        .arg(folder)
        .env("RAILBIRD_API_KEY", &railbird.key);
    command.env("RAILBIRD_URL", format!("http://{}", railbird.http));
    command.envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")]);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The content of all files below a folder, by path.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            let below = contents(&path).into_iter();
            found.extend(below.map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
        } else {
            found.insert(name.to_owned(), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn what_three_readers_find_in_the_files_is_what_the_api_answers() {
    let nats = Nats::start();
    let railbird = service(&nats).await;
    for format in ["parquet", "csv"] {
        let folder = tempfile::tempdir().unwrap();
        let args = [&KINDS[..], &["--format", format]].concat();
        let output = exported(&railbird, folder.path(), &args).await;
        assert_eq!(output.code, 0, "{}", output.all);
        let rows = compared(&railbird, folder.path()).await;
        assert!(KINDS.iter().all(|kind| rows[*kind] > 4), "{rows:?}");
        let manifest = manifest(folder.path());
        assert_eq!(manifest["as_of"], railbird.seq());
        for file in manifest["files"].as_array().unwrap() {
            let bytes = std::fs::read(folder.path().join(file["path"].as_str().unwrap())).unwrap();
            assert_eq!(
                file["blake3"],
                blake3::hash(&bytes).to_hex().as_str(),
                "{file}"
            );
        }
        let text = manifest.to_string() + &output.all;
        assert!(!text.contains(&railbird.key), "{text}");
        let again = exported(&railbird, folder.path(), &args).await;
        assert_eq!((again.code, again.all), (0, output.all));
        let other = exported(&railbird, folder.path(), &["odds", "--format", format]).await;
        assert!(
            other.code == 2 && other.all.contains("other arguments"),
            "{}",
            other.all
        );
    }
}

#[tokio::test]
async fn ndjson_is_that_of_the_api() {
    let nats = Nats::start();
    let railbird = service(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "results",
        "racecards",
        "--format",
        "ndjson",
        "--venue",
        "longchamp",
        "--to",
        DAY,
    ];
    let output = exported(&railbird, folder.path(), &args).await;
    assert_eq!(
        output.code, 2,
        "no name of this venue is known: {}",
        output.all
    );
    let args = [
        "results",
        "racecards",
        "--format",
        "ndjson",
        "--venue",
        "st",
        "--to",
        DAY,
    ];
    let output = exported(&railbird, folder.path(), &args).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let found = contents(folder.path());
    let paths: BTreeSet<_> = found.keys().map(String::as_str).collect();
    let files = ["results", "racecards"].map(|kind| format!("{kind}/{DAY}-ST.ndjson"));
    assert_eq!(
        paths,
        BTreeSet::from([&files[0], &files[1], "journal.ndjson", "manifest.json"])
    );
    for (kind, file) in ["results", "racecards"].iter().zip(&files) {
        let path = format!("/api/v1/{kind}?from={DAY}&to={DAY}&venue=ST");
        let reply = railbird
            .get_with(&path, &[("accept", "application/x-ndjson")])
            .await;
        assert_eq!(String::from_utf8_lossy(&found[file]), reply.text());
    }
}

/// A proxy that forwards some more requests, and then nothing.
struct Stalling {
    address: SocketAddr,
    left: Arc<watch::Sender<usize>>,
}

impl Stalling {
    async fn to(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let left = Arc::new(watch::Sender::new(0));
        let of_task = Arc::clone(&left);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Self::forward(client, service, Arc::clone(&of_task)));
            }
        });
        Self { address, left }
    }

    async fn forward(client: TcpStream, service: SocketAddr, left: Arc<watch::Sender<usize>>) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_service, mut to_service) =
            TcpStream::connect(service).await.unwrap().into_split();
        let answers = tokio::spawn(async move { copy(&mut from_service, &mut to_client).await });
        let mut request = vec![0; 16 * 1024];
        // A request is sent when the one before is answered, in one packet.
        while let Ok(read @ 1..) = from_client.read(&mut request).await {
            let mut is_left = false;
            left.send_modify(|left| {
                is_left = *left > 0;
                *left = left.saturating_sub(1);
            });
            if !is_left {
                std::future::pending::<()>().await;
            }
            to_service.write_all(&request[..read]).await.unwrap();
        }
        answers.abort();
    }

    /// Kills a process while it waits for the last request that is forwarded, or the next one.
    async fn kill(&self, mut process: Child) {
        let mut left = self.left.subscribe();
        left.wait_for(|left| *left == 0).await.unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[tokio::test]
async fn an_export_that_was_killed_goes_on_to_the_same_files() {
    let nats = Nats::start();
    let railbird = service(&nats).await;
    let proxy = Stalling::to(railbird.http).await;
    let [whole, folder] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let seq = railbird.seq();
    let start = |folder: &Path, requests: usize| {
        proxy.left.send_replace(requests);
        let mut command = export(proxy.address, &railbird.key, folder, &KINDS);
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let mut at_once = start(whole.path(), usize::MAX);
    let ended = tokio::task::spawn_blocking(move || at_once.wait().unwrap());
    assert!(ended.await.unwrap().success());
    // The first one has a file, and so the event that it is as of.
    let mut files = 0;
    for requests in [7, 9, 8, 6, 12] {
        proxy.kill(start(folder.path(), requests)).await;
        let is_file = |path: &&String| path.contains('/') && !path.contains("/.");
        let found = contents(folder.path()).keys().filter(is_file).count();
        assert!(found >= files, "{found} files");
        files = found;
        // What is published meanwhile is in no file.
        railbird
            .until_seq(nats.publish([result(DAY, "ST", 2, 3, 1)]).await)
            .await;
    }
    assert!(files > 4, "{files} files");
    let mut last = start(folder.path(), usize::MAX);
    let ended = tokio::task::spawn_blocking(move || last.wait().unwrap());
    assert!(ended.await.unwrap().success());
    assert_eq!(manifest(folder.path())["as_of"], seq);
    let [whole, resumed] = [&whole, &folder].map(|folder| contents(folder.path()));
    assert!(whole.keys().eq(resumed.keys()), "{:?}", resumed.keys());
    for (path, bytes) in whole {
        assert!(bytes == resumed[&path], "{path} is another file");
    }
}

#[tokio::test]
async fn an_export_as_of_a_moment_has_the_files_of_then() {
    let nats = Nats::start();
    let railbird = service(&nats).await;
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let args = [&KINDS[..], &["--from", DAY, "--to", DAY]].concat();
    let (seq, then) = (railbird.seq(), nats.recorded_at(railbird.seq()).await);
    let output = exported(&railbird, folders[0].path(), &args).await;
    assert_eq!(output.code, 0, "{}", output.all);
    let more = [
        result(DAY, "ST", 1, 2, 2),
        dividends(DAY, "ST", 1, 2),
        card(DAY, "CH", 1, 2),
    ];
    railbird.until_seq(nats.publish(more).await).await;
    for (folder, as_of) in folders[1..].iter().zip([seq.to_string(), then]) {
        let args = [&args[..], &["--as-of", &as_of]].concat();
        let output = exported(&railbird, folder.path(), &args).await;
        assert_eq!(output.code, 0, "{}", output.all);
        assert_eq!(manifest(folder.path())["as_of"], seq, "{as_of}");
        let [of_then, now] = [&folders[0], folder].map(|folder| {
            let mut files = contents(folder.path());
            files.retain(|path, _| path.contains('/'));
            files
        });
        assert!(
            of_then == now,
            "{as_of}: {:?} {:?}",
            of_then.keys(),
            now.keys()
        );
    }
    let beyond = exported(
        &railbird,
        folders[0].path().join("x").as_path(),
        &["odds", "--as-of", "99999"],
    )
    .await;
    assert!(
        beyond.code == 1 && beyond.all.contains("after the last event"),
        "{}",
        beyond.all
    );
}

#[tokio::test]
async fn limits_and_restarts_are_waited_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = async {
        let answers = [
            (
                "503 Service Unavailable",
                "Retry-After: 0",
                r#"{"message":"starting"}"#,
            ),
            (
                "429 Too Many Requests",
                "Retry-After: 1",
                r#"{"message":"too many"}"#,
            ),
            ("200 OK", "Railbird-Seq: 5", "{}"),
            ("200 OK", "Railbird-Seq: 5", "{}"),
            (
                "200 OK",
                "Railbird-Seq: 5",
                r#"{"changes":[],"after":5,"next":"","more":false}"#,
            ),
        ];
        for (status, header, body) in answers {
            // The connection is lost after each answer.
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 16 * 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\n{header}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let url = format!("http://{address}");
    let args = ["diff", "4", "5", "--api-key", "k", "--url", &url];
    let (output, ()) = tokio::join!(crate::support::railbird(args), answering);
    assert_eq!((output.code, &*output.all), (0, ""));
    drop(listener);
    let output = crate::support::railbird(args).await;
    assert_eq!(output.code, 69, "{}", output.all);
    assert!(
        output.all.contains("no service answers at"),
        "{}",
        output.all
    );
}
