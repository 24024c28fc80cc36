//! The contract with clients: field names and types are listed here, independently of the code.

use serde_json::{Value, json};

use crate::support::*;

const PROFILE: &str = "horse_no str, horse_name str, country_of_origin str, colour str, sex str, age int, trainer str, owner str, \
    total_stakes int, starts int, wins int, places int";
const FORM: &str = "horse_no str, horse_name str, form list";
const FORM_ROW: &str = "date date, venue str, race_number int, distance int, position int, finish_time time, win_odds number, jockey str";
const MEETING: &str = "date date, venue str, races list";
const RESULT: &str = "race_number int, race_name str, distance int, going str, runners list";
const RESULT_RUNNER: &str = "position int, horse_no str, horse_name str, jockey str, trainer str, finish_time time, win_odds number";
const CARD: &str = "race_number int, race_name str, distance int, class str, runners list";
const CARD_RUNNER: &str =
    "horse_no str, horse_name str, jockey str, trainer str, draw int, weight int";

const UNAUTHORIZED: &str = r#"{"error":"unauthorized","message":"Invalid or missing API key"}"#;

/// Checks that an object has all fields of a list of `name type`.
fn check(object: &Value, fields: &str) {
    for field in fields.split(',') {
        let (name, kind) = field.trim().split_once(' ').unwrap();
        let value = object
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing in {object}"));
        let has_type = match kind {
            "str" => value.is_string(),
            "int" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "list" => value.is_array(),
            "date" => value
                .as_str()
                .is_some_and(|text| text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()),
            "time" => value.as_str().is_some_and(is_time),
            _ => panic!("unknown type: {kind}"),
        };
        assert!(has_type, "{name} is {value}, not {kind}, in {object}");
    }
}

/// m:ss.cc
fn is_time(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    shape == "9:99.99" || shape == "99:99.99"
}

fn check_all<'a>(list: &'a Value, fields: &str) -> &'a [Value] {
    let list = list.as_array().unwrap();
    assert!(!list.is_empty());
    list.iter().for_each(|object| check(object, fields));
    list
}

/// A result of today whose horses run in no other race.
fn result_of_others(today: &str) -> Value {
    let mut result = result(today, "HV", 1, 1, 1);
    let runner =
        json!({ "horse_no": "T1", "horse_name": "", "position": 1, "jockey": "", "trainer": "" });
    result["data"]["runners"] = json!([runner]);
    result
}

/// A service with three meetings, one of them today: cards, results, odds and a registered horse.
async fn service() -> (Nats, Railbird) {
    let nats = Nats::start();
    let seq = publish_racing(&nats).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(seq).await;
    (nats, railbird)
}

/// Publishes three meetings, one of them today: cards, results, odds and a registered horse. Returns the last sequence.
pub(crate) async fn publish_racing(nats: &Nats) -> u64 {
    let today = jiff::Timestamp::now()
        .in_tz("Asia/Hong_Kong")
        .unwrap()
        .date()
        .to_string();
    let mut owned = card(DAY, "ST", 1, 4);
    owned["data"]["runners"][0]["owner"] = json!("O Wner");
    nats.publish([
        registered("H1", "HORSE 1"),
        owned,
        card(DAY, "ST", 2, 4),
        result(DAY, "ST", 1, 3, 1),
        odds("ST", 2, &second(0), &[3.5, 4.0, 12.34, 100.0]),
        card("2026-09-30", "HV", 1, 4),
        result("2026-09-30", "HV", 1, 4, 1),
        card(&today, "HV", 1, 3),
        result_of_others(&today),
        odds_on(&today, "HV", 2, &second(0), &[2.0]),
        dividends(DAY, "ST", 1, 1),
    ])
    .await
}

#[tokio::test]
async fn every_response_has_the_fields_and_types_of_the_contract() {
    let (_nats, railbird) = service().await;
    check_profiles(&railbird).await;
    check_forms(&railbird).await;
    check_results(&railbird).await;
    check_racecards(&railbird).await;
}

async fn check_profiles(railbird: &Railbird) {
    let profile = railbird.get("/api/v1/horses/H1").await.json();
    check(&profile, PROFILE);
    assert_eq!(
        (&profile["starts"], &profile["wins"], &profile["places"]),
        (&json!(2), &json!(2), &json!(0))
    );
    assert_eq!(
        (&profile["total_stakes"], &profile["registered"]),
        (&json!(200_000), &json!(true))
    );
    let unregistered = railbird.get("/api/v1/horses/P1").await.json();
    check(&unregistered, PROFILE);
    assert_eq!(
        (
            &unregistered["starts"],
            &unregistered["registered"],
            &unregistered["age"]
        ),
        (&json!(2), &json!(false), &json!(0))
    );
}

async fn check_forms(railbird: &Railbird) {
    let form = railbird.get("/api/v1/horses/H2/form").await.json();
    check(&form, FORM);
    let dates: Vec<_> = check_all(&form["form"], FORM_ROW)
        .iter()
        .map(|row| row["date"].as_str().unwrap())
        .collect();
    assert_eq!(dates, [DAY, "2026-09-30"], "newest first");
    let pulled_up = railbird.get("/api/v1/horses/P1/form").await.json();
    check(&pulled_up, FORM);
    assert_eq!(
        (&pulled_up["form"], &pulled_up["unplaced"][0]["outcome"]),
        (&json!([]), &json!("PU"))
    );
}

async fn check_results(railbird: &Railbird) {
    let results = railbird.get(&format!("/api/v1/results/{DAY}")).await.json();
    check(&results, MEETING);
    assert_eq!(
        (&results["date"], &results["venue"], &results["venue_code"]),
        (&json!(DAY), &json!("Sha Tin"), &json!("ST"))
    );
    for race in check_all(&results["races"], RESULT) {
        check_all(&race["runners"], RESULT_RUNNER);
        assert_eq!(
            (
                &race["unplaced"][0]["horse_no"],
                &race["unplaced"][0]["win_odds"]
            ),
            (&json!("P1"), &json!(99.0))
        );
    }

    let race = railbird
        .get(&format!("/api/v1/results/{DAY}/1"))
        .await
        .json();
    check(&race, "date date, venue str");
    check(&race, RESULT);
    check_all(&race["runners"], RESULT_RUNNER);
}

async fn check_racecards(railbird: &Railbird) {
    for path in [
        "/api/v1/racecards/today".to_owned(),
        format!("/api/v1/racecards/{DAY}"),
    ] {
        let card = railbird.get(&path).await.json();
        check(&card, MEETING);
        for race in check_all(&card["races"], CARD) {
            check_all(&race["runners"], CARD_RUNNER);
        }
    }
}

#[tokio::test]
async fn endpoints_beyond_the_contract_respond() {
    let (_nats, railbird) = service().await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/2")).await.json();
    assert_eq!(board["seq"], 5);
    let prices: Vec<_> = board["runners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|runner| runner["win"].to_string())
        .collect();
    assert_eq!(
        prices,
        ["3.5", "4.0", "12.34", "100.0"],
        "exact, as they were quoted"
    );
    let history = railbird
        .get(&format!("/api/v1/odds/{DAY}/2/history"))
        .await
        .json();
    assert_eq!(
        history["history"][0]["runners"].as_array().unwrap().len(),
        4
    );
    let path = format!("/api/v1/odds/{DAY}/2");
    let sources = railbird.get(&(path.clone() + "/sources")).await.json();
    let [source] = &sources["sources"].as_array().unwrap()[..] else {
        panic!("{sources}");
    };
    assert_eq!(
        (&source["source"], &source["primary"], &source["seq"]),
        (&board["source"], &json!(true), &json!(5))
    );
    let name = board["source"].as_str().unwrap();
    let of_source = railbird.get(&format!("{path}?source={name}")).await;
    assert_eq!(of_source.json(), board);
    let unknown = railbird.get(&(path + "?source=nobody")).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]),
        (404, &json!("not_found"))
    );
    let meetings = railbird
        .get("/api/v1/meetings?from=2026-09-30&to=2026-09-30")
        .await
        .json();
    assert_eq!(meetings["meetings"][0]["venue_code"], "HV");
    let revisions = railbird
        .get(&format!("/api/v1/results/{DAY}/1/revisions"))
        .await
        .json();
    assert_eq!(revisions["revisions"][0]["revision"], 1);
    let document = railbird.get_open("/openapi.json").await.json();
    for path in document["paths"].as_object().unwrap().keys() {
        if path.starts_with("/api/") {
            let path = example_path(path);
            assert_eq!(railbird.get(&path).await.status, 200, "{path}");
        }
    }
    assert_eq!(
        railbird
            .get_open("/schemas/racing.odds.quoted.v1.json")
            .await
            .json()["title"],
        "racing.odds.quoted.v1"
    );
}

/// A path of the OpenAPI document, for a resource that the service has.
pub(crate) fn example_path(template: &str) -> String {
    let race_number = if template.contains("odds") { "2" } else { "1" };
    let key = match template {
        jockeys if jockeys.contains("/jockeys/") => "Asia-Hong_Kong:J%20Ockey%201",
        trainers if trainers.contains("/trainers/") => "Asia-Hong_Kong:T%20Rainer",
        owners if owners.contains("/owners/") => "Asia-Hong_Kong:O%20Wner",
        _ => "ST",
    };
    template
        .replace("{key}", key)
        .replace("{other_horse_no}", "H2")
        .replace("{horse_no}", "H1")
        .replace("{date}", DAY)
        .replace("{kind}", "results")
        .replace("{venue}", "ST")
        .replace("{race_number}", race_number)
}

#[tokio::test]
async fn every_path_returns_the_same_401_without_a_valid_key() {
    let (_nats, railbird) = service().await;
    let (head, tail) = railbird.key.split_at(railbird.key.len() - 1);
    let typo = format!("{head}{}", if tail == "0" { '1' } else { '0' });
    let never_issued = railbird::accounts::ApiKey::generate("test").unwrap();
    for path in [
        "/api/v1/horses/H1",
        "/api/v1/horses/!!",
        "/api/v1/results/nonsense",
        "/api/v1/no/such/path",
        "/api/v1/",
        "/api/v1",
    ] {
        for key in ["", "nonsense", typo.as_str(), never_issued.reveal()] {
            let headers: &[(&str, &str)] = if key.is_empty() {
                &[]
            } else {
                &[("x-api-key", key)]
            };
            let reply = request(railbird.http, "GET", path, headers).await;
            assert_eq!(
                (reply.status, reply.text().as_str()),
                (401, UNAUTHORIZED),
                "{path} with {key:?}"
            );
            assert_eq!(reply.header("content-type"), "application/json");
            let reply =
                Socket::refused(railbird.http, &format!("/ws/live/odds?api_key={key}")).await;
            assert_eq!(
                (reply.status, String::from_utf8_lossy(&reply.body).as_ref()),
                (401, UNAUTHORIZED)
            );
        }
    }
    assert_eq!(
        request(railbird.http, "POST", "/api/v1/horses/H1", &[])
            .await
            .status,
        401
    );
    let reply = Socket::refused(railbird.http, "/ws/live/odds").await;
    assert_eq!((reply.status, reply.text().as_str()), (401, UNAUTHORIZED));
}

/// RFC 6750, 2.1.
#[tokio::test]
async fn a_key_may_be_a_bearer_token() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let other = railbird.issue_key(&nats).await;
    let of = |scheme: &str, key: &str| format!("{scheme} {key}");
    let bearer = of("Bearer", &railbird.key);
    let of_other = of("Bearer", &other);
    let key = railbird.key.as_str();
    for (headers, status) in [
        (vec![("authorization", bearer.as_str())], 200),
        (vec![("authorization", &of("bearer", key))], 200),
        (vec![("authorization", &bearer), ("x-api-key", key)], 200),
        // Of a proxy in front.
        (
            vec![("authorization", "Basic dTpw"), ("x-api-key", key)],
            200,
        ),
        (
            vec![("authorization", "Bearer e30.e30.c2ln"), ("x-api-key", key)],
            200,
        ),
        (vec![("authorization", "Bearer e30.e30.c2ln")], 401),
        // Of a client without one in its settings.
        (vec![("authorization", &bearer), ("x-api-key", "")], 200),
        (vec![("authorization", &of_other), ("x-api-key", key)], 401),
        (
            vec![("authorization", &bearer), ("x-api-key", "nonsense")],
            401,
        ),
        (
            vec![("authorization", &bearer), ("authorization", &of_other)],
            401,
        ),
        (vec![("x-api-key", key), ("x-api-key", &other)], 401),
        (vec![("authorization", "Bearer")], 401),
        (vec![("authorization", "Basic dTpw")], 401),
        (vec![("authorization", key)], 401),
    ] {
        let reply = request(railbird.http, "GET", "/api/v1/meetings", &headers).await;
        assert_eq!(reply.status, status, "{headers:?}");
        if status == 401 {
            assert_eq!(reply.text(), UNAUTHORIZED);
        }
        let reply = Socket::refused_with(railbird.http, "/ws/live/odds", &headers).await;
        let switched = if status == 200 { 101 } else { status };
        assert_eq!(reply.status, switched, "{headers:?}");
    }
    for (of_query, status) in [(key, 101), (other.as_str(), 401)] {
        let path = format!("/ws/live/odds?api_key={of_query}");
        let reply = Socket::refused_with(railbird.http, &path, &[("authorization", &bearer)]).await;
        assert_eq!(reply.status, status, "{path}");
    }
}

#[tokio::test]
async fn the_documents_are_made_once_and_revalidated() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let paths = [
        "/openapi.json",
        "/asyncapi.json",
        "/schemas/racing.odds.quoted.v1.json",
    ];
    for path in paths {
        let first = railbird.get_open(path).await;
        let etag = first.header("etag");
        assert!(etag.starts_with("W/\""), "{path}: {etag:?}");
        assert_eq!(first.header("cache-control"), "no-cache", "{path}");
        assert_eq!(first.header("content-type"), "application/json", "{path}");
        let headers = [("if-none-match", etag)];
        let again = request(railbird.http, "GET", path, &headers).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), etag);
        let other = request(railbird.http, "GET", path, &[("if-none-match", "W/\"0\"")]).await;
        assert_eq!((other.status, other.body), (200, first.body), "{path}");
    }
}

/// Path, status, code and message.
#[rustfmt::skip]
const ERRORS: [(&str, u16, &str, &str); 18] = [
    ("/api/v1/results/2026-13-01", 400, "invalid_date", "A date is YYYY-MM-DD, not \"2026-13-01\""),
    ("/api/v1/results/0000-13-99", 400, "invalid_date", "A date is YYYY-MM-DD, not \"0000-13-99\""),
    ("/api/v1/racecards/tomorrow", 400, "invalid_date", "A date is YYYY-MM-DD, not \"tomorrow\""),
    ("/api/v1/results/2026-10-03/zero", 400, "invalid_race_number", "A race number is 1 to 999, not \"zero\""),
    ("/api/v1/results/2026-10-03/0", 400, "invalid_race_number", "A race number is 1 to 999, not \"0\""),
    ("/api/v1/horses/%F0%9F%90%8E", 400, "invalid_horse_no", "A horse number is 1 to 32 of A-Z a-z 0-9 _ -, not \"🐎\""),
    ("/api/v1/horses/%FF", 400, "invalid_parameter", "The path is not UTF-8"),
    ("/api/v1/horses/H1/form?limit=0", 400, "invalid_parameter", "limit is 1 to 1000"),
    ("/api/v1/horses/H1/form?limit=1001", 400, "invalid_parameter", "limit is 1 to 1000"),
    ("/api/v1/horses/H1/form?before=soon", 400, "invalid_date", "A date is YYYY-MM-DD, not \"soon\""),
    ("/api/v1/meetings?from=2026-10-03&to=2026-10-02", 400, "invalid_parameter", "from is after to"),
    ("/api/v1/horses/H1?lang=chinese", 400, "invalid_parameter", "a language is such as zh-Hant, not \"chinese\""),
    ("/api/v1/horses/NOBODY", 404, "not_found", "No horse NOBODY is known"),
    ("/api/v1/horses/NOBODY/form", 404, "not_found", "No horse NOBODY is known"),
    ("/api/v1/results/1999-01-01", 404, "not_found", "No meeting is known for 1999-01-01"),
    ("/api/v1/results/2026-10-03/9", 404, "not_found", "No result of race 9 is known at Sha Tin on 2026-10-03"),
    ("/api/v1/results/2026-10-03?venue=XX", 404, "not_found", "No meeting is known for 2026-10-03 at \"XX\"; there is one at ST"),
    ("/api/v1/no/such/path", 404, "not_found", "There is no such path; see /openapi.json"),
];

#[tokio::test]
async fn errors_name_the_invalid_value() {
    let (_nats, railbird) = service().await;
    for (path, status, error, message) in ERRORS {
        let reply = railbird.get(path).await;
        assert_eq!(
            (reply.status, reply.json()),
            (status, json!({ "error": error, "message": message })),
            "{path}"
        );
    }
    let key = [("x-api-key", railbird.key.as_str())];
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let reply = request(railbird.http, method, "/api/v1/horses/H1", &key).await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, "GET, HEAD"),
            "{method}"
        );
        assert_eq!(reply.json()["error"], "method_not_allowed");
    }
    let reply = railbird
        .get_with("/api/v1/horses/H1", &[("accept", "text/html")])
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]),
        (406, &json!("not_acceptable"))
    );
    let reply = railbird
        .get(&format!("/api/v1/horses/H1?{}", "x".repeat(4000)))
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]),
        (414, &json!("uri_too_long"))
    );
    let reply = railbird
        .get_with("/api/v1/horses/H1", &[("content-length", "100000")])
        .await;
    assert_eq!(
        (reply.status, &reply.json()["error"]),
        (413, &json!("payload_too_large"))
    );
}

#[tokio::test]
async fn a_day_without_a_meeting_returns_404_with_the_time_zone() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let reply = railbird.get("/api/v1/racecards/today").await;
    let today = jiff::Timestamp::now()
        .in_tz("Asia/Hong_Kong")
        .unwrap()
        .date();
    let message = format!("No meeting is scheduled for {today} (Asia/Hong_Kong)");
    assert_eq!(
        (reply.status, reply.json()),
        (404, json!({ "error": "not_found", "message": message }))
    );
}

#[tokio::test]
async fn today_works_on_results_and_odds_as_on_race_cards() {
    let (_nats, railbird) = service().await;
    let same = async |path: &str| {
        let today = railbird
            .get(&format!("/api/v1/{}", path.replace("DATE", "today")))
            .await;
        let date = today.json()["date"].as_str().map(str::to_owned).unwrap();
        let by_date = railbird
            .get(&format!("/api/v1/{}", path.replace("DATE", &date)))
            .await;
        assert_eq!(
            (today.status, today.json()),
            (200, by_date.json()),
            "{path}"
        );
    };
    for path in [
        "racecards/DATE",
        "results/DATE",
        "results/DATE/1",
        "results/DATE/1/revisions?limit=1",
        "odds/DATE/1",
        "odds/DATE/2",
        "odds/DATE/2/history",
        "odds/DATE/2/sources",
        "odds/DATE/2?source=test",
    ] {
        same(path).await;
    }
    let nats = Nats::start();
    let empty = Railbird::start(&nats).await;
    for path in [
        "racecards/today",
        "results/today",
        "results/today/1",
        "odds/today/1",
    ] {
        let reply = empty.get(&format!("/api/v1/{path}")).await;
        let message = reply.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(reply.status, 404, "{path}");
        assert!(
            message.starts_with("No meeting is scheduled for "),
            "{path}: {message}"
        );
    }
}

#[tokio::test]
async fn a_race_without_quotes_has_an_empty_board_and_an_unknown_one_none() {
    let (_nats, railbird) = service().await;
    let board = railbird.get(&format!("/api/v1/odds/{DAY}/1")).await;
    assert_eq!(
        (board.status, board.json()),
        (
            200,
            json!({
                "date": DAY, "venue": "Sha Tin", "venue_code": "ST", "race_number": 1, "status": "result",
                "recorded_at": "", "seq": 0, "prev_seq": 0, "source": "", "runners": [],
            })
        )
    );
    let history = railbird
        .get(&format!("/api/v1/odds/{DAY}/1/history"))
        .await
        .json();
    assert_eq!(
        (&history["history"], &history["next"]),
        (&json!([]), &json!(""))
    );
    for (path, message) in [
        (
            format!("{DAY}/9"),
            format!("No race 9 is known at Sha Tin on {DAY}"),
        ),
        (
            "1999-01-01/1".to_owned(),
            "No meeting is known for 1999-01-01".to_owned(),
        ),
    ] {
        let reply = railbird.get(&format!("/api/v1/odds/{path}")).await;
        assert_eq!(
            (reply.status, reply.json()),
            (404, json!({ "error": "not_found", "message": message }))
        );
    }
}

#[tokio::test]
async fn horses_are_found_by_a_part_of_their_names_page_by_page() {
    let (_nats, railbird) = service().await;
    let found = async |path: &str| {
        let page = railbird.get(path).await.json();
        let names = page["horses"].as_array().unwrap().iter();
        let names: Vec<_> = names
            .map(|horse| horse["horse_no"].as_str().unwrap().to_owned())
            .collect();
        (names, page["next"].as_str().unwrap().to_owned())
    };
    let all = found("/api/v1/horses?name=oRsE").await;
    assert_eq!(
        all,
        (
            ["H1", "H2", "H3", "H4"].map(str::to_owned).to_vec(),
            String::new()
        )
    );
    let one = railbird.get("/api/v1/horses?name=HORSE+1").await.json();
    assert_eq!(
        one["horses"][0],
        railbird.get("/api/v1/horses/H1").await.json()
    );
    assert_eq!(found("/api/v1/horses?name=nobody").await.0, [""; 0]);
    let (mut path, mut pages) = ("/api/v1/horses?name=horse&limit=3".to_owned(), Vec::new());
    while !path.is_empty() {
        let (names, next) = found(&path).await;
        pages.push(names.join(" "));
        path = next;
    }
    assert_eq!(pages, ["H1 H2 H3", "H4"]);
    assert_eq!(found("/api/v1/horses").await.0.len(), 5, "all, by name");
    assert_eq!(found("/api/v1/horses?name=+2").await.0, ["H2"]);
    for after in ["zzz", "%F4%8F%BF%BF%F4%8F%BF%BF"] {
        let after_the_end = found(&format!("/api/v1/horses?name=a&after={after}")).await;
        assert_eq!(after_the_end.0, [""; 0]);
    }
}

#[tokio::test]
async fn two_meetings_on_a_day_are_chosen_by_venue_and_never_by_arrival() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let seq = nats
        .publish([
            result(DAY, "S1", 1, 2, 1),
            result(DAY, "HV", 1, 3, 1),
            result(DAY, "ST", 1, 4, 1),
        ])
        .await;
    railbird.until_seq(seq).await;
    let path = format!("/api/v1/results/{DAY}");
    let primary = railbird.get(&path).await;
    assert_eq!(
        (
            &primary.json()["venue_code"],
            &primary.json()["other_venues"]
        ),
        (&json!("ST"), &json!(["HV", "S1"]))
    );
    let links: Vec<_> = primary
        .headers
        .get_all("link")
        .iter()
        .map(|link| link.to_str().unwrap().to_owned())
        .collect();
    let link = |venue: &str| format!("<{path}?venue={venue}>; rel=\"alternate\"");
    assert_eq!(links, [link("HV"), link("S1")]);
    for (venue, runners) in [("S1", 2), ("HV", 3), ("happy%20valley", 3), ("Sha+Tin", 4)] {
        let chosen = railbird.get(&format!("{path}?venue={venue}")).await.json();
        assert_eq!(
            chosen["races"][0]["runners"].as_array().unwrap().len(),
            runners,
            "{venue}"
        );
        let one = railbird
            .get(&format!("{path}/1?venue={venue}"))
            .await
            .json();
        assert_eq!(one["runners"].as_array().unwrap().len(), runners, "{venue}");
    }
}

#[tokio::test]
async fn caching_works_and_head_responds_like_get() {
    let (nats, railbird) = service().await;
    let first = railbird.get("/api/v1/horses/H2").await;
    let tag = first.header("etag").to_owned();
    assert_eq!(first.header("cache-control"), "private, no-cache");
    assert_eq!(first.header("railbird-seq"), "11");
    assert_eq!(first.header("vary"), "accept, accept-encoding");
    for tags in [
        tag.as_str(),
        "*",
        &format!("\"other\", {tag}"),
        tag.trim_start_matches("W/"),
    ] {
        let again = railbird
            .get_with("/api/v1/horses/H2", &[("if-none-match", tags)])
            .await;
        assert_eq!(
            (again.status, again.body.len(), again.header("etag")),
            (304, 0, tag.as_str()),
            "{tags}"
        );
        for name in ["vary", "cache-control"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    }
    let head = request(
        railbird.http,
        "HEAD",
        "/api/v1/horses/H2",
        &[("x-api-key", railbird.key.as_str())],
    )
    .await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(
        (head.header("etag"), head.header("content-length")),
        (tag.as_str(), first.body.len().to_string().as_str())
    );

    let seq = nats.publish([result("2026-09-27", "ST", 1, 2, 1)]).await;
    railbird.until_seq(seq).await;
    let changed = railbird
        .get_with("/api/v1/horses/H2", &[("if-none-match", &tag)])
        .await;
    assert_eq!(
        (changed.status, changed.header("railbird-seq")),
        (200, "12")
    );
    assert_ne!(changed.header("etag"), tag);
}

#[tokio::test]
async fn large_responses_are_compressed_on_request() {
    let (_nats, railbird) = service().await;
    let path = format!("/api/v1/racecards/{DAY}");
    let plain = railbird.get(&path).await;
    for encodings in ["gzip", "gzip, deflate, br, zstd", "gzip;q=0.5"] {
        let compressed = railbird
            .get_with(&path, &[("accept-encoding", encodings)])
            .await;
        assert_eq!(compressed.headers.get_all("vary").iter().count(), 1);
        assert_eq!(compressed.header("content-encoding"), "gzip", "{encodings}");
        assert!(compressed.body.len() < plain.body.len());
    }
    for other in ["br", "zstd"] {
        let reply = railbird
            .get_with(&path, &[("accept-encoding", other)])
            .await;
        assert_eq!((reply.status, &reply.body), (200, &plain.body), "{other}");
    }
    for strict in ["identity;q=0", "*;q=0", "gzip;q=0, identity;q=0"] {
        let reply = railbird
            .get_with(&path, &[("accept-encoding", strict)])
            .await;
        assert_eq!((reply.status, &reply.body), (200, &plain.body), "{strict}");
    }
    let small = railbird
        .get_with("/api/v1/horses/P1", &[("accept-encoding", "gzip")])
        .await;
    assert_eq!(small.header("content-encoding"), "");
}

#[tokio::test]
async fn form_is_limited_by_limit_and_before() {
    let (_nats, railbird) = service().await;
    let newest = railbird.get("/api/v1/horses/H2/form?limit=1").await.json();
    assert_eq!(
        (
            newest["form"].as_array().unwrap().len(),
            &newest["form"][0]["date"]
        ),
        (1, &json!(DAY))
    );
    let older = railbird
        .get(&format!("/api/v1/horses/H2/form?before={DAY}"))
        .await
        .json();
    assert_eq!(
        (
            older["form"].as_array().unwrap().len(),
            &older["form"][0]["date"]
        ),
        (1, &json!("2026-09-30"))
    );
    assert_eq!(
        railbird
            .get("/api/v1/horses/H2/form?before=2026-09-30")
            .await
            .json()["form"],
        json!([])
    );
}

/// The names of the query parameters of a GET, by the OpenAPI document.
fn documented_parameters(document: &Value, path: &str) -> Vec<String> {
    let parameters = document["paths"][path]["get"]["parameters"].as_array();
    let resolved = parameters.into_iter().flatten().map(|parameter| {
        let name = parameter["$ref"].as_str().unwrap().rsplit('/').next();
        &document["components"]["parameters"][name.unwrap()]
    });
    let of_query = resolved.filter(|parameter| parameter["in"] == "query");
    let mut names: Vec<String> = of_query
        .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_query_parameter_that_is_not_documented_is_rejected_with_those_that_are() {
    let (_nats, railbird) = service().await;
    let document = railbird.get_open("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap().keys();
    let paths: Vec<&String> = paths
        .filter(|path| path.starts_with("/api/v1/") && *path != "/api/v1/account")
        .collect();
    assert!(paths.len() >= 10, "{paths:?}");
    for template in paths {
        let path = example_path(template);
        let names = documented_parameters(&document, template);
        let reply = railbird.get(&format!("{path}?venu=ST")).await;
        let expected = match &names[..] {
            [] => "there is no \"venu\", nor any other parameter".to_owned(),
            names => format!("there is no \"venu\"; there are {}", names.join(", ")),
        };
        let message = reply.json()["message"].as_str().unwrap().to_owned();
        assert_eq!((reply.status, &message), (400, &expected), "{path}");
    }
    let not_utf8 = railbird.get("/api/v1/horses?name=%ff").await;
    assert_eq!(
        (not_utf8.status, &not_utf8.json()["message"]),
        (400, &json!("The query is not UTF-8"))
    );
}

#[tokio::test]
async fn a_path_is_checked_before_the_views_are_waited_for() {
    let (_nats, railbird) = service().await;
    for path in ["/api/v1/results/2026-13-01", "/api/v1/odds/today/x"] {
        let headers = [
            ("x-api-key", &*railbird.key),
            ("railbird-min-seq", "1000000"),
        ];
        let reply = request(railbird.http, "GET", path, &headers).await;
        assert_eq!(reply.status, 400, "{path}: {}", reply.text());
    }
}

#[tokio::test]
async fn the_path_of_the_next_page_is_written_as_a_person_would() {
    let (_nats, railbird) = service().await;
    let page = railbird.get("/api/v1/horses?limit=1").await.json();
    let next = page["next"].as_str().unwrap();
    assert!(next.starts_with("/api/v1/horses?limit=1&after="), "{next}");
}

#[tokio::test]
async fn a_slash_at_the_end_is_redirected_on_this_host_alone() {
    let (_nats, railbird) = service().await;
    for (path, location) in [
        ("/api/v1/meetings/?limit=1", "/api/v1/meetings?limit=1"),
        ("/healthz/", "/healthz"),
    ] {
        let reply = railbird.get(path).await;
        assert_eq!((reply.status, reply.header("location")), (308, location));
    }
    for path in ["//example.org/", "/nope"] {
        let reply = railbird.get(path).await;
        assert_eq!(
            (reply.status, reply.header("location")),
            (404, ""),
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_answer_without_a_key_asks_for_one_and_no_answer_is_guessed_to_be_a_page() {
    let (_nats, railbird) = service().await;
    let reply = railbird.get_open("/api/v1/meetings").await;
    assert_eq!(reply.status, 401);
    assert_eq!(
        reply.header("www-authenticate"),
        "Bearer realm=\"railbird\""
    );
    for path in [
        "/api/v1/meetings",
        "/healthz",
        "/openapi.json",
        "/status",
        "/nope",
    ] {
        let reply = railbird.get(path).await;
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
    }
}
