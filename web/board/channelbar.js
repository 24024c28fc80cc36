// What the live channel is doing: its state, its age, the proof that nothing is missing, and a pause.

import { waitText } from "./api.js";
import { element, setAttribute, setText } from "./dom.js";
import * as formats from "./formats.js";

/** Data that is older looks old. The service sends a heartbeat every two seconds. */
export const STALE_MS = 6_000;
/** How long the bar says that the channel was resumed, and what was missed. */
const RESUMED_MS = 10_000;
const MISSED_MS = 30_000;

export class ChannelBar {
  #board;
  #state = element("b", { class: "phase" });
  #age = element("span");
  #change = element("span");
  #seq = element("span");
  #gaps = element("span");
  #pause = element("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Pause");
  #text = element("span");
  #reconnect = element("button", { type: "button", class: "quiet" }, "Reconnect now");
  #banner = element("p", { class: "banner", hidden: true }, this.#text, this.#reconnect);
  #resumedAt = -Infinity;
  #missed = "";
  #missedAt = -Infinity;

  constructor(board) {
    this.#board = board;
    this.#pause.addEventListener("click", () => board.togglePause());
    this.#reconnect.addEventListener("click", () => board.reconnect());
    this.element = element(
      "section",
      { class: "channel", "aria-label": "Live channel" },
      element("p", { class: "figures" }, this.#state, this.#change, this.#age, this.#seq, this.#gaps, this.#pause),
      this.#banner,
    );
  }

  /** Marks that the channel continued where it was lost. */
  resumed() {
    this.#resumedAt = performance.now();
  }

  /** Says for a while what was missed. */
  missed(text) {
    this.#missed = text;
    this.#missedAt = performance.now();
  }

  /** The state in a word: as the service says, unless nothing arrives. */
  get state() {
    const { phase, reason, lastMessageAt } = this.#board.live.state;
    // It was not connected yet.
    if (phase === "closed" && reason === "") return "connecting";
    if (phase !== "live") return phase === "down" ? "stale" : phase;
    if (Date.now() - (lastMessageAt ?? 0) > STALE_MS) return "stale";
    return performance.now() - this.#resumedAt < RESUMED_MS ? "resumed" : "live";
  }

  tick() {
    const { live, store, painter } = this.#board;
    const { phase, gaps, seq, lastMessageAt, retryInMs, reason } = live.state;
    const { state } = this;
    const shown = painter.isPaused ? "paused" : state;
    setText(this.#state, WORDS[shown]);
    setAttribute(this.#state, "data-phase", shown);
    setText(
      this.#age,
      lastMessageAt ? `last message ${formats.age(Date.now() - lastMessageAt)} ago` : "no message yet",
    );
    setText(
      this.#change,
      store.priceChangedAt ? `last price ${formats.age(Date.now() - store.priceChangedAt)} ago` : "no new price yet",
    );
    setText(this.#seq, seq === null ? "" : `seq ${formats.whole(seq)}`);
    setText(this.#gaps, `gaps ${gaps}`);
    this.#gaps.classList.toggle("some", gaps > 0);
    setText(this.#pause, painter.isPaused ? "Resume" : "Pause");
    setAttribute(this.#pause, "aria-pressed", `${painter.isPaused}`);
    const banner = this.#explain(state, phase, reason, retryInMs);
    setText(this.#text, banner);
    const isWaiting = state === "waiting";
    // What has the focus must not vanish with it.
    if (!isWaiting && document.activeElement === this.#reconnect) this.#pause.focus({ preventScroll: true });
    this.#reconnect.hidden = !isWaiting;
    this.#banner.hidden = banner === "";
  }

  #explain(state, phase, reason, retryInMs) {
    const { painter, refused, limited, live, silent } = this.#board;
    const since = live.state.lastMessageAt;
    const old = since ? ` Prices are as of ${formats.clock(since, { seconds: true })}.` : "";
    if (refused) return refused;
    if (state === "waiting") {
      const next =
        retryInMs > 1000 ? `The next attempt is within ${formats.age(retryInMs + 999)}.` : "Connecting again.";
      return `The live channel is lost: ${reason}. ${next}${old}`;
    }
    if (state === "connecting" && since) return `Connecting to the live channel again.${old}`;
    if (state === "stale") {
      const why = phase === "live" ? "Nothing arrives from the service." : "The service cannot reach its log.";
      return `${why} Prices may be old.${old}`;
    }
    if (state === "closed" && reason) return `The live channel is closed: ${reason}.${old}`;
    if (silent.length > 0) {
      return `Silent for 20 seconds: ${silent.map(({ source }) => source).join(", ")}. Their prices may be old.`;
    }
    if (limited) return waitText(limited);
    if (performance.now() - this.#missedAt < MISSED_MS) return this.#missed;
    if (painter.isPaused) return `Paused: the page shows what was known when you paused. Nothing is lost.`;
    return "";
  }
}

const WORDS = {
  live: "Live",
  resumed: "Live, resumed",
  stale: "Stale",
  connecting: "Connecting",
  waiting: "Disconnected",
  closed: "Not live",
  paused: "Paused",
};
