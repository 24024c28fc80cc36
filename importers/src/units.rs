//! Converts odds, distances, weights, times and prizes of British and Irish files into the units of the log.
//!
//! The arithmetic is on whole numbers. Results are rounded to the nearest, a half upwards.

use std::str::FromStr;

use events::{FinishTime, Margin, Odds, ParseError};
use jiff::civil::Time;

/// Parses a fractional price: `9/2`, `9-2`, `7/5F`, `Evs`, `EvensF`. The stake is included: `9/2` is 5.5.
///
/// The letters of favourites (`F`, `J`, `C`) are ignored. Returns `None` if there was no price.
pub(crate) fn starting_price(text: &str) -> Result<Option<Odds>, ParseError> {
    let wrong = || ParseError::new("a price is a fraction such as 9/2 or 7/5F, or Evens", text);
    let price = text.trim().trim_end_matches(['F', 'J', 'C', 'f', 'j', 'c']);
    let price = price.trim_end();
    let is = |words: &[&str]| words.iter().any(|word| price.eq_ignore_ascii_case(word));
    if is(&["", "-", "–", "&", "SP", "No Odds"]) {
        return Ok(None);
    }
    let (gain, stake) = if is(&["Evs", "Evens", "Even"]) {
        (1, 1)
    } else {
        let (gain, stake) = price.split_once(['/', '-']).ok_or_else(wrong)?;
        let part = |text: &str| scaled(text.trim(), 0).filter(|n| *n > 0).ok_or_else(wrong);
        (part(gain)?, part(stake)?)
    };
    let odds = u32::try_from(nearest(1000 * (gain + stake), stake)).map_err(|_| wrong())?;
    Odds::from_thousandths(odds).map(Some)
}

/// A mile, a furlong and a yard in micrometres: a yard is 0.9144 m exactly.
const UNITS: [(&[&str], u64); 3] = [
    (&["m"], 1_609_344_000),
    (&["f"], 201_168_000),
    (&["yds", "yd", "y"], 914_400),
];
const MICROMETRES: u64 = 1_000_000;
/// The longest distance of the log.
const METRES_MAX: u64 = 100_000;

/// Miles, furlongs and yards, in this order, as metres: `1m`, `7f`, `1m2f110y`, `1m2½f`, `2m3.5f`.
pub(crate) fn distance(text: &str) -> Result<u32, ParseError> {
    const EXPECTED: &str = "a distance is miles, furlongs and yards such as 1m2½f";
    let wrong = || ParseError::new(EXPECTED, text);
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let text = text.to_lowercase();
    let mut rest = text.as_str();
    let mut micrometres = 0;
    for (names, length) in UNITS {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '¼' | '½' | '¾');
        let after = rest.trim_start_matches(is_number);
        let number = &rest[..rest.len() - after.len()];
        if let Some(after) = names.iter().find_map(|name| after.strip_prefix(name)) {
            let part = thousandths(number).and_then(|n| n.checked_mul(length));
            micrometres += part.ok_or_else(wrong)? / 1000;
            rest = after;
        }
    }
    let metres = nearest(micrometres, MICROMETRES);
    if !rest.is_empty() || metres == 0 || metres > METRES_MAX {
        return Err(wrong());
    }
    u32::try_from(metres).map_err(|_| wrong())
}

/// Yards as metres.
pub(crate) fn yards(text: &str) -> Result<u32, ParseError> {
    distance(&format!("{}y", text.trim()))
}

/// Furlongs, with their letter or without, as metres.
pub(crate) fn furlongs(text: &str) -> Result<u32, ParseError> {
    distance(&format!("{}f", text.trim().trim_end_matches('f')))
}

/// A number that may end in a vulgar fraction, in thousandths: `2½` is 2500.
fn thousandths(text: &str) -> Option<u64> {
    let (number, fraction) = [('¼', 250), ('½', 500), ('¾', 750)]
        .iter()
        .find_map(|(sign, part)| Some((text.strip_suffix(*sign)?, *part)))
        .unwrap_or((text, 0));
    match number {
        "" if fraction > 0 => Some(fraction),
        _ => Some(scaled(number, 3)? + fraction),
    }
}

/// A whole number in decimal digits alone.
pub(crate) fn whole<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A time on a clock: `14:10`, `2:10`.
pub(crate) fn time_of_day(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let is_padded = hour.len() <= 2 && minute.len() == 2;
    let time = Time::new(whole(hour)?, whole(minute)?, 0, 0).ok();
    time.filter(|_| is_padded)
}

const STONE: u64 = 14;

/// Pounds, or stones and pounds: `133`, `9-7`.
pub(crate) fn pounds(text: &str) -> Result<u16, ParseError> {
    let wrong = || ParseError::new("a weight is pounds, or stones-pounds such as 9-7", text);
    let whole = |text: &str| scaled(text.trim(), 0).ok_or_else(wrong);
    let pounds = match text.split_once('-') {
        None => whole(text)?,
        Some((stones, pounds)) => match whole(pounds)? {
            pounds @ 0..STONE => whole(stones)? * STONE + pounds,
            _ => return Err(wrong()),
        },
    };
    u16::try_from(pounds).map_err(|_| wrong())
}

/// Minutes and seconds, also where the seconds are not padded, or were rounded up to a whole minute: `1:40.15`,
/// `1:0.22`, `1:60.00`.
pub(crate) fn clock(text: &str) -> Result<FinishTime, ParseError> {
    const MINUTE: u64 = 6_000;
    let wrong = || ParseError::new("a time is m:ss.cc", text);
    let (minutes, seconds) = text.trim().split_once(':').ok_or_else(wrong)?;
    let minutes = scaled(minutes, 0).ok_or_else(wrong)?;
    let seconds = scaled(seconds, 2).filter(|hundredths| *hundredths <= MINUTE);
    hundredths(minutes * MINUTE + seconds.ok_or_else(wrong)?).map_err(|_| wrong())
}

/// Seconds alone: `100.15`.
pub(crate) fn seconds(text: &str) -> Result<FinishTime, ParseError> {
    let wrong = || ParseError::new("a time is seconds with at most two decimals", text);
    hundredths(scaled(text.trim(), 2).ok_or_else(wrong)?).map_err(|_| wrong())
}

fn hundredths(hundredths: u64) -> Result<FinishTime, ParseError> {
    FinishTime::from_hundredths(u32::try_from(hundredths).unwrap_or(u32::MAX))
}

/// Lengths in quarters: `2.25`.
pub(crate) fn lengths(text: &str) -> Result<Margin, ParseError> {
    let wrong = || ParseError::new("a margin is quarters of a length", text);
    let hundredths = scaled(text, 2).filter(|hundredths| hundredths % 25 == 0);
    let quarters = hundredths.and_then(|hundredths| u16::try_from(hundredths / 25).ok());
    Margin::from_quarters(quarters.ok_or_else(wrong)?).map_err(|_| wrong())
}

/// A sum of money in whole units, and the sign of its currency where it has one: `3493.26`, `€1,039.50`.
pub(crate) fn money(text: &str) -> Result<(u64, Option<char>), ParseError> {
    let wrong = || ParseError::new("an amount of money", text);
    let text = text.trim();
    let sign = text.chars().next().filter(|c| "£€$".contains(*c));
    let amount = &text[sign.map_or(0, char::len_utf8)..];
    let cents = scaled(&amount.replace([',', ' '], ""), 2).ok_or_else(wrong)?;
    Ok((nearest(cents, 100), sign))
}

/// More digits than any figure of a race has, so that sums do not overflow.
const DIGITS_MAX: usize = 10;

/// A decimal number without sign, as a whole number of its last place: `3.5` with two places is 350.
fn scaled(text: &str, places: u32) -> Option<u64> {
    let (whole, decimals) = match places {
        0 => (text, ""),
        _ => text.split_once('.').unwrap_or((text, "")),
    };
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let fits = (1..=DIGITS_MAX).contains(&(whole.len() + decimals.len()))
        && decimals.len() <= places as usize;
    if !fits || !plain(whole) || !plain(decimals) {
        return None;
    }
    let digits: u64 = format!("{whole}{decimals}").parse().ok()?;
    let missing = places - u32::try_from(decimals.len()).ok()?;
    Some(digits * 10_u64.pow(missing))
}

/// A quotient, rounded to the nearest whole number, a half upwards.
fn nearest(dividend: u64, divisor: u64) -> u64 {
    (2 * dividend + divisor) / (2 * divisor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{clock, distance, furlongs, money, pounds, seconds, starting_price, yards};

    fn price(text: &str) -> Option<u32> {
        starting_price(text)
            .expect(text)
            .map(events::Odds::thousandths)
    }

    #[test]
    fn a_fractional_price_is_decimal_with_the_stake() {
        for (text, thousandths) in [
            ("9/2", 5_500),
            ("9-2", 5_500),
            ("7/5F", 2_400),
            ("7/5 F", 2_400),
            ("5/2JF", 3_500),
            ("5/2J", 3_500),
            ("6/1C", 7_000),
            ("6/1CF", 7_000),
            ("Evs", 2_000),
            ("EvsF", 2_000),
            ("EvensF", 2_000),
            ("Evens", 2_000),
            ("evens", 2_000),
            ("EVENS", 2_000),
            ("100/30", 4_333),
            ("8/13F", 1_615),
            ("4/6F", 1_667),
            ("1/16", 1_063),
            ("1/1000", 1_001),
            ("1000/1", 1_001_000),
            ("99999/1", 100_000_000),
            ("1/1000000", 1_000),
        ] {
            assert_eq!(price(text), Some(thousandths), "{text}");
        }
    }

    #[test]
    fn a_missing_price_is_none() {
        for text in ["", " ", "SP", "sp", "-", "–", "&", "No Odds", "F"] {
            assert_eq!(price(text), None, "{text}");
        }
    }

    #[test]
    fn an_invalid_price_is_rejected() {
        for text in [
            "9",
            "9/",
            "/2",
            "9/0",
            "0/1",
            "-9/2",
            "9/-2",
            "9/2/1",
            "9//2",
            "9.5/2",
            "nine/2",
            "9/2X",
            "100000/1",
            "99999999999/1",
            "１/2",
            "EvensX",
        ] {
            assert!(starting_price(text).is_err(), "{text}");
        }
    }

    #[test]
    fn imperial_distances_are_metres() {
        for (text, metres) in [
            ("1m", 1_609),
            ("7f", 1_408),
            ("5f", 1_006),
            ("6f", 1_207),
            ("1m2f", 2_012),
            ("1m2f110y", 2_112),
            ("1m2f110yds", 2_112),
            ("1m 2f 110yd", 2_112),
            ("1m2½f", 2_112),
            ("1m2.5f", 2_112),
            ("1m3.5f", 2_313),
            ("7½f", 1_509),
            ("½m", 805),
            ("1m½f", 1_710),
            ("2m¾f", 3_370),
            ("1m70y", 1_673),
            ("110y", 101),
            ("2M4F", 4_023),
            ("4m2f74y", 6_907),
            ("10f", 2_012),
        ] {
            assert_eq!(distance(text), Ok(metres), "{text}");
        }
        assert_eq!(yards("2199"), Ok(2_011));
        assert_eq!(furlongs("8"), Ok(1_609));
        assert_eq!(furlongs("11.5f"), Ok(2_313));
    }

    #[test]
    fn an_invalid_distance_is_rejected() {
        for text in [
            "",
            "m",
            "f",
            "1",
            "1m2",
            "2f1m",
            "1mm",
            "1m2f3f",
            "-1m",
            "0f",
            "1m2f110",
            "1½½m",
            "1.2345f",
            "1,5f",
            "x",
            "63m",
            "99999999999f",
            "1m ½",
            ".f",
        ] {
            assert!(distance(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_weight_is_pounds_or_stones_and_pounds() {
        for (text, expected) in [
            ("133", 133),
            ("9-7", 133),
            ("10-0", 140),
            ("8-13", 125),
            (" 9-7 ", 133),
            ("0", 0),
        ] {
            assert_eq!(pounds(text), Ok(expected), "{text}");
        }
        for text in ["", "9-14", "9-", "-7", "9st7", "9.5", "9-7-1", "70000"] {
            assert!(pounds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_minutes_and_seconds() {
        for (text, hundredths) in [
            ("1:40.15", 10_015),
            ("1:0.22", 6_022),
            ("0:59.67", 5_967),
            ("1:60.00", 12_000),
            ("2:6.7", 12_670),
            ("10:02.33", 60_233),
            ("1:40", 10_000),
        ] {
            assert_eq!(clock(text).expect(text).hundredths(), hundredths, "{text}");
        }
        assert_eq!(seconds("100.15").expect("seconds").hundredths(), 10_015);
        for text in [
            "", "-", "100.15", "1:60.01", "1:75.00", "0:00.00", "60:00.00", "-1:40.15", "1:40.155",
            "1:-4",
        ] {
            assert!(clock(text).is_err(), "{text}");
        }
    }

    #[test]
    fn money_is_whole_units_and_the_sign_of_its_currency() {
        for (text, expected) in [
            ("3493.26", (3_493, None)),
            ("1039.50", (1_040, None)),
            ("0.49", (0, None)),
            ("7955", (7_955, None)),
            ("£3,493.5", (3_494, Some('£'))),
            ("€5900.00", (5_900, Some('€'))),
            ("$493,000", (493_000, Some('$'))),
        ] {
            assert_eq!(money(text), Ok(expected), "{text}");
        }
        for text in ["", "£", "-5", "££5", "5.123", "five", "12345678901"] {
            assert!(money(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_price_is_the_nearest_thousandth(gain in 1_u32..100_000, stake in 1_u32..1_000, mark in "(/|-)", favourite in "(|F|JF|C)") {
            let exact = f64::from(gain) / f64::from(stake) + 1.0;
            let odds = starting_price(&format!("{gain}{mark}{stake}{favourite}"));
            match odds {
                Ok(odds) => {
                    let off = f64::from(odds.expect("a price").thousandths()) / 1000.0 - exact;
                    prop_assert!((-0.000_500_1..=0.000_500_1).contains(&off), "{off}");
                }
                Err(_) => prop_assert!(exact > 99_999.0),
            }
        }

        #[test]
        fn a_distance_is_its_parts(miles in 0_u32..10, quarters in 0_u32..32, yards in 0_u32..220) {
            prop_assume!(miles + quarters + yards > 0);
            let furlongs = format!("{}{}", quarters / 4, ["", "¼", "½", "¾"][quarters as usize % 4]);
            let decimal = f64::from(quarters) / 4.0;
            let exact = f64::from(miles) * 1609.344 + decimal * 201.168 + f64::from(yards) * 0.9144;
            for text in [format!("{miles}m{furlongs}f{yards}y"), format!("{miles}m {decimal}f {yards}yds")] {
                let metres = distance(&text).expect("a distance");
                prop_assert!((f64::from(metres) - exact).abs() <= 0.500_001, "{text}: {metres}, {exact}");
            }
        }

        #[test]
        fn stones_and_pounds_are_the_same_weight_as_pounds(weight in 0_u16..400) {
            prop_assert_eq!(pounds(&format!("{}-{}", weight / 14, weight % 14)), Ok(weight));
            prop_assert_eq!(pounds(&weight.to_string()), Ok(weight));
        }

        #[test]
        fn a_written_time_is_read_back(time in 1_u32..360_000) {
            let minutes = time / 6000;
            let rest = time % 6000;
            let unpadded = format!("{minutes}:{}.{:02}", rest / 100, rest % 100);
            prop_assert_eq!(clock(&unpadded).map(events::FinishTime::hundredths), Ok(time));
            let alone = format!("{}.{:02}", time / 100, time % 100);
            prop_assert_eq!(seconds(&alone).map(events::FinishTime::hundredths), Ok(time));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,24}", number in "[0-9./¼½¾:mfy€£, -]{0,24}") {
            for text in [text.as_str(), number.as_str()] {
                let _ = (starting_price(text), distance(text), pounds(text), clock(text), seconds(text), money(text));
                let _ = (yards(text), furlongs(text));
            }
        }
    }
}
