// The docs: fills the reader's key and address into the samples, copies and runs them, keeps the chosen
// language, and searches.
// Every page can be read without this.

import { devKey, storedKey, storeKey } from "./board/key.js";
import { addRunButtons } from "./docs-run.js";
import { buildIndex, search } from "./docs-search.js";

/** Where the service is, whatever path a proxy serves it under. This file is assets/docs.js. */
const ROOT = new URL("..", import.meta.url);
/** The language of samples that was chosen last. */
const LANGUAGE = "railbird-docs-language";
/** Days in which the samples look for a meeting with results. */
const DAYS = 60;

/** @param {string} name @param {string} value */
function fill(name, value) {
  for (const place of document.querySelectorAll(`[data-fill="${name}"]`)) {
    place.textContent = value;
    place.classList.add("filled");
  }
}

function fillAddress() {
  const http = ROOT.href.replace(/\/$/, "");
  fill("http", http);
  fill("ws", http.replace(/^http/, "ws"));
}

/** Asks the API with the reader's key. Returns null if it has no answer. */
async function get(path, key) {
  const response = await fetch(new URL(path, ROOT), { headers: { "X-API-Key": key } });
  return response.ok ? response.json() : null;
}

/** Fills races and a horse that this service has into the samples of a page. */
async function fillRaces(key) {
  const from = new Date(Date.now() - DAYS * 86_400_000).toISOString().slice(0, 10);
  const answer = await get(`api/v1/meetings?from=${from}`, key);
  const meetings = answer?.meetings ?? [];
  const carded = meetings.findLast((meeting) => meeting.card_count > 0);
  const raced = meetings.findLast((meeting) => meeting.result_count > 0);
  const card = carded && (await get(`api/v1/racecards/${carded.date}?venue=${carded.venue_code}`, key));
  const results = raced && (await get(`api/v1/results/${raced.date}?venue=${raced.venue_code}`, key));
  const race = card?.races.find((race) => race.runners.length > 0);
  if (race) {
    fill("card_date", carded.date);
    fill("card_race_number", race.race_number);
    fill("card_horse_no", race.runners[0].horse_no);
    fill("card_other_horse_no", race.runners.at(-1).horse_no);
  }
  if (results?.races.length > 0) {
    fill("result_date", raced.date);
    fill("result_venue", raced.venue_code);
    fill("result_race_number", results.races[0].race_number);
  }
}

/** Fills a jockey, a trainer, an owner and a venue that this service has into the samples of a page. */
async function fillPeople(key) {
  for (const list of ["jockeys", "trainers", "owners", "venues"]) {
    if (!document.querySelector(`[data-fill="${list}_key"]`)) continue;
    const answer = await get(`api/v1/${list}?limit=1`, key);
    const found = answer?.[list][0];
    if (found) fill(`${list}_key`, encodeURIComponent(found.key));
  }
}

async function fillKey() {
  const key = storedKey();
  if (!key) return;
  fill("key", key);
  const needsRaces = document.querySelector('[data-fill^="card_"], [data-fill^="result_"]');
  if (needsRaces) await fillRaces(key);
  await fillPeople(key);
  document.documentElement.dataset.filled = "true";
}

/** Takes the key of `railbird dev`, which its own pages may have. */
async function takeDevKey() {
  const { devKey: path } = document.querySelector("#key").dataset;
  if (!path || storedKey()) return;
  const key = await devKey(new URL(path, ROOT));
  if (key) storeKey(key);
}

function askForKey() {
  const form = document.querySelector("#key");
  const input = form.querySelector("input");
  const requestForm = document.querySelector("#try");
  input.value = storedKey() ?? "";
  const store = () => {
    const key = input.value.trim();
    if (key === "") return;
    storeKey(key);
    // The form for requests reads it when it begins.
    if (requestForm) location.reload();
    else fillKey();
  };
  input.addEventListener("change", store);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    store();
  });
}

function addCopyButtons() {
  for (const block of document.querySelectorAll(".samples pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
      button.addEventListener("blur", () => (button.textContent = "Copy"), { once: true });
    });
    const frame = document.createElement("div");
    frame.className = "code";
    const actions = document.createElement("div");
    actions.className = "code-actions";
    actions.append(button);
    block.replaceWith(frame);
    frame.append(block, actions);
  }
}

/** Opens the samples of a language in all groups that have it. */
function chooseLanguage(language) {
  for (const sample of document.querySelectorAll(`.samples [data-language="${language}"]`)) sample.open = true;
}

function keepLanguage() {
  const chosen = localStorage.getItem(LANGUAGE);
  if (chosen) chooseLanguage(chosen);
  for (const group of document.querySelectorAll(".samples")) {
    group.addEventListener("click", (event) => {
      const summary = event.target.closest("summary");
      if (!summary) return;
      const sample = summary.parentElement;
      // As with tabs, one sample of a group is open.
      if (sample.open) event.preventDefault();
      const { language } = sample.dataset;
      const top = summary.getBoundingClientRect().top;
      localStorage.setItem(LANGUAGE, language);
      chooseLanguage(language);
      // Groups above may have changed their height.
      requestAnimationFrame(() => scrollBy(0, summary.getBoundingClientRect().top - top));
    });
  }
}

/** A link to a section that was found, with the words marked. */
function resultItem(result) {
  const link = document.createElement("a");
  link.href = new URL(result.path, ROOT).href;
  const title = document.createElement("strong");
  title.textContent = result.title;
  const page = result.page === result.title ? "" : ` – ${result.page}`;
  const excerpt = document.createElement("div");
  for (const [part, isWanted] of result.excerpt) {
    const place = isWanted ? excerpt.appendChild(document.createElement("mark")) : excerpt;
    place.append(part);
  }
  link.append(title, page, excerpt);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

async function loadIndex() {
  const response = await fetch(new URL("docs/search.json", ROOT));
  return buildIndex(await response.json());
}

function addSearch() {
  const input = document.querySelector("#query");
  const found = document.querySelector("#found");
  const list = document.querySelector("#search-results");
  /** @type {Promise<import("./docs-search.js").Index> | null} */
  let index = null;
  const load = () => (index ??= loadIndex());
  input.addEventListener("focus", load);
  input.addEventListener("input", async () => {
    const query = input.value;
    const pages = await load();
    // A later letter has its own answer.
    if (query !== input.value) return;
    const { results, count } = search(pages, query);
    list.replaceChildren(...results.map(resultItem));
    found.textContent = query.trim() === "" ? "" : `${count === 0 ? "Nothing" : count} found`;
  });
  document.querySelector("#search").addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      (links[at + step] ?? input).focus();
    } else if (event.key === "Enter" && document.activeElement === input) {
      links[0]?.click();
    } else if (event.key === "Escape") {
      input.value = "";
      input.dispatchEvent(new Event("input"));
      input.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
    event.preventDefault();
    input.focus();
  });
}

fillAddress();
addCopyButtons();
addRunButtons();
keepLanguage();
addSearch();
await takeDevKey();
askForKey();
await fillKey();
