//! The responses of the HTTP interface, which are put together of rendered views, as types with a schema.
#![expect(
    dead_code,
    reason = "schemas only: responses are made of the stored bytes of views"
)]

use events::{HorseNo, RaceNumber};
use schemars::{JsonSchema, SchemaGenerator};

use crate::horse_form::{PlacedFormRow, UnplacedFormRow};
use crate::horse_profile::ServedProfile;
use crate::markets::OddsMarket;
use crate::meetings::{ChosenMeeting, MeetingView};
use crate::odds_board::{OddsBoard, OddsTick};
use crate::odds_sources::OddsSources;
use crate::race_card::RacecardRace;
use crate::race_dividends::MeetingRaceDividends;
use crate::race_result::{MeetingRaceResult, ResultRevision};

/// The race card of a meeting.
#[derive(JsonSchema)]
struct Racecard<'a> {
    #[schemars(flatten)]
    meeting: ChosenMeeting<'a>,
    /// The races with a card, by race number.
    races: Vec<RacecardRace<'a>>,
}

/// The results of a meeting.
#[derive(JsonSchema)]
struct MeetingResults<'a> {
    #[schemars(flatten)]
    meeting: ChosenMeeting<'a>,
    /// The races that have a result or were abandoned, by race number.
    races: Vec<MeetingRaceResult<'a>>,
}

/// The result of a race, with its meeting.
#[derive(JsonSchema)]
struct RaceResult<'a> {
    #[schemars(flatten)]
    meeting: ChosenMeeting<'a>,
    #[schemars(flatten)]
    result: MeetingRaceResult<'a>,
}

/// The dividends of a race, with its meeting.
#[derive(JsonSchema)]
struct RaceDividends<'a> {
    #[schemars(flatten)]
    meeting: ChosenMeeting<'a>,
    #[schemars(flatten)]
    dividends: MeetingRaceDividends<'a>,
}

/// The revisions of a race's result.
#[derive(JsonSchema)]
struct ResultRevisions<'a> {
    #[schemars(flatten)]
    meeting: ChosenMeeting<'a>,
    /// The race's number.
    race_number: RaceNumber,
    /// The revisions in the order of the log.
    revisions: Vec<ResultRevision<'a>>,
    #[schemars(flatten)]
    page: Page,
}

/// A horse's form.
#[derive(JsonSchema)]
struct HorseForm<'a> {
    /// The horse.
    horse_no: HorseNo,
    /// Its current name; empty if unknown.
    horse_name: String,
    /// Races with an official placing, newest first.
    form: Vec<PlacedFormRow<'a>>,
    /// Races without one in the same time, newest first.
    unplaced: Vec<UnplacedFormRow<'a>>,
    #[schemars(flatten)]
    page: Page,
}

/// Horses, by name.
#[derive(JsonSchema)]
struct HorseList<'a> {
    /// The profiles, ordered by name.
    horses: Vec<ServedProfile<'a>>,
    #[schemars(flatten)]
    page: Page,
}

/// A race's odds board with its quotes.
#[derive(JsonSchema)]
struct OddsHistory<'a> {
    #[schemars(flatten)]
    board: OddsBoard<'a>,
    /// The quotes in the order of the log.
    history: Vec<OddsTick<'a>>,
    #[schemars(flatten)]
    page: Page,
}

/// The meetings of some days.
#[derive(JsonSchema)]
struct MeetingList {
    /// The meetings, oldest first.
    meetings: Vec<MeetingView>,
    /// Whether there are more meetings than fit into one response.
    more: bool,
    #[schemars(flatten)]
    page: Page,
}

#[derive(JsonSchema)]
struct Page {
    /// The path of the next page, as in `Link: <...>; rel="next"`; empty on the last page.
    next: String,
}

/// Adds the schema of each response to a generator, with those that it refers to.
pub fn add_response_schemas(generator: &mut SchemaGenerator) {
    generator.subschema_for::<ServedProfile<'_>>();
    generator.subschema_for::<HorseForm<'_>>();
    generator.subschema_for::<HorseList<'_>>();
    generator.subschema_for::<MeetingResults<'_>>();
    generator.subschema_for::<RaceResult<'_>>();
    generator.subschema_for::<ResultRevisions<'_>>();
    generator.subschema_for::<RaceDividends<'_>>();
    generator.subschema_for::<Racecard<'_>>();
    generator.subschema_for::<OddsHistory<'_>>();
    generator.subschema_for::<OddsMarket<'_>>();
    generator.subschema_for::<OddsSources<'_>>();
    generator.subschema_for::<MeetingList>();
}
