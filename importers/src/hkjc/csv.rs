//! Results as CSV with a row for each runner, by race for the join with the JSON.

use events::{
    FinishTime, HorseNo, Margin, Odds, ParseError, RaceDeclared, RaceKey, RaceNumber, RacingDate,
    ResultRunner, VenueCode,
};

use super::brand::name_and_brand;
use super::course::surface_and_course;
use super::csv_race::{CsvRaces, CsvRow, add};
use super::hong_kong::{VENUES, currency, positions, venue_name};
use crate::input::cells::Cells;
use crate::input::race_heading::{RaceHeading, known};
use crate::input::race_rows::known_number;
use crate::item::{LineItems, Result};
use crate::placing::Placing;

/// Others are optional; `handicap` is the race's name.
#[rustfmt::skip]
pub(crate) const REQUIRED: &[&str] =
    &["plc", "horse", "jockey", "trainer", "finishtime", "winodds", "date", "raceno", "venue"];

/// Adds a row to its race.
pub(crate) fn row(cells: &Cells, races: &mut CsvRaces, out: &mut LineItems) -> Result<()> {
    let key = RaceKey {
        date: cells.parsed("date", RacingDate::parse)?,
        venue: cells.parsed("venue", venue_code)?,
        race_number: cells.parsed("raceno", race_number)?,
    };
    let track = cells.optional("course", surface_and_course)?;
    let (surface, course) = track.unwrap_or_default();
    let prize = cells.whole("stake")?;
    let heading = RaceHeading::of(RaceDeclared {
        venue_name: venue_name(&key.venue),
        race_name: cells.text("handicap")?,
        distance: cells.whole("distance")?.unwrap_or(0),
        class: cells.text("class")?,
        going: known(cells.text("going")?),
        surface: known(surface),
        course: known(course),
        prize,
        prize_currency: prize.map(|_| currency()),
        ..RaceDeclared::of(key.clone())
    });
    let (horse_name, brand) = cells.parsed("horse", name_and_brand)?;
    let placing = cells.parsed("plc", Placing::parse)?;
    let (position, outcome) = placing.clone().split();
    let runner = ResultRunner {
        horse_name,
        number: known_number(cells.whole("horseno")?),
        position,
        outcome,
        jockey: cells.text("jockey")?,
        trainer: cells.text("trainer")?,
        ..ResultRunner::of(HorseNo::parse(&brand)?)
    };
    let (runner, fault) = match with_figures(&runner, cells) {
        Ok(runner) => (runner, None),
        Err(fault) => (runner, Some(fault)),
    };
    let row = CsvRow {
        location: out.location.clone(),
        placing,
        runner,
        fault,
    };
    add(races, key, heading, row, out)
}

fn with_figures(runner: &ResultRunner, cells: &Cells) -> Result<ResultRunner> {
    Ok(ResultRunner {
        finish_time: cells.optional("finishtime", finish_time)?,
        win_odds: cells.optional("winodds", Odds::parse)?,
        draw: known_number(cells.whole("draw")?),
        weight: known_number(cells.whole("actualwt")?),
        margin: cells.optional("lbw", Margin::parse)?,
        running_positions: cells.optional("runningpos", positions)?.unwrap_or_default(),
        body_weight: cells.whole("declarwt")?,
        ..runner.clone()
    })
}

/// `1.40.27` or `1:40.27`.
fn finish_time(text: &str) -> Result<FinishTime, ParseError> {
    if text.contains(':') {
        FinishTime::parse(text)
    } else {
        FinishTime::parse(&text.replacen('.', ":", 1))
    }
}

fn race_number(text: &str) -> Result<RaceNumber, ParseError> {
    RaceNumber::parse(text.strip_suffix(".0").unwrap_or(text))
}

/// The code of a racecourse that is given by name or by code.
fn venue_code(text: &str) -> Result<VenueCode, ParseError> {
    let mut venues = VENUES.iter();
    let named = venues.find(|(_, name)| name.eq_ignore_ascii_case(text));
    VenueCode::parse(named.map_or(text, |(code, _)| *code))
}

#[cfg(test)]
mod tests {
    use crate::hkjc_results;
    use crate::testing::{Imported, check_starts, folder_of};

    const HEADER: &str = ",plc,horseno,horse,jockey,trainer,finishtime,winodds,date,raceno,distance,going,handicap,venue\n";

    fn row(plc: &str, horse: &str, time: &str, odds: &str, date: &str) -> String {
        format!(
            "7,{plc},12.0,{horse},A Rider,---,{time},{odds},{date},1,1650,GOOD,EXAMPLE HANDICAP,Sha Tin\n"
        )
    }

    fn read(text: impl AsRef<[u8]>) -> Imported {
        let (_folder, paths) = folder_of(&[("r.csv", text.as_ref())]);
        Imported::all(hkjc_results(&paths))
    }

    #[test]
    fn the_rows_of_a_race_become_one_result() {
        let text = [
            "\u{feff}",
            HEADER,
            &row("WV", "LATE BIRD(A003)", "---", "", "2017-02-02"),
            &row("1 DH", "QUIET RIVER(A001)", "0.57.05", "99.0", "2017-02-02"),
            &row("1 DH", "TALL STORM(M401)", "1:00.23", "2.1", "2017-02-02"),
            &row("1", "QUIET RIVER(A001)", "0.57.05", "2.1", "2017-02-01"),
        ];
        let read = read(text.concat());
        assert_eq!((read.rejected, read.notes), (vec![], vec![]));
        let [earlier, race] = &read.results[..] else {
            panic!("two races")
        };
        assert!(earlier.date < race.date);
        assert_eq!(
            race.race_name.as_ref().expect("a name").as_str(),
            "EXAMPLE HANDICAP"
        );
        assert_eq!((race.venue.as_str(), race.distance), ("ST", Some(1650)));
        let shown = race.runners.iter().map(|r| {
            let outcome = r.outcome.as_ref().map(ToString::to_string);
            (
                r.horse_no.as_str(),
                r.position,
                outcome,
                r.finish_time.map(|t| t.hundredths()),
                r.win_odds.map(|o| o.thousandths()),
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                ("A001", Some(1), None, Some(5_705), Some(99_000)),
                ("M401", Some(1), None, Some(6_023), Some(2_100)),
                ("A003", None, Some("WV".to_owned()), None, None),
            ]
        );
        assert_eq!(
            (race.runners[0].number, race.runners[0].trainer.as_str()),
            (Some(12), "")
        );
    }

    #[test]
    fn an_invalid_row_is_rejected_with_its_line_and_the_others_are_imported() {
        let day = "2017-02-02";
        let bad = [
            (
                row("1", "QUIET RIVER(A001)", "0.57.05", "2.1", "0000-13-99"),
                "date: ",
            ),
            (
                row("1", "QUIET RIVER(A003)", "0.57.05", "-2.1", day),
                "winodds: ",
            ),
            (
                row("1", "QUIET RIVER(A004)", "0.57.05", "NaN", day),
                "winodds: ",
            ),
            (
                row("1", "QUIET RIVER(A005)", "57", "2.1", day),
                "finishtime: ",
            ),
            (
                row("banana", "QUIET RIVER(A001)", "0.57.05", "2.1", day),
                "plc: ",
            ),
            (row("1", "QUIET RIVER", "0.57.05", "2.1", day), "horse: "),
            (
                row("1", "QUIET RIVER(A001)(A002)", "0.57.05", "2.1", day),
                "horse: ",
            ),
            (
                row(
                    "1",
                    &format!("{}(A001)", "X".repeat(1 << 20)),
                    "0.57.05",
                    "2.1",
                    day,
                ),
                "horse: at most 256",
            ),
            ("lorem ipsum\n".to_owned(), "1 columns, the header has 14"),
            ("\"never closed,1,2\n".to_owned(), "1 columns"),
            (
                row("2", "GOOD HORSE(A009)", "0.57.06", "2.1", day),
                "GOOD HORSE is already in 2017-02-02.ST.1, on line 2",
            ),
        ];
        let good = row("1", "GOOD HORSE(A009)", "0.57.05", "2.1", day);
        let text: String = [HEADER, &good]
            .into_iter()
            .chain(bad.iter().map(|(row, _)| row.as_str()))
            .chain([good.as_str()])
            .collect();
        let mut read = read(&text);
        let line = |message: &String| message.split(':').next()?.parse::<u64>().ok();
        read.rejected.sort_by_key(line);
        assert_eq!(read.results.len(), 1);
        let runners = &read.results[0].runners;
        assert_eq!(runners.len(), 1, "the same row again changes nothing");
        assert_eq!(read.notes, Vec::<String>::new());
        let starts = bad
            .iter()
            .zip(3..)
            .map(|((_, part), line)| format!("{line}: {part}"));
        check_starts(&read.rejected, &starts.collect::<Vec<_>>());
        let lengths = read.rejected.iter().map(String::len);
        assert!(lengths.max() < Some(300), "a message stays short");
    }

    #[test]
    fn rejected_rows_are_not_held_until_the_last_file_is_read() {
        let bad = format!("{HEADER}lorem ipsum\n");
        let (_folder, paths) = folder_of(&[("a.csv", bad.as_bytes()), ("b.csv", b"")]);
        let mut items = hkjc_results(&paths);
        let first = items.next();
        std::fs::write(&paths[1], &bad).expect("a file");
        let rejected = Imported::all(Box::new(first.into_iter().chain(items))).rejected;
        check_starts(&rejected, &["2: 1 columns", "2: 1 columns"]);
    }

    #[test]
    fn a_file_without_the_columns_is_rejected() {
        let read = read("horse,country\nX(A1),NZ\n");
        assert!(read.results.is_empty());
        check_starts(
            &read.rejected,
            &["1: the header lacks the columns: plc, jockey"],
        );
    }

    #[test]
    fn a_row_that_is_not_utf_8_is_rejected_alone() {
        let bad = row("1", "QUIET?(A001)", "0.57.05", "2.1", "2017-02-02")
            .replace('?', "\u{1}")
            .into_bytes();
        let bad: Vec<u8> = bad
            .into_iter()
            .map(|b| if b == 1 { 0xff } else { b })
            .collect();
        let text = [
            HEADER.as_bytes(),
            &bad,
            row("2", "OTHER(A002)", "0.57.05", "2.1", "2017-02-02").as_bytes(),
        ]
        .concat();
        let read = read(text);
        assert_eq!(read.rejected, ["2: horse is not UTF-8"]);
        assert_eq!(read.results[0].runners.len(), 1);
    }
}
