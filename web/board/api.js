// Reads the public API with the visitor's key.

import { clock } from "./formats.js";

/** Requests at a time. A browser opens at most six connections to a service, and the live channel is another one. */
const REQUESTS_MAX = 4;
/** Pages of a list that are read: 100,000 rows. A longer history is cut, and the page says so. */
const PAGES_MAX = 100;
/** Tries of a request that the service puts off (429, 503). */
const TRIES_MAX = 5;
/** Time for an answer. The service begins one within ten seconds. */
const ANSWER_MS_MAX = 20_000;

/** The language of names, such as `zh-Hant-HK`; empty for that of the answers, which is English where it is known. */
const LANGUAGE = languageOf(navigator.languages[0] ?? "en");

function languageOf(tag) {
  try {
    // Some systems add what belongs to no language tag: `en-US@posix`.
    const { language, script, region } = new Intl.Locale(tag.split("@")[0]).maximize();
    return language === "en" ? "" : [language, script, region].filter(Boolean).join("-");
  } catch {
    // Others name no language at all: `C`.
    return "";
  }
}

/** An answer other than 200. `status` is 0 if the service cannot be reached. */
export class ApiError extends Error {
  constructor(status, code, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Why requests are put off, and until when. */
export function waitText({ message, retryAt }) {
  const isSoon = retryAt - Date.now() < 5000;
  const when = isSoon ? "by itself" : `at ${clock(retryAt, { seconds: true })}`;
  return `${message}. The page reads on ${when}.`;
}

/**
 * An event `limited` says that the service puts requests off: `detail` is the [`ApiError`], or `null` once requests are
 * answered again.
 */
export class Api extends EventTarget {
  #keyHeader;
  #asOf;
  #running = 0;
  #waiting = [];
  #isLimited = false;
  /** Until when the service has put requests off: none is sent before. */
  #retryAt = 0;
  /** Whether the names of answers may be others than those of the live channel. */
  isTranslated = LANGUAGE !== "";
  /** How much the clock of the service is ahead of the browser's, as of the latest answer, in ms. */
  clockOffset = 0;

  /** `asOf` returns the moment as of which the answers are; empty for the present. */
  constructor(key, asOf = () => "") {
    super();
    this.#keyHeader = key ? { "X-API-Key": key } : {};
    this.#asOf = asOf;
  }

  /**
   * Reads a path relative to `api/v1/`. Returns the document, and the log sequence that it reflects. `signal` aborts it.
   */
  async get(path, options) {
    return this.#read(`api/v1/${path}`, options);
  }

  /** Reads the rows of a list, page by page, and passes them on as they come. Returns whether these were all. */
  async pages(path, list, take, options) {
    let next = `api/v1/${path}`;
    for (let page = 0; page < PAGES_MAX && next !== ""; page++) {
      const { document, seq } = await this.#read(next, options);
      take(document[list], document, seq);
      // The path is absolute; the service may be behind a proxy under another one.
      next = document.next.replace(/^\//, "");
    }
    return next === "";
  }

  async #read(path, { minSeq, signal } = {}) {
    await this.#turn();
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          await pause(this.#retryAt - Date.now());
          signal?.throwIfAborted();
          const answer = await this.#fetch(path, minSeq ? { "Railbird-Min-Seq": String(minSeq) } : {}, signal);
          // Another one may have been sent before.
          if (Date.now() >= this.#retryAt) this.#limited(null);
          return answer;
        } catch (error) {
          if (attempt === TRIES_MAX) this.#limited(null);
          if (![429, 503].includes(error.status) || attempt === TRIES_MAX) throw error;
          this.#retryAt = error.retryAt = Date.now() + 1000 * Math.max(1, error.retryAfter);
          this.#limited(error);
        }
      }
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  /** Waits until fewer than [`REQUESTS_MAX`] requests run. */
  async #turn() {
    while (this.#running >= REQUESTS_MAX) await new Promise((resolve) => this.#waiting.push(resolve));
    this.#running++;
  }

  #limited(error) {
    if (error === null && !this.#isLimited) return;
    this.#isLimited = error !== null;
    this.dispatchEvent(new CustomEvent("limited", { detail: error }));
  }

  async #fetch(path, headers, aborted) {
    let response, body;
    try {
      const url = new URL(path, document.baseURI);
      if (LANGUAGE) url.searchParams.set("lang", LANGUAGE);
      const asOf = this.#asOf();
      // The next page of a list has it.
      if (asOf && !url.searchParams.has("as_of")) url.searchParams.set("as_of", asOf);
      const timeout = AbortSignal.timeout(ANSWER_MS_MAX);
      const signal = aborted ? AbortSignal.any([timeout, aborted]) : timeout;
      response = await fetch(url, { headers: { ...headers, ...this.#keyHeader }, cache: "no-cache", signal });
      body = await response.json().catch((error) => {
        if (response.ok) throw error;
        return {};
      });
    } catch (error) {
      aborted?.throwIfAborted();
      if (error.name !== "TimeoutError") throw new ApiError(0, "unreachable", "The service cannot be reached");
      throw new ApiError(0, "timeout", `The service has not answered within ${ANSWER_MS_MAX / 1000} seconds`);
    }
    const served = Date.parse(response.headers.get("Date") ?? "");
    if (!Number.isNaN(served)) this.clockOffset = served - Date.now();
    if (!response.ok) {
      const retryAfter = Number(response.headers.get("Retry-After") ?? 0);
      throw new ApiError(response.status, body.error ?? "", body.message ?? response.statusText, retryAfter);
    }
    return { document: body, seq: Number(response.headers.get("Railbird-Seq") ?? 0) };
  }
}

function pause(ms) {
  return ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : null;
}
