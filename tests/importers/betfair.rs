//! `railbird import betfair-stream`: from the files to the messages of clients, with damaged files and interruptions.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use bzip2::write::BzEncoder;
use railbird::log::{Log, RACING, ReadPosition};
use serde_json::{Value, json};

use crate::support::*;

const HAMILTON: &str = "odds_betfair/BASIC-1.132153978";
const STARTING_PRICES: &str = "railbird/import/betfair-sp";
const BOARD: &str = "/api/v1/odds/2017-06-14/1";
const SUBJECTS: [&str; 2] = [
    "racing.race.2017-06-14.GBHAMM4Z.1",
    "racing.odds.2017-06-14.GBHAMM4Z.1",
];

async fn import(nats: &str, args: &[&str]) -> Output {
    let args = ["import", "betfair-stream"].iter().chain(args);
    railbird(args.chain(&["--nats", nats])).await
}

/// The result of an independent reading of a file.
fn oracle(file: &Path) -> Value {
    let program = tool("RAILBIRD_PYTHON", "python3", ["-c", "import bz2"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/betfair.py");
    let mut command = std::process::Command::new(program);
    let output = command.arg(script).arg(file).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A price in thousandths, as the oracle has them; null where there is none.
fn thousandths(price: &Value) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "a price is small")]
    price
        .as_f64()
        .map_or(Value::Null, |price| json!((price * 1000.0).round() as i64))
}

/// Horses and their win prices.
fn wins(board: &Value) -> Value {
    let runners = board["runners"].as_array().unwrap().iter();
    let price = |r: &Value| {
        (
            r["horse_no"].as_str().unwrap().to_owned(),
            thousandths(&r["win"]),
        )
    };
    runners.map(price).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn a_real_market_is_published_tick_by_tick_and_ends_with_the_board_of_an_oracle() {
    let Some(data) = real_data() else { return };
    let file = data.join(HAMILTON);
    let expected = oracle(&file);
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let (mut socket, _) = railbird.live("conflate_ms=0").await;

    let (url, path) = (nats.url_of("feeder"), file.display().to_string());
    let importing = tokio::spawn(async move { import(&url, &[&path]).await });
    let mut replies = Vec::new();
    let watching = async {
        while !importing.is_finished() {
            replies.push(railbird.get(BOARD).await);
        }
        importing.await.unwrap()
    };
    let is_over = |m: &Value| m["event"] == "status_update" && m["status"] == "finished";
    let (output, received) = tokio::join!(watching, socket.until_one(is_over));
    assert_eq!(output.code, 0, "{}", output.all);
    assert!(
        output
            .summary
            .starts_with("483 read, 483 published, 0 duplicates, 0 refused, 1 notes"),
        "{}",
        output.all
    );

    let omitted = expected["omitted"].as_object().unwrap().iter();
    let omitted: Vec<String> = omitted.map(|(name, n)| format!("{name} {n}")).collect();
    let omitted = format!("without a place: {}\n", omitted.join(", "));
    assert!(output.all.contains(&omitted), "{omitted}: {}", output.all);
    let get = async |path: String| railbird.get(&path).await.json();
    let history = all_pages(get, &format!("{BOARD}/history?venue=Hamilton"), "history").await;
    let mut history = history["history"].as_array().unwrap().clone();
    history.retain(|tick| tick["source"] != STARTING_PRICES);
    check_ticks(&history, &expected);
    let quotes: Vec<&Value> = history.iter().map(|tick| &tick["seq"]).collect();
    check_received(&received, &quotes, &expected);
    // The board between the card and the first quote.
    let empty = json!([]);
    let boards: BTreeMap<u64, &Value> = received
        .iter()
        .filter(|m| m["event"] == "odds_update")
        .map(|m| (m["seq"].as_u64().unwrap(), &m["runners"]))
        .chain([(0, &empty)])
        .collect();
    for reply in replies.iter().filter(|reply| reply.status == 200) {
        let board = reply.json();
        assert_eq!(&board["runners"], boards[&board["seq"].as_u64().unwrap()]);
    }
    check_final(&railbird.get(BOARD).await.json(), &expected);
    let starting = format!("{BOARD}?source={STARTING_PRICES}");
    let starting = wins(&railbird.get(&starting).await.json());
    assert_eq!(starting, expected["starting"]);
}

/// Checks that the history has every tick of the file in order and at its time.
fn check_ticks(history: &[Value], expected: &Value) {
    let mut ticks = Vec::new();
    for quote in history {
        assert_eq!(quote["stale"], false, "{quote}");
        let time: jiff::Timestamp = quote["time"].as_str().unwrap().parse().unwrap();
        for runner in quote["runners"].as_array().unwrap() {
            let win = thousandths(&runner["win"]);
            ticks.push(json!([time.as_millisecond(), runner["horse_no"], win]));
        }
    }
    assert_eq!(ticks.len(), 1208);
    assert_eq!(&Value::from(ticks), &expected["ticks"]);
}

/// Checks that a socket received the board after every message of the file, the withdrawals and the statuses.
fn check_received(received: &[Value], quotes: &[&Value], expected: &Value) {
    let of = |event: &str| {
        received
            .iter()
            .filter(|m| m["event"] == event)
            .collect::<Vec<_>>()
    };
    assert!(received.iter().all(|m| m.get("conflated").is_none()));
    let boards: Vec<Value> = of("odds_update")
        .into_iter()
        .filter(|m| quotes.contains(&&m["seq"]))
        .map(wins)
        .collect();
    assert_eq!(boards.len(), 476);
    assert_eq!(&Value::from(boards), &expected["boards"]);
    let withdrawn: Vec<Value> = of("runner_update")
        .iter()
        .map(|m| m["horse_no"].clone())
        .collect();
    assert_eq!(withdrawn.len(), 2);
    assert_eq!(&Value::from(withdrawn), &expected["removed"]);
    let statuses: Vec<&Value> = of("status_update").iter().map(|m| &m["status"]).collect();
    assert_eq!(statuses, ["open", "off", "finished"]);
}

fn check_final(board: &Value, expected: &Value) {
    let race =
        ["date", "venue", "venue_code", "status"].map(|field| board[field].as_str().unwrap());
    assert_eq!(race, ["2017-06-14", "Hamilton", "GBHAMM4Z", "finished"]);
    let mut runners = serde_json::Map::new();
    for runner in board["runners"].as_array().unwrap() {
        let mut row = json!({ "horse_name": runner["horse_name"] });
        for price in ["win", "opening", "previous"] {
            row[price] = thousandths(&runner[price]);
        }
        if let Some(state) = runner.get("state") {
            row["state"] = state.clone();
        }
        runners.insert(runner["horse_no"].as_str().unwrap().to_owned(), row);
    }
    assert_eq!(&Value::from(runners), &expected["final"]);
}

/// The ids on the subjects of the race, in the order of the log.
async fn ids(log: &Log, subjects: [&str; 2]) -> Vec<Vec<uuid::Uuid>> {
    let mut ids = Vec::new();
    for subject in subjects {
        let id = |id: &str, _: &[u8]| id.parse().ok();
        let read = log.read_subject(RACING, subject, 1_000_000, id);
        ids.push(read.await.unwrap());
    }
    ids
}

fn bzip2(text: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A damaged file, the parts of its rejection, and the number of events before the damage.
struct Damaged {
    name: &'static str,
    bytes: Vec<u8>,
    rejection: [String; 2],
    events: Option<usize>,
}

fn damaged(text: &[u8]) -> [Damaged; 4] {
    let packed = bzip2(text);
    // The text is two blocks of 100,000 bytes at most.
    let flip = |offset: usize| {
        let mut packed = packed.clone();
        packed[offset] ^= 0x20;
        packed
    };
    let late = packed.len() - 100;
    let cut = text.len() / 2;
    let line = text[..cut].iter().filter(|byte| **byte == b'\n').count() + 1;
    [
        Damaged {
            name: "cut.json",
            bytes: text[..cut].to_vec(),
            rejection: [
                format!("cut.json:{line}: "),
                format!("the file ends in the middle of this line, at byte {cut}"),
            ],
            events: None,
        },
        Damaged {
            name: "cut.bz2",
            bytes: packed[..late].to_vec(),
            rejection: [
                "cut.bz2:".to_owned(),
                format!("the file ends at byte {late}"),
            ],
            events: None,
        },
        Damaged {
            name: "early.bz2",
            bytes: flip(2000),
            rejection: [
                "early.bz2:1: ".to_owned(),
                "damaged between byte 0 and byte ".to_owned(),
            ],
            events: Some(0),
        },
        Damaged {
            name: "late.bz2",
            bytes: flip(late),
            rejection: ["late.bz2:".to_owned(), "damaged between byte ".to_owned()],
            events: None,
        },
    ]
}

#[tokio::test]
async fn a_damaged_file_is_rejected_with_the_offset_and_the_events_before_are_kept() {
    let Some(data) = real_data() else { return };
    let sound = data.join(HAMILTON);
    let folder = tempfile::tempdir().unwrap();
    let reference = Nats::start();
    let reference_log = reference.log().await;
    import(&reference.url_of("feeder"), &[&sound.display().to_string()]).await;
    let all = ids(&reference_log, SUBJECTS).await;
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [6, 477]);

    for Damaged {
        name,
        bytes,
        rejection,
        events,
    } in damaged(&std::fs::read(&sound).unwrap())
    {
        let nats = Nats::start();
        let log = nats.log().await;
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let output = import(&nats.url_of("feeder"), &[&file.display().to_string()]).await;
        assert_eq!(output.code, 1, "{name}: {}", output.all);
        assert!(
            output.all.contains(" 1 refused, "),
            "{name}: {}",
            output.all
        );
        let rejected = output
            .all
            .lines()
            .find(|line| line.starts_with("refused: "))
            .unwrap();
        assert!(
            rejection.iter().all(|part| rejected.contains(part)),
            "{rejected}: {rejection:?}"
        );

        let kept = ids(&log, SUBJECTS).await;
        for (kept, all) in kept.iter().zip(&all) {
            assert!(
                all.starts_with(kept),
                "{name}: the events before are those of the whole file"
            );
        }
        let kept: usize = kept.iter().map(Vec::len).sum();
        match events {
            Some(events) => assert_eq!(kept, events, "{name}"),
            None => assert!((100..483).contains(&kept), "{name}: {kept}"),
        }
        let output = import(&nats.url_of("feeder"), &[&sound.display().to_string()]).await;
        let summary = format!(
            "483 read, {} published, {kept} duplicates, 0 refused",
            483 - kept
        );
        assert!(
            output.summary.starts_with(&summary),
            "{name}: {}",
            output.all
        );
        assert_eq!(ids(&log, SUBJECTS).await, all, "{name}");
    }
}

#[tokio::test]
async fn archives_of_real_files_have_the_events_of_the_files() {
    let Some(data) = real_data() else { return };
    let nats = Nats::start();
    nats.log().await;
    let url = nats.url_of("feeder");
    let folder = tempfile::tempdir().unwrap();
    let files = data.join("odds_betfair").display().to_string();
    let python = tool(
        "RAILBIRD_PYTHON",
        "python3",
        ["-c", "import tarfile, zipfile"],
    );
    let mut published = String::new();
    for format in ["tar", "zip"] {
        let archive = folder.path().join(format).display().to_string();
        let mut pack = std::process::Command::new(&python);
        let packed = pack.args(["-m", &format!("{format}file"), "-c", &archive, &files]);
        assert!(packed.status().unwrap().success());
        let output = import(&url, &[&archive]).await;
        assert_eq!(output.code, 0, "{}", output.all);
        let read = output.summary.split_once(" read, ").unwrap().0.to_owned();
        if published.is_empty() {
            published.clone_from(&read);
            assert!(
                output.summary.contains(&format!(" {read} published, ")),
                "{}",
                output.all
            );
        } else {
            assert!(
                output
                    .summary
                    .contains(&format!(" {published} duplicates, ")),
                "{}",
                output.all
            );
        }
    }
    let output = import(&url, &[&files]).await;
    let same = format!("{published} read, 0 published, {published} duplicates, ");
    assert!(output.summary.starts_with(&same), "{}", output.all);
}

#[tokio::test]
async fn the_other_real_files_are_imported_whole() {
    let Some(data) = real_data() else { return };
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let output = import(
        &nats.url_of("feeder"),
        &[&data.join("odds_betfair").display().to_string()],
    )
    .await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert!(
        output
            .all
            .contains("market 1.164917629 is still open at the end of the file"),
        "the file is truncated between two lines: {}",
        output.all
    );
    railbird.until_seq(nats.last_seq().await).await;
    for (race, venue, status) in [
        ("2023-03-09/1", "Pakenham", "finished"),
        ("2019-11-11/1", "Kempton", "open"),
        ("2017-06-14/1", "Hamilton", "finished"),
    ] {
        let board = railbird.get(&format!("/api/v1/odds/{race}")).await.json();
        assert_eq!(
            (&board["venue"], &board["status"]),
            (&json!(venue), &json!(status))
        );
    }
    let cards = railbird.get("/api/v1/racecards/2023-03-09").await.json();
    let card = &cards["races"][0];
    assert_eq!(
        (&card["race_name"], &card["distance"]),
        (&json!("1200m 3yo"), &json!(1200))
    );
    let runner = |r: &Value| (r["number"].clone(), r["horse_name"].clone());
    let last = card["runners"]
        .as_array()
        .unwrap()
        .iter()
        .map(runner)
        .next_back();
    assert_eq!(last, Some((json!(13), json!("Tottenham Hotspur"))));
}

/// A line of a stream file about market 1.1, so many milliseconds after its start.
fn line(after: u64, change: &Value) -> String {
    let mut change = change.clone();
    change["id"] = json!("1.1");
    format!(
        "{}\n",
        json!({ "op": "mcm", "pt": 1_781_456_100_000 + after, "mc": [change] })
    )
}

fn definition() -> Value {
    json!({ "marketDefinition": {
        "eventTypeId": "7", "marketType": "WIN", "marketTime": "2026-06-14T18:55:00.000Z", "timezone": "Europe/London",
        "venue": "Riverside", "countryCode": "GB", "name": "R1 1200m 3yo", "status": "OPEN",
        "runners": [{ "id": 11, "status": "ACTIVE", "name": "1. Paper Lantern" }],
    } })
}

fn tick(price: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let ltp = price as f64 / 1_000.0;
    json!({ "rc": [{ "id": 11, "ltp": ltp }] })
}

/// Ticks of an invented market: more than an import publishes before it can be interrupted.
const TICKS: u64 = 12_000;

/// Writes a market in which the price of a runner rises by a thousandth at each tick. Some ticks share a millisecond.
fn write_market(folder: &Path) -> PathBuf {
    let ticks = (0..TICKS).map(|n| line(n / 3, &tick(1_000 + n)));
    let text: String = [line(0, &definition())].into_iter().chain(ticks).collect();
    let path = folder.join("1.1.bz2");
    std::fs::write(&path, bzip2(text.as_bytes())).unwrap();
    path
}

/// The prices on the subject of the odds, in the order of the log.
async fn prices(log: &Log) -> Vec<u64> {
    let state = log.state(RACING).await.unwrap();
    let position = ReadPosition {
        log: state.identity,
        seq: 0,
        recorded_at: None,
    };
    let mut reader = log.reader_of(
        RACING,
        position,
        vec!["racing.odds.2026-06-14.GBRIVFPK.1".to_owned()],
    );
    let mut prices = Vec::new();
    loop {
        let batch = reader.next().await.unwrap();
        for message in batch.messages {
            let event: Value = serde_json::from_slice(&message.payload).unwrap();
            let win = thousandths(&event["data"]["runners"][0]["win"]);
            prices.push(win.as_u64().unwrap());
            if message.seq == state.last_seq {
                return prices;
            }
        }
    }
}

fn start_import(nats: &Nats, user: &str, file: &Path) -> Child {
    let mut command = command();
    command
        .args(["import", "betfair-stream", "--nats", &nats.url_of(user)])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

async fn until_last_seq(log: &Log, seq: u64) {
    eventually(&format!("the log has {seq}"), || async {
        log.state(RACING)
            .await
            .is_ok_and(|state| state.last_seq >= seq)
    })
    .await;
}

#[tokio::test]
async fn interrupted_again_and_again_an_import_puts_each_event_into_the_log_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_market(folder.path());
    let mut nats = Nats::start();
    let log = nats.log().await;
    for killed_at in [1_000, 3_000, 5_000] {
        let mut importing = start_import(&nats, "feeder", &file);
        until_last_seq(&log, killed_at).await;
        importing.kill().unwrap();
        importing.wait().unwrap();
    }
    let mut importing = start_import(&nats, "feeder", &file);
    for killed_at in [7_000, 9_000, 11_000] {
        until_last_seq(&log, killed_at).await;
        nats.kill();
        nats.start_again();
    }
    let status = tokio::task::spawn_blocking(move || importing.wait()).await;
    assert!(status.unwrap().unwrap().success());
    let expected: Vec<u64> = (1_000..1_000 + TICKS).collect();
    assert!(
        prices(&log).await == expected,
        "each tick once, in the order of the file"
    );

    let last = log.state(RACING).await.unwrap().last_seq;
    assert_eq!(last, TICKS + 2, "the card, the status and the ticks");
    let again = import(&nats.url_of("feeder"), &[&file.display().to_string()]).await;
    assert!(
        again
            .summary
            .starts_with("12002 read, 0 published, 12002 duplicates, 0 refused"),
        "{}",
        again.all
    );
    assert!(
        again
            .summary
            .ends_with("nothing changed: the log had all of it"),
        "{}",
        again.all
    );
    assert_eq!(log.state(RACING).await.unwrap().last_seq, last);
}

#[tokio::test]
async fn markets_without_numbers_that_are_imported_one_by_one_do_not_become_one_race() {
    let folder = tempfile::tempdir().unwrap();
    let nats = Nats::start();
    nats.log().await;
    let write = |id: &str, time: &str, runner: u64| {
        let mut market = definition();
        let definition = &mut market["marketDefinition"];
        definition["name"] = json!("1200m 3yo");
        definition["marketTime"] = json!(format!("2026-06-14T{time}:00.000Z"));
        definition["runners"] =
            json!([{ "id": runner, "status": "ACTIVE", "name": "1. Paper Lantern" }]);
        market["id"] = json!(id);
        let ltp = json!({ "id": id, "rc": [{ "id": runner, "ltp": 3.5 }] });
        let line = |change: Value| {
            json!({ "op": "mcm", "pt": 1_781_456_100_000_u64, "mc": [change] }).to_string()
        };
        let path = folder.path().join(id);
        std::fs::write(&path, [line(market), line(ltp)].join("\n")).unwrap();
        path.display().to_string()
    };
    let [early, late] = [write("1.1", "17:55", 11), write("1.2", "18:55", 12)];
    let url = nats.url_of("feeder");
    assert_eq!(import(&url, &[&early]).await.code, 0);
    let last = nats.last_seq().await;
    let output = import(&url, &[&late]).await;
    assert_eq!(output.code, 1, "{}", output.all);
    let reason = "race 1 of Riverside on 2026-06-14 is the 18:55 (1200m 3yo) in the log, and the 19:55 (1200m 3yo) in \
                  this import";
    assert!(output.all.contains(reason), "{}", output.all);
    assert_eq!(nats.last_seq().await, last, "nothing of it is published");
    assert_eq!(import(&url, &[&late, "--race-number", "2"]).await.code, 0);
    let output = import(&url, &[&early, &late]).await;
    assert_eq!(output.code, 0, "{}", output.all);
    assert!(
        output
            .summary
            .ends_with("nothing changed: the log had all of it"),
        "{}",
        output.all
    );
}

#[tokio::test]
async fn place_prices_are_on_the_board_whichever_file_is_read_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = definition();
    place["marketDefinition"]["marketType"] = json!("PLACE");
    let place_ticks = line(0, &place) + &line(20, &tick(1_250)) + &line(40, &tick(1_500));
    let place_ticks = place_ticks.replace("\"1.1\"", "\"1.2\"");
    let win = [
        line(0, &definition()),
        line(10, &tick(3_000)),
        line(30, &tick(3_500)),
    ]
    .concat();
    let win = win + &line(50, &tick(4_000));
    let path = folder.path().display().to_string();
    for [first, second] in [["win", "place"], ["place", "win"]] {
        for (name, order) in [(first, "a"), (second, "b")] {
            let text = if name == "win" { &win } else { &place_ticks };
            std::fs::write(folder.path().join(order), text).unwrap();
        }
        let nats = Nats::start();
        let railbird = Railbird::start(&nats).await;
        let output = import(&nats.url_of("feeder"), &[&path]).await;
        assert!(
            output.summary.starts_with("7 read, 7 published"),
            "{}",
            output.all
        );
        railbird.until_seq(nats.last_seq().await).await;
        let board = railbird.get("/api/v1/odds/2026-06-14/1").await.json();
        let runner = &board["runners"][0];
        assert_eq!(
            ["win", "place", "opening", "previous"].map(|price| thousandths(&runner[price])),
            [4_000, 1_500, 3_000, 3_500].map(|price| json!(price)),
            "{first} first: {board}"
        );
    }
}

#[tokio::test]
async fn one_file_may_be_played_at_its_own_times_but_not_several() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        let text = line(0, &definition()) + &line(500, &tick(2_000)) + &line(1_000, &tick(2_500));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (one, other) = (write("1.1"), write("1.2"));
    let nats = Nats::start();
    let log = nats.log().await;
    let output = import(
        &nats.url_of("feeder"),
        &[&one, "--speed", "60", "--race-number", "7"],
    )
    .await;
    assert!(
        output.summary.starts_with("4 read, 4 published"),
        "{}",
        output.all
    );
    let subject = "racing.odds.2026-06-14.GBRIVFPK.7";
    let odds = log.read_subject(RACING, subject, 10, |_, _| Some(()));
    assert_eq!(odds.await.unwrap().len(), 2);

    let output = import(&nats.url_of("feeder"), &[&one, &other, "--speed", "1"]).await;
    assert_eq!(output.code, 2, "{}", output.all);
    assert!(
        output
            .all
            .contains("a --speed other than max plays one file"),
        "{}",
        output.all
    );
}

/// The peak memory of a process until it ended.
async fn peak_bytes(mut child: Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    eventually("the process has ended", || {
        // A zombie process has no memory figures.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = kib.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::future::ready(child.try_wait().unwrap().is_some())
    })
    .await;
    peak
}

#[tokio::test]
async fn memory_does_not_grow_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let peak_of = async |megabytes: usize| {
        // The ladder of offers is ignored, like most of a real file.
        let ladder: Vec<Value> = (0..200).map(|n| json!([1_000 + n, 2.0])).collect();
        let other = line(1, &json!({ "rc": [{ "id": 11, "atb": ladder }] }));
        let text = line(0, &definition()) + &other.repeat(megabytes * 1024 * 1024 / other.len());
        let path = folder.path().join(format!("{megabytes}.bz2"));
        std::fs::write(&path, bzip2(text.as_bytes())).unwrap();
        let mut command = command();
        command
            .args(["import", "betfair-stream", "--dry-run"])
            .arg(path);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        peak_bytes(command.spawn().unwrap()).await
    };
    let (small, large) = (peak_of(1).await, peak_of(48).await);
    assert!(small > 1024 * 1024, "{small} bytes");
    assert!(
        large < small + 8 * 1024 * 1024,
        "{small} bytes for 1 MB, {large} for 48"
    );
}
