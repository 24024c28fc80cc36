// Reads the docs in a browser: every page, with the key and without scripts, the search, and the form for requests.
//
//     node docs.mjs http://127.0.0.1:8080 KEY
//
// RAILBIRD_BROWSER is the path of the browser. RAILBIRD_SCREENSHOTS names a folder for pictures. The samples of each
// page, as the page shows them, and each completed step are printed as lines of JSON.

import assert from "node:assert/strict";
import { join } from "node:path";
import { launch, report, violations, watch } from "./browser.mjs";

const [service, key] = process.argv.slice(2);
const WIDTHS = [360, 768, 1280, 1920];
const folder = process.env.RAILBIRD_SCREENSHOTS;

const browser = await launch();

/** What no page did. */
const problems = [];

/** A page of a new tab, which is watched. */
async function open(options) {
  // Without transitions: a change of the scheme is seen at once.
  const viewport = { width: 1280, height: 900 };
  const context = await browser.newContext({ viewport, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const found = watch(page, service, (message) => ["error", "warning"].includes(message.type()));
  page.on("request", (request) => {
    if (request.url().includes(key)) found.push(`${page.url()}: the key is in an address`);
  });
  problems.push(found);
  return page;
}

/** Checks what the page shows now, light and dark. Of what axe looks at, only colours depend on the scheme. */
async function checkAccessibility(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    // A page learns of it before its next frame.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const onlyColours = colorScheme === "dark";
    assert.deepEqual(await violations(page, { onlyColours }), [], `${page.url()}, ${colorScheme}`);
  }
}

/** The paths of all pages in the navigation. */
async function pagePaths(page) {
  await page.goto(`${service}/docs`);
  const links = await page.locator("nav[aria-label=Documentation] a").evaluateAll((all) => all.map((a) => a.href));
  return [...new Set(links.map((link) => new URL(link).pathname))];
}

async function readWithoutScripts(paths) {
  const page = await open({ javaScriptEnabled: false });
  for (const path of paths) {
    await page.goto(service + path);
    const text = await page.textContent("article");
    assert.ok(text.length > 100, `${path} can be read`);
    assert.ok(!(await page.locator("#search").isVisible()), "what needs scripts is hidden");
    // Also the samples that are not open.
    const open = page.locator(".samples").first();
    const samples = (await open.count()) ? await open.textContent() : "";
    assert.ok(samples.includes("rb_...") || !samples.includes("X-API-Key"), path);
  }
  await page.context().close();
}

/** Enters the key as a reader does, and reports the samples of each page. */
async function readSamples(page, paths) {
  await page.goto(`${service}/docs`);
  await page.getByLabel("Your API key").fill(key);
  await page.getByLabel("Your API key").press("Enter");
  await page.locator("html[data-filled]").waitFor();
  for (const path of paths) {
    await page.goto(service + path);
    await page.locator("html[data-filled]").waitFor();
    const samples = await page.locator(".samples details").evaluateAll((all) =>
      all.map((sample) => ({
        language: sample.dataset.language,
        code: sample.querySelector("code").textContent,
      })),
    );
    for (const sample of samples) report({ path, ...sample });
    if (path.endsWith("/try")) await page.locator(".opblock").first().waitFor();
    await checkAccessibility(page);
  }
}

async function chooseLanguage(page) {
  await page.goto(`${service}/docs`);
  await page.getByText("Rust", { exact: true }).first().click();
  await page.goto(`${service}/docs/reference/odds`);
  const shown = await page.locator(".samples [open]").evaluateAll((all) => all.map((one) => one.dataset.language));
  assert.ok(shown.length > 5 && shown.every((language) => language === "Rust"), shown.join());
  await page.evaluate(() => localStorage.clear());
}

/** Finds a page by words, with the keyboard alone. */
async function find(page, query, path) {
  await page.goto(`${service}/docs`);
  await page.keyboard.press("/");
  await page.keyboard.type(query);
  await page.locator("#search-results a").first().waitFor();
  const found = await page.locator("#search-results a").evaluateAll((all) => all.map((a) => a.href));
  assert.ok(found.slice(0, 3).includes(service + path), `${query}: ${found}`);
  while ((await page.evaluate(() => document.activeElement.href)) !== service + path)
    await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(service + path);
}

async function searchAll(page) {
  await find(page, "invalid_date", "/docs/errors#invalid_date");
  await find(page, "what did it pay", "/docs/reference/results#what-did-a-race-pay");
  await find(page, "pagination", "/docs/api#pages");
  await page.getByLabel("Search the docs").fill("qzxqzx");
  await page.getByText("Nothing found").waitFor();
  await checkAccessibility(page);
  report({ searched: true });
}

/** Sends the request of a sample from its page. */
async function runSample(page) {
  await page.goto(`${service}/docs/reference/days`);
  await page.locator("html[data-filled]").waitFor();
  // There, the buttons are below the sample.
  await page.setViewportSize({ width: 360, height: 900 });
  await page.getByRole("button", { name: "Run" }).first().click();
  const answer = page.locator(".answer", { hasText: /^200 OK/ });
  await answer.waitFor();
  assert.ok((await answer.textContent()).includes('"meetings": ['));
  await checkAccessibility(page);
  await page.setViewportSize({ width: 1280, height: 900 });
  report({ ran: true });
}

/** Sends a request with the form. */
async function sendRequest(page) {
  await page.goto(`${service}/docs/try`);
  const operation = page.locator(".opblock", { hasText: "/api/v1/meetings" }).first();
  await operation.locator(".opblock-summary-control").click();
  await operation.getByRole("button", { name: "Try it out" }).click();
  const answered = page.waitForResponse((response) => response.url().includes("/api/v1/meetings"));
  await operation.getByRole("button", { name: "Execute" }).click();
  assert.equal((await answered).status(), 200);
  await operation.locator(".live-responses-table").getByText("200", { exact: true }).first().waitFor();
  await checkAccessibility(page);
  report({ requested: true });
}

async function takeScreenshots(paths) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of WIDTHS) {
      const page = await open({ colorScheme, viewport: { width, height: 900 } });
      for (const path of paths) {
        // The form reads the document after it is loaded.
        await page.goto(service + path, { waitUntil: path.endsWith("/try") ? "networkidle" : "load" });
        const name = path.slice(1).replaceAll("/", "-");
        await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${path} is ${overflow} px too wide at ${width}`);
      }
      await page.context().close();
      report({ pictures: width });
    }
  }
}

try {
  const page = await open();
  const paths = await pagePaths(page);
  await readWithoutScripts(paths);
  await readSamples(page, paths);
  await chooseLanguage(page);
  await searchAll(page);
  await runSample(page);
  await sendRequest(page);
  if (folder) await takeScreenshots(paths);
  assert.deepEqual(problems.flat(), []);
  report({ finished: true });
} finally {
  await browser.close();
}
