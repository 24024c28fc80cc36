"""The messages of the live channel. Made by script/client_types.py of schemas/asyncapi.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


# How many races a client follows. `all`: Every race. `some`: Races that match the filter. `none`: No race, because a
# list in force is empty.
Follows = Literal["all", "some", "none"]


# A race; on any date if `date` is left out, at any venue if `venue` is.
class FilterRace(TypedDict):
    # The race's number.
    race_number: int
    # The meeting's date.
    date: NotRequired[str]
    # The venue's code or name; case is ignored.
    venue: NotRequired[str]


# Selects races: a race must match at least one value of each list that is given. All lists together have at most 1,000
# values.
class Filter(TypedDict):
    # Dates of meetings.
    dates: NotRequired[list[str]]
    # Horses on the card or the board of a race.
    horses: NotRequired[list[str]]
    # Races.
    races: NotRequired[list[FilterRace]]
    # Codes or names of venues; case is ignored.
    venues: NotRequired[list[str]]


# A client message was accepted. The values in force follow.
class Ack(TypedDict):
    event: Literal["ack"]
    # The op of the client message.
    op: Literal["subscribe", "unsubscribe", "resync", "play", "ping"]
    # The id of the client message; null if it had none.
    id: str | float | None
    # Everything for this client up to this log sequence has been sent.
    seq: int
    # RFC 3339, to the microsecond.
    server_time: str
    # How many races are followed.
    follows: Follows
    # The lists of the filter.
    filter: Filter
    # The kinds of messages about races that are sent.
    events: list[
        Literal["odds_update", "status_update", "runner_update", "result_update", "dividends_update", "card_update"]
    ]
    # Minimum time between two odds messages of a race, in milliseconds; 0 sends every update.
    conflate_ms: int
    # Time between two heartbeats, in milliseconds.
    heartbeat_ms: int
    # The markets whose quotes are sent; left out if there is none.
    markets: NotRequired[list[str]]
    # Why the client cannot resume.
    reason: NotRequired[Literal["other_epoch", "too_far_behind", "unproven", "other_history", "ahead"]]
    # Only after a request to resume: whether every message after `since` follows.
    recovered: NotRequired[bool]


# The status of a race. `scheduled`: On the card, before betting. `open`: Betting is open. `closed`: Betting is closed.
# `off`: The race has started. `finished`: The race has been run. `result`: A result has been declared. `abandoned`: The
# race is not run.
RaceStatus = Literal["scheduled", "open", "closed", "off", "finished", "result", "abandoned"]


# A runner on a card.
class RacecardRunner(TypedDict):
    # The horse.
    horse_no: str
    # Its name; empty if unknown.
    horse_name: str
    # Its saddle-cloth number; 0 if unknown.
    number: int
    # Its current jockey; empty if unknown.
    jockey: str
    # Its trainer; empty if unknown.
    trainer: str
    # Its draw; 0 if unknown.
    draw: int
    # Pounds carried; 0 if unknown.
    weight: int
    # Its age on the day.
    age: NotRequired[int]
    # Its own weight, in pounds.
    body_weight: NotRequired[int]
    # Its gear, as the authority writes it.
    gear: NotRequired[str]
    # The current jockey's identifier.
    jockey_id: NotRequired[str]
    # Its owner.
    owner: NotRequired[str]
    # Its rating.
    rating: NotRequired[int]
    # Whether it is a reserve.
    reserve: NotRequired[bool]
    # The trainer's identifier.
    trainer_id: NotRequired[str]


# A withdrawn runner.
class WithdrawnRunner(TypedDict):
    # The horse.
    horse_no: str
    # Its name; empty if unknown.
    horse_name: str
    # Its saddle-cloth number; 0 if unknown.
    number: int
    # Its current jockey; empty if unknown.
    jockey: str
    # Its trainer; empty if unknown.
    trainer: str
    # Its draw; 0 if unknown.
    draw: int
    # Pounds carried; 0 if unknown.
    weight: int
    # Why it was withdrawn; empty if no reason was given.
    reason: str
    # Its age on the day.
    age: NotRequired[int]
    # Its own weight, in pounds.
    body_weight: NotRequired[int]
    # Its gear, as the authority writes it.
    gear: NotRequired[str]
    # The current jockey's identifier.
    jockey_id: NotRequired[str]
    # Its owner.
    owner: NotRequired[str]
    # Its rating.
    rating: NotRequired[int]
    # Whether it is a reserve.
    reserve: NotRequired[bool]
    # The trainer's identifier.
    trainer_id: NotRequired[str]


# The terms of each-way bets.
class EachWayTerms(TypedDict):
    # The number of places that are paid.
    places: int
    # A place pays this part of the win odds: 5 for a fifth.
    divisor: int


# The card of a race after it was declared or replaced, or its going changed. Withdrawals, riders and statuses have
# messages of their own.
CardUpdate = TypedDict(
    "CardUpdate",
    {
        "event": Literal["card_update"],
        # The meeting's date.
        "date": str,
        # The racecourse's name.
        "venue": str,
        # The racecourse's code.
        "venue_code": str,
        # The race's number.
        "race_number": int,
        # Empty if unknown.
        "race_name": str,
        # Metres; 0 if unknown.
        "distance": int,
        # Empty if unknown.
        "class": str,
        # Empty if unknown.
        "going": str,
        # The status of the race.
        "status": RaceStatus,
        # Empty if no reason was given.
        "status_reason": str,
        # The scheduled off, RFC 3339 in UTC; empty if unknown.
        "off_time": str,
        # The racecourse's time zone, IANA; empty if unknown.
        "time_zone": str,
        # In the order of the card, without withdrawn runners.
        "runners": list[RacecardRunner],
        # Withdrawn runners.
        "withdrawn": list[WithdrawnRunner],
        # When it happened according to the feeder, RFC 3339.
        "timestamp": str,
        # When the log stored it, RFC 3339, to the microsecond.
        "recorded_at": str,
        # The log sequence of the change.
        "seq": int,
        # The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source
        # and market; 0 if there is none.
        "prev_seq": int,
        # By the position of the rail, such as `C+3`.
        "course": "NotRequired[str]",
        # The terms of each-way bets; left out if unknown.
        "each_way": "NotRequired[EachWayTerms]",
        # Only in conflated messages that belong together: this is not the last of them.
        "more": "NotRequired[Literal[True]]",
        # In whole units of the currency.
        "prize": "NotRequired[int]",
        # Such as `HKD`.
        "prize_currency": "NotRequired[str]",
        # The ratings that the race is for, such as `60-40`.
        "rating_band": "NotRequired[str]",
        # Such as `TURF`.
        "surface": "NotRequired[str]",
    },
)


# The last message before the service closes the connection.
class Closing(TypedDict):
    event: Literal["closing"]
    # The WebSocket close code that follows.
    code: Literal[1001, 1002, 1003, 1007, 1008, 1009, 1013, 4401, 4403, 4408, 4429]
    # The reason in words.
    reason: str
    # Milliseconds to wait before connecting again; 0 if the same request would fail again.
    retry_after_ms: int


# How final the dividends of a race are. `pending`: None are declared yet. `provisional`: They may change. `official`:
# What is paid. `refund`: All stakes are returned.
RaceDividendsStatus = Literal["pending", "provisional", "official", "refund"]


# Why there is no dividend, or what kind it is. `no_winner`: Nobody won. `refund`: The stakes are refunded. `jackpot`:
# Nobody won, and the pool is carried over. `consolation`: Paid for less than the whole combination.
DividendState = Literal["no_winner", "refund", "jackpot", "consolation"]


# What a pool pays for a combination.
class DividendLine(TypedDict):
    # The code of the pool.
    pool: str
    # Saddle-cloth numbers; none if nobody won.
    combination: list[int]
    # The stake that the dividend is for.
    unit: float
    # What is paid for the unit; left out if there is no dividend.
    dividend: NotRequired[float]
    # Why there is no dividend, or what kind it is; left out for a plain one.
    state: NotRequired[DividendState]


# The dividends in force, after they were declared or amended.
class DividendsUpdate(TypedDict):
    event: Literal["dividends_update"]
    # The meeting's date.
    date: str
    # The racecourse's name.
    venue: str
    # The racecourse's code.
    venue_code: str
    # The race's number.
    race_number: int
    # How final they are.
    status: RaceDividendsStatus
    # A later statement has a higher revision.
    revision: int
    # Why they were amended or refunded; empty if no reason was given.
    reason: str
    # When the log stored the latest statement that replaced a final one, RFC 3339 in UTC; empty without one.
    amended_at: str
    # The currency of all amounts; empty while they are pending.
    currency: str
    # By pool, and as stated within a pool.
    dividends: list[DividendLine]
    # When it happened according to the feeder, RFC 3339.
    timestamp: str
    # When the log stored it, RFC 3339, to the microsecond.
    recorded_at: str
    # The log sequence of the change.
    seq: int
    # The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
    # market; 0 if there is none.
    prev_seq: int
    # Only in conflated messages that belong together: this is not the last of them.
    more: NotRequired[Literal[True]]


# A client message was rejected, and nothing has changed. The connection stays open.
class Error(TypedDict):
    event: Literal["error"]
    # The error code. `not_subscribed`: the client message names a list that is not in force.
    error: Literal["invalid_message", "unknown_op", "invalid_parameter", "not_replay", "not_subscribed"]
    # The id of the client message; null if it had none.
    id: str | float | None
    # The error in words.
    message: str


# Whether the feed receives what happens. `live`: Within the last 10 seconds, the views were known to reflect the whole
# log. `stale`: Not for 10 seconds, or the log cannot be reached. `down`: Not for 30 seconds.
FeedState = Literal["live", "stale", "down"]


# Whether a source is alive. `alive`: It has shown so within the last 20 seconds. `down`: Not for 20 seconds. `unknown`:
# This service is not connected to NATS.
SourceState = Literal["alive", "down", "unknown"]


# A feeder that shows that it is alive.
class SourceHealth(TypedDict):
    # Its name, as in its events.
    source: str
    # Whether it is alive.
    state: SourceState


# Whether the feed receives what happens, in heartbeats.
class FeedHealth(TypedDict):
    # Whether the views reflect the whole log.
    state: FeedState
    # When the log recorded the last event that the views reflect, RFC 3339; empty before the first.
    last_event_at: str
    # For how many milliseconds events have been delayed; 0 if none is.
    lag_ms: int
    # The feeders that show that they are alive, since the start of the service.
    sources: NotRequired[list[SourceHealth]]


# The state of a source has changed.
class FeedUpdate(TypedDict):
    event: Literal["feed_update"]
    # RFC 3339, to the microsecond.
    server_time: str
    # Whether the service receives what happens.
    feed: FeedHealth


# The connection is alive, with the health of the feed.
class Heartbeat(TypedDict):
    event: Literal["heartbeat"]
    # Everything for this client up to this log sequence has been sent.
    seq: int
    # When the log recorded the event at `seq`, RFC 3339, to the microsecond; empty if that is not known, as before the
    # first event.
    recorded_at: str
    # RFC 3339, to the microsecond.
    server_time: str
    # Whether the service receives what happens.
    feed: FeedHealth


# Why a runner or a combination has no price. `scratched`: It is withdrawn. `suspended`: Betting on it is suspended.
# `no_market`: Nobody makes a price.
PriceState = Literal["scratched", "suspended", "no_market"]


# A runner on the board. A missing price is null, and `state` is the reason.
class BoardRunner(TypedDict):
    # The horse.
    horse_no: str
    # Its saddle-cloth number; 0 if unknown.
    number: int
    # Its name; empty if unknown.
    horse_name: str
    # The win price.
    win: float | None
    # The place price.
    place: float | None
    # The first win price.
    opening: float | None
    # The win price before the current one.
    previous: float | None
    # Why the win price is missing.
    state: NotRequired[PriceState]


# The full image of a race's board, as in `/api/v1/odds/{date}/{race_number}`.
class OddsUpdate(TypedDict):
    event: Literal["odds_update"]
    # The meeting's date.
    date: str
    # The racecourse's name.
    venue: str
    # The racecourse's code.
    venue_code: str
    # The race's number.
    race_number: int
    # The status of the race at the latest change.
    status: RaceStatus
    # When the log stored the latest change, RFC 3339, to the microsecond; empty before the first quote.
    recorded_at: str
    # The log sequence of the latest change; 0 before the first quote.
    seq: int
    # The log sequence of the change before; 0 if there is none.
    prev_seq: int
    # The source of all prices; empty before the first quote.
    source: str
    # All runners that the source has quoted, ordered by number.
    runners: list[BoardRunner]
    # Only in a conflated message: how many updates were merged. `prev_seq` is the last `seq` that this client was sent.
    conflated: NotRequired[int]
    # Only in a conflated message: `client` (it asked for it) or `backpressure` (it was too slow).
    conflated_by: NotRequired[Literal["client", "backpressure"]]
    # Only in conflated messages that belong together: this is not the last of them.
    more: NotRequired[Literal[True]]
    # Only in a snapshot: the image as it is, whatever was sent before.
    snapshot: NotRequired[Literal[True]]


# The price of a combination.
class MarketPrice(TypedDict):
    # Saddle-cloth numbers, in the order of the finish where the pool asks for it.
    combination: list[int]
    # The highest price of a range.
    high: NotRequired[float]
    # The lowest price of a range.
    low: NotRequired[float]
    # The price; left out if there is none, and of a range.
    odds: NotRequired[float]
    # Why there is no price; left out if nothing was stated.
    state: NotRequired[PriceState]


# A runner's prices in a quote.
class QuotedPrices(TypedDict):
    # The horse.
    horse_no: str
    # The win price; null without one.
    win: float | None
    # The place price; left out if none was quoted.
    place: NotRequired[float]
    # Why there is no price; left out if nothing was stated.
    state: NotRequired[PriceState]


# Prices of a source in a market: those that it has quoted, as they are after the quote.
class Quote(TypedDict):
    event: Literal["quote"]
    # The meeting's date.
    date: str
    # The racecourse's name.
    venue: str
    # The racecourse's code.
    venue_code: str
    # The race's number.
    race_number: int
    # The feeder.
    source: str
    # The pool, or `win_place`.
    market: str
    # When it happened according to the feeder, RFC 3339.
    timestamp: str
    # When the log stored it, RFC 3339, to the microsecond.
    recorded_at: str
    # The log sequence of the change.
    seq: int
    # The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
    # market; 0 if there is none.
    prev_seq: int
    # Only in conflated messages that belong together: this is not the last of them.
    more: NotRequired[Literal[True]]
    # Only of another market: the quoted combinations.
    prices: NotRequired[list[MarketPrice]]
    # Only of `win_place`: the quoted runners.
    runners: NotRequired[list[QuotedPrices]]
    # Only in a snapshot: these are all prices of the source in the market, whatever was sent before.
    snapshot: NotRequired[Literal[True]]


# How final the result of a race is. `provisional`: Before weighing in, or during an objection. `official`: Official.
# `void`: The race or its result is void. `abandoned`: The race was abandoned and has no result.
RaceResultStatus = Literal["provisional", "official", "void", "abandoned"]


# A runner with an official placing.
class PlacedRunner(TypedDict):
    # 1 for the winner.
    position: int
    # The horse.
    horse_no: str
    # Its name; empty if unknown.
    horse_name: str
    # Its saddle-cloth number; 0 if unknown.
    number: int
    # Its draw; 0 if unknown.
    draw: int
    # Pounds carried; 0 if unknown.
    weight: int
    # Its jockey; empty if unknown.
    jockey: str
    # Its trainer; empty if unknown.
    trainer: str
    # m:ss.cc; empty if unknown.
    finish_time: str
    # Decimal; 0 if unknown.
    win_odds: float
    # Stakes won, in whole units of the currency.
    stakes: int
    # Such as `HKD`; empty if the result does not state it.
    stakes_currency: str
    # Its own weight, in pounds.
    body_weight: NotRequired[int]
    # How many runners share the position, if it is a dead heat.
    dead_heat: NotRequired[int]
    # Its gear, as the authority writes it.
    gear: NotRequired[str]
    # How far it was behind the winner.
    margin: NotRequired[str]
    # Its positions at the points of the race.
    running_positions: NotRequired[list[int]]
    # Its times of the sections of the race, m:ss.cc.
    sectionals: NotRequired[list[str]]


# A runner without an official placing.
class UnplacedRunner(TypedDict):
    # Why there is no placing: PU, UR, FE, DNF, DISQ, WV, ...
    outcome: str
    # The horse.
    horse_no: str
    # Its name; empty if unknown.
    horse_name: str
    # Its saddle-cloth number; 0 if unknown.
    number: int
    # Its draw; 0 if unknown.
    draw: int
    # Pounds carried; 0 if unknown.
    weight: int
    # Its jockey; empty if unknown.
    jockey: str
    # Its trainer; empty if unknown.
    trainer: str
    # m:ss.cc; empty if unknown.
    finish_time: str
    # Decimal; 0 if unknown.
    win_odds: float
    # Stakes won, in whole units of the currency.
    stakes: int
    # Such as `HKD`; empty if the result does not state it.
    stakes_currency: str
    # Its own weight, in pounds.
    body_weight: NotRequired[int]
    # How many runners share the position, if it is a dead heat.
    dead_heat: NotRequired[int]
    # Its gear, as the authority writes it.
    gear: NotRequired[str]
    # How far it was behind the winner.
    margin: NotRequired[str]
    # Its positions at the points of the race.
    running_positions: NotRequired[list[int]]
    # Its times of the sections of the race, m:ss.cc.
    sectionals: NotRequired[list[str]]


# The result in force, after it was declared, amended or voided.
ResultUpdate = TypedDict(
    "ResultUpdate",
    {
        "event": Literal["result_update"],
        # The meeting's date.
        "date": str,
        # The racecourse's name.
        "venue": str,
        # The racecourse's code.
        "venue_code": str,
        # The race's number.
        "race_number": int,
        # Empty if unknown.
        "race_name": str,
        # Metres; 0 if unknown.
        "distance": int,
        # Empty if unknown.
        "class": str,
        # Empty if unknown.
        "going": str,
        # How final it is.
        "status": RaceResultStatus,
        # A later statement has a higher revision; 0 without a statement.
        "revision": int,
        # Why it was amended, voided or abandoned; empty if no reason was given.
        "reason": str,
        # Placed runners, ordered by position. A dead heat repeats a position.
        "runners": list[PlacedRunner],
        # Runners without an official placing.
        "unplaced": list[UnplacedRunner],
        # When it happened according to the feeder, RFC 3339.
        "timestamp": str,
        # When the log stored it, RFC 3339, to the microsecond.
        "recorded_at": str,
        # The log sequence of the change.
        "seq": int,
        # The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source
        # and market; 0 if there is none.
        "prev_seq": int,
        # By the position of the rail, such as `C+3`.
        "course": "NotRequired[str]",
        # Only in conflated messages that belong together: this is not the last of them.
        "more": "NotRequired[Literal[True]]",
        # In whole units of the currency.
        "prize": "NotRequired[int]",
        # Such as `HKD`.
        "prize_currency": "NotRequired[str]",
        # The ratings that the race is for, such as `60-40`.
        "rating_band": "NotRequired[str]",
        # The times of the sections of the race, m:ss.cc; left out if unknown.
        "sectionals": "NotRequired[list[str]]",
        # Such as `TURF`.
        "surface": "NotRequired[str]",
    },
)


# Earlier messages no longer hold: discard every board and `seq`. Snapshots and `snapshot_complete` follow.
class Resync(TypedDict):
    event: Literal["resync"]
    # The log sequence that the views reflect.
    seq: int
    # Identifies the log.
    epoch: str
    # The reason in words.
    reason: str


# A runner was withdrawn or reinstated, or has another rider.
class RunnerUpdate(TypedDict):
    event: Literal["runner_update"]
    # The meeting's date.
    date: str
    # The racecourse's name.
    venue: str
    # The racecourse's code.
    venue_code: str
    # The race's number.
    race_number: int
    # What changed.
    change: Literal["withdrawn", "reinstated", "rider_changed"]
    # The horse.
    horse_no: str
    # Its name; empty if unknown.
    horse_name: str
    # Its saddle-cloth number; 0 if unknown.
    number: int
    # Its jockey after the change; empty if unknown.
    jockey: str
    # Pounds carried after the change; 0 if unknown.
    weight: int
    # The reason; empty if none was given.
    reason: str
    # When it happened according to the feeder, RFC 3339.
    timestamp: str
    # When the log stored it, RFC 3339, to the microsecond.
    recorded_at: str
    # The log sequence of the change.
    seq: int
    # The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
    # market; 0 if there is none.
    prev_seq: int
    # Only in conflated messages that belong together: this is not the last of them.
    more: NotRequired[Literal[True]]


# All requested snapshots or messages have been sent.
class SnapshotComplete(TypedDict):
    event: Literal["snapshot_complete"]
    # Everything up to this log sequence has been sent.
    seq: int
    # When the log recorded the event at `seq`, RFC 3339, to the microsecond; empty if that is not known, as before the
    # first event.
    recorded_at: str
    # Number of snapshots.
    races: int
    # Number of messages that a resume sent.
    replayed: int
    # The id of the client message that this answers, if it had one.
    id: NotRequired[str | float]


# The status of a race changed, or the reason for it.
class StatusUpdate(TypedDict):
    event: Literal["status_update"]
    # The meeting's date.
    date: str
    # The racecourse's name.
    venue: str
    # The racecourse's code.
    venue_code: str
    # The race's number.
    race_number: int
    # The status of the race.
    status: RaceStatus
    # The reason; empty if none was given.
    reason: str
    # When it happened according to the feeder, RFC 3339.
    timestamp: str
    # When the log stored it, RFC 3339, to the microsecond.
    recorded_at: str
    # The log sequence of the change.
    seq: int
    # The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
    # market; 0 if there is none.
    prev_seq: int
    # Only in conflated messages that belong together: this is not the last of them.
    more: NotRequired[Literal[True]]


# All messages of a replay, wherever it begins.
class PlaybackSpan(TypedDict):
    # When the log stored the first message.
    first_at: str
    # When the log stored the last message.
    last_at: str
    # The sequence of the last message: a heartbeat with this `seq` is the end.
    last_seq: int


# The first message.
class Welcome(TypedDict):
    event: Literal["welcome"]
    # The log sequence that the views reflect.
    seq: int
    # Identifies the log. Sequences of another epoch belong to another log.
    epoch: str
    # Whether the service receives what happens.
    feed: FeedHealth
    # RFC 3339, to the microsecond.
    server_time: str
    # How many races are followed.
    follows: Follows
    # The lists of the filter.
    filter: Filter
    # The kinds of messages about races that are sent.
    events: list[
        Literal["odds_update", "status_update", "runner_update", "result_update", "dividends_update", "card_update"]
    ]
    # Minimum time between two odds messages of a race, in milliseconds; 0 sends every update.
    conflate_ms: int
    # Time between two heartbeats, in milliseconds.
    heartbeat_ms: int
    # The markets whose quotes are sent; left out if there is none.
    markets: NotRequired[list[str]]
    # Why the client cannot resume.
    reason: NotRequired[Literal["other_epoch", "too_far_behind", "unproven", "other_history", "ahead"]]
    # Only after a request to resume: whether every message after `since` follows.
    recovered: NotRequired[bool]
    # All messages that a replay can play; only in a replay that has any.
    replay: NotRequired[PlaybackSpan]


# A kind of messages about races.
RaceEvent = Literal["card_update", "dividends_update", "odds_update", "result_update", "runner_update", "status_update"]


RaceMessage = CardUpdate | DividendsUpdate | OddsUpdate | Quote | ResultUpdate | RunnerUpdate | StatusUpdate
ServiceMessage = Ack | Closing | Error | FeedUpdate | Heartbeat | Resync | SnapshotComplete | Welcome
Message = RaceMessage | ServiceMessage
