//! The schemas of responses of the HTTP interface, of messages of the live channel and of announcements, for the tests
//! that make the documents.
#![expect(
    dead_code,
    reason = "schemas only: responses and images are made of the stored bytes of views"
)]

use events::{HorseNo, Outcome, RaceNumber, RacingDate, VenueCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::horse_form::{FormRace, FormRunner};
use crate::horse_profile::HorseProfile;
use crate::live::message::{ChangedRunner, ChangedStatus, RaceMessage};
use crate::live::quote::QuoteHead;
use crate::markets::{MarketPrice, OddsMarket};
use crate::meetings::{ChosenMeeting, MeetingView};
use crate::odds_board::{OddsBoard, QuotedPrices};
use crate::odds_history::{OddsMove, OddsStep, OddsTick};
use crate::odds_sources::OddsSources;
use crate::race_card::RacecardRace;
use crate::race_dividends::MeetingRaceDividends;
use crate::race_result::{MeetingRaceResult, ResultRevision};
use crate::rejections::RejectionNotice;
use crate::rides::{RideFigures, RideGroup, RidesBy};

/// A horse's profile.
#[derive(JsonSchema)]
#[schemars(rename = "HorseProfile")]
struct ServedProfile<'a> {
    #[schemars(flatten)]
    profile: HorseProfile<'a>,
    /// The official age in years on the day of the request; 0 if unknown.
    age: u32,
}

/// A race in which the horse has an official placing.
#[derive(JsonSchema)]
struct PlacedFormRow<'a> {
    #[schemars(flatten)]
    race: FormRace<'a>,
    /// The official placing, 1 for the winner.
    #[schemars(range(min = 1))]
    position: u16,
    #[schemars(flatten)]
    runner: FormRunner<'a>,
}

/// A race in which the horse has no official placing.
#[derive(JsonSchema)]
struct UnplacedFormRow<'a> {
    #[schemars(flatten)]
    race: FormRace<'a>,
    /// Why there is no placing: PU, UR, FE, DNF, DISQ, WV, ...
    outcome: Outcome,
    #[schemars(flatten)]
    runner: FormRunner<'a>,
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
    /// With `moves=true`: how the prices of the primary source moved until the race was off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<OddsMove>")]
    moves: Option<Vec<OddsMove>>,
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

/// A race's odds board with the moves of its prices.
#[derive(JsonSchema)]
struct OddsMoves<'a> {
    #[schemars(flatten)]
    board: OddsBoard<'a>,
    /// The runners, or combinations of another market, that had a price before the race was off.
    moves: Vec<OddsMove>,
    #[schemars(flatten)]
    page: Page,
}

/// All meetings of a day.
#[derive(JsonSchema)]
struct RacingDay<'a> {
    /// The date.
    date: RacingDate,
    /// The meetings, by venue code.
    meetings: Vec<MeetingOfDay<'a>>,
}

/// A meeting with its race cards and results.
#[derive(JsonSchema)]
struct MeetingOfDay<'a> {
    #[schemars(flatten)]
    meeting: MeetingView,
    /// The races with a card, by race number.
    racecards: Vec<RacecardRace<'a>>,
    /// The races that have a result or were abandoned, by race number.
    results: Vec<MeetingRaceResult<'a>>,
}

/// The next races.
#[derive(JsonSchema)]
struct NextRaces<'a> {
    /// The races that are not off yet, by `off_time`.
    races: Vec<ListedRacecard<'a>>,
}

/// A list of those whose rides there are, one of them with its figures, and its rides: of jockeys, trainers, owners and
/// venues.
macro_rules! rides_of {
    ($field:ident, $list:ident, $identity:ident, $listed:ident, $people:ident, $figures:ident, $rides:ident) => {
        #[derive(JsonSchema)]
        #[schemars(description = "The identity of one of them.")]
        struct $identity {
            /// In paths, percent-encoded: within an area by identifier, else by name; of a venue its code.
            key: String,
            /// The name as of the latest ride.
            $field: String,
            /// The identifier; empty if the name stands for it.
            id: String,
            /// The time zone of the racecourses; empty if unknown.
            area: String,
        }

        #[derive(JsonSchema)]
        #[schemars(description = "A row of the list.")]
        struct $listed {
            #[schemars(flatten)]
            identity: $identity,
            /// The date of the latest ride.
            last_on: RacingDate,
        }

        #[derive(JsonSchema)]
        #[schemars(description = "Those with a name, by key.")]
        struct $people {
            /// The rows, by key.
            $list: Vec<$listed>,
            #[schemars(flatten)]
            page: Page,
        }

        #[derive(JsonSchema)]
        #[schemars(description = "The figures of the rides in a period.")]
        struct $figures {
            #[schemars(flatten)]
            identity: $identity,
            #[schemars(flatten)]
            figures: FiguresOfRides,
        }

        #[derive(JsonSchema)]
        #[schemars(description = "Rides, newest first.")]
        struct $rides<'a> {
            #[schemars(flatten)]
            identity: $identity,
            /// Starts, newest first.
            rides: Vec<RideRow<'a>>,
            #[schemars(flatten)]
            page: Page,
        }
    };
}

rides_of!(
    jockey,
    jockeys,
    Jockey,
    ListedJockey,
    JockeyList,
    JockeyFigures,
    JockeyRides
);
rides_of!(
    trainer,
    trainers,
    Trainer,
    ListedTrainer,
    TrainerList,
    TrainerFigures,
    TrainerRides
);
rides_of!(
    owner,
    owners,
    Owner,
    ListedOwner,
    OwnerList,
    OwnerFigures,
    OwnerRides
);
rides_of!(
    venue,
    venues,
    Venue,
    ListedVenue,
    VenueList,
    VenueFigures,
    VenueRides
);

/// What the rides of a period add up to.
#[derive(JsonSchema)]
struct FiguresOfRides {
    /// The date of the first ride that is counted; null without any.
    from: Option<RacingDate>,
    /// The date of the last one.
    to: Option<RacingDate>,
    /// False if only the newest 5,000 rides of the period are counted.
    complete: bool,
    /// The figures of all of them.
    totals: RideFigures,
    /// What the groups have in common; null without groups.
    by: Option<RidesBy>,
    /// The groups, those with the most starts first.
    groups: Vec<RideGroup>,
}

/// The form row of a start, with the horse.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum RideRow<'a> {
    Placed(PlacedRide<'a>),
    Unplaced(UnplacedRide<'a>),
}

/// A start with an official placing.
#[derive(JsonSchema)]
struct PlacedRide<'a> {
    /// The horse.
    horse_no: HorseNo,
    #[schemars(flatten)]
    row: PlacedFormRow<'a>,
}

/// A start without an official placing.
#[derive(JsonSchema)]
struct UnplacedRide<'a> {
    /// The horse.
    horse_no: HorseNo,
    #[schemars(flatten)]
    row: UnplacedFormRow<'a>,
}

/// The races that two horses ran in.
#[derive(JsonSchema)]
struct HorsesCompared<'a> {
    /// The horse.
    horse_no: HorseNo,
    /// The other horse.
    other_horse_no: HorseNo,
    /// Races in which the horse was placed before the other one.
    ahead: u32,
    /// Races in which it was placed after it.
    behind: u32,
    /// The form rows of the horse, newest first.
    races: Vec<ComparedRun<'a>>,
}

/// A race that two horses ran in.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum ComparedRun<'a> {
    Placed(PlacedRun<'a>),
    Unplaced(UnplacedRun<'a>),
}

/// A race in which the first of two horses has an official placing.
#[derive(JsonSchema)]
struct PlacedRun<'a> {
    #[schemars(flatten)]
    row: PlacedFormRow<'a>,
    /// The form row of the other horse.
    other: FormRow<'a>,
}

/// A race in which the first of two horses has no official placing.
#[derive(JsonSchema)]
struct UnplacedRun<'a> {
    #[schemars(flatten)]
    row: UnplacedFormRow<'a>,
    /// The form row of the other horse.
    other: FormRow<'a>,
}

/// A form row.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum FormRow<'a> {
    Placed(PlacedFormRow<'a>),
    Unplaced(UnplacedFormRow<'a>),
}

/// The runners of a day whose prices moved.
#[derive(JsonSchema)]
struct Movers {
    /// The date.
    date: RacingDate,
    /// Runners of races that are not over, the greatest move first.
    movers: Vec<Mover>,
}

/// A runner whose price moved.
#[derive(JsonSchema)]
struct Mover {
    /// The racecourse's code.
    venue_code: VenueCode,
    /// The race's number.
    race_number: RaceNumber,
    /// The horse.
    horse_no: HorseNo,
    /// Its name; empty if unknown.
    horse_name: String,
    /// Its saddle-cloth number; 0 if unknown.
    number: u16,
    /// The first win price.
    opening: f64,
    /// The win price.
    price: f64,
    /// The implied probability now less that of the first price.
    probability_move: f64,
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

/// The status of a race changed, or the reason for it.
#[derive(JsonSchema)]
struct StatusUpdate<'a> {
    #[schemars(extend("const" = "status_update"))]
    event: &'a str,
    #[schemars(flatten)]
    fields: RaceMessage<'a, ChangedStatus<'a>>,
}

/// A runner was withdrawn or reinstated, or has another rider.
#[derive(JsonSchema)]
struct RunnerUpdate<'a> {
    #[schemars(extend("const" = "runner_update"))]
    event: &'a str,
    #[schemars(flatten)]
    fields: RaceMessage<'a, ChangedRunner<'a>>,
}

/// The card of a race after it was declared or replaced, or its going changed. Withdrawals, riders and statuses have
/// messages of their own.
#[derive(JsonSchema)]
struct CardUpdate<'a> {
    #[schemars(extend("const" = "card_update"))]
    event: &'a str,
    #[schemars(flatten)]
    fields: RaceMessage<'a, RacecardRace<'a>>,
}

/// The result in force, after it was declared, amended or voided.
#[derive(JsonSchema)]
struct ResultUpdate<'a> {
    #[schemars(extend("const" = "result_update"))]
    event: &'a str,
    #[schemars(flatten)]
    fields: RaceMessage<'a, MeetingRaceResult<'a>>,
}

/// The dividends in force, after they were declared or amended.
#[derive(JsonSchema)]
struct DividendsUpdate<'a> {
    #[schemars(extend("const" = "dividends_update"))]
    event: &'a str,
    #[schemars(flatten)]
    fields: RaceMessage<'a, MeetingRaceDividends<'a>>,
}

/// Prices of a source in a market: those that it has quoted, as they are after the quote.
#[derive(JsonSchema)]
struct QuoteMessage<'a> {
    /// Only in a snapshot: these are all prices of the source in the market, whatever was sent before.
    #[schemars(skip_serializing_if = "Option::is_none", extend("type" = "boolean", "const" = true))]
    snapshot: Option<bool>,
    #[schemars(flatten)]
    head: QuoteHead<'a>,
    /// Only of `win_place`: the quoted runners.
    #[schemars(skip_serializing_if = "Option::is_none")]
    runners: Option<Vec<QuotedPrices<'a>>>,
    /// Only of another market: the quoted combinations.
    #[schemars(skip_serializing_if = "Option::is_none")]
    prices: Option<Vec<MarketPrice<'a>>>,
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
    generator.subschema_for::<OddsMoves<'_>>();
    generator.subschema_for::<RacingDay<'_>>();
    generator.subschema_for::<NextRaces<'_>>();
    generator.subschema_for::<OddsMarket<'_>>();
    generator.subschema_for::<OddsSources<'_>>();
    generator.subschema_for::<MeetingList>();
    generator.subschema_for::<(JockeyList, JockeyFigures, JockeyRides<'_>)>();
    generator.subschema_for::<(TrainerList, TrainerFigures, TrainerRides<'_>)>();
    generator.subschema_for::<(OwnerList, OwnerFigures, OwnerRides<'_>)>();
    generator.subschema_for::<(VenueList, VenueFigures, VenueRides<'_>)>();
    generator.subschema_for::<HorsesCompared<'_>>();
    generator.subschema_for::<Movers>();
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
