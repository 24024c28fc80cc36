// Measures the board with all races open, by the figures of the browser. Prints them as JSON.
//
//     node board_bench.mjs http://127.0.0.1:8080/#/2026-11-21 RUNNERS SECONDS MEMORY_SECONDS
//
// RAILBIRD_BROWSER is the path of the browser, RAILBIRD_API_KEY a key. The memory is measured for MEMORY_SECONDS after
// the SECONDS in which tasks are timed; with 0 it is not compared.

import { launch } from "./browser.mjs";

const [address, runners, seconds, memorySeconds] = process.argv.slice(2);
/** The memory is compared by its peaks of two minutes: the histories of prices are thinned out about once a minute. */
const SAMPLE_SECONDS = 15;
const WINDOW = 8;
/** Readings of the memory for a sample. */
const READINGS = 3;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
await context.addInitScript((key) => {
  sessionStorage.setItem("railbird-key", key);
  window.measured = { tasks: [], changes: 0, frames: 0 };
}, process.env.RAILBIRD_API_KEY);
const page = await context.newPage();
await page.goto(address);
await page.getByRole("button", { name: "Open all races" }).click();
await page.waitForFunction((runners) => document.querySelectorAll("tr[data-horse]").length >= runners, Number(runners));
await page.waitForFunction(() => document.querySelector(".phase").innerText === "Live");
// The histories are read.
await page.waitForLoadState("networkidle");
await page.waitForFunction(() => document.querySelectorAll("td.line path:not([d=''])").length > 0);

const session = await context.newCDPSession(page);
await session.send("Performance.enable");
/** The page goes on between a collection and the reading after it: of some readings, the lowest is what it keeps. */
async function memory() {
  const readings = [];
  for (let reading = 0; reading < READINGS; reading++) {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const value = (name) => metrics.find((metric) => metric.name === name).value;
    readings.push({ heap: value("JSHeapUsedSize"), nodes: value("Nodes") });
  }
  return readings.reduce((lowest, reading) => (reading.heap < lowest.heap ? reading : lowest));
}

await memory();
await pause(2000);
await page.evaluate(() => {
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.measured.tasks.push(duration);
  }).observe({ type: "longtask" });
  new MutationObserver((changes) => (window.measured.changes += changes.length)).observe(document.body, {
    subtree: true,
    characterData: true,
  });
  const frame = () => requestAnimationFrame(() => ++window.measured.frames && frame());
  frame();
});
// The observer works: it reports a task of the page that is too long. An evaluation is no such task.
await page.evaluate(() => {
  setTimeout(() => {
    const end = performance.now() + 80;
    while (performance.now() < end);
  });
});
await page.waitForFunction(() => window.measured.tasks.length > 0);
await page.evaluate(() => Object.assign(window.measured, { tasks: [], changes: 0, frames: 0 }));
const busyBefore = await session.send("Performance.getMetrics");
await pause(seconds * 1000);
const measured = await page.evaluate(() => window.measured);
const busyAfter = await session.send("Performance.getMetrics");
const busy = ({ metrics }) => metrics.find(({ name }) => name === "TaskDuration").value;

const samples = [await memory()];
for (let elapsed = 0; elapsed < memorySeconds; elapsed += SAMPLE_SECONDS) {
  await pause(SAMPLE_SECONDS * 1000);
  samples.push(await memory());
}
const peak = (some) => Math.max(...some.map(({ heap }) => heap));
const [first, last] = [samples.slice(0, WINDOW), samples.slice(-WINDOW)];
const state = await page.evaluate(() => ({
  phase: document.querySelector(".phase").innerText,
  figures: document.querySelector(".figures").innerText,
}));
await browser.close();
console.log(
  JSON.stringify({
    longest_task_ms: Math.max(0, ...measured.tasks),
    long_tasks: measured.tasks.length,
    texts_changed_per_second: measured.changes / seconds,
    frames_per_second: measured.frames / seconds,
    busy_share: (busy(busyAfter) - busy(busyBefore)) / seconds,
    heap_start_mb: peak(first) / 1e6,
    heap_end_mb: peak(last) / 1e6,
    heap_growth: peak(last) / peak(first) - 1,
    nodes_start: samples[0].nodes,
    nodes_end: samples.at(-1).nodes,
    gaps: Number(state.figures.match(/gaps (\d+)/)[1]),
    is_live: state.phase.startsWith("Live"),
  }),
);
