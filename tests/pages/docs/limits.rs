//! The values in docs/limits.md are those of the source.

use std::fs;

use super::*;

/// A number of the source or of the page: a count, bytes or milliseconds.
fn number(text: &str) -> u64 {
    text.split('*')
        .map(|factor| {
            let digits = factor.trim().replace(['_', ','], "");
            let digits = digits.strip_suffix(".0").unwrap_or(&digits);
            digits.parse::<u64>().unwrap_or_else(|_| panic!("{text:?}"))
        })
        .product()
}

/// What is between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split_once(start)?.1.split_once(end).map(|cut| cut.0)
}

/// The value of a constant such as `Duration::from_secs(2 * 60)`.
fn constant(path: &str, name: &str) -> u64 {
    let source = fs::read_to_string(root().join(path)).expect(path);
    let (name, field) = name.split_once('.').unwrap_or((name, ""));
    let declared = between(&source, &format!("const {name}: "), ";");
    let declared = declared.unwrap_or_else(|| panic!("{path} has no {name}"));
    let value = declared.split_once(" = ").expect(name).1;
    let value = match field {
        "" => value,
        _ => between(value, &format!(" {field}: "), ",").expect(field),
    };
    let units = [
        ("Duration::from_millis(", 1),
        ("Duration::from_secs(", 1_000),
        ("Duration::from_mins(", 60_000),
        ("Duration::from_hours(", 3_600_000),
        ("NonZeroU32::new(", 1),
    ];
    for (call, unit) in units {
        if let Some(argument) = between(value, call, ")") {
            return number(argument) * unit;
        }
    }
    if let Some(bits) = value.strip_prefix("1 << ") {
        return 1 << number(bits);
    }
    match value {
        "REPLAY_MESSAGES_MAX as usize" => {
            constant("projections/src/live/replay.rs", "REPLAY_MESSAGES_MAX")
        }
        "4 * RUNNERS_MAX" => 4 * constant("events/src/lib.rs", "RUNNERS_MAX"),
        _ => number(value),
    }
}

/// The value that the page gives, such as `16 KiB` or `2 minutes`.
fn documented(value: &str) -> u64 {
    let (count, unit) = value.split_once(' ').unwrap_or((value, ""));
    let unit = match unit {
        "" | "bytes" | "ms" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "s" => 1_000,
        "minutes" => 60_000,
        "hours" => 3_600_000,
        other => panic!("{other:?}"),
    };
    number(count) * unit
}

#[test]
fn the_limits_in_the_documentation_are_those_of_the_source() {
    let page = fs::read_to_string(root().join("docs/limits.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && *line != "| bound | value | in the source |")
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 50);
    for row in rows {
        let [_, _, value, place, _] = row[..] else {
            panic!("{row:?}")
        };
        let (path, name) = place.trim_matches('`').split_once("` `").expect(place);
        assert_eq!(documented(value), constant(path, name), "{path} {name}");
    }
}
