import type { FilterRace, Message, RaceEvent, RaceMessage } from "./messages.js";

export type * from "./messages.js";

/** Races to follow: those that match at least one value of each list given. */
export interface FilterOptions {
  /** `YYYY-MM-DD`. */
  dates?: string[];
  /** Codes or names; case is ignored. */
  venues?: string[];
  /** Races, or numbers of races on any date at any venue. */
  races?: (FilterRace | number)[];
  /** Values of `horse_no`. */
  horses?: string[];
  /** Kinds of messages about races; all by default. */
  events?: RaceEvent[];
  /** Markets whose quotes are sent: pools, or `win_place`; none by default. */
  markets?: string[];
  /** Least time between two odds messages of a race; 0 by default, which sends each. */
  conflateMs?: number;
  /** Time between two heartbeats; 5,000 by default. A connection that is silent for twice as long is replaced. */
  heartbeatMs?: number;
}

export interface LiveOddsOptions extends FilterOptions {
  /** An API key. It is sent in the query, because browsers cannot set a header; it is in no event and no error. */
  apiKey?: string;
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

export interface PlayOptions {
  /** Seconds of the log in a second, 0.1 to 1,000. */
  speed?: number;
  paused?: boolean;
  /** When the log stored the next message that is played, RFC 3339. */
  seek?: string;
}

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
  /**
   * Throws a `TypeError` if an option has another name than those of `LiveOddsOptions`.
   *
   * @param url of the service or of `/ws/live/odds`, optionally with filters in its query; in browsers relative to the page
   */
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
  subscribe(filter?: FilterOptions): string;
  /** Removes values from the lists in force, or all. Returns the `id` of the answer: `ack` or `error`. */
  unsubscribe(filter?: FilterOptions): string;
  /** Requests a snapshot of each open race that is followed. Returns the `id` of the answers. */
  resync(): string;
  /**
   * Changes a replay, at `/ws/replay/odds`; what is left out stays as it is. Returns the `id` of the answer: `ack` or
   * `error`. After a `seek`, `resync` and snapshots follow.
   */
  play(change: PlayOptions): string;
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
