//! `?lang=`: names in other languages, in all answers that have names.

use serde_json::{Value, json};

use crate::support::*;

/// The fact in Chinese, by a feeder of its own.
fn in_chinese(mut fact: Value) -> Value {
    fn name(object: &mut Value, field: &str, names: &str) {
        if let Some(text) = object[field].as_str() {
            let text = format!("中{text}");
            object[field] = json!(text);
            object[names] = json!({ "zh-Hant": text });
        }
    }
    let data = &mut fact["data"];
    name(data, "race_name", "names");
    name(data, "horse_name", "names");
    name(data, "trainer", "trainer_names");
    name(data, "owner", "owner_names");
    if data["race_number"].is_number() {
        data["venue_name"] = json!("Sha Tin");
        data["venue_names"] = json!({ "zh-Hant": "沙田" });
    }
    for runner in data["runners"].as_array_mut().into_iter().flatten() {
        name(runner, "horse_name", "names");
        name(runner, "jockey", "jockey_names");
        name(runner, "trainer", "trainer_names");
    }
    fact["source"] = json!("chinese");
    fact
}

/// The value with the Chinese names in the fields with names.
fn translated(value: &Value) -> Value {
    const FIELDS: [&str; 5] = ["horse_name", "jockey", "trainer", "owner", "race_name"];
    match value {
        Value::Array(rows) => rows.iter().map(translated).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let value = match value {
                    Value::String(_) if name == "venue" => json!("沙田"),
                    Value::String(text) if FIELDS.contains(&name.as_str()) && !text.is_empty() => {
                        json!(format!("中{text}"))
                    }
                    Value::String(text) if name == "next" && !text.is_empty() => {
                        json!(text.replace("&after", "&lang=zh-Hant&after"))
                    }
                    value => translated(value),
                };
                (name.clone(), value)
            };
            fields.iter().map(field).collect()
        }
        value => value.clone(),
    }
}

const PATHS: [&str; 12] = [
    "/api/v1/horses?limit=2",
    "/api/v1/horses/H1?",
    "/api/v1/horses/P1?",
    "/api/v1/horses/H1/form?",
    "/api/v1/results/2026-10-03?",
    "/api/v1/results/2026-10-03/1?",
    "/api/v1/results/2026-10-03/1/dividends?",
    "/api/v1/racecards/2026-10-03?",
    "/api/v1/odds/2026-10-03/1?",
    "/api/v1/odds/2026-10-03/1/sources?",
    "/api/v1/odds/2026-10-03/1/history?",
    "/api/v1/meetings?",
];

#[tokio::test]
async fn every_answer_has_its_names_in_the_language_that_is_asked_for() {
    let nats = Nats::start();
    let english = [
        registered("H1", "HORSE 1"),
        card(DAY, "ST", 1, 3),
        result(DAY, "ST", 1, 3, 1),
        dividends(DAY, "ST", 1, 1),
        odds("ST", 1, &second(0), &[3.5, 4.0, 12.34]),
    ];
    let last = nats.publish(english.clone()).await;
    let railbird = Railbird::start(&nats).await;
    railbird.until_seq(last).await;
    let mut answers = Vec::new();
    for path in PATHS {
        let plain = railbird.get(path).await;
        let asked = railbird.get(&format!("{path}&lang=zh-Hant")).await;
        if !path.contains("limit") {
            assert_eq!(
                (plain.text(), plain.header("etag")),
                (asked.text(), asked.header("etag")),
                "{path}"
            );
        }
        answers.push(plain.json());
    }

    let chinese = english[..3].iter().cloned().map(in_chinese);
    railbird.until_seq(nats.publish(chinese).await).await;
    for (path, before) in PATHS.iter().zip(answers) {
        let plain = railbird.get(path).await;
        let mut after = plain.json();
        if ["1?", "1/history?"].map(|end| path.ends_with(end)) != [false; 2]
            && path.contains("odds")
        {
            // A changed card is an event about the board, too.
            for name in ["seq", "prev_seq", "recorded_at"] {
                after[name] = before[name].clone();
            }
        }
        if path.starts_with("/api/v1/meetings") {
            // A second statement of an official result amends it.
            after["meetings"][0]["amended_count"] = json!(0);
            after["meetings"][0]["amended_at"] = json!("");
        }
        assert_eq!(
            after, before,
            "{path}: the contract's names are the English ones"
        );
        for language in ["zh-Hant", "zh-Hant-HK"] {
            let asked = railbird.get(&format!("{path}&lang={language}")).await;
            let text = asked.text().replace("zh-Hant-HK", "zh-Hant");
            let json: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(json, translated(&plain.json()), "{path}");
            assert_ne!(asked.header("etag"), plain.header("etag"), "{path}");
        }
        let other = railbird.get(&format!("{path}&lang=fr")).await;
        assert_eq!(
            other.text().replace("&lang=fr", ""),
            plain.text(),
            "{path}: there is none"
        );
    }
    let revisions = railbird
        .get("/api/v1/results/2026-10-03/1/revisions?lang=zh-Hant")
        .await;
    assert_eq!(revisions.json()["venue"], "沙田");
    names_are_found_in_any_language(&railbird).await;
}

async fn names_are_found_in_any_language(railbird: &Railbird) {
    for (list, part, field, found) in [
        ("horses", "%E4%B8%ADHoRse+1", "horse_no", "H1"),
        ("horses", "rse+1", "horse_no", "H1"),
        ("jockeys", "%E4%B8%ADj", "key", "Asia-Hong_Kong:J Ockey"),
        ("venues", "%E7%94%B0", "key", "ST"),
    ] {
        let answer = railbird.get(&format!("/api/v1/{list}?name={part}")).await;
        assert_eq!(answer.json()[list][0][field], found, "{list} {part}");
    }
}
