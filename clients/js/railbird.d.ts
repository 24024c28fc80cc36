/** Races to follow: those that match at least one value of each list given. */
export interface Filter {
  /** `YYYY-MM-DD`. */
  dates?: string[];
  /** Codes or names; case is ignored. */
  venues?: string[];
  /** Races, or numbers of races on any date at any venue. */
  races?: (RacePattern | number)[];
  /** Values of `horse_no`. */
  horses?: string[];
  /** Kinds of messages about races; all by default. */
  events?: RaceEvent[];
  /** Least time between two odds messages of a race; 0 by default, which sends each. */
  conflateMs?: number;
  /** Time between two heartbeats; 5,000 by default. A connection that is silent for twice as long is replaced. */
  heartbeatMs?: number;
}

export interface LiveOddsOptions extends Filter {
  /** An API key. It is sent in the query, because browsers cannot set a header; it is in no event and no error. */
  apiKey?: string;
}

export interface RacePattern {
  date?: string;
  venue?: string;
  race_number: number;
}

export interface State {
  /**
   * - `connecting`: no connection yet, or snapshots or missed messages still arrive
   * - `live`, `stale`, `down`: everything was received up to now; the service's own state of its feed
   * - `waiting`: the connection was lost, and the next attempt is in `retryInMs`
   * - `closed`: by `close`, or because the same request would fail again, with `reason` and `code`
   */
  phase: "connecting" | "live" | "stale" | "down" | "waiting" | "closed";
  /** Why, for people; empty while all is well. */
  reason: string;
  /** The close code, or the HTTP status of a rejected handshake. */
  code: number | null;
  /** The pause before the next attempt. */
  retryInMs: number | null;
  /** Whether the last reconnect resumed without a loss; `null` before the first one. If not, discard every board. */
  recovered: boolean | null;
  /** Gaps found in the messages since the start. There must be none. */
  gaps: number;
  /** The last gap: the message that shows it, and the `seq` after which messages are missing. */
  lastGap: { after: number; message: RaceMessage } | null;
  /** Everything was received up to this log sequence. */
  seq: number | null;
  /** When a message last arrived, as `Date.now()`. */
  lastMessageAt: number | null;
}

export type RaceEvent = RaceMessage["event"];

interface OfRace {
  date: string;
  venue: string;
  venue_code: string;
  race_number: number;
  recorded_at: string;
  seq: number;
  prev_seq: number;
  more?: true;
}

export interface Quote {
  horse_no: string;
  number: number;
  horse_name: string;
  win: number | null;
  place: number | null;
  opening: number | null;
  previous: number | null;
  /** Why there is no price. */
  state?: "scratched" | "suspended" | "no_market";
}

export interface OddsUpdate extends OfRace {
  event: "odds_update";
  snapshot?: true;
  conflated?: number;
  conflated_by?: "client" | "backpressure";
  status: string;
  runners: Quote[];
}

export interface StatusUpdate extends OfRace {
  event: "status_update";
  status: string;
  reason: string;
  timestamp: string;
}

export interface RunnerUpdate extends OfRace {
  event: "runner_update";
  change: "withdrawn" | "reinstated" | "rider_changed";
  horse_no: string;
  horse_name: string;
  number: number;
  jockey: string;
  weight: number;
  reason: string;
  timestamp: string;
}

export interface ResultUpdate extends OfRace {
  event: "result_update";
  status: "provisional" | "official" | "void";
  revision: number;
  reason: string;
  race_name: string;
  distance: number;
  class: string;
  going: string;
  runners: Record<string, unknown>[];
  unplaced: Record<string, unknown>[];
  timestamp: string;
}

export type RaceMessage = OddsUpdate | StatusUpdate | RunnerUpdate | ResultUpdate;

interface InForce {
  server_time: string;
  recovered?: boolean;
  reason?: string;
  follows: "all" | "some" | "none";
  filter: { dates?: string[]; venues?: string[]; races?: RacePattern[]; horses?: string[] };
  events: RaceEvent[];
  conflate_ms: number;
  heartbeat_ms: number;
}

export interface Welcome extends InForce {
  event: "welcome";
  seq: number;
  epoch: string;
  feed: FeedHealth;
}

export interface Ack extends InForce {
  event: "ack";
  op: "subscribe" | "unsubscribe" | "resync" | "ping";
  id: string | number | null;
  seq: number;
}

export interface SnapshotComplete {
  event: "snapshot_complete";
  id?: string | number;
  seq: number;
  recorded_at: string;
  races: number;
  replayed: number;
}

export interface Heartbeat {
  event: "heartbeat";
  seq: number;
  recorded_at: string;
  server_time: string;
  feed: FeedHealth;
}

/** Whether the service receives what happens. */
export interface FeedHealth {
  state: "live" | "stale" | "down";
  last_event_at: string;
  lag_ms: number;
}

export interface Resync {
  event: "resync";
  seq: number;
  epoch: string;
  reason: string;
}

export interface Closing {
  event: "closing";
  code: number;
  reason: string;
  retry_after_ms: number;
}

export interface RequestError {
  event: "error";
  error: "invalid_message" | "unknown_op" | "invalid_parameter" | "not_subscribed";
  id: string | number | null;
  message: string;
}

/** Every message of the service. Later versions may send others: ignore them. */
export type Message = RaceMessage | Welcome | Ack | SnapshotComplete | Heartbeat | Resync | Closing | RequestError;

interface LiveOddsEvents {
  message: CustomEvent<Message>;
  state: CustomEvent<State>;
}

/**
 * Follows the live odds channel through lost connections and restarts of the service.
 *
 * `message` events have every message of the service, in order, without those received before. After a `welcome`
 * without `recovered: true` and after a `resync`, discard every board. `state` events have the state, when anything in
 * it but `seq` and `lastMessageAt` has changed.
 */
export class LiveOdds extends EventTarget {
  /** @param url of `/ws/live/odds`, optionally with filters in its query; in browsers relative to the page */
  constructor(url: string | URL, options?: LiveOddsOptions);
  get state(): State;
  /** A key for the next connection, for example after the one before was rotated. */
  set apiKey(key: string);
  /** Connects, and stays connected until `close` or a final error. Ends a pause between attempts. */
  connect(): void;
  /**
   * Closes the connection. `connect` then resumes after the last message. Node keeps a program running until the
   * service has answered: if the connection is dead, `process.exit` ends it.
   */
  close(): void;
  /** Replaces the lists in force. Returns the `id` of the answers: `ack` and `snapshot_complete`, or `error`. */
  subscribe(filter?: Filter): string;
  /** Removes values from the lists in force, or all. Returns the `id` of the answer: `ack` or `error`. */
  unsubscribe(filter?: Filter): string;
  /** Requests a snapshot of each open race that is followed. Returns the `id` of the answers. */
  resync(): string;
  addEventListener<K extends keyof LiveOddsEvents>(
    type: K,
    listener: ((event: LiveOddsEvents[K]) => void) | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener<K extends keyof LiveOddsEvents>(
    type: K,
    listener: ((event: LiveOddsEvents[K]) => void) | null,
    options?: boolean | EventListenerOptions,
  ): void;
  removeEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | EventListenerOptions,
  ): void;
}
