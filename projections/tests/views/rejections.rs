use serde_json::{Value, json};

use crate::common::{Fixture, Race, card, odds, result};

const RACE: Race = ("2026-11-21", "ST", 3);

#[test]
fn a_rejected_message_is_stored_with_its_reason_and_stops_nothing() {
    let mut fixture = Fixture::given([card(RACE, &["A"])]);
    let step = fixture.raw("racing.race.2026-11-21.ST.3", b"no JSON".to_vec());
    assert_eq!(step.tally.rejected.get("not_cloud_event"), Some(&1));
    assert_eq!(step.tally.folded, 0);
    fixture.when(result(RACE, 1, &[("A", "1")]));
    assert_eq!(fixture.career("A"), [1, 1, 0, 1000]);
    assert_eq!(
        fixture.rejections(),
        [json!({
            "seq": 2, "recorded_at": "2026-11-21T09:00:02.123456Z", "subject": "racing.race.2026-11-21.ST.3", "source": "", "id": "",
            "code": "not_cloud_event", "payload_bytes": 7, "payload": "no JSON",
            "reason": "not a CloudEvents 1.0 JSON object: expected ident at line 1 column 2",
        })]
    );
}

#[test]
fn every_kind_of_error_has_its_code_and_names_the_feeder_if_possible() {
    let mut fixture = Fixture::given([]);
    let wrong = odds(RACE, &[("A", json!(0.5))]);
    fixture.when(wrong);
    let good = odds(RACE, &[("A", json!(2))]);
    fixture.raw("racing.odds.2026-11-21.ST.4", good.payload(2));
    fixture.raw("racing.anything", b"{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"s\",\"type\":\"t\",\"time\":\"2026-11-21T00:00:00Z\",\"data\":1}".to_vec());
    fixture.raw("racing.anything", vec![b' '; 70_000]);
    let codes: Vec<(Value, Value)> = fixture
        .rejections()
        .iter()
        .map(|r| (r["code"].clone(), r["source"].clone()))
        .collect();
    let expected = [
        ("invalid_data", "test"),
        ("subject_mismatch", "test"),
        ("unknown_type", "s"),
        ("too_large", ""),
    ];
    assert_eq!(
        codes,
        expected.map(|(code, source)| (json!(code), json!(source)))
    );
    assert!(fixture.board(RACE).is_null());
    assert_eq!(fixture.rejections()[3]["payload_bytes"], 70_000);
}

#[test]
fn an_announcement_is_the_stored_rejection_without_the_payload() {
    let mut fixture = Fixture::given([]);
    let mut announced: Vec<Value> = Vec::new();
    for payload in [
        b"no JSON".as_slice(),
        b"{\"source\":7,\"id\":\"feed-1\"}",
        b"{\"source\":\"tote\",\"id\":null}",
    ] {
        let step = fixture.raw("racing.horse.A", payload.to_vec());
        let [announcement] = &step.announcements[..] else {
            panic!("one for each: {:?}", step.announcements)
        };
        assert_eq!(announcement.subject, "racing.horse.A");
        let json: Value = serde_json::from_slice(&announcement.json).expect("JSON");
        assert_eq!(json["seq"], announcement.seq);
        announced.push(json);
    }
    let named: Vec<[&Value; 2]> = announced.iter().map(|t| [&t["source"], &t["id"]]).collect();
    assert_eq!(named, [["", ""], ["", "feed-1"], ["tote", ""]]);
    let mut kept = fixture.rejections();
    for rejection in &mut kept {
        let fields = rejection.as_object_mut().expect("an object");
        fields.remove("payload").expect("the message");
    }
    assert_eq!(announced, kept);
}

/// A text that JSON renders with six bytes for each of its own.
fn escaped(chars: usize) -> String {
    "\u{1}".repeat(chars)
}

#[test]
fn a_rejection_is_bounded_as_it_is_rendered_whatever_it_is_made_of() {
    let mut fixture = Fixture::given([]);
    let subject = format!("racing.{}", escaped(3_000));
    let event = |field: &str, value: Value| {
        let mut event: Value =
            serde_json::from_slice(&card(RACE, &["A"]).payload(1)).expect("JSON");
        *event.pointer_mut(field).expect("a field") = value;
        serde_json::to_vec(&event).expect("JSON")
    };
    let misspelt = json!({ escaped(3_000): { escaped(3_000): 1 } });
    let payloads = [
        vec![0; 4096],
        [b"\xff\xfe".as_slice(), &[0; 1_000_000]].concat(),
        format!("\"{}\"", "x".repeat(60_000)).into_bytes(),
        "\"".repeat(60_000).into_bytes(),
        "\u{e9}\u{1f3c7}".repeat(9_000).into_bytes(),
        event("/type", escaped(9_000).into()),
        event("/source", escaped(9_000).into()),
        event("/id", escaped(9_000).into()),
        event("/time", escaped(9_000).into()),
        event("/data/class", escaped(9_000).into()),
        event("/data/venue", escaped(9_000).into()),
        event("/data/runners/0/draw", misspelt),
        event("/data/race_number", json!(2)),
    ];
    for payload in payloads {
        let step = fixture.raw(&subject, payload.clone());
        let size = step.announcements[0].json.len();
        assert!(size <= 4_096, "an announcement of {size} bytes");
        let kept = fixture.rejections().pop().expect("the last one");
        assert_eq!(kept["payload_bytes"], payload.len());
        // Not less of it than there is room for.
        let text = kept["payload"].as_str().expect("a text");
        let lossy = String::from_utf8_lossy(&payload);
        assert!(
            lossy.starts_with(text) && text.len() >= lossy.len().min(600),
            "{text}"
        );
    }
    for entry in fixture
        .projection
        .store()
        .scan(projections::keys::REJECTIONS)
    {
        let (key, view) = entry.expect("a healthy store");
        assert!(view.len() <= 8_192, "{key} has {} bytes", view.len());
    }
}
