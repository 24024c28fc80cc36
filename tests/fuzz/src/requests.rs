//! What clients send: paths and queries, and messages of the live channel.

use railbird::fuzzing::{parse_message, parse_request};

use crate::check_text;

/// The gate refuses longer paths and queries.
const URI_BYTES_MAX: usize = 8 * 1024;

pub(crate) fn request(input: &[u8]) {
    if input.len() > URI_BYTES_MAX {
        return;
    }
    let text = String::from_utf8_lossy(input);
    let Ok(uri) = text.parse() else {
        return;
    };
    let (errors, next) = parse_request(&uri);
    for error in errors {
        check_error(&error);
    }
    // The next page has the same parameters.
    let uri = next.parse().expect("the path of a page is one");
    let (_, again) = parse_request(&uri);
    assert_eq!(again, next);
}

pub(crate) fn message(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (values, answer) = parse_message(&text);
    assert!(values <= 1000, "a filter of {values} values");
    check_error(&answer);
    if values > 0 {
        // The filter in force makes the same one.
        let ack: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        let mut again = ack["filter"].clone();
        again["op"] = "subscribe".into();
        let (_, answer) = parse_message(&again.to_string());
        let again: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(again["filter"], ack["filter"]);
    }
}

/// Checks the message of an answer, if it is an error.
fn check_error(answer: &[u8]) {
    let answer: serde_json::Value = serde_json::from_slice(answer).expect("JSON");
    if let Some(message) = answer["message"].as_str() {
        check_text(message);
    }
}
