// @ts-check
/**
 * The live odds channel of railbird: keeps one connection, resumes it, and proves that no message is missing.
 * docs/live-odds.md describes the protocol, railbird.d.ts the types.
 *
 * @import { Filter, LiveOddsOptions, RacePattern, State } from "./railbird.d.ts"
 */

/** Heartbeats are this far apart until the service has sent its own value. */
const HEARTBEAT_MS_DEFAULT = 5000;
/** A connection on which nothing arrives for this many heartbeats is dead, also if the system calls it open. */
const SILENT_HEARTBEATS_MAX = 2;
/** The bounds of the random pause before another attempt: it doubles with each failure. */
const BACKOFF_MS_MIN = 1000;
const BACKOFF_MS_MAX = 30_000;
/** Time for the answer that says why a handshake was rejected. */
const REJECTION_MS_MAX = 5000;
/** Close codes after which the same request would fail again. */
const FINAL_CODES = [1002, 1003, 1007, 1009, 4401, 4403];
/** HTTP statuses of a handshake after which the same request would fail again. */
const FINAL_STATUSES = [400, 401, 403, 404];
/** Races times kinds of messages of which the last `seq` is kept: more than a year of racing. */
const LAST_SEQS_MAX = 100_000;
/** Lists of a filter, by their names in a query. */
const LISTS = /** @type {const} */ ({ date: "dates", venue: "venues", race: "races", horse: "horses" });

/**
 * Follows the live odds channel through lost connections and restarts of the service.
 *
 * Events: `message` with every message of the service as `detail`, in order, without those received before; `state`
 * with the {@link State}, when anything in it but `seq` and `lastMessageAt` has changed.
 */
export class LiveOdds extends EventTarget {
  #url;
  #query;
  #apiKey;
  /** @type {State} */
  #state = {
    phase: "closed",
    reason: "",
    code: null,
    retryInMs: null,
    recovered: null,
    gaps: 0,
    lastGap: null,
    seq: null,
    lastMessageAt: null,
  };
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #heartbeatMs;
  #receivedAt = 0;
  #failures = 0;
  /** The state of the feed, as in the last heartbeat. @type {"live" | "stale" | "down"} */
  #feed = "live";
  #welcomed = false;
  /** The `closing` message of this connection. @type {any} */
  #closing = null;
  #epoch = "";
  /** The latest message that counts. @type {{ seq: number, recorded_at: string } | null} */
  #position = null;
  /** The last message of each kind about each race. @type {Map<string, any>} */
  #last = new Map();
  /** Requests that are not completed. They are sent again after a reconnect. @type {Map<string, any>} */
  #requests = new Map();
  #requestCount = 0;

  /**
   * @param {string | URL} url of `/ws/live/odds`; in browsers relative to the page
   * @param {LiveOddsOptions} [options]
   */
  constructor(url, { apiKey, ...filter } = {}) {
    super();
    this.#url = new URL(url, globalThis.location?.href);
    this.#url.protocol = this.#url.protocol.replace("http", "ws");
    this.#query = new URLSearchParams(this.#url.search);
    this.#apiKey = apiKey ?? this.#query.get("api_key");
    this.#query.delete("api_key");
    this.#url.search = "";
    this.#heartbeatMs = filter.heartbeatMs ?? HEARTBEAT_MS_DEFAULT;
    const request = toRequest(filter);
    for (const [name, value] of toQuery(request, request)) {
      if (value !== undefined) this.#query.set(name, value);
    }
  }

  /** @returns {State} */
  get state() {
    return { ...this.#state };
  }

  /** A key for the next connection, after the one before was revoked. */
  set apiKey(/** @type {string} */ key) {
    this.#apiKey = key;
  }

  /** Connects, and stays connected until {@link close} or a final error. Ends a pause between attempts. */
  connect() {
    if (this.#socket) return;
    clearTimeout(this.#timer);
    this.#change({ phase: "connecting", retryInMs: null });
    const socket = new WebSocket(this.#address());
    let opened = false;
    this.#socket = socket;
    this.#welcomed = false;
    this.#closing = null;
    this.#feed = "live";
    socket.onopen = () => (opened = true);
    socket.onmessage = ({ data }) => this.#receive(data);
    // Some systems report a failed connection as an error alone, others as an error and a close.
    socket.onerror = () => (opened ? this.#lose("the connection was lost") : this.#explain(socket));
    socket.onclose = ({ code, reason }) =>
      opened ? this.#lose(reason || "the connection was lost", code) : this.#explain(socket);
    this.#receivedAt = performance.now();
    this.#watch();
  }

  /** Closes the connection. {@link connect} resumes after the last message. */
  close() {
    this.#disconnect();
    this.#change({ phase: "closed", reason: "closed by this client", code: null, retryInMs: null });
  }

  /**
   * Replaces the lists in force; without a list, everything is followed.
   *
   * @param {Filter} [filter]
   * @returns {string} the `id` of the answers: `ack`, `snapshot_complete`, or `error`
   */
  subscribe(filter = {}) {
    return this.#request("subscribe", toRequest(filter));
  }

  /**
   * Removes values from the lists in force; without a list, no race is followed any more.
   *
   * @param {Filter} [filter]
   * @returns {string} the `id` of the answer: `ack` or `error`
   */
  unsubscribe(filter = {}) {
    return this.#request("unsubscribe", toRequest(filter));
  }

  /** Requests a snapshot of each open race that is followed. @returns {string} the `id` of the answers */
  resync() {
    return this.#request("resync", {});
  }

  /** @param {string} op @param {object} values */
  #request(op, values) {
    const id = `${++this.#requestCount}`;
    const request = { op, id, ...values };
    this.#requests.set(id, { request, ack: null });
    if (this.#welcomed) this.#socket?.send(JSON.stringify(request));
    return id;
  }

  /** The address with the subscription in force, and with the position to resume from. It holds the key. */
  #address() {
    const url = new URL(this.#url);
    const query = new URLSearchParams(this.#query);
    if (this.#position) {
      query.set("since", `${this.#position.seq}`);
      query.set("recorded_at", this.#position.recorded_at);
      query.set("epoch", this.#epoch);
    }
    // Browsers cannot set a header.
    if (this.#apiKey) query.set("api_key", this.#apiKey);
    url.search = `${query}`;
    return url;
  }

  /** Notices a connection that is open, but dead. */
  #watch() {
    clearTimeout(this.#timer);
    const left = this.#receivedAt + SILENT_HEARTBEATS_MAX * this.#heartbeatMs - performance.now();
    if (left > 0) this.#timer = setTimeout(() => this.#watch(), left);
    else this.#lose("no heartbeat");
  }

  /** @param {string} data */
  #receive(data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return this.#lose("a message that is not JSON");
    }
    this.#receivedAt = performance.now();
    this.#state.lastMessageAt = Date.now();
    if ("prev_seq" in message && !this.#isNew(message)) return;
    this.#handle(message);
    this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }

  /** Whether a message about a race was not received before. Notes a gap. @param {any} message */
  #isNew(message) {
    const { event, date, venue, venue_code, race_number, seq, prev_seq, snapshot } = message;
    const key = `${event} ${date} ${venue_code} ${race_number}`;
    const last = snapshot ? undefined : this.#last.get(key)?.seq;
    if (last !== undefined && seq <= last) return false;
    if (last !== undefined && prev_seq !== 0 && prev_seq !== last) {
      this.#change({ gaps: this.#state.gaps + 1, lastGap: { after: last, message } });
    }
    this.#last.delete(key);
    this.#last.set(key, { event, date, venue, venue_code, race_number, seq });
    if (this.#last.size > LAST_SEQS_MAX) this.#last.delete(this.#last.keys().next().value ?? "");
    return true;
  }

  /** @param {any} message */
  #handle(message) {
    const request = this.#requests.get(message.id);
    if (message.event === "welcome") this.#welcome(message);
    if (message.event === "resync") this.#discard(message);
    if (message.event === "heartbeat") this.#feed = message.feed?.state ?? "live";
    if (message.event === "closing") this.#closing = message;
    if (message.event === "error") this.#requests.delete(message.id);
    if (message.event === "ack" && request) this.#acknowledge(request, message);
    if (message.event === "snapshot_complete" && request) this.#complete(request);
    this.#count(message);
    if (message.event === "snapshot_complete" || message.event === "heartbeat") {
      if (this.#position) this.#change({ phase: this.#feed, reason: "", code: null });
    }
  }

  /** @param {any} message */
  #welcome(message) {
    this.#welcomed = true;
    this.#setInForce(message);
    if (!message.recovered) this.#discard(message);
    this.#epoch = message.epoch;
    this.#change({ recovered: message.recovered ?? null, reason: message.reason ?? "" });
    for (const { request } of this.#requests.values()) this.#socket?.send(JSON.stringify(request));
  }

  /** Earlier messages no longer hold; snapshots follow. @param {any} message */
  #discard({ epoch, reason = "" }) {
    this.#epoch = epoch;
    this.#position = null;
    this.#state.seq = null;
    this.#last.clear();
    this.#change({ phase: "connecting", reason });
  }

  /** @param {any} request @param {any} ack */
  #acknowledge(request, ack) {
    request.ack = ack;
    // Races that are not followed any more may change unseen. If they are followed again, that is no gap.
    for (const [key, last] of this.#last) if (!follows(ack, last)) this.#last.delete(key);
    if (ack.op === "unsubscribe") this.#complete(request);
  }

  /** @param {any} request */
  #complete({ request, ack }) {
    this.#requests.delete(request.id);
    if (ack) this.#setInForce(ack);
  }

  /** The values with which to connect again. @param {any} values */
  #setInForce(values) {
    this.#heartbeatMs = values.heartbeat_ms ?? this.#heartbeatMs;
    this.#watch();
    if (!values.filter) return;
    for (const [name, value] of toQuery(values, values.filter)) {
      if (value === undefined) this.#query.delete(name);
      else this.#query.set(name, value);
    }
  }

  /** Remembers the position of a message that counts. @param {any} message */
  #count({ event, seq, recorded_at, more }) {
    const complete = event === "snapshot_complete";
    if (!complete && (!this.#position || recorded_at === undefined || more)) return;
    // After a `subscribe` or `resync`, only its `snapshot_complete` counts.
    if (!complete && [...this.#requests.values()].some(({ request }) => request.op !== "unsubscribe")) return;
    this.#position = { seq, recorded_at };
    this.#state.seq = seq;
    this.#failures = 0;
  }

  /** Why the handshake failed: scripts are not told, but a GET of the same address has the same error. */
  async #explain(/** @type {WebSocket} */ socket) {
    socket.onerror = socket.onclose = null;
    const url = this.#address();
    url.protocol = url.protocol.replace("ws", "http");
    let reason = "no connection";
    let code = null;
    let wait = null;
    try {
      const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(REJECTION_MS_MAX) });
      // 426 asks for a handshake: nothing is wrong with the request.
      if (response.status !== 426) {
        code = response.status;
        wait = 1000 * Number(response.headers.get("Retry-After"));
        reason = `HTTP ${code}`;
        reason = (await response.json()).message ?? reason;
      }
    } catch {
      // No answer, or one that is not from the service.
    }
    if (this.#socket === socket) this.#lose(reason, code, wait);
  }

  /**
   * @param {string} reason
   * @param {number | null} [code] a close code or an HTTP status
   * @param {number | null} [wait] milliseconds for which the service asks
   */
  #lose(reason, code = null, wait = null) {
    const { reason: why = reason, code: closed = code, retry_after_ms: after = wait } = this.#closing ?? {};
    this.#disconnect();
    if (after === 0 && this.#closing || FINAL_CODES.includes(closed) || FINAL_STATUSES.includes(closed)) {
      return this.#change({ phase: "closed", reason: why, code: closed, retryInMs: null });
    }
    const pause = Math.random() * Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** this.#failures++);
    const retryInMs = Math.ceil(this.#closing ? after : pause + (after ?? 0));
    this.#timer = setTimeout(() => this.connect(), retryInMs);
    this.#change({ phase: "waiting", reason: why, code: closed, retryInMs });
  }

  #disconnect() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    this.#welcomed = false;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onerror = socket.onclose = null;
    socket.close();
  }

  /** @param {Partial<State>} values */
  #change(values) {
    const before = this.#state;
    this.#state = { ...before, ...values };
    const names = /** @type {(keyof State)[]} */ (Object.keys(values));
    if (names.every((name) => before[name] === this.#state[name])) return;
    this.dispatchEvent(new CustomEvent("state", { detail: this.state }));
  }
}

/** The fields of a client message. @param {Filter} filter */
function toRequest({ races, conflateMs, heartbeatMs, ...lists }) {
  const pattern = (/** @type {RacePattern | number} */ race) =>
    typeof race === "number" ? { race_number: race } : race;
  return { ...lists, races: races?.map(pattern), conflate_ms: conflateMs, heartbeat_ms: heartbeatMs };
}

/**
 * The parameters of a query, `undefined` for those that are left out.
 *
 * @param {any} values
 * @param {any} filter
 * @returns {[string, string | undefined][]}
 */
function toQuery({ events, conflate_ms, heartbeat_ms }, filter) {
  const race = (/** @type {RacePattern} */ { date, venue, race_number }) =>
    [date, venue, race_number].filter((part) => part !== undefined).join("/");
  const lists = { ...filter, races: filter.races?.map(race) };
  return [
    ...Object.entries(LISTS).map(([name, list]) => /** @type {const} */ ([name, lists[list]?.join()])),
    ["events", events?.join()],
    ["conflate_ms", conflate_ms?.toString()],
    ["heartbeat_ms", heartbeat_ms?.toString()],
  ];
}

/** Whether a message about a race surely matches the values in force. @param {any} values @param {any} message */
function follows({ filter, events }, message) {
  const same = (/** @type {string} */ one, /** @type {string} */ other) =>
    one.toLowerCase() === other.toLowerCase();
  const isAt = (/** @type {string} */ venue) => same(venue, message.venue) || same(venue, message.venue_code);
  const isRace = (/** @type {RacePattern} */ { date = message.date, venue, race_number }) =>
    date === message.date && race_number === message.race_number && (venue === undefined || isAt(venue));
  return (
    (events?.includes(message.event) ?? true) &&
    (filter.dates?.includes(message.date) ?? true) &&
    (filter.venues?.some(isAt) ?? true) &&
    (filter.races?.some(isRace) ?? true) &&
    // Horses of a race change with its card.
    !filter.horses
  );
}
