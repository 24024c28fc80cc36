// Made by script/client_types.py of schemas/asyncapi.json.

/**
 * How many races a client follows. `all`: Every race. `some`: Races that match the filter. `none`: No race, because a
 * list in force is empty.
 */
export type Follows = "all" | "some" | "none";

/** A race; on any date if `date` is left out, at any venue if `venue` is. */
export interface FilterRace {
  /** The race's number. */
  race_number: number;
  /** The meeting's date. */
  date?: string;
  /** The venue's code or name; case is ignored. */
  venue?: string;
}

/**
 * Selects races: a race must match at least one value of each list that is given. All lists together have at most 1,000
 * values.
 */
export interface Filter {
  /** Dates of meetings. */
  dates?: string[];
  /** Horses on the card or the board of a race. */
  horses?: string[];
  /** Races. */
  races?: FilterRace[];
  /** Codes or names of venues; case is ignored. */
  venues?: string[];
}

/** A client message was accepted. The values in force follow. */
export interface Ack {
  event: "ack";
  /** The op of the client message. */
  op: "subscribe" | "unsubscribe" | "resync" | "play" | "ping";
  /** The id of the client message; null if it had none. */
  id: string | number | null;
  /** Everything for this client up to this log sequence has been sent. */
  seq: number;
  /** RFC 3339, to the microsecond. */
  server_time: string;
  /** How many races are followed. */
  follows: Follows;
  /** The lists of the filter. */
  filter: Filter;
  /** The kinds of messages about races that are sent. */
  events: ("odds_update" | "status_update" | "runner_update" | "result_update" | "dividends_update" | "card_update")[];
  /** Minimum time between two odds messages of a race, in milliseconds; 0 sends every update. */
  conflate_ms: number;
  /** Time between two heartbeats, in milliseconds. */
  heartbeat_ms: number;
  /** The markets whose quotes are sent; left out if there is none. */
  markets?: string[];
  /** Why the client cannot resume. */
  reason?: "other_epoch" | "too_far_behind" | "unproven" | "other_history" | "ahead";
  /** Only after a request to resume: whether every message after `since` follows. */
  recovered?: boolean;
}

/**
 * The status of a race. `scheduled`: On the card, before betting. `open`: Betting is open. `closed`: Betting is closed.
 * `off`: The race has started. `finished`: The race has been run. `result`: A result has been declared. `abandoned`:
 * The race is not run.
 */
export type RaceStatus = "scheduled" | "open" | "closed" | "off" | "finished" | "result" | "abandoned";

/** A runner on a card. */
export interface RacecardRunner {
  /** The horse. */
  horse_no: string;
  /** Its name; empty if unknown. */
  horse_name: string;
  /** Its saddle-cloth number; 0 if unknown. */
  number: number;
  /** Its current jockey; empty if unknown. */
  jockey: string;
  /** Its trainer; empty if unknown. */
  trainer: string;
  /** Its draw; 0 if unknown. */
  draw: number;
  /** Pounds carried; 0 if unknown. */
  weight: number;
  /** Its age on the day. */
  age?: number;
  /** Its own weight, in pounds. */
  body_weight?: number;
  /** Its gear, as the authority writes it. */
  gear?: string;
  /** The current jockey's identifier. */
  jockey_id?: string;
  /** Its owner. */
  owner?: string;
  /** Its rating. */
  rating?: number;
  /** Whether it is a reserve. */
  reserve?: boolean;
  /** The trainer's identifier. */
  trainer_id?: string;
}

/** A withdrawn runner. */
export interface WithdrawnRunner {
  /** The horse. */
  horse_no: string;
  /** Its name; empty if unknown. */
  horse_name: string;
  /** Its saddle-cloth number; 0 if unknown. */
  number: number;
  /** Its current jockey; empty if unknown. */
  jockey: string;
  /** Its trainer; empty if unknown. */
  trainer: string;
  /** Its draw; 0 if unknown. */
  draw: number;
  /** Pounds carried; 0 if unknown. */
  weight: number;
  /** Why it was withdrawn; empty if no reason was given. */
  reason: string;
  /** Its age on the day. */
  age?: number;
  /** Its own weight, in pounds. */
  body_weight?: number;
  /** Its gear, as the authority writes it. */
  gear?: string;
  /** The current jockey's identifier. */
  jockey_id?: string;
  /** Its owner. */
  owner?: string;
  /** Its rating. */
  rating?: number;
  /** Whether it is a reserve. */
  reserve?: boolean;
  /** The trainer's identifier. */
  trainer_id?: string;
}

/** The terms of each-way bets. */
export interface EachWayTerms {
  /** The number of places that are paid. */
  places: number;
  /** A place pays this part of the win odds: 5 for a fifth. */
  divisor: number;
}

/**
 * The card of a race after it was declared or replaced, or its going changed. Withdrawals, riders and statuses have
 * messages of their own.
 */
export interface CardUpdate {
  event: "card_update";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** Empty if unknown. */
  race_name: string;
  /** Metres; 0 if unknown. */
  distance: number;
  /** Empty if unknown. */
  class: string;
  /** Empty if unknown. */
  going: string;
  /** The status of the race. */
  status: RaceStatus;
  /** Empty if no reason was given. */
  status_reason: string;
  /** The scheduled off, RFC 3339 in UTC; empty if unknown. */
  off_time: string;
  /** The racecourse's time zone, IANA; empty if unknown. */
  time_zone: string;
  /** In the order of the card, without withdrawn runners. */
  runners: RacecardRunner[];
  /** Withdrawn runners. */
  withdrawn: WithdrawnRunner[];
  /** When it happened according to the feeder, RFC 3339. */
  timestamp: string;
  /** When the log stored it, RFC 3339, to the microsecond. */
  recorded_at: string;
  /** The log sequence of the change. */
  seq: number;
  /**
   * The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
   * market; 0 if there is none.
   */
  prev_seq: number;
  /** By the position of the rail, such as `C+3`. */
  course?: string;
  /** The terms of each-way bets; left out if unknown. */
  each_way?: EachWayTerms;
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
  /** In whole units of the currency. */
  prize?: number;
  /** Such as `HKD`. */
  prize_currency?: string;
  /** The ratings that the race is for, such as `60-40`. */
  rating_band?: string;
  /** Such as `TURF`. */
  surface?: string;
}

/** The last message before the service closes the connection. */
export interface Closing {
  event: "closing";
  /** The WebSocket close code that follows. */
  code: 1001 | 1002 | 1003 | 1007 | 1008 | 1009 | 1013 | 4401 | 4403 | 4408 | 4429;
  /** The reason in words. */
  reason: string;
  /** Milliseconds to wait before connecting again; 0 if the same request would fail again. */
  retry_after_ms: number;
}

/**
 * How final the dividends of a race are. `pending`: None are declared yet. `provisional`: They may change. `official`:
 * What is paid. `refund`: All stakes are returned.
 */
export type RaceDividendsStatus = "pending" | "provisional" | "official" | "refund";

/**
 * Why there is no dividend, or what kind it is. `no_winner`: Nobody won. `refund`: The stakes are refunded. `jackpot`:
 * Nobody won, and the pool is carried over. `consolation`: Paid for less than the whole combination.
 */
export type DividendState = "no_winner" | "refund" | "jackpot" | "consolation";

/** What a pool pays for a combination. */
export interface DividendLine {
  /** The code of the pool. */
  pool: string;
  /** Saddle-cloth numbers; none if nobody won. */
  combination: number[];
  /** The stake that the dividend is for. */
  unit: number;
  /** What is paid for the unit; left out if there is no dividend. */
  dividend?: number;
  /** Why there is no dividend, or what kind it is; left out for a plain one. */
  state?: DividendState;
}

/** The dividends in force, after they were declared or amended. */
export interface DividendsUpdate {
  event: "dividends_update";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** How final they are. */
  status: RaceDividendsStatus;
  /** A later statement has a higher revision. */
  revision: number;
  /** Why they were amended or refunded; empty if no reason was given. */
  reason: string;
  /** When the log stored the latest statement that replaced a final one, RFC 3339 in UTC; empty without one. */
  amended_at: string;
  /** The currency of all amounts; empty while they are pending. */
  currency: string;
  /** By pool, and as stated within a pool. */
  dividends: DividendLine[];
  /** When it happened according to the feeder, RFC 3339. */
  timestamp: string;
  /** When the log stored it, RFC 3339, to the microsecond. */
  recorded_at: string;
  /** The log sequence of the change. */
  seq: number;
  /**
   * The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
   * market; 0 if there is none.
   */
  prev_seq: number;
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
}

/** A client message was rejected, and nothing has changed. The connection stays open. */
export interface Error {
  event: "error";
  /** The error code. `not_subscribed`: the client message names a list that is not in force. */
  error: "invalid_message" | "unknown_op" | "invalid_parameter" | "not_replay" | "not_subscribed";
  /** The id of the client message; null if it had none. */
  id: string | number | null;
  /** The error in words. */
  message: string;
}

/**
 * Whether the feed receives what happens. `live`: Within the last 10 seconds, the views were known to reflect the whole
 * log. `stale`: Not for 10 seconds, or the log cannot be reached. `down`: Not for 30 seconds.
 */
export type FeedState = "live" | "stale" | "down";

/**
 * Whether a source is alive. `alive`: It has shown so within the last 20 seconds. `down`: Not for 20 seconds.
 * `unknown`: This service is not connected to NATS.
 */
export type SourceState = "alive" | "down" | "unknown";

/** A feeder that shows that it is alive. */
export interface SourceHealth {
  /** Its name, as in its events. */
  source: string;
  /** Whether it is alive. */
  state: SourceState;
}

/** Whether the feed receives what happens, in heartbeats. */
export interface FeedHealth {
  /** Whether the views reflect the whole log. */
  state: FeedState;
  /** When the log recorded the last event that the views reflect, RFC 3339; empty before the first. */
  last_event_at: string;
  /** For how many milliseconds events have been delayed; 0 if none is. */
  lag_ms: number;
  /** The feeders that show that they are alive, since the start of the service. */
  sources?: SourceHealth[];
}

/** The state of a source has changed. */
export interface FeedUpdate {
  event: "feed_update";
  /** RFC 3339, to the microsecond. */
  server_time: string;
  /** Whether the service receives what happens. */
  feed: FeedHealth;
}

/** The connection is alive, with the health of the feed. */
export interface Heartbeat {
  event: "heartbeat";
  /** Everything for this client up to this log sequence has been sent. */
  seq: number;
  /**
   * When the log recorded the event at `seq`, RFC 3339, to the microsecond; empty if that is not known, as before the
   * first event.
   */
  recorded_at: string;
  /** RFC 3339, to the microsecond. */
  server_time: string;
  /** Whether the service receives what happens. */
  feed: FeedHealth;
}

/**
 * Why a runner or a combination has no price. `scratched`: It is withdrawn. `suspended`: Betting on it is suspended.
 * `no_market`: Nobody makes a price.
 */
export type PriceState = "scratched" | "suspended" | "no_market";

/** A runner on the board. A missing price is null, and `state` is the reason. */
export interface BoardRunner {
  /** The horse. */
  horse_no: string;
  /** Its saddle-cloth number; 0 if unknown. */
  number: number;
  /** Its name; empty if unknown. */
  horse_name: string;
  /** The win price. */
  win: number | null;
  /** The place price. */
  place: number | null;
  /** The first win price. */
  opening: number | null;
  /** The win price before the current one. */
  previous: number | null;
  /** Why the win price is missing. */
  state?: PriceState;
}

/** The full image of a race's board, as in `/api/v1/odds/{date}/{race_number}`. */
export interface OddsUpdate {
  event: "odds_update";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** The status of the race at the latest change. */
  status: RaceStatus;
  /** When the log stored the latest change, RFC 3339, to the microsecond; empty before the first quote. */
  recorded_at: string;
  /** The log sequence of the latest change; 0 before the first quote. */
  seq: number;
  /** The log sequence of the change before; 0 if there is none. */
  prev_seq: number;
  /** The source of all prices; empty before the first quote. */
  source: string;
  /** All runners that the source has quoted, ordered by number. */
  runners: BoardRunner[];
  /**
   * Only in a conflated message: how many updates were merged. `prev_seq` is the last `seq` that this client was sent.
   */
  conflated?: number;
  /** Only in a conflated message: `client` (it asked for it) or `backpressure` (it was too slow). */
  conflated_by?: "client" | "backpressure";
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
  /** Only in a snapshot: the image as it is, whatever was sent before. */
  snapshot?: true;
}

/** The price of a combination. */
export interface MarketPrice {
  /** Saddle-cloth numbers, in the order of the finish where the pool asks for it. */
  combination: number[];
  /** The highest price of a range. */
  high?: number;
  /** The lowest price of a range. */
  low?: number;
  /** The price; left out if there is none, and of a range. */
  odds?: number;
  /** Why there is no price; left out if nothing was stated. */
  state?: PriceState;
}

/** A runner's prices in a quote. */
export interface QuotedPrices {
  /** The horse. */
  horse_no: string;
  /** The win price; null without one. */
  win: number | null;
  /** The place price; left out if none was quoted. */
  place?: number;
  /** Why there is no price; left out if nothing was stated. */
  state?: PriceState;
}

/** Prices of a source in a market: those that it has quoted, as they are after the quote. */
export interface Quote {
  event: "quote";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** The feeder. */
  source: string;
  /** The pool, or `win_place`. */
  market: string;
  /** When it happened according to the feeder, RFC 3339. */
  timestamp: string;
  /** When the log stored it, RFC 3339, to the microsecond. */
  recorded_at: string;
  /** The log sequence of the change. */
  seq: number;
  /**
   * The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
   * market; 0 if there is none.
   */
  prev_seq: number;
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
  /** Only of another market: the quoted combinations. */
  prices?: MarketPrice[];
  /** Only of `win_place`: the quoted runners. */
  runners?: QuotedPrices[];
  /** Only in a snapshot: these are all prices of the source in the market, whatever was sent before. */
  snapshot?: true;
}

/**
 * How final the result of a race is. `provisional`: Before weighing in, or during an objection. `official`: Official.
 * `void`: The race or its result is void. `abandoned`: The race was abandoned and has no result.
 */
export type RaceResultStatus = "provisional" | "official" | "void" | "abandoned";

/** A runner with an official placing. */
export interface PlacedRunner {
  /** 1 for the winner. */
  position: number;
  /** The horse. */
  horse_no: string;
  /** Its name; empty if unknown. */
  horse_name: string;
  /** Its saddle-cloth number; 0 if unknown. */
  number: number;
  /** Its draw; 0 if unknown. */
  draw: number;
  /** Pounds carried; 0 if unknown. */
  weight: number;
  /** Its jockey; empty if unknown. */
  jockey: string;
  /** Its trainer; empty if unknown. */
  trainer: string;
  /** m:ss.cc; empty if unknown. */
  finish_time: string;
  /** Decimal; 0 if unknown. */
  win_odds: number;
  /** Stakes won, in whole units of the currency. */
  stakes: number;
  /** Such as `HKD`; empty if the result does not state it. */
  stakes_currency: string;
  /** Its own weight, in pounds. */
  body_weight?: number;
  /** How many runners share the position, if it is a dead heat. */
  dead_heat?: number;
  /** Its gear, as the authority writes it. */
  gear?: string;
  /** How far it was behind the winner. */
  margin?: string;
  /** Its positions at the points of the race. */
  running_positions?: number[];
  /** Its times of the sections of the race, m:ss.cc. */
  sectionals?: string[];
}

/** A runner without an official placing. */
export interface UnplacedRunner {
  /** Why there is no placing: PU, UR, FE, DNF, DISQ, WV, ... */
  outcome: string;
  /** The horse. */
  horse_no: string;
  /** Its name; empty if unknown. */
  horse_name: string;
  /** Its saddle-cloth number; 0 if unknown. */
  number: number;
  /** Its draw; 0 if unknown. */
  draw: number;
  /** Pounds carried; 0 if unknown. */
  weight: number;
  /** Its jockey; empty if unknown. */
  jockey: string;
  /** Its trainer; empty if unknown. */
  trainer: string;
  /** m:ss.cc; empty if unknown. */
  finish_time: string;
  /** Decimal; 0 if unknown. */
  win_odds: number;
  /** Stakes won, in whole units of the currency. */
  stakes: number;
  /** Such as `HKD`; empty if the result does not state it. */
  stakes_currency: string;
  /** Its own weight, in pounds. */
  body_weight?: number;
  /** How many runners share the position, if it is a dead heat. */
  dead_heat?: number;
  /** Its gear, as the authority writes it. */
  gear?: string;
  /** How far it was behind the winner. */
  margin?: string;
  /** Its positions at the points of the race. */
  running_positions?: number[];
  /** Its times of the sections of the race, m:ss.cc. */
  sectionals?: string[];
}

/** The result in force, after it was declared, amended or voided. */
export interface ResultUpdate {
  event: "result_update";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** Empty if unknown. */
  race_name: string;
  /** Metres; 0 if unknown. */
  distance: number;
  /** Empty if unknown. */
  class: string;
  /** Empty if unknown. */
  going: string;
  /** How final it is. */
  status: RaceResultStatus;
  /** A later statement has a higher revision; 0 without a statement. */
  revision: number;
  /** Why it was amended, voided or abandoned; empty if no reason was given. */
  reason: string;
  /** Placed runners, ordered by position. A dead heat repeats a position. */
  runners: PlacedRunner[];
  /** Runners without an official placing. */
  unplaced: UnplacedRunner[];
  /** When it happened according to the feeder, RFC 3339. */
  timestamp: string;
  /** When the log stored it, RFC 3339, to the microsecond. */
  recorded_at: string;
  /** The log sequence of the change. */
  seq: number;
  /**
   * The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
   * market; 0 if there is none.
   */
  prev_seq: number;
  /** By the position of the rail, such as `C+3`. */
  course?: string;
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
  /** In whole units of the currency. */
  prize?: number;
  /** Such as `HKD`. */
  prize_currency?: string;
  /** The ratings that the race is for, such as `60-40`. */
  rating_band?: string;
  /** The times of the sections of the race, m:ss.cc; left out if unknown. */
  sectionals?: string[];
  /** Such as `TURF`. */
  surface?: string;
}

/** Earlier messages no longer hold: discard every board and `seq`. Snapshots and `snapshot_complete` follow. */
export interface Resync {
  event: "resync";
  /** The log sequence that the views reflect. */
  seq: number;
  /** Identifies the log. */
  epoch: string;
  /** The reason in words. */
  reason: string;
}

/** A runner was withdrawn or reinstated, or has another rider. */
export interface RunnerUpdate {
  event: "runner_update";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** What changed. */
  change: "withdrawn" | "reinstated" | "rider_changed";
  /** The horse. */
  horse_no: string;
  /** Its name; empty if unknown. */
  horse_name: string;
  /** Its saddle-cloth number; 0 if unknown. */
  number: number;
  /** Its jockey after the change; empty if unknown. */
  jockey: string;
  /** Pounds carried after the change; 0 if unknown. */
  weight: number;
  /** The reason; empty if none was given. */
  reason: string;
  /** When it happened according to the feeder, RFC 3339. */
  timestamp: string;
  /** When the log stored it, RFC 3339, to the microsecond. */
  recorded_at: string;
  /** The log sequence of the change. */
  seq: number;
  /**
   * The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
   * market; 0 if there is none.
   */
  prev_seq: number;
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
}

/** All requested snapshots or messages have been sent. */
export interface SnapshotComplete {
  event: "snapshot_complete";
  /** Everything up to this log sequence has been sent. */
  seq: number;
  /**
   * When the log recorded the event at `seq`, RFC 3339, to the microsecond; empty if that is not known, as before the
   * first event.
   */
  recorded_at: string;
  /** Number of snapshots. */
  races: number;
  /** Number of messages that a resume sent. */
  replayed: number;
  /** The id of the client message that this answers, if it had one. */
  id?: string | number;
}

/** The status of a race changed, or the reason for it. */
export interface StatusUpdate {
  event: "status_update";
  /** The meeting's date. */
  date: string;
  /** The racecourse's name. */
  venue: string;
  /** The racecourse's code. */
  venue_code: string;
  /** The race's number. */
  race_number: number;
  /** The status of the race. */
  status: RaceStatus;
  /** The reason; empty if none was given. */
  reason: string;
  /** When it happened according to the feeder, RFC 3339. */
  timestamp: string;
  /** When the log stored it, RFC 3339, to the microsecond. */
  recorded_at: string;
  /** The log sequence of the change. */
  seq: number;
  /**
   * The `seq` of the previous message of the same `event` about the same race, and in a quote of the same source and
   * market; 0 if there is none.
   */
  prev_seq: number;
  /** Only in conflated messages that belong together: this is not the last of them. */
  more?: true;
}

/** All messages of a replay, wherever it begins. */
export interface PlaybackSpan {
  /** When the log stored the first message. */
  first_at: string;
  /** When the log stored the last message. */
  last_at: string;
  /** The sequence of the last message: a heartbeat with this `seq` is the end. */
  last_seq: number;
}

/** The first message. */
export interface Welcome {
  event: "welcome";
  /** The log sequence that the views reflect. */
  seq: number;
  /** Identifies the log. Sequences of another epoch belong to another log. */
  epoch: string;
  /** Whether the service receives what happens. */
  feed: FeedHealth;
  /** RFC 3339, to the microsecond. */
  server_time: string;
  /** How many races are followed. */
  follows: Follows;
  /** The lists of the filter. */
  filter: Filter;
  /** The kinds of messages about races that are sent. */
  events: ("odds_update" | "status_update" | "runner_update" | "result_update" | "dividends_update" | "card_update")[];
  /** Minimum time between two odds messages of a race, in milliseconds; 0 sends every update. */
  conflate_ms: number;
  /** Time between two heartbeats, in milliseconds. */
  heartbeat_ms: number;
  /** The markets whose quotes are sent; left out if there is none. */
  markets?: string[];
  /** Why the client cannot resume. */
  reason?: "other_epoch" | "too_far_behind" | "unproven" | "other_history" | "ahead";
  /** Only after a request to resume: whether every message after `since` follows. */
  recovered?: boolean;
  /** All messages that a replay can play; only in a replay that has any. */
  replay?: PlaybackSpan;
}

/** A kind of messages about races. */
export type RaceEvent =
  "card_update" | "dividends_update" | "odds_update" | "result_update" | "runner_update" | "status_update";

export type RaceMessage =
  CardUpdate | DividendsUpdate | OddsUpdate | Quote | ResultUpdate | RunnerUpdate | StatusUpdate;

export type ServiceMessage = Ack | Closing | Error | FeedUpdate | Heartbeat | Resync | SnapshotComplete | Welcome;

export type Message = RaceMessage | ServiceMessage;
