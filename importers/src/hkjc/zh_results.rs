//! Results in Chinese, CSV with a row for each runner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use events::{
    DeclaredRunner, FinishTime, Names, Odds, ParseError, RaceDeclared, RaceKey, RaceNumber,
    RacingDate, ResultRunner, Text,
};

use super::brand::name_and_brand;
use super::course::surface_and_course;
use super::hong_kong::{self, positions, venue_name};
use super::horse_ids::HorseIds;
use super::zh_words::{ALL_WEATHER, Translator, chinese, margin, venue};
use crate::input::cells::Cells;
use crate::input::csv_table::CsvTable;
use crate::input::files;
use crate::input::race_heading::{RaceHeading, known};
use crate::input::race_parts::RaceParts;
use crate::input::race_rows::{RaceRows, known_number};
use crate::input::repeats::Repeats;
use crate::input::rows::{ReadRows, open, rows};
use crate::item::{Items, LineItems, Location, Result};
use crate::placing::Placing;
use crate::units::seconds;

const FORMAT: &str = "hkjc-zh-results";

/// Reads results in Chinese: a result and a card for each race.
///
/// `ids` are JSON files of results or cards that map brands to horses. A brand that they do not have is the
/// horse's number.
pub fn hkjc_zh_results(paths: &[PathBuf], ids: &[PathBuf]) -> Items {
    let paths = paths.to_vec();
    let ids = ids.to_vec();
    let results = std::iter::once_with(move || {
        let (ids, items) = HorseIds::read(&ids);
        items.into_iter().chain(results(&paths, Arc::new(ids)))
    });
    Box::new(results.flatten())
}

/// Reads results with ids that have been read.
pub(crate) fn results(paths: &[PathBuf], ids: Arc<HorseIds>) -> Items {
    let results = ZhResults {
        ids,
        ..ZhResults::default()
    };
    files::import(paths, &["csv"], |files| rows(files, results))
}

#[derive(Default)]
struct ZhResults {
    ids: Arc<HorseIds>,
    translator: Translator,
    /// The day that is being read. In some files rows of a race are repeated behind those of the day's other races.
    day: Option<RacingDate>,
    races: BTreeMap<RaceKey, RaceRows>,
    /// Of the file that is being read.
    parts: RaceParts<RacingDate, RaceKey>,
    repeats: Repeats,
}

impl ReadRows for ZhResults {
    #[rustfmt::skip]
    const REQUIRED: &'static [&'static str] = &[
        "date", "venue", "race_no", "race_name", "place", "horse_name", "jockey", "trainer", "finish_time", "win_odds",
    ];

    fn begin(&mut self, file: &Location, _table: &mut CsvTable) {
        let mut parts = RaceParts::default();
        let opened = open(&file.file, Self::REQUIRED).into_iter();
        for (line, cells) in opened.flat_map(|(_, rows)| rows) {
            if let Ok(cells) = cells
                && let Ok(key) = race_key(&cells)
            {
                parts.add(key.date, key, &cells, line);
            }
        }
        self.parts = parts.finish();
    }

    fn row(&mut self, cells: &Cells, out: &mut LineItems) -> Result<()> {
        let key = race_key(cells)?;
        let is_read = self.parts.is_read(&key, out.location.line);
        if !is_read.map_err(|reason| format!("{key}: {reason}"))? {
            return Ok(());
        }
        if self.day != Some(key.date) {
            self.complete_day(out);
            self.day = Some(key.date);
        }
        let heading = self.heading(cells, &key)?;
        self.translator.note(out);
        let runner = self.runner(cells, key.date, out)?;
        let race = self.races.entry(key.clone());
        let first = out.location.clone();
        let race = race.or_insert_with(|| RaceRows::new(key, heading.clone(), first));
        let card_runner = DeclaredRunner::of(runner.horse_no.clone());
        race.add(&heading, runner, card_runner, out)
    }

    fn end(&mut self, out: &mut LineItems) {
        self.complete_day(out);
    }
}

impl ZhResults {
    fn complete_day(&mut self, out: &mut LineItems) {
        for (key, race) in std::mem::take(&mut self.races) {
            let result = hong_kong::midnight(key.date);
            let card = hong_kong::card_of_result();
            let items = race.items((FORMAT, result), card, &mut self.repeats);
            out.items.extend(items);
        }
    }

    fn heading(&mut self, cells: &Cells, key: &RaceKey) -> Result<RaceHeading> {
        let track = cells.text("course")?;
        let (surface, course) = surface_and_course(track.as_str())?;
        let translator = &mut self.translator;
        let race_name = cells.text("race_name")?;
        let going = cells.parsed("going", |text| translator.going(text, track.as_str()))?;
        let prize = cells.whole("prize_hkd")?;
        let sectionals = cells.optional("sectional_times_header", sectionals)?;
        let card = RaceDeclared {
            venue_name: venue_name(&key.venue),
            venue_names: cells.parsed("venue", venue_names)?,
            names: chinese(&race_name),
            race_name,
            going: known(going),
            distance: cells.whole("distance_m")?.unwrap_or(0),
            class: cells.parsed("race_class", |text| translator.class(text))?,
            surface: known(surface),
            course: known(course),
            rating_band: known(cells.text("rating_range")?),
            prize,
            prize_currency: prize.map(|_| hong_kong::currency()),
            ..RaceDeclared::of(key.clone())
        };
        let sectionals = sectionals.unwrap_or_default();
        Ok(RaceHeading { card, sectionals })
    }

    fn runner(&self, cells: &Cells, day: RacingDate, out: &mut LineItems) -> Result<ResultRunner> {
        let (name, brand) = cells.parsed("horse_name", name_and_brand)?;
        let names = chinese(&name);
        let (horse_no, horse_name) = self.ids.horse_on(&brand, name, Some(day), out)?;
        let (jockey, trainer) = (cells.text("jockey")?, cells.text("trainer")?);
        let (position, outcome) = cells.parsed("place", placing)?.split();
        let running_positions = cells.optional("running_position", positions)?;
        Ok(ResultRunner {
            horse_name,
            names,
            number: known_number(cells.whole("horse_no")?),
            position,
            outcome,
            jockey_names: chinese(&jockey),
            jockey,
            trainer_names: chinese(&trainer),
            trainer,
            draw: known_number(cells.whole("draw")?),
            weight: known_number(cells.whole("actual_wt_lbs")?),
            finish_time: cells.optional("finish_time", FinishTime::parse)?,
            win_odds: cells.optional("win_odds", Odds::parse)?,
            margin: cells.optional("lbw", margin)?,
            running_positions: running_positions.unwrap_or_default(),
            body_weight: cells.whole("declared_wt_lbs")?,
            ..ResultRunner::of(horse_no)
        })
    }
}

/// The name of a racecourse, whose tracks have names of their own.
fn venue_names(text: &str) -> Result<Names, ParseError> {
    Text::parse(text.trim_end_matches(ALL_WEATHER)).map(|name| chinese(&name))
}

/// `23.90 22.71 22.74`.
fn sectionals(text: &str) -> Result<Vec<FinishTime>, ParseError> {
    text.split_whitespace().map(seconds).collect()
}

fn race_key(cells: &Cells) -> Result<RaceKey> {
    Ok(RaceKey {
        date: cells.parsed("date", RacingDate::parse)?,
        venue: cells.parsed("venue", venue)?,
        race_number: cells.parsed("race_no", RaceNumber::parse)?,
    })
}

/// `3`, `3 平頭馬` (a dead heat), or a code such as `PU`.
fn placing(text: &str) -> Result<Placing, ParseError> {
    Placing::parse(&text.replace("平頭馬", "DH"))
}

#[cfg(test)]
mod tests {
    use super::hkjc_zh_results;
    use crate::testing::{Imported, check_starts, folder_of};

    const HEADER: &str = "\u{feff}date,venue,race_no,race_name,race_class,distance_m,going,course,prize_hkd,place,horse_no,\
        horse_name,jockey,trainer,actual_wt_lbs,draw,finish_time,win_odds\n";

    const IDS: &str = r#"[{"date": "2017-01-01", "racecourse": "ST", "raceNo": 1, "runners": [
        {"horseId": "HK_2016_A001", "brandNo": "A001", "horseName": "QUIET RIVER"}]}]"#;

    fn row(race: u16, place: &str, number: &str, horse: &str, rest: &str) -> String {
        format!(
            "2017-02-02,沙田,{race},燈籠讓賽,第四班,1200,快地,全天候跑道,630000,{place},{number},{horse},騎師,練馬師,{rest}\n"
        )
    }

    fn read(files: &[String]) -> Imported {
        let names: Vec<String> = (0..files.len()).map(|n| format!("{n}.csv")).collect();
        let files = names
            .iter()
            .zip(files)
            .map(|(name, text)| (name.as_str(), text.as_bytes()));
        let files: Vec<_> = [("ids.json", IDS.as_bytes())]
            .into_iter()
            .chain(files)
            .collect();
        let (_folder, paths) = folder_of(&files);
        Imported::all(hkjc_zh_results(&paths[1..], &paths[..1]))
    }

    #[test]
    fn the_rows_of_a_race_become_a_result_and_a_card() {
        let winner = row(1, "1 平頭馬", "4", "靜河 (A001)", "125,10,1:09.35,9.4");
        let text = [
            HEADER,
            &row(1, "WV", "", "遲鳥 (A003)", "118,---,---,---"),
            &row(1, "WV-A", "9", "晚鳥 (A004)", "119,---,---,---"),
            &winner,
            &row(1, "1 平頭馬", "5", "高浪 (CM401)", "120,11,1:09.35,12"),
            &row(2, "1", "1", "獨行 (V001)", "133,1,0:57.05,1.5"),
            &row(3, "WV", "", "遲鳥 (A003)", "118,---,---,---"),
            &winner,
        ];
        let read = read(&[text.concat()]);
        assert_eq!((&read.rejected, &read.notes), (&vec![], &vec![]));
        assert_eq!(
            (read.results.len(), read.cards.len()),
            (3, 2),
            "each race once, and no card without runners"
        );
        let result = &read.results[0];
        let card = &read.cards[0];
        assert_eq!(
            result.venue_name.as_ref().expect("a name").as_str(),
            "Sha Tin"
        );
        assert_eq!(result.going.as_ref().expect("a going").as_str(), "FAST");
        let shown = result.runners.iter().map(|r| {
            let outcome = r
                .outcome
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            (
                r.horse_no.as_str(),
                r.horse_name.as_str(),
                r.position,
                outcome,
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                ("HK_2016_A001", "QUIET RIVER", Some(1), String::new()),
                ("CM401", "高浪", Some(1), String::new()),
                ("A003", "遲鳥", None, "WV".to_owned()),
                ("A004", "晚鳥", None, "WV-A".to_owned()),
            ]
        );
        assert_eq!((card.class.as_str(), card.distance), ("4", 1_200));
        let on_card = card.runners.iter().map(|r| (r.number, r.draw, r.weight));
        assert_eq!(
            on_card.collect::<Vec<_>>(),
            [(9, 0, 119), (4, 10, 125), (5, 11, 120)],
            "a reserve that was not called up is not on the card"
        );
    }

    #[test]
    fn names_are_in_chinese_too() {
        let row = row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4");
        let read = read(&[[HEADER, &row].concat()]);
        let (result, card) = (&read.results[0], &read.cards[0]);
        let in_chinese = |name: &str| serde_json::json!({ "zh-Hant": name });
        for names in [
            serde_json::to_value([&result.names, &result.venue_names]),
            serde_json::to_value([&card.names, &card.venue_names]),
        ] {
            let expected = [in_chinese("燈籠讓賽"), in_chinese("沙田")];
            assert_eq!(names.expect("JSON"), serde_json::json!(expected));
        }
        let (winner, on_card) = (&result.runners[0], &card.runners[0]);
        for names in [
            serde_json::to_value([&winner.names, &winner.jockey_names, &winner.trainer_names]),
            serde_json::to_value([
                &on_card.names,
                &on_card.jockey_names,
                &on_card.trainer_names,
            ]),
        ] {
            let expected = ["靜河", "騎師", "練馬師"].map(in_chinese);
            assert_eq!(names.expect("JSON"), serde_json::json!(expected));
        }
        assert_eq!(
            (winner.jockey.as_str(), winner.horse_name.as_str()),
            ("騎師", "QUIET RIVER")
        );
    }

    #[test]
    fn an_invalid_row_is_rejected_with_its_line_and_the_others_are_imported() {
        let good = row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4");
        let text = [
            HEADER,
            &good,
            &good.replace("2017-02-02", "2017-02-30"),
            &good.replace("沙田", "火星"),
            &good.replace(",1,燈籠", ",01,燈籠"),
            &row(1, "第二", "5", "高浪 (M401)", "120,11,1:09.35,12"),
            &row(1, "2", "5", "高浪", "120,11,1:09.35,12"),
            &row(1, "2", "5", "高浪 (M401)", "120,11,69.35,12"),
            &row(1, "2", "5", "高浪 (M401)", "120,11,1:09.35,0.5"),
            &row(1, "2", "4", "靜河 (A001)", "125,10,1:09.35,9.4"),
            "2017-02-02,沙田\n",
        ];
        let read = read(&[text.concat()]);
        let parts = [
            "3: date: ",
            "4: venue: ",
            "5: race_no: ",
            "6: place: ",
            "7: horse_name: ",
            "8: finish_time: ",
            "9: win_odds: ",
            "10: HK_2016_A001 is already in 2017-02-02.ST.1, on line 2",
            "11: 2 columns",
        ];
        check_starts(&read.rejected, &parts);
        assert_eq!(read.results[0].runners.len(), 1);
    }

    #[test]
    fn a_race_whose_rows_are_apart_is_rejected_whole() {
        let last = row(1, "PU", "6", "遲鳥 (A003)", "118,1,---,9");
        let other = row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4").replace("02-02", "02-05");
        let first = row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4");
        let second = row(2, "1", "5", "高浪 (M401)", "120,11,1:09.35,12");
        let apart = [HEADER, &last, &second, &other, &first, &second];
        let read = read(&[apart.concat()]);
        let races = read
            .results
            .iter()
            .map(|r| (r.date.to_string(), r.race_number.get()));
        assert_eq!(
            races.collect::<Vec<_>>(),
            [("2017-02-02".to_owned(), 2), ("2017-02-05".to_owned(), 1)]
        );
        assert_eq!(
            read.rejected,
            [
                "2: 2017-02-02.ST.1: its rows are apart, on lines 2 to 2 and from line 5, so the race is refused: put \
                 them together"
            ]
        );
    }

    #[test]
    fn an_untranslated_word_is_kept_with_one_note() {
        let text = [
            HEADER,
            &row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4"),
            &row(1, "2", "5", "高浪 (M401)", "120,11,1:09.36,12"),
        ];
        let read = read(&[text.concat().replace("快地", "沼澤")]);
        assert_eq!(read.notes, ["2: no English word is known for going 沼澤"]);
        assert_eq!(
            read.results[0].going.as_ref().expect("a going").as_str(),
            "沼澤"
        );
    }

    #[test]
    fn a_repeated_race_is_the_same_event_or_a_note() {
        let one = [
            HEADER,
            &row(1, "1", "4", "靜河 (A001)", "125,10,1:09.35,9.4"),
        ]
        .concat();
        let other = one.replace("9.4", "9.5");
        let same = read(&[one.clone(), one.clone()]);
        assert_eq!((same.results.len(), same.notes.len()), (2, 0));
        assert_eq!(same.results[0], same.results[1]);
        let differing = read(&[one, other]);
        assert_eq!(
            differing.notes,
            ["2: this race was read before with different values: the later ones are kept"]
        );
    }
}
