//! [`changed_paths`]: the paths whose answers an event may have changed.

use std::collections::BTreeSet;

use events::{Event, HorseNo, RaceKey, Subject, VenueCode};

/// The paths whose answers an event may have changed. `venues` are those of the day's meetings, whose answers name each
/// other, and `horses` all that were ever in the race.
pub(super) fn changed_paths(
    event: &Event,
    venues: &[VenueCode],
    horses: &BTreeSet<HorseNo>,
    has_odds: bool,
) -> Vec<String> {
    let race = match event.subject() {
        Subject::Sources => return Vec::new(),
        Subject::Horse(horse_no) => return horse_paths(&horse_no).into(),
        Subject::Odds(race) => return odds_paths(&race).into(),
        Subject::Race(race) | Subject::Result(race) => race,
    };
    let date = race.date;
    let mut paths = vec![
        format!("/api/v1/meetings?from={date}&to={date}"),
        format!("/api/v1/days/{date}"),
    ];
    paths.extend(venues.iter().flat_map(|venue| {
        ["racecards", "results"].map(|kind| format!("/api/v1/{kind}/{date}?venue={venue}"))
    }));
    let below: &[&str] = match event {
        // A race that is abandoned has a result.
        Event::RaceStatusChanged(_)
        | Event::ResultDeclared(_)
        | Event::ResultVoided(_)
        | Event::DividendsDeclared(_) => &["", "/revisions", "/dividends"],
        _ => &[""],
    };
    paths.extend(below.iter().map(|below| race_path("results", &race, below)));
    if has_odds {
        paths.extend(odds_paths(&race));
    }
    match event {
        Event::RunnerWithdrawn(fact) => paths.extend(horse_paths(&fact.horse_no)),
        Event::RunnerReinstated(fact) => paths.extend(horse_paths(&fact.horse_no)),
        Event::RiderChanged(fact) => paths.extend(horse_paths(&fact.horse_no)),
        _ if changes_all_horses(event) => paths.extend(horses.iter().flat_map(horse_paths)),
        _ => {}
    }
    paths
}

/// Whether an event may have changed the form of all horses that were ever in its race.
pub(super) fn changes_all_horses(event: &Event) -> bool {
    matches!(
        event,
        Event::RaceDeclared(_)
            | Event::GoingChanged(_)
            | Event::ResultDeclared(_)
            | Event::ResultVoided(_)
    )
}

fn horse_paths(horse_no: &HorseNo) -> [String; 2] {
    ["", "/form"].map(|below| format!("/api/v1/horses/{horse_no}{below}"))
}

fn odds_paths(race: &RaceKey) -> [String; 4] {
    ["", "/sources", "/history", "/moves"].map(|below| race_path("odds", race, below))
}

fn race_path(kind: &str, race: &RaceKey, below: &str) -> String {
    let (date, number, venue) = (race.date, race.race_number, &race.venue);
    format!("/api/v1/{kind}/{date}/{number}{below}?venue={venue}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use events::{Envelope, HorseNo, VenueCode};
    use serde_json::{Value, json};

    use super::changed_paths;

    /// The paths of an event of race 3 at `ST`, where `A1` and `B2` ran, on a day with another meeting, without
    /// `/api/v1/`.
    fn paths_of(kind: &str, more: &Value, has_odds: bool) -> Vec<String> {
        let mut data = json!({ "date": "2026-11-21", "venue": "ST", "race_number": 3 });
        let fields = data.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        let event = json!({
            "specversion": "1.0", "id": "1", "source": "test", "type": format!("racing.{kind}.v1"),
            "time": "2026-11-21T06:00:00Z", "data": data,
        });
        let event = Envelope::from_json(event.to_string().as_bytes()).expect("an event");
        let venues = ["HV", "ST"].map(|code| VenueCode::parse(code).expect("a code"));
        let horses = ["A1", "B2"].map(|no| HorseNo::parse(no).expect("a horse"));
        let paths = changed_paths(&event.event, &venues, &BTreeSet::from(horses), has_odds);
        let paths = paths.iter().map(|path| path.strip_prefix("/api/v1/"));
        paths
            .map(|path| path.expect("of the API").to_owned())
            .collect()
    }

    const OF_THE_DAY: [&str; 6] = [
        "meetings?from=2026-11-21&to=2026-11-21",
        "days/2026-11-21",
        "racecards/2026-11-21?venue=HV",
        "results/2026-11-21?venue=HV",
        "racecards/2026-11-21?venue=ST",
        "results/2026-11-21?venue=ST",
    ];
    const RESULT: [&str; 3] = [
        "results/2026-11-21/3?venue=ST",
        "results/2026-11-21/3/revisions?venue=ST",
        "results/2026-11-21/3/dividends?venue=ST",
    ];
    const ODDS: [&str; 4] = [
        "odds/2026-11-21/3?venue=ST",
        "odds/2026-11-21/3/sources?venue=ST",
        "odds/2026-11-21/3/history?venue=ST",
        "odds/2026-11-21/3/moves?venue=ST",
    ];
    const HORSES: [&str; 4] = ["horses/A1", "horses/A1/form", "horses/B2", "horses/B2/form"];

    #[test]
    fn a_result_names_the_meetings_of_the_day_the_race_and_all_its_horses() {
        let void = json!({ "revision": 2 });
        let expected = [&OF_THE_DAY[..], &RESULT, &ODDS, &HORSES].concat();
        assert_eq!(paths_of("result.voided", &void, true), expected);
        let expected = [&OF_THE_DAY[..], &RESULT, &HORSES].concat();
        assert_eq!(paths_of("result.voided", &void, false), expected);
    }

    #[test]
    fn other_facts_about_a_race_name_what_they_change() {
        let going = json!({ "going": "YIELDING" });
        let expected = [&OF_THE_DAY[..], &RESULT[..1], &HORSES].concat();
        assert_eq!(paths_of("going.changed", &going, false), expected);
        let status = json!({ "status": "abandoned" });
        let expected = [&OF_THE_DAY[..], &RESULT].concat();
        assert_eq!(paths_of("race.status_changed", &status, false), expected);
        let withdrawn = json!({ "horse_no": "C3" });
        let expected = [
            &OF_THE_DAY[..],
            &RESULT[..1],
            &["horses/C3", "horses/C3/form"],
        ]
        .concat();
        assert_eq!(paths_of("runner.withdrawn", &withdrawn, false), expected);
    }

    #[test]
    fn quotes_name_the_odds_alone_and_a_ranking_nothing() {
        let quote = json!({ "runners": [{ "horse_no": "A1", "win": 3.5 }] });
        assert_eq!(paths_of("odds.quoted", &quote, true), ODDS);
        let ranking = json!({ "sources": ["tote"] });
        assert!(paths_of("sources.ranked", &ranking, true).is_empty());
    }
}
