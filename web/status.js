// Keeps the status page current: loads it again, takes over the parts that have changed, and lets ages grow in between.
// Without this script the page shows the state at the time that it names.

const REFRESH_MS = 5_000;
const TIMEOUT_MS = 10_000;

const problem = document.getElementById("problem");
const freshness = document.getElementById("freshness");
const pause = document.getElementById("pause");

/** What each part looks like as the server sent it. @type {Map<string, string>} */
const shown = new Map();
/** When the server was asked for what is shown. */
let askedAt = performance.timeOrigin + navigationStart();
let isFailing = false;
let isPaused = false;
let isLoading = false;

/** When this page was requested, in milliseconds since the time origin. */
function navigationStart() {
  const [navigation] = performance.getEntriesByType("navigation");
  return navigation?.requestStart ?? 0;
}

/**
 * A duration in its largest unit, as the server writes it.
 * @param {number} ms
 */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3_600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}

/**
 * The parts of a page by name.
 * @param {Document} page
 */
function partsOf(page) {
  const parts = page.querySelectorAll("[data-part]");
  return new Map([...parts].map((part) => [part.dataset.part, part]));
}

/**
 * Takes over the parts of another page that have changed.
 * @param {Document} next
 */
function show(next) {
  const [old, fresh] = [partsOf(document), partsOf(next)];
  for (const name of old.keys()) {
    if (!fresh.has(name)) throw new Error(`this is not the status page: it has no ${name}`);
  }
  for (const [name, part] of old) {
    const update = fresh.get(name);
    const html = update.outerHTML;
    if (shown.get(name) === html) continue;
    shown.set(name, html);
    part.className = update.className;
    // What the reader has opened stays open.
    const isOpen = part.querySelector("details")?.open ?? false;
    part.replaceChildren(...update.childNodes);
    for (const details of part.querySelectorAll("details")) details.open = isOpen;
  }
}

async function load() {
  if (isLoading) return;
  isLoading = true;
  const startedAt = Date.now();
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch("status", { cache: "no-store", signal });
    if (!response.ok) throw new Error(`the service returned ${response.status}`);
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
    askedAt = startedAt;
    setFailing(false);
  } catch {
    setFailing(true);
  }
  isLoading = false;
  tick();
}

/**
 * Notes whether the last load failed. What is shown then is no longer known to hold.
 * @param {boolean} failing
 */
function setFailing(failing) {
  if (isFailing === failing) return;
  isFailing = failing;
  problem.hidden = !failing;
  problem.textContent = failing
    ? "The service does not answer this page, or you are offline. All below is from before, and may no longer be true."
    : "";
  document.body.classList.toggle("outdated", failing);
  if (!failing) return;
  const overall = document.querySelector("[data-part=overall]");
  overall.className = "overall unknown";
  overall.querySelector("h1").textContent = "Not known";
  // The next page that loads replaces it, whatever it says.
  shown.delete("overall");
}

/** Writes all ages as of now. */
function tick() {
  const elapsed = Date.now() - askedAt;
  for (const element of document.querySelectorAll("[data-age]")) {
    element.textContent = duration(Number(element.dataset.age) + elapsed);
  }
  const age = `${duration(elapsed)} ago`;
  if (isPaused) freshness.textContent = `Paused, as of ${age}.`;
  else if (isFailing) freshness.textContent = `As of ${age}. Trying again.`;
  else freshness.textContent = `Updated ${age}.`;
}

pause.hidden = false;
pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.textContent = isPaused ? "Continue" : "Pause";
  if (isPaused) tick();
  else load();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !isPaused) load();
});
setInterval(tick, 1_000);
setInterval(() => {
  if (!document.hidden && !isPaused) load();
}, REFRESH_MS);
tick();
