//! Files of invented racing, in every form that the tool has written.

use events::ResultRunner;

use super::rpscrape;
use crate::testing::{Imported, check_starts, folder_of};

/// The columns that the tool writes by default, and those with ids.
const HEADER: &str = "date,region,course,race_id,off,race_name,type,class,pattern,dist,dist_f,dist_m,going,ran,num,pos,draw,\
    horse_id,horse,age,sex,lbs,time,secs,dec,sp,jockey,trainer,prize,owner,comment\n";

fn read(files: &[(&str, String)]) -> Imported {
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (*name, text.as_bytes()))
        .collect();
    let (folder, _) = folder_of(&files);
    Imported::all(rpscrape(&[folder.path().to_owned()]))
}

/// A file with a row for each of some changes of one row.
fn file(rows: &[&[(&str, &str)]]) -> String {
    let plain: &[(&str, &str)] = &[
        ("date", "2020-06-03"),
        ("region", "GB"),
        ("course", "Harbour Park"),
        ("off", "2:10"),
        ("race_name", "Lantern Handicap"),
        ("class", "Class 4"),
        ("dist", "1m2f"),
        ("dist_m", "2011"),
        ("going", "Good To Firm"),
        ("num", "3"),
        ("pos", "1"),
        ("draw", "7"),
        ("horse", "Quiet River (IRE)"),
        ("age", "4"),
        ("sex", "G"),
        ("lbs", "131"),
        ("time", "2:6.77"),
        ("sp", "9/2"),
        ("jockey", "A Quill"),
        ("trainer", "T Marlowe"),
        ("owner", "The Lamplighter Syndicate"),
    ];
    let row = |changes: &[(&str, &str)]| {
        let cells = HEADER.trim_end().split(',').map(|column| {
            let cell = |cells: &[(&str, &str)]| {
                let found = cells.iter().find(|(name, _)| *name == column);
                found.map(|(_, cell)| (*cell).to_owned())
            };
            cell(changes).or_else(|| cell(plain)).unwrap_or_default()
        });
        format!("{}\n", cells.collect::<Vec<_>>().join(","))
    };
    let rows: String = rows.iter().map(|changes| row(changes)).collect();
    format!("{HEADER}{rows}")
}

fn one(rows: &[&[(&str, &str)]]) -> Imported {
    read(&[("a.csv", file(rows))])
}

/// The one runner of a file with one row.
fn runner(changes: &[(&str, &str)]) -> ResultRunner {
    let read = one(&[changes]);
    assert_eq!(read.rejected, Vec::<String>::new());
    read.results[0].runners[0].clone()
}

#[test]
fn the_three_forms_of_a_file_give_the_same_events() {
    let newest = file(&[
        &[("prize", "3493.26")],
        &[
            ("num", "12"),
            ("pos", "PU"),
            ("draw", ""),
            ("horse", "Slow Tide (GB)"),
            ("sex", "F"),
            ("lbs", "117"),
            ("time", "-"),
            ("sp", "EvsF"),
        ],
    ]);
    let older = "Date,Course,Off,Name,Type,Class,Pattern,Rating_Band,Age_Band,Sex_Rest,Dist,Dist_Y,Dist_M,Dist_F,Going,Num,Pos,Ran,Draw,Btn,Ovr_Btn,Horse,SP,Dec,Age,Sex,Wgt,Lbs,HG,Time,Jockey,Trainer,OR,RPR,TS,Prize,Sire,Dam,Damsire,Owner,Comment\n\
        2020-06-03,Harbour Park,2:10,Lantern Handicap,,Class 4,,,,,1m2f,2199,2011,10f,Good To Firm,3,1,2,7,0,0,Quiet River (IRE),9/2,5.50,4,G,9-5,131,,2:6.77,A Quill,T Marlowe,,,,3493.26,,,,The Lamplighter Syndicate,Made all - \"never headed\n\
        2020-06-03,Harbour Park,2:10,Lantern Handicap,,Class 4,,,,,1m2f,2199,2011,10f,Good To Firm,12,PU,2,,-,-,Slow Tide (GB),EvsF,2.00,4,F,8-5,117,,-,A Quill,T Marlowe,,,,,,,,The Lamplighter Syndicate,Slowly \"away\"\n";
    let oldest = "\"date\",\"course\",\"time\",\"race_name\",\"class\",\"band\",\"distance\",\"going\",\"pos\",\"draw\",\"btn\",\"name\",\"sp\",\"age\",\"weight\",\"gear\",\"jockey\",\"trainer\",\"or\",\"ts\",\"rpr\",\"prize\",\"comment\"\n\
        3 Jun 2020,Harbour Park,2:10,Lantern Handicap,Class 4,,1m1f219y,Good To Firm,1,7,,Quiet River (IRE),9/2,4,9-5,,A Quill,T Marlowe,,,,3493.26,\n\
        3 Jun 2020,Harbour Park,2:10,Lantern Handicap,Class 4,,1m1f219y,Good To Firm,PU,,,Slow Tide (GB),EvsF,4,8-5,,A Quill,T Marlowe,,,,,\n";
    let expected = read(&[("a.csv", newest)]);
    assert_eq!(expected.rejected, Vec::<String>::new());
    let card = &expected.cards[0];
    assert_eq!((card.distance, card.class.as_str()), (2011, "Class 4"));
    assert_eq!((card.runners[0].draw, card.runners[0].weight), (7, 131));
    assert_eq!(
        card.off_time.expect("a time").to_string(),
        "2020-06-03T13:10:00Z"
    );
    let result = &expected.results[0];
    assert_eq!(result.race_number.get(), 1);
    let first = &result.runners[0];
    assert_eq!(first.horse_no.as_str(), "QUIET-RIVER_IRE");
    assert_eq!(first.horse_name.as_str(), "Quiet River");
    assert_eq!(first.finish_time.expect("a time").to_string(), "2:06.77");
    assert_eq!(first.win_odds.expect("odds").thousandths(), 5_500);
    assert_eq!(first.stakes, Some(3_493));
    let second = &result.runners[1];
    assert_eq!(second.outcome.as_ref().expect("pulled up").as_str(), "PU");
    assert_eq!(second.win_odds.expect("odds").thousandths(), 2_000);
    let horse = &expected.horses[0];
    assert_eq!((horse.sex.as_str(), horse.age), ("Gelding", Some(4)));
    assert_eq!(horse.country_of_origin.as_str(), "IRE");

    let older = read(&[("a.csv", older.to_owned())]);
    assert_eq!(older.rejected, Vec::<String>::new());
    assert_eq!(older.results, expected.results);
    assert_eq!(older.horses, expected.horses);
    // Without a region nobody knows the zone of the clock.
    assert_eq!(older.cards[0].off_time, None);
    assert_eq!(older.cards[0].runners, card.runners);

    let oldest = read(&[("a.csv", oldest.to_owned())]);
    assert_eq!(oldest.rejected, Vec::<String>::new());
    let numbered = |result: &ResultRunner| ResultRunner {
        number: None,
        finish_time: None,
        ..result.clone()
    };
    let expected: Vec<_> = result.runners.iter().map(numbered).collect();
    assert_eq!(
        oldest.results[0].runners, expected,
        "it has no numbers and no times"
    );
    assert_eq!(oldest.results[0].distance, Some(2_011));
}

#[test]
fn two_venues_on_a_day_are_two_meetings_each_with_its_numbers() {
    let rows: Vec<Vec<(&str, &str)>> = [
        ("Harbour Park", "2:10"),
        ("Milltown", "1:55"),
        ("Harbour Park", "1:35"),
        ("Milltown", "12:30"),
        ("Harbour Park", "2:45"),
    ]
    .map(|(course, off)| vec![("course", course), ("off", off)])
    .to_vec();
    let rows: Vec<&[(&str, &str)]> = rows.iter().map(Vec::as_slice).collect();
    let read = one(&rows);
    let shown: Vec<(String, u16)> = read
        .results
        .iter()
        .map(|r| {
            (
                r.venue_name.as_ref().expect("a name").to_string(),
                r.race_number.get(),
            )
        })
        .collect();
    let expected = [
        ("Harbour Park", 2),
        ("Milltown", 2),
        ("Harbour Park", 1),
        ("Milltown", 1),
        ("Harbour Park", 3),
    ];
    assert_eq!(
        shown,
        expected.map(|(course, number)| (course.to_owned(), number))
    );
}

#[test]
fn the_races_of_a_day_may_be_in_several_files() {
    let flat = file(&[&[("off", "1:00")], &[("off", "2:10")]]);
    let jumps = file(&[&[("off", "1:35")], &[("off", "2:45")]]);
    let read = read(&[("flat.csv", flat), ("jumps.csv", jumps)]);
    let numbers: Vec<u16> = read.results.iter().map(|r| r.race_number.get()).collect();
    assert_eq!(numbers, [1, 3, 2, 4]);
}

#[test]
fn two_races_at_one_time_get_different_numbers() {
    let by_id = one(&[
        &[("race_id", "700002"), ("horse", "One (GB)")],
        &[("race_id", "700001"), ("horse", "Two (GB)")],
    ]);
    let by_name = one(&[
        &[("race_name", "Novice (Div 2)"), ("horse", "One (GB)")],
        &[("race_name", "Novice (Div 1)"), ("horse", "Two (GB)")],
    ]);
    for read in [by_id, by_name] {
        let races = read
            .results
            .iter()
            .map(|r| (r.race_number.get(), r.runners[0].horse_no.to_string()));
        let expected = [(2, "ONE_GB".to_owned()), (1, "TWO_GB".to_owned())];
        assert_eq!(races.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_race_after_midnight_belongs_to_its_meeting() {
    let read = one(&[&[("off", "23:50")], &[("off", "00:20")]]);
    let races: Vec<(String, u16)> = read
        .results
        .iter()
        .map(|r| (r.date.to_string(), r.race_number.get()))
        .collect();
    assert_eq!(
        races,
        [("2020-06-03".to_owned(), 1), ("2020-06-03".to_owned(), 2)]
    );
    assert_eq!(
        read.cards[1].off_time.expect("a time").to_string(),
        "2020-06-03T23:20:00Z"
    );
}

#[test]
fn a_runner_without_a_placing_has_an_outcome() {
    for (pos, outcome, is_start) in [
        ("PU", "PU", true),
        ("F", "FE", true),
        ("f", "FE", true),
        ("UR", "UR", true),
        ("BD", "BD", true),
        ("RR", "RR", true),
        ("RO", "RO", true),
        ("REF", "REF", true),
        ("SU", "SU", true),
        ("DSQ", "DISQ", true),
        ("LFT", "LFT", true),
        ("CO", "CO", true),
        ("VOI", "VOID", false),
        ("NR", "NR", false),
        ("HR", "HR", true),
    ] {
        let runner = runner(&[("pos", pos)]);
        let code = runner.outcome.expect(pos);
        assert_eq!(
            (code.as_str(), code.is_start()),
            (outcome, is_start),
            "{pos}"
        );
    }
    let disqualified = runner(&[("pos", "DSQ"), ("time", "1:40.15")]);
    assert_eq!(
        disqualified.finish_time.expect("kept").to_string(),
        "1:40.15"
    );
}

#[test]
fn runners_of_a_dead_heat_share_a_position() {
    let read = one(&[
        &[("pos", "2"), ("horse", "One (GB)")],
        &[("pos", "1"), ("horse", "Two (GB)")],
        &[("pos", "2"), ("horse", "Three (GB)")],
        &[("pos", "4"), ("horse", "Four (GB)")],
    ]);
    let places: Vec<Option<u16>> = read.results[0].runners.iter().map(|r| r.position).collect();
    assert_eq!(places, [Some(1), Some(2), Some(2), Some(4)]);
}

#[test]
fn unknown_values_are_omitted() {
    let unknown = [
        ("num", ""),
        ("draw", "–"),
        ("lbs", "-"),
        ("time", "-"),
        ("sp", ""),
        ("age", ""),
        ("dist_m", ""),
        ("dist", ""),
        ("going", ""),
    ];
    let read = one(&[&unknown]);
    assert_eq!(read.rejected, Vec::<String>::new());
    let runner = &read.results[0].runners[0];
    assert_eq!(
        (
            runner.number,
            runner.finish_time,
            runner.win_odds,
            runner.stakes
        ),
        (None, None, None, None)
    );
    assert_eq!(
        (read.results[0].distance, &read.results[0].going),
        (None, &None)
    );
    let card = &read.cards[0].runners[0];
    assert_eq!((card.number, card.draw, card.weight), (0, 0, 0));
    assert_eq!((read.horses[0].age, read.horses[0].age_as_of), (None, None));
}

#[test]
fn of_several_columns_the_most_exact_is_used() {
    let odds = |cells: &[(&str, &str)]| runner(cells).win_odds.expect("odds").thousandths();
    assert_eq!(odds(&[("sp", "100/30"), ("dec", "4.33")]), 4_333);
    assert_eq!(odds(&[("sp", ""), ("dec", "4.33")]), 4_330);
    let time = |cells: &[(&str, &str)]| runner(cells).finish_time.expect("a time").to_string();
    assert_eq!(time(&[("time", ""), ("secs", "100.15")]), "1:40.15");
    assert_eq!(time(&[("time", "1:60.00")]), "2:00.00");
    let distance = |cells: &[(&str, &str)]| one(&[cells]).results[0].distance.expect("metres");
    assert_eq!(distance(&[("dist_m", ""), ("dist", "1m")]), 1_609);
    assert_eq!(
        distance(&[("dist_m", ""), ("dist", ""), ("dist_f", "7f")]),
        1_408
    );
    assert_eq!(distance(&[("dist_m", "2400.0"), ("dist", "1m4f")]), 2_400);
    let weight = |cells: &[(&str, &str)]| one(&[cells]).cards[0].runners[0].weight;
    assert_eq!(weight(&[("lbs", "9-7")]), 133);
    let class = |cells: &[(&str, &str)]| one(&[cells]).cards[0].class.to_string();
    assert_eq!(
        class(&[("class", "Class 1"), ("pattern", "Group 2")]),
        "Class 1, Group 2"
    );
    assert_eq!(class(&[("class", ""), ("pattern", "Listed")]), "Listed");
    assert_eq!(class(&[("class", "not found")]), "");
    assert_eq!(runner(&[("num", "1A")]).number, Some(1));
    assert_eq!(runner(&[("num", "12.0")]).number, Some(12));
    assert_eq!(
        runner(&[("horse_id", "1234567")]).horse_no.as_str(),
        "RP_1234567"
    );
}

#[test]
fn stakes_are_in_the_currency_of_their_sign_else_of_the_region() {
    let read = one(&[
        &[("off", "1:00"), ("prize", "1000.5")],
        &[("off", "1:30"), ("prize", "€2000")],
        &[("off", "2:00"), ("region", "IRE"), ("prize", "3000")],
        &[("off", "2:30"), ("region", "FR"), ("prize", "4000")],
        &[("off", "3:00")],
    ]);
    let runners = read.results.iter().flat_map(|result| &result.runners);
    let stakes = runners.map(|r| (r.stakes, r.stakes_currency.as_ref().map(|c| c.as_str())));
    assert_eq!(
        stakes.collect::<Vec<_>>(),
        [
            (Some(1_001), Some("GBP")),
            (Some(2_000), Some("EUR")),
            (Some(3_000), Some("EUR")),
            (Some(4_000), Some("GBP")),
            (None, None),
        ],
        "the prizes of other countries are in pounds"
    );
    assert_eq!(read.horses[0].stakes_currency, None);
}

#[test]
fn a_horse_is_registered_once_with_the_values_of_its_latest_race() {
    let read = one(&[
        &[
            ("date", "2021-05-01"),
            ("age", "5"),
            ("trainer", "New Trainer"),
            ("sex", "G"),
        ],
        &[
            ("date", "2020-06-03"),
            ("age", "4"),
            ("trainer", "Old Trainer"),
            ("sex", "C"),
        ],
        &[
            ("date", "2020-06-03"),
            ("off", "3:00"),
            ("horse", "Odd One (GB)"),
            ("sex", "X"),
        ],
    ]);
    let [odd, horse] = &read.horses[..] else {
        panic!("two horses: {read:?}")
    };
    assert_eq!(
        (horse.trainer.as_str(), horse.age),
        ("New Trainer", Some(5))
    );
    assert_eq!(horse.age_as_of.expect("a day").to_string(), "2021-05-01");
    assert_eq!((horse.sex.as_str(), odd.sex.as_str()), ("Gelding", "X"));
    assert_eq!(read.notes, ["4: Odd One: no word is known for the sex X"]);
}

#[test]
fn an_invalid_row_is_rejected_with_its_line_and_the_others_are_imported() {
    let bad: [(&[(&str, &str)], &str); 18] = [
        (&[("date", "03/06/2020")], "date: a date is YYYY-MM-DD"),
        (&[("date", "2020-02-30")], "date: a date is YYYY-MM-DD"),
        (&[("date", "3 Jun 20")], "date: a date is YYYY-MM-DD"),
        (&[("course", "")], "course: the name of a venue"),
        (&[("off", "25:10")], "off: an off time"),
        (&[("off", "")], "off: an off time"),
        (&[("race_id", "abc")], "race_id: a whole number"),
        (&[("pos", "0")], "pos: a placing"),
        (&[("pos", "")], "pos: a placing"),
        (&[("horse", "(IRE)")], "horse: is missing"),
        (&[("horse", "()")], "horse: is missing"),
        (&[("horse_id", "x1")], "horse: a horse's id"),
        (&[("sp", "9/0")], "sp: a price"),
        (&[("time", "99")], "time: a time"),
        (&[("dist_m", "far")], "dist_m: a whole number"),
        (&[("lbs", "9-14")], "lbs: a weight"),
        (&[("prize", "lots")], "prize: an amount"),
        (&[("prize", "$5")], "prize: a prize is in pounds or euros"),
    ];
    let good: &[(&str, &str)] = &[("horse", "Good Horse (GB)")];
    let rows: Vec<&[(&str, &str)]> = [good]
        .into_iter()
        .chain(bad.iter().map(|(row, _)| *row))
        .chain([good])
        .collect();
    let text = format!("{}lorem,ipsum\n", file(&rows));
    let read = read(&[("a.csv", text)]);
    assert_eq!(read.results.len(), 1, "{read:?}");
    assert_eq!(
        read.results[0].runners.len(),
        1,
        "the same row again changes nothing"
    );
    let starts = bad
        .iter()
        .zip(3..)
        .map(|((_, part), line)| format!("{line}: {part}"));
    let (last, rejected) = read.rejected.split_last().expect("the last row");
    check_starts(rejected, &starts.collect::<Vec<_>>());
    assert!(last.contains("2 columns, the header has 31"), "{last}");
}

#[test]
fn a_row_that_contradicts_an_earlier_one_is_noted_or_rejected() {
    let read = one(&[
        &[("horse", "One (GB)")],
        &[("horse", "Two (GB)"), ("going", "Soft")],
        &[("horse", "One (GB)"), ("pos", "2")],
    ]);
    assert_eq!(read.results[0].runners.len(), 2);
    check_starts(
        &read.notes,
        &["3: the name, distance, going or another field"],
    );
    check_starts(&read.rejected, &["4: ONE_GB is already in 2020-06-03."]);
    assert!(read.rejected[0].ends_with("on line 2, with different values"));
}

#[test]
fn a_race_whose_rows_are_apart_is_rejected_whole() {
    let apart = one(&[
        &[("off", "1:00"), ("horse", "One (GB)"), ("pos", "PU")],
        &[("off", "1:30"), ("horse", "Two (GB)")],
        &[("off", "1:00"), ("horse", "Three (GB)")],
        &[("off", "1:00"), ("horse", "Four (GB)"), ("pos", "2")],
    ]);
    let numbers: Vec<u16> = apart.results.iter().map(|r| r.race_number.get()).collect();
    assert_eq!((numbers, apart.cards.len()), (vec![2], 1));
    let [reason] = &apart.rejected[..] else {
        panic!("{apart:?}")
    };
    assert!(reason.starts_with("2: 2020-06-03.HARBO"), "{reason}");
    let lines = ".1: its rows are apart, on lines 2 to 2 and from line 4, so the race is refused";
    assert!(reason.contains(lines), "{reason}");
}

#[test]
fn rows_that_are_repeated_behind_another_race_change_nothing() {
    let race: &[(&str, &str)] = &[("off", "1:00")];
    let second: &[(&str, &str)] = &[("off", "1:00"), ("horse", "Two (GB)"), ("pos", "2")];
    let read = one(&[race, second, &[("off", "1:30")], second]);
    assert_eq!((read.results.len(), read.rejected.len()), (2, 0));
    assert_eq!(read.results[0].runners.len(), 2);
}

#[test]
fn a_meeting_by_a_twelve_hour_clock_is_noted_or_rejected() {
    let evening = one(&[&[("off", "9:30")], &[("off", "10:00")]]);
    let numbers: Vec<u16> = evening
        .results
        .iter()
        .map(|r| r.race_number.get())
        .collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(
        evening.cards[1].off_time.expect("a time").to_string(),
        "2020-06-03T21:00:00Z"
    );
    check_starts(
        &evening.notes,
        &["3: the off times of this meeting are by a 12-hour clock"],
    );
    let unclear = one(&[&[("off", "12:15")], &[("off", "6:10")]]);
    assert_eq!(unclear.results.len(), 0);
    let reason = "off: the meeting's off times are by a 12-hour clock, and two pauses are about equally long";
    check_starts(
        &unclear.rejected,
        &[2, 3].map(|line| format!("{line}: {reason}")),
    );
}

#[test]
fn a_race_in_two_files_is_the_same_event_or_a_note() {
    let one = file(&[&[("pos", "1")]]);
    let other = file(&[&[("pos", "2")]]);
    let same = read(&[("a.csv", one.clone()), ("b.csv", one.clone())]);
    assert_eq!((same.notes.len(), same.results.len()), (0, 2));
    assert_eq!(same.results[0], same.results[1]);
    let ids = &same.ids;
    let again = read(&[("c.csv", one.clone())]).ids;
    assert!(
        again.iter().all(|id| ids.contains(id)),
        "ids are made of the content"
    );
    let differing = read(&[("a.csv", one), ("b.csv", other)]);
    assert_eq!(
        differing.notes,
        ["2: this race was read before with different values: the later ones are kept"]
    );
}

#[test]
fn a_file_without_the_columns_is_rejected() {
    let read = read(&[("a.csv", "date,course,horse\n".to_owned())]);
    assert_eq!(
        read.rejected,
        ["1: the header lacks the columns: off|time, race_name|name, pos, jockey, trainer"]
    );
}

#[test]
fn every_column_has_a_field_or_is_counted_by_name() {
    let newest = include_str!("../../../tests/importers/rpscrape/newest.csv");
    let mut rows = newest.lines();
    let header = rows.next().expect("a header").to_owned() + ",jockey_id,trainer_id,silk_url\n";
    let row = |row: &str, ids: &str| format!("{row}{ids}\n");
    let [first, second] = [rows.next(), rows.next()].map(|row| row.expect("a row"));
    let text = header + &row(first, ",11,22,http") + &row(second, ",12,22,http");
    let read = read(&[("newest.csv", text)]);
    assert_eq!(read.rejected, Vec::<String>::new());
    let card = &read.cards[0];
    let known = |text: &str| events::Text::parse(text).ok();
    assert_eq!(
        (&card.surface, &card.rating_band),
        (&known("Turf"), &known("0-80"))
    );
    let runner = &card.runners[0];
    assert_eq!(
        (runner.rating, runner.age, &runner.gear),
        (Some(78), Some(5), &known("p"))
    );
    assert_eq!(runner.owner, known("The Lamplighter Syndicate"));
    assert_eq!(
        (&runner.jockey_id, &runner.trainer_id),
        (&known("11"), &known("22"))
    );
    let margins = read.results[0].runners.iter().map(|r| r.margin);
    let margins: Vec<Option<String>> = margins.map(|m| m.map(|m| m.to_string())).collect();
    assert_eq!(margins, [None, Some("3/4".to_owned())]);
    let omitted: Vec<&str> = read.omitted.keys().map(String::as_str).collect();
    let names = "age_band btn comment dam damsire ran rpr silk_url sire type";
    assert_eq!(omitted.join(" "), names);
    assert_eq!(read.omitted["comment"], 2);
}

#[test]
fn a_margin_is_exact_or_counted() {
    for (lengths, margin) in [
        ("0", None),
        ("", None),
        ("0.05", Some("NOSE")),
        ("0.1", Some("SH")),
        ("0.3", Some("N")),
        ("1.5", Some("1-1/2")),
        ("31.00", Some("31")),
    ] {
        let text = file(&[&[]])
            .replace("pos,", "ovr_btn,pos,")
            .replace(",3,1,7,", &format!(",3,{lengths},1,7,"));
        let read = read(&[("a.csv", text)]);
        let read_margin = read.results[0].runners[0].margin.map(|m| m.to_string());
        assert_eq!(read_margin.as_deref(), margin, "{lengths}");
        assert!(!read.omitted.contains_key("ovr_btn"), "{lengths}");
    }
    for lengths in ["0.2", "30", "1.3", "dist", "-1", "1000"] {
        let text = file(&[&[]])
            .replace("pos,", "ovr_btn,pos,")
            .replace(",3,1,7,", &format!(",3,{lengths},1,7,"));
        let read = read(&[("a.csv", text)]);
        assert_eq!(
            (read.results[0].runners[0].margin, read.omitted["ovr_btn"]),
            (None, 1),
            "{lengths}"
        );
    }
}
