//! The schemas of responses of the HTTP interface, of messages of the live channel and of announcements, for the tests
//! that make the documents.
#![expect(
    dead_code,
    reason = "schemas only: responses and images are made of the stored bytes of views"
)]

use events::{HorseNo, RaceNumber, RacingDate, VenueCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::horse_form::{PlacedFormRow, UnplacedFormRow};
use crate::horse_profile::HorseProfile;
use crate::live::message::{CardUpdate, DividendsUpdate, ResultUpdate, RunnerUpdate, StatusUpdate};
use crate::live::quote::QuoteMessage;
use crate::markets::OddsMarket;
use crate::meetings::{ChosenMeeting, MeetingView};
use crate::odds_board::OddsBoard;
use crate::odds_history::{OddsStep, OddsTick};
use crate::odds_sources::OddsSources;
use crate::race_card::RacecardRace;
use crate::race_dividends::MeetingRaceDividends;
use crate::race_result::{MeetingRaceResult, ResultRevision};
use crate::rejections::RejectionNotice;

/// A horse's profile.
#[derive(JsonSchema)]
#[schemars(rename = "HorseProfile")]
struct ServedProfile<'a> {
    #[schemars(flatten)]
    profile: HorseProfile<'a>,
    /// The official age in years on the day of the request; 0 if unknown.
    age: u32,
}

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

/// The meeting of a race in a list of races.
#[derive(JsonSchema)]
struct MeetingOfRace<'a> {
    /// The meeting's date.
    date: RacingDate,
    /// The racecourse's name.
    venue: &'a str,
    /// The racecourse's code.
    venue_code: VenueCode,
}

/// A race's result, with its meeting.
#[derive(JsonSchema)]
struct ListedResult<'a> {
    #[schemars(flatten)]
    meeting: MeetingOfRace<'a>,
    #[schemars(flatten)]
    result: MeetingRaceResult<'a>,
}

/// The results of some days.
#[derive(JsonSchema)]
struct ResultList<'a> {
    /// The races that have a result or were abandoned, by date, venue code and race number.
    races: Vec<ListedResult<'a>>,
    #[schemars(flatten)]
    page: Page,
}

/// A race of a card, with its meeting.
#[derive(JsonSchema)]
struct ListedRacecard<'a> {
    #[schemars(flatten)]
    meeting: MeetingOfRace<'a>,
    #[schemars(flatten)]
    card: RacecardRace<'a>,
}

/// The race cards of some days.
#[derive(JsonSchema)]
struct RacecardList<'a> {
    /// The races with a card, by date, venue code and race number.
    races: Vec<ListedRacecard<'a>>,
    #[schemars(flatten)]
    page: Page,
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
    /// The quotes in the order of the log; none with `every`.
    history: Vec<OddsTick<'a>>,
    /// Only with `every`: the prices by steps, in the order of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<OddsStep>")]
    steps: Option<Vec<OddsStep>>,
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

/// The full image of a race's board, as in `/api/v1/odds/{date}/{race_number}`.
#[derive(JsonSchema)]
struct OddsUpdate<'a> {
    #[schemars(extend("const" = "odds_update"))]
    event: &'a str,
    /// Only in a snapshot: the image as it is, whatever was sent before.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "boolean", "const" = true))]
    snapshot: Option<bool>,
    /// Only in a conflated message: how many updates were merged. `prev_seq` is the last `seq` that this client was
    /// sent.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "integer"))]
    conflated: Option<u64>,
    /// Only in a conflated message: `client` (it asked for it) or `backpressure` (it was too slow).
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "string", "enum" = ["client", "backpressure"]))]
    conflated_by: Option<&'a str>,
    #[schemars(flatten)]
    board: OddsBoard<'a>,
}

/// Adds the schema of each response to a generator, with those that it refers to.
pub fn add_response_schemas(generator: &mut SchemaGenerator) {
    generator.subschema_for::<ServedProfile<'_>>();
    generator.subschema_for::<HorseForm<'_>>();
    generator.subschema_for::<HorseList<'_>>();
    generator.subschema_for::<MeetingResults<'_>>();
    generator.subschema_for::<ResultList<'_>>();
    generator.subschema_for::<RaceResult<'_>>();
    generator.subschema_for::<ResultRevisions<'_>>();
    generator.subschema_for::<RaceDividends<'_>>();
    generator.subschema_for::<Racecard<'_>>();
    generator.subschema_for::<RacecardList<'_>>();
    generator.subschema_for::<OddsHistory<'_>>();
    generator.subschema_for::<OddsMarket<'_>>();
    generator.subschema_for::<OddsSources<'_>>();
    generator.subschema_for::<MeetingList>();
}

/// The schema of every message about a race, without the definitions that it adds to the generator.
pub fn live_schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
    vec![
        OddsUpdate::<'_>::json_schema(generator),
        StatusUpdate::<'_>::json_schema(generator),
        RunnerUpdate::<'_>::json_schema(generator),
        ResultUpdate::<'_>::json_schema(generator),
        DividendsUpdate::<'_>::json_schema(generator),
        CardUpdate::<'_>::json_schema(generator),
        QuoteMessage::<'_>::json_schema(generator),
    ]
}

/// The schema of [`crate::Announcement::json`].
pub fn announcement_schema(generator: &mut SchemaGenerator) -> Schema {
    RejectionNotice::<'_>::json_schema(generator)
}
