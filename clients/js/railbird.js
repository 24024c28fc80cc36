// The live odds channel of railbird: keeps one connection, resumes it, and proves that no message is missing.
// docs/live-odds.md describes the protocol, railbird.d.ts the types and the meaning of each value.

const HEARTBEAT_MS_DEFAULT = 5000; // Until the service has sent its own value.
// A connection on which nothing arrives for this many heartbeats is dead, also if the system calls it open.
const SILENT_HEARTBEATS_MAX = 2;
// The bounds of the random pause before another attempt: it doubles with each failure.
const BACKOFF_MS_MIN = 1000;
const BACKOFF_MS_MAX = 30_000;
const REJECTION_MS_MAX = 5000; // For the answer that says why a handshake was rejected.
// Close codes and HTTP statuses after which the same request would fail again.
const FINAL_CODES = [1002, 1003, 1007, 1009, 4401, 4403, 400, 401, 403, 404];
const FILTERS = ["dates", "venues", "races", "horses", "events", "markets", "conflateMs", "heartbeatMs"];
// Races times kinds of messages of which the last `seq` is kept: more than a year of racing.
const LAST_SEQS_MAX = 100_000;

/** Follows the live odds channel through lost connections and restarts of the service. */
export class LiveOdds extends EventTarget {
  #url;
  #apiKey;
  #query; // The parameters of the subscription in force.
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
  #socket = null;
  #welcomed = false;
  #timer;
  #heartbeatMs;
  #receivedAt = 0;
  #failures = 0;
  #feed = "live"; // The state of the feed, as the service last sent it.
  #closing = null; // The `closing` message of this connection.
  #epoch;
  #position = null; // The latest message that counts, as the parameters of a resume.
  #last = new Map(); // The last `seq` of each kind of message about each race.
  #filterSeq = 0; // The filter in force is the same since this `seq`.
  // Requests that are not completed, by their id. They are sent again after a reconnect.
  #requests = new Map();
  #requestCount = 0;

  constructor(url, options = {}) {
    super();
    this.#url = new URL(url, globalThis.location?.href);
    this.#url.pathname = this.#url.pathname.replace(/\/+$/, "") || "/ws/live/odds";
    this.#url.protocol = this.#url.protocol.replace("http", "ws");
    this.#query = new URLSearchParams(this.#url.search);
    this.#url.search = "";
    this.#apiKey = options.apiKey ?? this.#query.get("api_key");
    this.#query.delete("api_key");
    this.#heartbeatMs = options.heartbeatMs ?? HEARTBEAT_MS_DEFAULT;
    const request = toRequest(options, ["apiKey", ...FILTERS]);
    for (const [name, value] of toQuery(request, request)) if (value !== undefined) this.#query.set(name, value);
  }

  get state() {
    return { ...this.#state };
  }

  set apiKey(key) {
    this.#apiKey = key;
  }

  connect() {
    if (this.#socket) return;
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.#address());
    let opened = false;
    const end = (code, reason) =>
      opened ? this.#lose(reason || "the connection was lost", code) : this.#explain(socket);
    socket.onopen = () => (opened = true);
    socket.onmessage = ({ data }) => this.#receive(data);
    // Node reports a connection that cannot be made as an error alone.
    socket.onerror = () => end();
    socket.onclose = ({ code, reason }) => end(code, reason);
    this.#socket = socket;
    this.#closing = null;
    this.#receivedAt = performance.now();
    this.#watch();
    this.#change({ phase: "connecting", retryInMs: null });
  }

  close() {
    this.#disconnect();
    this.#change({ phase: "closed", reason: "closed by this client", code: null, retryInMs: null });
  }

  subscribe(filter = {}) {
    return this.#request("subscribe", toRequest(filter));
  }

  unsubscribe(filter = {}) {
    return this.#request("unsubscribe", toRequest(filter));
  }

  resync() {
    return this.#request("resync", {});
  }

  play(change) {
    return this.#request("play", change);
  }

  #request(op, values) {
    const id = `${++this.#requestCount}`;
    const request = { op, id, ...values };
    this.#requests.set(id, { request });
    if (this.#welcomed) this.#socket.send(JSON.stringify(request));
    return id;
  }

  // The address with the subscription in force and the position to resume from. It holds the key: show it nowhere.
  #address() {
    const url = new URL(this.#url);
    // A browser can set no header.
    const key = this.#apiKey ? { api_key: this.#apiKey } : {};
    url.search = new URLSearchParams({ ...Object.fromEntries(this.#query), ...this.#position, ...key });
    return url;
  }

  // Ends a connection that is open, but dead.
  #watch() {
    clearTimeout(this.#timer);
    const left = this.#receivedAt + SILENT_HEARTBEATS_MAX * this.#heartbeatMs - performance.now();
    if (left > 0) this.#timer = setTimeout(() => this.#watch(), left);
    else this.#lose(this.#welcomed ? "no heartbeat" : "no answer");
  }

  #receive(data) {
    let message = null;
    try {
      message = JSON.parse(data);
    } catch {
      // A number or a text is no message either.
    }
    if (!message?.event) return this.#lose("a message of another protocol");
    this.#receivedAt = performance.now();
    this.#state.lastMessageAt = Date.now();
    if ("prev_seq" in message && !this.#isNew(message)) return;
    this.#handle(message);
    this.dispatchEvent(new CustomEvent("message", { detail: message }));
  }

  // Whether a message about a race was not received before. Notes a gap.
  #isNew(message) {
    const market = message.event === "quote" ? [message.source, message.market] : [];
    const key = [message.event, message.date, message.venue_code, message.race_number, ...market].join();
    const last = message.snapshot ? undefined : this.#last.get(key);
    if (message.seq <= last) return false;
    // A race that was not followed for a while has changed unseen: no gap.
    if (last !== undefined && message.prev_seq !== last && message.prev_seq > this.#filterSeq)
      this.#change({ gaps: this.#state.gaps + 1, lastGap: { after: last, message } });
    this.#last.set(key, message.seq);
    if (this.#last.size > LAST_SEQS_MAX) this.#last.delete(this.#last.keys().next().value);
    return true;
  }

  #handle(message) {
    const { event, id } = message;
    const isComplete = event === "snapshot_complete";
    const request = this.#requests.get(id);
    if (event === "closing") this.#closing = message;
    if (event === "error") this.#requests.delete(id);
    if (message.feed) this.#feed = message.feed.state;
    if (event === "ack" && request) this.#acknowledge(request, message);
    if (isComplete && request) this.#complete(request);
    if (isComplete || this.#counts(message)) {
      this.#position = { since: message.seq, recorded_at: message.recorded_at, epoch: this.#epoch };
      this.#state.seq = message.seq;
      this.#failures = 0;
    }
    if (event === "resync" || (event === "welcome" && !message.recovered)) this.#discard(message.epoch);
    if (event === "welcome") {
      this.#setInForce(message);
      this.#welcomed = true;
      for (const { request } of this.#requests.values()) this.#socket.send(JSON.stringify(request));
    }
    const { reason = "", recovered = null } = message;
    // A listener may close this client: nothing follows a change.
    if (event === "resync") this.#change({ phase: "connecting", reason });
    if (event === "welcome") this.#change({ phase: "connecting", reason, recovered });
    if (isComplete || (event === "heartbeat" && this.#state.phase !== "connecting"))
      this.#change({ phase: this.#feed, reason: "", code: null });
  }

  #counts({ recorded_at, more }) {
    if (!this.#position || recorded_at === undefined || more) return false;
    // After a `subscribe` or `resync`, only its `snapshot_complete` counts.
    return [...this.#requests.values()].every(({ request }) => request.op === "unsubscribe");
  }

  // Earlier messages no longer hold; snapshots follow.
  #discard(epoch) {
    this.#epoch = epoch;
    this.#position = this.#state.seq = null;
    this.#last.clear();
    this.#filterSeq = 0;
  }

  #acknowledge(request, ack) {
    request.ack = ack;
    if (ack.op === "play") return this.#requests.delete(ack.id);
    if (ack.op !== "resync") this.#filterSeq = ack.seq;
    if (ack.op === "unsubscribe") this.#complete(request);
  }

  #complete({ request, ack }) {
    this.#requests.delete(request.id);
    this.#setInForce(ack);
  }

  // Takes the values with which to connect again.
  #setInForce(values) {
    this.#heartbeatMs = values.heartbeat_ms ?? this.#heartbeatMs;
    this.#watch();
    // The path may name one race. The values in force name it too, and may have changed since.
    this.#url.pathname = this.#url.pathname.replace(/(\/live\/odds)\/.*/, "$1");
    for (const [name, value] of toQuery(values, values.filter ?? {})) {
      this.#query.delete(name);
      if (value !== undefined) this.#query.set(name, value);
    }
  }

  // Browsers hide why a handshake failed. A GET of the same address returns the same error.
  async #explain(socket) {
    socket.onerror = socket.onclose = null;
    const url = this.#address();
    url.protocol = url.protocol.replace("ws", "http");
    let [reason, code, wait] = ["no connection", null, 0];
    try {
      const signal = AbortSignal.timeout(REJECTION_MS_MAX);
      const response = await fetch(url, { cache: "no-store", redirect: "error", signal });
      // 426 asks for a handshake: nothing else is wrong.
      if (response.status !== 426) {
        code = response.status;
        reason = `HTTP ${code}`;
        wait = 1000 * response.headers.get("Retry-After") || 0; // It may be a date.
        reason = (await response.json()).message ?? reason;
      }
    } catch {
      // No answer, or not one of the service.
    }
    if (this.#socket === socket) this.#lose(reason, code, wait);
  }

  // `code` is a close code or an HTTP status, `wait` the milliseconds for which the service asks.
  #lose(reason, code = null, wait = 0) {
    const closing = this.#closing ?? { reason, code };
    this.#disconnect();
    const values = { reason: closing.reason, code: closing.code, retryInMs: null };
    if (closing.retry_after_ms === 0 || FINAL_CODES.includes(closing.code))
      return this.#change({ phase: "closed", ...values });
    const pause = Math.random() * Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** this.#failures++);
    values.retryInMs = Math.ceil(closing.retry_after_ms ?? wait + pause);
    this.#timer = setTimeout(() => this.connect(), values.retryInMs);
    this.#change({ phase: "waiting", ...values });
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

  #change(values) {
    const before = this.#state;
    this.#state = { ...before, ...values };
    if (Object.keys(values).some((name) => before[name] !== values[name]))
      this.dispatchEvent(new CustomEvent("state", { detail: this.state }));
  }
}

// The fields of a client message. A list that nobody reads would select everything.
function toRequest(options, known = FILTERS) {
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new TypeError(`there is no option "${unknown}"; there are ${known.join(", ")}`);
  const { apiKey, races, conflateMs: conflate_ms, heartbeatMs: heartbeat_ms, ...lists } = options;
  const pattern = (race) => (typeof race === "number" ? { race_number: race } : race);
  return { ...lists, races: races?.map(pattern), conflate_ms, heartbeat_ms };
}

// The parameters of a query, `undefined` for those that are left out.
function toQuery({ events, markets, conflate_ms, heartbeat_ms }, { dates, venues, races, horses }) {
  const race = ({ date, venue, race_number }) =>
    [date, venue, race_number].filter((part) => part !== undefined).join("/");
  const lists = { date: dates, venue: venues, race: races?.map(race), horse: horses, events, markets };
  const texts = Object.entries(lists).map(([name, values]) => [name, values?.join() || (values && "none")]);
  return [...texts, ["conflate_ms", conflate_ms], ["heartbeat_ms", heartbeat_ms]];
}
