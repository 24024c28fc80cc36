//! The command line, as people use it: what it says, where it says it, and how it exits.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::*;

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// A made-up result as the Hong Kong files have it.
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

#[tokio::test]
async fn bad_input_is_refused_by_file_and_line_and_everything_else_goes_in() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let folder = tempfile::tempdir().unwrap();
    let races: Vec<Value> = (1..=3).map(hkjc_race).collect();
    let whole = format!("{:#}", Value::from(races.clone()));
    let cut = whole[..whole.len() - 300].replace("2026-01-03", "2026-01-04");
    let mut wrong = races.clone();
    wrong
        .iter_mut()
        .for_each(|race| race["date"] = json!("2026-01-05"));
    wrong[0]["date"] = json!("0000-13-99");
    wrong[1]["runners"][1]["winOdds"] = json!(-3.5);
    wrong[2]["runners"][0]["horseName"] = json!("X".repeat(1024 * 1024));
    let good = write(folder.path(), "good.json", &whole);
    let cut = write(folder.path(), "cut.json", cut);
    let wrong = write(
        folder.path(),
        "wrong.json",
        format!("{:#}", Value::from(wrong)),
    );
    let nonsense = write(
        folder.path(),
        "nonsense.csv",
        b"\xff\xfe\x00 nonsense\n1,2,3\n",
    );
    let nowhere = folder.path().join("nowhere.json").display().to_string();
    let args = [
        "import",
        "hkjc-results",
        &good,
        &cut,
        &wrong,
        &nonsense,
        &nowhere,
        "--nats",
        &nats.url(),
    ];
    let output = crate::support::railbird(args).await;
    assert_eq!(output.code, 1, "{}", output.all);
    for said in [
        "cut.json:",
        "wrong.json:2: ",
        "-3.5",
        "nonsense.csv",
        "nowhere.json",
    ] {
        assert!(output.all.contains(said), "{said} is not in {}", output.all);
    }
    assert!(
        output.all.len() < 10_000,
        "a refusal does not repeat the input"
    );
    railbird.until_seq(nats.last_seq().await).await;
    let races = |answer: Reply| answer.json()["races"].as_array().unwrap().len();
    assert_eq!(races(railbird.get("/api/v1/results/2026-01-03").await), 3);
    assert_eq!(
        races(railbird.get("/api/v1/results/2026-01-04").await),
        2,
        "what stands before the cut is kept"
    );
    assert_eq!(railbird.get("/api/v1/results/2026-01-05").await.status, 404);
    assert_eq!(
        railbird.get_admin("/rejections").await.json()["rejections"],
        json!([]),
        "nothing wrong reached the log"
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
            .starts_with("1 read, 0 published, 0 duplicates, 0 refused"),
        "{}",
        output.all
    );
}

#[tokio::test]
async fn events_are_published_as_they_are_after_checking_them() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
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
    let output = crate::support::railbird(["publish", &file, "--nats", &nats.url()]).await;
    assert_eq!(output.code, 1);
    assert!(
        output
            .summary
            .starts_with("5 read, 2 published, 0 duplicates, 3 refused"),
        "{}",
        output.all
    );
    for said in [
        "events.ndjson:2: data.runners[0].win: ",
        "events.ndjson:3: ",
        "events.ndjson:5: ",
    ] {
        assert!(output.all.contains(said), "{said} is not in {}", output.all);
    }
    railbird.until_seq(2).await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await.json();
    assert_eq!(board["runners"][0]["win"], 4.5);
    let again = crate::support::railbird(["publish", &file, "--nats", &nats.url()]).await;
    assert!(
        again
            .summary
            .starts_with("5 read, 0 published, 2 duplicates, 3 refused"),
        "{}",
        again.all
    );
}

#[tokio::test]
async fn who_may_not_publish_is_told_which_user_and_which_subject() {
    // An operator's own addition, as docs/feeding.md has it: a feeder of odds at one racecourse.
    let with_tote = |conf: String| {
        let addition = include_str!("../docs/feeding.md")
            .split_once("      # A feeder of odds")
            .and_then(|(_, rest)| rest.split_once("\n\n"))
            .expect("the documentation shows a user");
        let addition = addition.0.replace("$TOTE_PASSWORD", "p-tote");
        let before = "      # A feeder: publishes facts";
        assert!(conf.contains(before));
        conf.replace(
            before,
            &format!("      # A feeder of odds{addition}\n{before}"),
        )
    };
    let nats = Nats::start_with(with_tote);
    nats.log().await;
    let folder = tempfile::tempdir().unwrap();
    let many = (1..=300).map(|race| odds("HV", race, &second(0), &[3.5]).to_string());
    let many = write(
        folder.path(),
        "many.ndjson",
        many.collect::<Vec<_>>().join("\n"),
    );
    let one = write(
        folder.path(),
        "one.ndjson",
        odds("ST", 1, &second(0), &[3.5]).to_string(),
    );
    let races = write(
        folder.path(),
        "races.json",
        Value::from(vec![hkjc_race(1)]).to_string(),
    );
    let publish = async |user: &str, file: &str| {
        let url = nats.url_of(user);
        crate::support::railbird(["publish", file, "--nats", &url]).await
    };
    let taken = publish("tote", &one).await;
    assert_eq!(taken.code, 0, "{}", taken.all);
    for user in ["tote", "railbird"] {
        let refused = publish(user, &many).await;
        assert_eq!(refused.code, 77, "{}", refused.all);
        let said = format!("the user \"{user}\" may not publish on racing.odds.{DAY}.HV.1\n");
        assert!(refused.all.contains(&said), "{}", refused.all);
        assert!(refused.all.lines().count() < 10, "{}", refused.all);
    }
    let url = nats.url_of("railbird");
    let import = ["import", "hkjc-results", &races, "--nats", &url];
    let refused = crate::support::railbird(import).await;
    assert_eq!(refused.code, 77, "{}", refused.all);
    let said = "the user \"railbird\" may not publish on racing.result.2026-01-03.ST.1";
    assert!(refused.all.contains(said), "{}", refused.all);

    let stranger = publish("stranger", &one).await;
    assert_eq!(stranger.code, 77, "{}", stranger.all);
    assert!(
        stranger
            .all
            .contains("does not let the user \"stranger\" in"),
        "{}",
        stranger.all
    );
    assert!(!stranger.all.contains("p-stranger"));
    let keys = ["keys", "issue", "--nats", &nats.url_of("feeder")];
    let refused = crate::support::railbird(keys).await;
    assert_eq!(refused.code, 77, "{}", refused.all);
    assert!(
        refused
            .all
            .contains("the user \"feeder\" may not publish on "),
        "{}",
        refused.all
    );
}

#[tokio::test]
async fn a_feeder_that_comes_before_the_service_is_told_what_is_missing() {
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
    let railbird = Railbird::start(&nats).await;
    let output = command()
        .args(["keys", "issue", "--nats", &nats.url_of("railbird")])
        .output()
        .unwrap();
    let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    eventually("the key is valid", || async {
        request(
            railbird.http,
            "GET",
            "/api/v1/meetings",
            &[("x-api-key", &key)],
        )
        .await
        .status
            == 200
    })
    .await;
    assert!(!String::from_utf8_lossy(&output.stderr).contains(&key));
}

#[tokio::test]
async fn exit_codes_say_what_kind_of_wrong_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    for (args, code, said) in [
        (
            vec!["keys", "issue", "--nats", "nats://127.0.0.1:1"],
            69,
            "NATS is not there",
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
    ] {
        let output = railbird(&args).await;
        assert_eq!(output.code, code, "{args:?}: {}", output.all);
        assert!(output.all.contains(said), "{args:?}: {}", output.all);
    }
}

#[tokio::test]
async fn verify_finds_views_that_differ_and_rebuild_mends_them() {
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

    let at_rest = vec!["--data".to_owned(), folder.path().display().to_string()];
    let whole = verify(at_rest.clone()).await;
    assert_eq!(whole.code, 0, "{}", whole.all);
    // A store that agrees with itself, but not with the log.
    let views = folder.path().join("views");
    let current = views.join(
        std::fs::read_to_string(views.join("CURRENT"))
            .unwrap()
            .trim(),
    );
    forge(&nats, &current).await;
    let differs = verify(at_rest).await;
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

/// Folds something into a store that its log never said.
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
async fn dev_starts_everything_says_three_lines_to_copy_and_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let dev = Dev::start(folder.path(), &[]);
        let card = dev.get("/api/v1/racecards/today").await;
        assert_eq!(card["venue"], "Railbird Park");
        let key = std::fs::read_to_string(folder.path().join("dev.key")).unwrap();
        assert_eq!(key.trim(), dev.key);
        let said = |start: &str| dev.output.iter().any(|line| line.starts_with(start));
        assert!(said("HTTP ") && said("NATS ") && said(&format!("API key  {}", dev.key)));
        keys.push(dev.key.clone());

        let mut socket = Socket::open(dev.http, &dev.key).await;
        socket.until("snapshot_complete").await;
        // The odds move.
        socket.until("odds_update").await;

        let nats: u32 = std::fs::read_to_string(folder.path().join("nats/nats-server.pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        dev.interrupt();
        assert!(
            !PathBuf::from(format!("/proc/{nats}")).exists(),
            "its nats-server has ended, too"
        );
    }
    assert_eq!(
        keys[0], keys[1],
        "the key of the first run is still the key"
    );
}

#[tokio::test]
async fn a_service_in_production_refuses_a_log_that_acknowledges_what_is_not_on_disk() {
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
        output.all.contains("acknowledges what is not on disk"),
        "{}",
        output.all
    );
}

#[tokio::test]
async fn a_service_that_is_told_to_terminate_ends_in_order_and_logs_no_secret() {
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
    let mut said: Vec<String> = lines
        .by_ref()
        .take_while(|line| !line.contains("caught up with the log"))
        .collect();
    let serving = said.iter().find(|line| line.contains("\"serving\""));
    let serving: Value = serde_json::from_str(serving.unwrap()).unwrap();
    let http = serving["fields"]["http"].as_str().unwrap().parse().unwrap();
    // What is logged from here on must not fill the pipe that nobody reads yet.
    let rest = tokio::task::spawn_blocking(move || lines.collect::<Vec<_>>());

    let issued = railbird(["keys", "issue", "--nats", &nats.url_of("railbird")]).await;
    let key = issued
        .all
        .lines()
        .find(|line| line.starts_with("rb_"))
        .unwrap();
    eventually("the key is valid", || async {
        request(http, "GET", "/api/v1/meetings", &[("x-api-key", key)])
            .await
            .status
            == 200
    })
    .await;
    let mut socket = Socket::open(http, key).await;
    socket.until("snapshot_complete").await;
    // Not even a client that tells its key where it should not brings it into the log.
    let (_, ack) = socket
        .request(&json!({ "op": "subscribe", "id": key, "api_key": key, "venues": [key] }))
        .await;
    assert_eq!(ack["event"], "ack");
    let (_, error) = socket.request(&json!({ "op": key, "id": key })).await;
    assert_eq!(error["error"], "unknown_op");
    let header = [("x-api-key", key), ("origin", "https://racing.example")];
    assert_eq!(
        Socket::refused_with(http, "/ws/live/odds", &header)
            .await
            .status,
        101
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

    signal(child.id(), "-TERM");
    said.extend(rest.await.unwrap());
    assert!(child.wait().unwrap().success());
    assert!(
        said.iter()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "each line is JSON"
    );
    for secret in ["p-railbird", key] {
        let found = said.iter().find(|line| line.contains(secret));
        assert!(found.is_none(), "a secret is in the log: {found:?}");
    }
}

fn signal(process: u32, signal: &str) {
    let status = std::process::Command::new("kill")
        .args([signal, &process.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}
