//! The races of many days in one list, and lists as CSV and NDJSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::contract::{example_path, publish_racing};
use crate::support::*;

const CSV: &str = "text/csv";
const NDJSON: &str = "application/x-ndjson";
/// Names that need quotes in CSV.
const NAMES: [&str; 4] = ["O'NEIL, \"THE\" ONE", "TWO  SPACES;", "中文", "-1+1"];

/// A card with an each-way offer, whose runners have names that need quotes. Only the second one has a rating.
fn quoted_card(date: &str, venue: &str) -> Value {
    let mut card = card(date, venue, 1, 4);
    card["data"]["each_way"] = json!({ "places": 3, "divisor": 5 });
    for (runner, name) in card["data"]["runners"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(NAMES)
    {
        runner["horse_name"] = name.into();
    }
    card["data"]["runners"][1]["rating"] = 52.into();
    card
}

/// A result in which the second runner alone has positions in running.
fn detailed_result(date: &str, venue: &str, race_number: u16) -> Value {
    let mut result = result(date, venue, race_number, 4, 1);
    for (runner, name) in result["data"]["runners"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(NAMES)
    {
        runner["horse_name"] = name.into();
    }
    result["data"]["runners"][1]["running_positions"] = json!([4, 3, 2]);
    result["data"]["sectionals"] = json!(["0:24.10", "0:45.20"]);
    result
}

/// Four meetings on three days: eleven races with a card, ten with a result, of which one is void.
async fn service() -> (Nats, Railbird, u64) {
    let nats = Nats::start();
    let mut facts = vec![registered("H1", NAMES[0])];
    for (date, venue) in [
        ("2026-09-30", "HV"),
        (DAY, "HV"),
        (DAY, "ST"),
        ("2026-10-07", "ST"),
    ] {
        facts.extend([
            quoted_card(date, venue),
            card(date, venue, 2, 3),
            detailed_result(date, venue, 1),
            result(date, venue, 2, 3, 1),
        ]);
    }
    facts.extend((3..=5).map(|number| card("2026-10-07", "ST", number, 2)));
    facts.extend([3, 12].map(|number| result("2026-10-07", "ST", number, 1, 1)));
    let void = json!({ "revision": 2, "reason": "void" });
    let void = of_race("2026-10-07", "ST", 12, void);
    facts.push(event("result.voided", "2026-10-07T15:00:00+08:00", void));
    facts.push(withdrawn("ST", 1, &second(1), "H3"));
    facts.push(odds("ST", 1, &second(0), &[3.5, 4.0, 12.34, 100.0]));
    facts.push(odds("ST", 1, &second(9), &[1.001]));
    let last = nats.publish(facts).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(last).await;
    (nats, railbird, last)
}

/// The rows of an answer in JSON, as the guide describes them.
fn rows(answer: &Value) -> Vec<Map<String, Value>> {
    let object = answer.as_object().unwrap();
    if let Some(races) = answer["races"].as_array() {
        let around = without_lists(object);
        let races = races.iter().map(|race| {
            let mut fields = around.clone();
            fields.extend(race.as_object().unwrap().clone());
            fields
        });
        return races
            .flat_map(|race| rows_of(&race, &["runners", "unplaced", "withdrawn"]))
            .collect();
    }
    if object.contains_key("form") {
        return rows_of(object, &["form", "unplaced"]);
    }
    let lists = ["history", "horses", "meetings", "revisions"];
    let list = lists.into_iter().find(|list| object.contains_key(*list));
    rows_of(object, &[list.unwrap()])
}

fn without_lists(object: &Map<String, Value>) -> Map<String, Value> {
    let mut around = object.clone();
    around.retain(|name, value| !value.is_array() && name != "next" && name != "more");
    around
}

fn rows_of(object: &Map<String, Value>, lists: &[&str]) -> Vec<Map<String, Value>> {
    let mut rows = Vec::new();
    for list in lists {
        for row in object
            .get(*list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let mut fields = without_lists(object);
            if lists.len() > 1 {
                fields.insert("list".to_owned(), json!(list));
            }
            fields.extend(row.as_object().unwrap().clone());
            rows.push(fields);
        }
    }
    rows
}

/// The columns of a row.
fn columns(prefix: &str, row: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut columns = BTreeMap::new();
    for (name, value) in row {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(fields) => columns.extend(columns_of(&name, fields)),
            Value::String(text) => _ = columns.insert(name, text.clone()),
            Value::Null => _ = columns.insert(name, String::new()),
            value => _ = columns.insert(name, value.to_string()),
        }
    }
    columns
}

fn columns_of(name: &str, fields: &Map<String, Value>) -> BTreeMap<String, String> {
    columns(&format!("{name}."), fields)
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

/// The records of CSV, each with all columns.
fn read_csv(body: &[u8]) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(body);
    let names: Vec<String> = reader
        .headers()
        .unwrap()
        .iter()
        .map(str::to_owned)
        .collect();
    let records = reader.records().map(|record| {
        let record = record.unwrap();
        let texts = record.iter().map(str::to_owned);
        names.iter().cloned().zip(texts).collect()
    });
    records.collect()
}

/// Checks that CSV and NDJSON of a path have the rows of its JSON, and the same headers.
async fn check_formats(railbird: &Railbird, path: &str) -> usize {
    let json = railbird.get(path).await;
    assert_eq!(json.status, 200, "{path}: {}", json.text());
    let expected = rows(&json.json());
    let ndjson = railbird.get_with(path, &[("accept", NDJSON)]).await;
    let lines: Vec<Map<String, Value>> = ndjson
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, expected, "{path}");
    let csv = railbird.get_with(path, &[("accept", CSV)]).await;
    let records = read_csv(&csv.body);
    assert_eq!(records.len(), expected.len(), "{path}");
    for (record, row) in records.iter().zip(&expected) {
        let row = columns("", row);
        for (name, text) in record {
            let expected = row.get(name).map_or("", String::as_str);
            match expected.starts_with('[') {
                true => assert_eq!(parsed(text), parsed(expected), "{path}: {name}"),
                false => assert_eq!(text, expected, "{path}: {name}"),
            }
        }
        for name in row.keys() {
            assert!(record.contains_key(name), "{path} has no {name}");
        }
    }
    let types = [
        (&ndjson, NDJSON),
        (&csv, "text/csv; charset=utf-8; header=present"),
    ];
    for (reply, content_type) in types {
        assert_eq!(reply.header("content-type"), content_type, "{path}");
        for name in [
            "railbird-seq",
            "cache-control",
            "vary",
            "link",
            "railbird-schema",
        ] {
            assert_eq!(reply.header(name), json.header(name), "{path}: {name}");
        }
        assert_ne!(reply.header("etag"), json.header("etag"), "{path}");
        let accept = ("accept", content_type.split(';').next().unwrap());
        let tag = ("if-none-match", reply.header("etag"));
        let again = railbird.get_with(path, &[accept, tag]).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        let other = railbird.get_with(path, &[tag]).await;
        assert_eq!(other.status, 200, "{path}: the tag is of another format");
    }
    expected.len()
}

#[tokio::test]
async fn csv_and_ndjson_have_the_rows_of_the_json() {
    let (_nats, railbird, _) = service().await;
    for (path, count) in [
        ("/api/v1/results", 38),
        ("/api/v1/results?limit=2", 9),
        ("/api/v1/results?venue=HV", 18),
        ("/api/v1/results?from=2027-01-01", 0),
        ("/api/v1/racecards", 34),
        ("/api/v1/racecards?to=2026-09-30", 7),
        ("/api/v1/results/2026-10-03", 9),
        ("/api/v1/results/2026-10-07", 11),
        ("/api/v1/racecards/2026-10-03?venue=hv", 7),
        ("/api/v1/horses/H1/form", 9),
        ("/api/v1/horses/P1/form", 9),
        ("/api/v1/horses", 5),
        ("/api/v1/horses?limit=2", 2),
        ("/api/v1/meetings", 4),
        ("/api/v1/results/2026-10-07/12/revisions", 2),
        ("/api/v1/odds/2026-10-03/1/history", 2),
    ] {
        let rows = check_formats(&railbird, path).await;
        assert_eq!(rows, count, "{path}");
    }
    let csv = railbird
        .get_with("/api/v1/racecards", &[("accept", CSV)])
        .await;
    let names = csv.text().lines().next().unwrap().to_owned();
    assert!(
        names.starts_with("date,venue,venue_code,race_number,"),
        "{names}"
    );
    assert!(names.contains(",each_way.places,"), "{names}");
    assert!(
        names.ends_with(",rating,reason"),
        "by the first row that has it: {names}"
    );
    let history = railbird
        .get_with("/api/v1/odds/2026-10-03/1/history", &[("accept", CSV)])
        .await;
    assert!(
        history.text().contains("\"\"win\"\":1.001}"),
        "{}",
        history.text()
    );
}

/// Some columns of the rows of a path as CSV.
async fn csv_columns(railbird: &Railbird, path: &str, columns: &str) -> Vec<String> {
    let csv = railbird.get_with(path, &[("accept", CSV)]).await;
    assert_eq!(csv.status, 200, "{path}: {}", csv.text());
    let ndjson = railbird.get_with(path, &[("accept", NDJSON)]).await;
    let rows = read_csv(&csv.body);
    assert_eq!(ndjson.text().lines().count(), rows.len(), "{path}");
    let row = |row: &BTreeMap<String, String>| {
        let texts: Vec<_> = columns.split(' ').map(|name| row[name].clone()).collect();
        texts.join(",")
    };
    rows.iter().map(row).collect()
}

#[tokio::test]
async fn figures_and_two_horses_are_read_as_csv() {
    let (_nats, railbird, _) = service().await;
    // Two races at each of two meetings of a venue; at Sha Tin another one, and one that is void.
    let path = "/api/v1/jockeys/Asia-Hong_Kong:J%20Ockey%201?by=venue";
    let columns =
        "jockey by totals.starts value starts wins places strike_rate priced_starts profit";
    assert_eq!(
        csv_columns(&railbird, path, columns).await,
        [
            "J Ockey 1,venue,9,ST,5,5,0,1.0,5,12.5",
            "J Ockey 1,venue,9,HV,4,4,0,1.0,4,10.0",
        ]
    );
    let path = "/api/v1/jockeys/Asia-Hong_Kong:J%20Ockey%202?by=season&to=2026-10-03";
    let columns = "from to value starts wins places profit";
    assert_eq!(
        csv_columns(&railbird, path, columns).await,
        ["2026-09-30,2026-10-03,2026/27,6,0,6,-6.0"]
    );

    let path = "/api/v1/horses/H1/against/H2";
    let columns = "horse_no other_horse_no ahead behind position other.position";
    let races = csv_columns(&railbird, path, columns).await;
    assert_eq!(races, ["H1,H2,8,0,1,2"; 8]);
    let columns = "date venue_code race_number finish_time other.finish_time";
    let races = csv_columns(&railbird, path, columns).await;
    assert_eq!(races[0], "2026-10-07,ST,2,1:09.31,1:09.32");
}

/// What people do with the rows: read them with the csv module of Python.
#[tokio::test]
async fn python_reads_the_csv() {
    const READ: &str = "
import csv, io, json, sys
rows = csv.DictReader(io.StringIO(sys.stdin.buffer.read().decode(), newline=''))
print(json.dumps(list(rows)))
";
    let (_nats, railbird, _) = service().await;
    let csv = railbird
        .get_with("/api/v1/results", &[("accept", CSV)])
        .await;
    let python = std::env::var("RAILBIRD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let body = csv.body.clone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.csv");
    std::fs::write(&file, body).unwrap();
    let output = std::process::Command::new(python)
        .args(["-c", READ])
        .stdin(std::fs::File::open(file).unwrap())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let read: Vec<BTreeMap<String, String>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(read, read_csv(&csv.body));
    let names: Vec<_> = read
        .iter()
        .take(4)
        .map(|row| row["horse_name"].as_str())
        .collect();
    assert_eq!(names, NAMES);
}

/// The races of all pages from a path on, and the number of pages.
async fn all_races(railbird: &Railbird, path: &str) -> (Vec<Value>, usize) {
    let (mut path, mut races, mut pages) = (path.to_owned(), Vec::new(), 0);
    while !path.is_empty() {
        let reply = railbird.get(&path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        let page = reply.json();
        races.extend(page["races"].as_array().unwrap().clone());
        path = page["next"].as_str().unwrap().to_owned();
        let link = match path.as_str() {
            "" => String::new(),
            path => format!("<{path}>; rel=\"next\""),
        };
        assert_eq!(reply.header("link"), link);
        pages += 1;
    }
    (races, pages)
}

#[tokio::test]
async fn the_pages_of_many_days_have_each_race_once() {
    let (_nats, railbird, _) = service().await;
    for resource in ["results", "racecards"] {
        let path = format!("/api/v1/{resource}");
        let mut expected = Vec::new();
        for (date, venue) in [
            ("2026-09-30", "HV"),
            (DAY, "HV"),
            (DAY, "ST"),
            ("2026-10-07", "ST"),
        ] {
            let day = railbird.get(&format!("{path}/{date}?venue={venue}")).await;
            let day = day.json();
            for race in day["races"].as_array().unwrap() {
                let mut row = race.clone();
                for name in ["date", "venue", "venue_code"] {
                    row[name] = day[name].clone();
                }
                expected.push(row);
            }
        }
        let of = |test: fn(&Value) -> bool| -> Vec<Value> {
            expected.iter().filter(|race| test(race)).cloned().collect()
        };
        let all = of(|_| true);
        for limit in 1..=all.len() + 1 {
            let (races, pages) = all_races(&railbird, &format!("{path}?limit={limit}")).await;
            assert_eq!(races, all, "{resource} by {limit}");
            assert_eq!(pages, all.len().div_ceil(limit), "{resource} by {limit}");
        }
        assert_eq!(all_races(&railbird, &path).await, (all, 1));
        type Chosen = fn(&Value) -> bool;
        let some: [(&str, Chosen); 4] = [
            ("from=2026-10-03", |race| race["date"].as_str() >= Some(DAY)),
            ("to=2026-10-03", |race| race["date"].as_str() <= Some(DAY)),
            ("from=2026-10-03&to=2026-10-03&venue=HV", |race| {
                race["date"] == DAY && race["venue_code"] == "HV"
            }),
            ("venue=sha+tin", |race| race["venue_code"] == "ST"),
        ];
        for (query, test) in some {
            for limit in [1, 3, 1000] {
                let path = format!("{path}?{query}&limit={limit}");
                assert_eq!(all_races(&railbird, &path).await.0, of(test), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn many_days_are_answered_as_of_an_earlier_event() {
    let (nats, railbird, last) = service().await;
    let paths = [
        "/api/v1/results?",
        "/api/v1/results?limit=3&from=2026-10-01",
        "/api/v1/results?venue=ST&to=2026-10-03",
        "/api/v1/racecards?limit=2&after=2026-10-03/HV/001",
    ];
    let mut before = Vec::new();
    for path in paths {
        for accept in ["application/json", CSV, NDJSON] {
            let reply = railbird.get_with(path, &[("accept", accept)]).await;
            before.push((path, accept, reply));
        }
    }
    let later = [
        result(DAY, "ST", 1, 2, 2),
        result("2026-10-11", "ST", 1, 2, 1),
        card("2026-10-03", "S1", 1, 2),
        card(DAY, "HV", 2, 1),
    ];
    railbird.until_seq(nats.publish(later).await).await;
    for (path, accept, reply) in before {
        let path = format!("{path}&as_of={last}");
        let past = railbird.get_with(&path, &[("accept", accept)]).await;
        let plain = |text: String| text.replace(&format!("&as_of={last}"), "");
        assert_eq!(plain(past.text()), reply.text(), "{path} {accept}");
        let link = plain(past.header("link").to_owned());
        assert_eq!(link, reply.header("link"), "{path} {accept}");
        assert_eq!(past.header("railbird-seq"), last.to_string());
        assert!(past.header("cache-control").ends_with("immutable"));
    }
    let (past, _) = all_races(&railbird, &format!("/api/v1/results?as_of={last}&limit=4")).await;
    assert_eq!(past.len(), 10);
}

#[tokio::test]
async fn errors_of_many_days_name_what_is_wrong() {
    let (_nats, railbird, _) = service().await;
    for (query, status, message) in [
        ("from=2026-10-04&to=2026-10-03", 400, "from is after to"),
        ("from=soon", 400, "A date is YYYY-MM-DD, not \"soon\""),
        ("limit=0", 400, "limit is 1 to 1000"),
        (
            "venue=XX",
            404,
            "No meeting is known at \"XX\" on these days",
        ),
        (
            "venue=HV&from=2026-10-07",
            404,
            "No meeting is known at \"HV\" on these days",
        ),
        (
            "as_of=off",
            400,
            "as_of is off only where the path names a race",
        ),
        (
            "after=2026-10-03/ST",
            400,
            "after is the position from `next` of the page before",
        ),
        (
            "after=x/ST/1",
            400,
            "after is the position from `next` of the page before",
        ),
    ] {
        for resource in ["results", "racecards"] {
            let path = format!("/api/v1/{resource}?{query}");
            let reply = railbird.get_with(&path, &[("accept", "*/*")]).await;
            let found = (reply.status, reply.json()["message"].clone());
            assert_eq!(found, (status, json!(message)), "{path}");
        }
    }
    let csv = railbird
        .get_with("/api/v1/results?limit=0", &[("accept", CSV)])
        .await;
    assert_eq!(
        (csv.status, csv.header("content-type")),
        (400, "application/json")
    );
}

#[tokio::test]
async fn the_accept_header_chooses_the_format() {
    let (_nats, railbird, _) = service().await;
    for (accept, of_list, of_other) in [
        ("", "application/json", 200),
        ("*/*", "application/json", 200),
        ("application/*", "application/json", 200),
        ("text/html, */*;q=0.1", "application/json", 200),
        ("text/csv", CSV, 406),
        ("Text/CSV", CSV, 406),
        ("text/*", CSV, 406),
        ("text/csv; charset=utf-8; header=present", CSV, 406),
        ("application/x-ndjson", NDJSON, 406),
        ("text/csv, */*;q=0.1", CSV, 200),
        ("text/csv, */*", CSV, 200),
        ("text/csv, application/json", "application/json", 200),
        ("text/csv;q=0.5, application/json;q=0.4", CSV, 200),
        ("text/csv;q=0.5, application/json", "application/json", 200),
        ("text/csv;q=0, */*", "application/json", 200),
        ("application/json;q=0, */*", NDJSON, 406),
        ("application/json;q=0, application/*;q=0.0, */*", CSV, 406),
        ("text/csv;q=0", "", 406),
        ("text/csv;q=0, application/x-ndjson;q=0.000", "", 406),
        ("text/html", "", 406),
        ("*/*;q=0", "", 406),
    ] {
        let headers = [("accept", accept)];
        let list = railbird.get_with("/api/v1/meetings", &headers).await;
        let content_type = list.header("content-type").split(';').next().unwrap();
        match of_list {
            "" => assert_eq!(list.status, 406, "{accept}"),
            of_list => assert_eq!((list.status, content_type), (200, of_list), "{accept}"),
        }
        let other = railbird.get_with("/api/v1/horses/H1", &headers).await;
        assert_eq!(other.status, of_other, "{accept}");
        assert_eq!(other.header("content-type"), "application/json", "{accept}");
    }
    let two = [("accept", "text/html"), ("accept", CSV)];
    let list = railbird.get_with("/api/v1/meetings", &two).await;
    assert!(list.header("content-type").starts_with(CSV));
}

#[tokio::test]
async fn the_lists_are_those_of_the_document() {
    let nats = Nats::start();
    let last = publish_racing(&nats).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(last).await;
    let document = railbird.get_open("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    for (path, operation) in paths {
        let is_other = ["/api/v1/account", "/api/v1/exports"];
        if !path.starts_with("/api/v1/") || is_other.iter().any(|other| path.starts_with(other)) {
            continue;
        }
        let formats = operation["get"]["x-formats"].as_array();
        for format in [CSV, NDJSON] {
            let reply = railbird
                .get_with(&example_path(path), &[("accept", format)])
                .await;
            let is_list = formats.is_some_and(|formats| formats.contains(&json!(format)));
            assert_eq!(reply.status, if is_list { 200 } else { 406 }, "{path}");
        }
    }
}
