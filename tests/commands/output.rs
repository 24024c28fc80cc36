//! The command line: output, error messages and exit codes of the `railbird` binary.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::*;

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// A synthetic result in the format of the Hong Kong JSON files.
fn hkjc_race(number: u16) -> Value {
    json!({
        "raceId": format!("2026-01-03-ST-{number}"), "date": "2026-01-03", "racecourse": "ST", "raceNo": number, "raceIndex": number,
        "raceClass": 4, "distance": 1200, "ratingBand": "60-40", "surface": "TURF", "course": "TURF", "going": "GOOD",
        "runners": [
            { "placing": 1, "horseNo": 2, "horseId": "HK_2024_K001", "brandNo": "K001", "horseName": "MADE UP", "jockey": "A Rider",
              "trainer": "B Trainer", "actualWeight": 120, "declaredHorseWeight": 1000, "draw": 1, "finishSeconds": 69.350_000_000_000_01, "winOdds": 3.5 },
            { "placing": 2, "horseNo": 1, "horseId": "HK_2024_K002", "brandNo": "K002", "horseName": "SO IS THIS", "jockey": "C Rider",
              "trainer": "B Trainer", "actualWeight": 121, "declaredHorseWeight": 1001, "draw": 2, "finishSeconds": 69.5, "winOdds": 12 },
        ],
    })
}

/// Writes a file with three good races, one that is cut off, one with three bad races, and one of garbage. The last
/// path is of a file that does not exist.
fn good_and_bad_files(folder: &Path) -> [String; 5] {
    let races: Vec<Value> = (1..=3).map(hkjc_race).collect();
    let whole = format!("{:#}", Value::from(races.clone()));
    let cut = whole[..whole.len() - 300].replace("2026-01-03", "2026-01-04");
    let mut wrong = races;
    wrong
        .iter_mut()
        .for_each(|race| race["date"] = json!("2026-01-05"));
    wrong[0]["date"] = json!("0000-13-99");
    wrong[1]["runners"][1]["winOdds"] = json!(-3.5);
    wrong[2]["runners"][0]["horseName"] = json!("X".repeat(1024 * 1024));
    let wrong = format!("{:#}", Value::from(wrong));
    let garbage = b"\xff\xfe\x00 nonsense\n1,2,3\n";
    [
        write(folder, "good.json", &whole),
        write(folder, "cut.json", cut),
        write(folder, "wrong.json", wrong),
        write(folder, "nonsense.csv", garbage),
        folder.join("nowhere.json").display().to_string(),
    ]
}

#[tokio::test]
async fn bad_input_is_rejected_by_file_and_line_and_all_other_input_is_imported() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let mut args = vec!["import".to_owned(), "hkjc-results".to_owned()];
    args.extend(good_and_bad_files(folder.path()));
    args.extend(["--nats".to_owned(), nats.url_of("feeder")]);
    let output = railbird(args).await;
    assert_eq!(output.code, 1, "{}", output.all);
    for text in [
        "cut.json:",
        "wrong.json:2: ",
        "-3.5",
        "nonsense.csv",
        "nowhere.json",
    ] {
        assert!(output.all.contains(text), "{text} is not in {}", output.all);
    }
    assert!(
        output.all.len() < 10_000,
        "a rejection does not repeat the input"
    );
    service.until_seq(nats.last_seq().await).await;
    let races = |answer: Reply| answer.json()["races"].as_array().unwrap().len();
    assert_eq!(races(service.get("/api/v1/results/2026-01-03").await), 3);
    assert_eq!(
        races(service.get("/api/v1/results/2026-01-04").await),
        2,
        "the races before the cut are imported"
    );
    assert_eq!(service.get("/api/v1/results/2026-01-05").await.status, 404);
    assert_eq!(
        service.get_admin("/rejections").await.json()["rejections"],
        json!([]),
        "no bad event reached the log"
    );
}

#[tokio::test]
async fn a_dry_run_reads_everything_and_publishes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "good.json",
        Value::from(vec![hkjc_race(1)]).to_string(),
    );
    let output = railbird([
        "import",
        "hkjc-results",
        &file,
        "--dry-run",
        "--nats",
        "nats://127.0.0.1:1",
    ])
    .await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert!(
        output
            .summary
            .starts_with("2 read, 0 published, 0 duplicates, 0 refused"),
        "{}",
        output.all
    );
}

#[tokio::test]
async fn publish_checks_events_and_leaves_their_bytes_unchanged() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let mut good = odds("ST", 1, &second(0), &[3.5]);
    good["tracestate"] = json!("kept");
    let mut bad = odds("ST", 1, &second(1), &[3.5]);
    bad["data"]["runners"][0]["win"] = json!("3.5");
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(1024 * 1024));
    let lines = [
        good.to_string(),
        bad.to_string(),
        "not json".to_owned(),
        String::new(),
        long,
        odds("ST", 1, &second(2), &[4.5]).to_string(),
    ];
    let file = write(folder.path(), "events.ndjson", lines.join("\n"));
    let output = railbird(["publish", &file, "--nats", &nats.url_of("feeder")]).await;
    assert_eq!(output.code, 1);
    assert!(
        output
            .summary
            .starts_with("5 read, 2 published, 0 duplicates, 3 refused"),
        "{}",
        output.all
    );
    for text in [
        "events.ndjson:2: data.runners[0].win: ",
        "events.ndjson:3: ",
        "events.ndjson:5: ",
    ] {
        assert!(output.all.contains(text), "{text} is not in {}", output.all);
    }
    service.until_seq(2).await;
    let board = service.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
    assert_eq!(board["runners"][0]["win"], 4.5);
    let again = railbird(["publish", &file, "--nats", &nats.url_of("feeder")]).await;
    assert!(
        again
            .summary
            .starts_with("5 read, 0 published, 2 duplicates, 3 refused"),
        "{}",
        again.all
    );
    let reason = "to state it again, give it a new id";
    assert!(again.all.contains(reason), "{}", again.all);
}

#[tokio::test]
async fn an_id_that_is_used_again_for_another_race_loses_no_event() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let with_id = |race, price| {
        let mut quote = odds("ST", race, &second(0), &[price]);
        quote["id"] = json!("x");
        quote
    };
    let folder = tempfile::tempdir().unwrap();
    for (race, price) in [(1, 2.0), (2, 3.0)] {
        let file = write(
            folder.path(),
            "one.ndjson",
            with_id(race, price).to_string(),
        );
        let output = railbird(["publish", &file, "--nats", &nats.url_of("feeder")]).await;
        let expected = "1 read, 1 published, 0 duplicates";
        assert!(output.summary.starts_with(expected), "{}", output.all);
    }
    service.until_seq(2).await;
    for (race, price) in [(1, 2.0), (2, 3.0)] {
        let path = format!("/api/v1/odds/{DAY}/{race}");
        let board = service.get(&path).await.json();
        assert_eq!(board["runners"][0]["win"], price, "{board}");
    }

    // In one file, it is a mistake.
    let lines = [with_id(3, 4.0), with_id(3, 4.0), with_id(4, 5.0)].map(|quote| quote.to_string());
    let file = write(folder.path(), "both.ndjson", lines.join("\n"));
    let output = railbird(["publish", &file, "--nats", &nats.url_of("feeder")]).await;
    assert!(
        output
            .summary
            .starts_with("3 read, 1 published, 1 duplicates, 1 refused"),
        "{}",
        output.all
    );
    let reason = "both.ndjson:3: the id \"x\" is that of line 1, which has another content";
    assert!(output.all.contains(reason), "{}", output.all);
}

#[tokio::test]
async fn a_denied_publish_names_the_user_and_the_subject() {
    let nats = Nats::start_with_feeders(&[("tote", "racing.odds.*.ST.*")], |conf| conf);
    nats.log().await;
    let folder = tempfile::tempdir().unwrap();
    let many = (1..=300).map(|race| odds("HV", race, &second(0), &[3.5]).to_string());
    let many = many.collect::<Vec<_>>().join("\n");
    let many = write(folder.path(), "many.ndjson", many);
    let one = odds("ST", 1, &second(0), &[3.5]).to_string();
    let one = write(folder.path(), "one.ndjson", one);
    let races = Value::from(vec![hkjc_race(1)]).to_string();
    let races = write(folder.path(), "races.json", races);
    let publish = async |user: &str, file: &str| {
        let url = nats.url_of(user);
        railbird(["publish", file, "--nats", &url]).await
    };
    let allowed = publish("tote", &one).await;
    assert_eq!(allowed.code, 0, "{}", allowed.all);
    for user in ["tote", "railbird"] {
        let denied = publish(user, &many).await;
        assert_eq!(denied.code, 77, "{}", denied.all);
        let message = format!("the user \"{user}\" may not publish on racing.odds.{DAY}.HV.1\n");
        assert!(denied.all.contains(&message), "{}", denied.all);
        assert!(denied.all.lines().count() < 10, "{}", denied.all);
    }
    let url = nats.url_of("railbird");
    let denied = railbird(["import", "hkjc-results", &races, "--nats", &url]).await;
    assert_eq!(denied.code, 77, "{}", denied.all);
    let message = "the user \"railbird\" may not publish on racing.result.2026-01-03.ST.1";
    assert!(denied.all.contains(message), "{}", denied.all);

    let denied = railbird([
        "keys",
        "issue",
        "--plan",
        "default",
        "--nats",
        &nats.url_of("feeder"),
    ])
    .await;
    assert_eq!(denied.code, 77, "{}", denied.all);
    let message = "the user \"feeder\" may not publish on ";
    assert!(denied.all.contains(message), "{}", denied.all);

    let unknown = publish("stranger", &one).await;
    assert_eq!(unknown.code, 77, "{}", unknown.all);
    let message = "rejected the login of the user \"stranger\"";
    assert!(unknown.all.contains(message), "{}", unknown.all);
    assert!(!unknown.all.contains("p-stranger"));
}

#[tokio::test]
async fn publishing_before_the_first_start_of_the_service_reports_the_missing_stream() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "one.ndjson",
        odds("ST", 1, &second(0), &[3.5]).to_string(),
    );
    let url = nats.url_of("feeder");
    let output = railbird(["publish", &file, "--nats", &url]).await;
    assert_eq!(output.code, 69, "{}", output.all);
    assert!(
        output.all.contains("there is no stream RACING"),
        "{}",
        output.all
    );
}

#[tokio::test]
async fn an_issued_key_works_and_is_printed_once_alone_on_standard_output() {
    let nats = Nats::start();
    let service = Railbird::start(&nats).await;
    let output = command()
        .args([
            "keys",
            "issue",
            "--plan",
            "default",
            "--nats",
            &nats.url_of("keys"),
        ])
        .output()
        .unwrap();
    let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    until_valid(service.http, &key).await;
    assert!(!String::from_utf8_lossy(&output.stderr).contains(&key));
}

#[tokio::test]
async fn each_kind_of_failure_has_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    for (args, code, message) in [
        (
            vec![
                "keys",
                "issue",
                "--plan",
                "default",
                "--nats",
                "nats://127.0.0.1:1",
            ],
            69,
            "NATS cannot be reached",
        ),
        (
            vec!["serve", "--nats", "not an address at all", "--data", &data],
            78,
            "the address of NATS is",
        ),
        (
            vec![
                "serve",
                "--data",
                &data,
                "--timezone",
                "Mars/Olympus",
                "--http",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
            ],
            78,
            "no time zone",
        ),
        (vec!["serve"], 2, "--data"),
        (vec!["verify"], 2, "--admin"),
        (vec!["no-such-command"], 2, "no-such-command"),
        (
            vec!["feeders", "add", "keys", "--subjects", "racing.odds.>"],
            2,
            "is a user of nats.conf",
        ),
        (
            vec!["feeders", "add", "tote", "--subjects", "accounts.>"],
            2,
            "subjects are such as",
        ),
        (
            vec![
                "feeders",
                "add",
                "tote",
                "--subjects",
                "racing.odds.>,racing.>",
            ],
            2,
            "overlap",
        ),
    ] {
        let output = railbird(&args).await;
        assert_eq!(output.code, code, "{args:?}: {}", output.all);
        assert!(output.all.contains(message), "{args:?}: {}", output.all);
    }
}

#[tokio::test]
async fn verify_passes_after_a_rebuild_and_finds_views_that_differ_from_the_log() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let seq = nats.publish([result(DAY, "ST", 1, 3, 1)]).await;
    let service = Railbird::start_in(&nats, folder.path()).await;
    service.until_seq(seq).await;
    let admin = service.admin.to_string();
    let verify = |args: Vec<String>| {
        railbird(
            ["verify".to_owned(), "--nats".to_owned(), nats.url()]
                .into_iter()
                .chain(args),
        )
    };
    let live = verify(vec!["--admin".to_owned(), admin.clone()]).await;
    assert_eq!(live.code, 0, "{}", live.all);
    let rebuilt = railbird(["rebuild", "--admin", &admin]).await;
    assert_eq!(rebuilt.code, 0, "{}", rebuilt.all);
    assert!(rebuilt.all.contains("rebuilt 1 events"), "{}", rebuilt.all);
    service.stop().await;

    let stopped = vec!["--data".to_owned(), folder.path().display().to_string()];
    let whole = verify(stopped.clone()).await;
    assert_eq!(whole.code, 0, "{}", whole.all);
    // A store that is consistent in itself but not with the log.
    let views = folder.path().join("views");
    let current = views.join(
        std::fs::read_to_string(views.join("CURRENT"))
            .unwrap()
            .trim(),
    );
    forge(&nats, &current).await;
    let differs = verify(stopped).await;
    assert_eq!(differs.code, 1, "{}", differs.all);
    assert!(
        differs.all.contains("horse/FORGED: not in the fold"),
        "{}",
        differs.all
    );
    assert!(
        differs.all.contains("do not equal a fresh fold"),
        "{}",
        differs.all
    );
}

/// Folds an event into a store that is not in its log.
async fn forge(nats: &Nats, store: &Path) {
    let log = nats.log().await.state(railbird::log::RACING).await.unwrap();
    let store = std::sync::Arc::new(projections::Store::open(store).unwrap());
    let before = store.checkpoint().unwrap();
    let mut projection = projections::Projection::new(store, log.identity);
    let payload = registered("FORGED", "FORGED").to_string();
    let recorded_at = before.recorded_at.unwrap();
    let message = projections::StoredMessage {
        seq: before.seq + 1,
        recorded_at,
        subject: "racing.horse.FORGED",
        payload: payload.as_bytes(),
    };
    projection.step([message], false).unwrap();
    drop(projection);
    nats.publish([registered("H9", "HORSE 9")]).await;
}

#[tokio::test]
async fn dev_starts_everything_prints_addresses_and_key_and_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let dev = Dev::start(folder.path(), &[]);
        let card = dev.get("/api/v1/racecards/today").await;
        assert_eq!(card["venue"], "Railbird Park");
        let page = "http://localhost:5173";
        let headers = [("origin", page), ("x-api-key", dev.key.as_str())];
        let of_page = request(dev.http, "GET", "/api/v1/meetings", &headers).await;
        let reader = of_page.header("access-control-allow-origin");
        assert_eq!(
            (of_page.status, reader),
            (200, page),
            "a page in development"
        );
        let key = std::fs::read_to_string(folder.path().join("dev.key")).unwrap();
        assert_eq!(key.trim(), dev.key);
        let printed = |start: &str| dev.output.iter().any(|line| line.starts_with(start));
        assert!(printed("HTTP ") && printed("NATS "));
        assert!(printed(&format!("API key  {}", dev.key)));
        keys.push(dev.key.clone());

        let mut socket = Socket::open(dev.http, &dev.key).await;
        socket.until("snapshot_complete").await;
        // A change of odds.
        socket.until("odds_update").await;

        let nats: u32 = std::fs::read_to_string(folder.path().join("nats/nats-server.pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        dev.interrupt();
        assert!(
            !PathBuf::from(format!("/proc/{nats}")).exists(),
            "its nats-server has stopped"
        );
    }
    assert_eq!(
        keys[0], keys[1],
        "the second run prints the key of the first"
    );
}

#[tokio::test]
async fn production_mode_refuses_a_nats_server_that_does_not_sync_every_write() {
    let relaxed = |conf: String| conf.replace("sync_interval: always", "sync_interval: \"2m\"");
    let nats = Nats::start_with(relaxed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let url = nats.url_of("railbird");
    let args = [
        "serve",
        "--production",
        "--nats",
        &url,
        "--data",
        &data,
        "--http",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let output = railbird(args).await;
    assert_eq!(output.code, 78, "{}", output.all);
    assert!(
        output
            .all
            .contains("acknowledges events before they are on disk"),
        "{}",
        output.all
    );
}

#[tokio::test]
async fn a_terminated_service_stops_in_order_and_logs_no_secret() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let mut command = command();
    command
        .args([
            "serve",
            "--production",
            "--log",
            "trace",
            "--log-json",
            "--http",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ])
        .args(["--nats", &nats.url_of("railbird"), "--data"])
        .arg(folder.path())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut log: Vec<String> = lines
        .by_ref()
        .take_while(|line| !line.contains("caught up with the log"))
        .collect();
    let serving = log.iter().find(|line| line.contains("\"serving\""));
    let serving: Value = serde_json::from_str(serving.unwrap()).unwrap();
    let http = serving["fields"]["http"].as_str().unwrap().parse().unwrap();
    // Read on, so that the log does not fill the pipe.
    let rest = tokio::task::spawn_blocking(move || lines.collect::<Vec<_>>());

    let issued = railbird([
        "keys",
        "issue",
        "--plan",
        "default",
        "--nats",
        &nats.url_of("keys"),
    ])
    .await;
    let key = issued.all.lines().find(|line| line.starts_with("rb_"));
    let key = key.unwrap();
    send_key_everywhere(http, key).await;

    signal(child.id(), "-TERM");
    log.extend(rest.await.unwrap());
    assert!(child.wait().unwrap().success());
    assert!(
        log.iter()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "each line is JSON"
    );
    for secret in ["p-railbird", key] {
        let found = log.iter().find(|line| line.contains(secret));
        assert!(found.is_none(), "a secret is in the log: {found:?}");
    }
}

/// Sends a key in every part of a request that could be logged, valid and with a typing error.
async fn send_key_everywhere(http: SocketAddr, key: &str) {
    eventually("the key is valid", || async {
        request(http, "GET", "/api/v1/meetings", &[("x-api-key", key)])
            .await
            .status
            == 200
    })
    .await;
    let mut socket = Socket::open(http, key).await;
    socket.until("snapshot_complete").await;
    let (_, ack) = socket
        .request(&json!({ "op": "subscribe", "id": key, "venues": [key] }))
        .await;
    assert_eq!(ack["event"], "ack");
    let (_, error) = socket
        .request(&json!({ "op": "subscribe", "id": key, "api_key": key, key: key }))
        .await;
    assert_eq!(error["error"], "invalid_parameter");
    let (_, error) = socket.request(&json!({ "op": key, "id": key })).await;
    assert_eq!(error["error"], "unknown_op");
    let header = [("x-api-key", key), ("origin", "https://racing.example")];
    assert_eq!(
        Socket::refused_with(http, "/ws/live/odds", &header)
            .await
            .status,
        403
    );
    let typo = format!("{key}x");
    assert_eq!(
        Socket::refused(http, &format!("/ws/live/odds?api_key={typo}"))
            .await
            .status,
        401
    );
    assert_eq!(
        request(http, "GET", "/api/v1/meetings", &[("x-api-key", &typo)])
            .await
            .status,
        401
    );
}

fn signal(process: u32, signal: &str) {
    let status = std::process::Command::new("kill")
        .args([signal, &process.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}
