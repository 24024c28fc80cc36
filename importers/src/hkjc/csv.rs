//! Results as CSV, a row a runner: alone, or gathered by race to be joined with the JSON.

use std::path::{Path, PathBuf};

use events::{FinishTime, Odds, ParseError, RaceKey, RaceNumber, RacingDate, Text, VenueCode};

use crate::hkjc::json::VENUES;
use crate::ids::Ids;
use crate::input::cells::Cells;
use crate::input::csv_races::{CsvRow, CsvRunner, Figures, Heading, Races, add};
use crate::input::csv_table::Table;
use crate::input::files::{self, Kind};
use crate::names::name_and_brand;
use crate::placing::Placing;
use crate::{Item, Items, Location};

const FORMAT: &str = "hkjc-csv";
/// Columns that a file has to have; `horseno`, `distance`, `going` and `handicap` (the race's name) are read too.
const WANTED: [&str; 9] = [
    "plc",
    "horse",
    "jockey",
    "trainer",
    "finishtime",
    "winodds",
    "date",
    "raceno",
    "venue",
];

/// Reads results from CSV alone: a statement for each race, with the horses under their brands.
#[must_use]
pub fn hkjc_csv(paths: &[PathBuf]) -> Items {
    let found = files::find(paths, &[Kind::Csv]);
    let paths = found.of(Kind::Csv);
    let rows = std::iter::once_with(move || {
        let (races, said) = read(&paths);
        let statements = races
            .into_iter()
            .flat_map(|(key, race)| race.statement(FORMAT, &key, &Ids::default()));
        said.into_iter().chain(statements)
    });
    Box::new(found.said.into_iter().chain(rows.flatten()))
}

/// Gathers the rows of all files by race.
pub(crate) fn read(paths: &[PathBuf]) -> (Races, Vec<Item>) {
    let (mut races, mut said) = (Races::new(), Vec::new());
    for path in paths {
        read_file(path, &mut races, &mut said);
    }
    (races, said)
}

fn read_file(path: &Path, races: &mut Races, said: &mut Vec<Item>) {
    let file = Location::whole(path);
    let table = match files::open(path) {
        Ok(file) => Table::open(file, &WANTED),
        Err(error) => return said.push(file.refused(error)),
    };
    let table = match table {
        Ok(table) => table,
        Err(reason) => return said.push(file.at(1).refused(reason)),
    };
    for (line, cells) in table {
        let place = file.at(line);
        match cells.and_then(|cells| row(&cells)) {
            Ok((key, heading, runner)) => add(races, key, heading, CsvRow { place, runner }, said),
            Err(reason) => said.push(place.refused(reason)),
        }
    }
}

fn row(cells: &Cells) -> Result<(RaceKey, Heading, CsvRunner), String> {
    let key = RaceKey {
        date: cells.parsed("date", RacingDate::parse)?,
        venue: cells.parsed("venue", venue_code)?,
        race_number: cells.parsed("raceno", race_number)?,
    };
    let heading = Heading {
        race_name: cells.optional("handicap", Text::parse)?,
        distance: cells.whole("distance")?.filter(|metres| *metres > 0),
        going: cells.optional("going", Text::parse)?,
    };
    let (name, brand) = cells.parsed("horse", name_and_brand)?;
    let runner = CsvRunner {
        brand,
        name,
        placing: cells.parsed("plc", Placing::parse)?,
        number: cells.whole("horseno")?,
        jockey: cells.text("jockey")?,
        trainer: cells.text("trainer")?,
        figures: figures(cells),
    };
    Ok((key, heading, runner))
}

fn figures(cells: &Cells) -> Result<Figures, String> {
    Ok(Figures {
        finish_time: cells.optional("finishtime", finish_time)?,
        win_odds: cells.optional("winodds", Odds::parse)?,
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
    let code = VENUES
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(text))
        .map(|(code, _)| *code);
    VenueCode::parse(code.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use events::{Event, ResultDeclared};

    use super::hkjc_csv;
    use crate::Item;

    const HEADER: &str = ",plc,horseno,horse,jockey,trainer,finishtime,winodds,date,raceno,distance,going,handicap,venue\n";

    fn row(plc: &str, horse: &str, time: &str, odds: &str, date: &str) -> String {
        format!(
            "7,{plc},12.0,{horse},A Rider,---,{time},{odds},{date},1,1650,GOOD,EXAMPLE HANDICAP,Sha Tin\n"
        )
    }

    /// The statements, and the refusals and notes as `line: reason`.
    fn read(text: impl AsRef<[u8]>) -> (Vec<ResultDeclared>, Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.csv");
        fs::write(&path, text).expect("a file");
        let mut read = (Vec::new(), Vec::new(), Vec::new());
        for item in hkjc_csv(&[path]) {
            match item {
                Item::Event(envelope) => match envelope.event {
                    Event::ResultDeclared(statement) => read.0.push(statement),
                    other => panic!("{other:?}"),
                },
                Item::Refused(r) => read.1.push(format!("{}: {}", r.line, r.reason)),
                Item::Note(r) => read.2.push(format!("{}: {}", r.line, r.reason)),
            }
        }
        read
    }

    #[test]
    fn rows_become_one_statement_a_race() {
        let text = [
            "\u{feff}",
            HEADER,
            &row("WV", "LATE BIRD(A003)", "---", "", "2017-02-02"),
            &row("1 DH", "QUIET RIVER(A001)", "0.57.05", "99.0", "2017-02-02"),
            &row("1 DH", "TALL STORM(M401)", "1:00.23", "2.1", "2017-02-02"),
            &row("1", "QUIET RIVER(A001)", "0.57.05", "2.1", "2017-02-01"),
        ];
        let (races, refused, notes) = read(text.concat());
        assert_eq!(
            (refused.len(), notes.len()),
            (0, 0),
            "{refused:?} {notes:?}"
        );
        let [earlier, race] = &races[..] else {
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
    fn a_bad_row_is_refused_with_its_line_and_the_rest_goes_in() {
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
                "GOOD HORSE stands in 2017-02-02.ST.1 already, on line 2",
            ),
        ];
        let good = row("1", "GOOD HORSE(A009)", "0.57.05", "2.1", day);
        let text: String = [HEADER, &good]
            .into_iter()
            .chain(bad.iter().map(|(row, _)| row.as_str()))
            .chain([good.as_str()])
            .collect();
        let (races, mut refused, notes) = read(&text);
        refused.sort_by_key(|said| {
            said.split_once(':')
                .and_then(|(line, _)| line.parse::<u64>().ok())
        });
        assert_eq!(races.len(), 1);
        assert_eq!(
            races[0].runners.len(),
            1,
            "the same row again changes nothing"
        );
        assert_eq!(notes, Vec::<String>::new());
        assert_eq!(refused.len(), bad.len(), "{refused:?}");
        for (index, (said, (_, part))) in refused.iter().zip(&bad).enumerate() {
            assert!(
                said.starts_with(&format!("{}: {part}", index + 3)),
                "{said}"
            );
            assert!(said.len() < 300, "a message stays short");
        }
    }

    #[test]
    fn a_file_without_the_columns_is_refused() {
        let (races, refused, _) = read("horse,country\nX(A1),NZ\n");
        assert!(races.is_empty());
        assert!(
            refused[0].starts_with("1: the header lacks the columns: plc, jockey"),
            "{refused:?}"
        );
    }

    #[test]
    fn bytes_that_are_not_text_cost_their_row() {
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
        let (races, refused, _) = read(text);
        assert_eq!(refused, ["2: horse is not UTF-8"]);
        assert_eq!(races[0].runners.len(), 1);
    }
}
