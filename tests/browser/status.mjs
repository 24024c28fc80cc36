// Reads the status page in a browser: without JavaScript, with it, offline, while the log is frozen, and after.
//
//     node status.mjs http://127.0.0.1:8080 screenshots/
//
// RAILBIRD_BROWSER is the path of the browser. Each completed step is printed as a line of JSON. A line to continue is
// read from standard input when the log is frozen, and when it is back.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [service, folder] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = async () => (await lines.next()).value;
const report = (done) => console.log(JSON.stringify(done));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core"), "utf8");
const WIDTHS = [360, 768, 1280, 1920];
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
mkdirSync(folder, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.RAILBIRD_BROWSER,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-zygote",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

/** What must not happen: errors, and requests to other hosts. */
const problems = [];

/** A page of a new context. Responses that fail while it is offline are no problem. */
async function open(options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => {
    const isOffline = message.text().includes("ERR_INTERNET_DISCONNECTED");
    if (!isOffline) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(service) && !url.startsWith("data:")) problems.push(`requested ${url}`);
  });
  await page.goto(`${service}/status`);
  return page;
}

/** Checks a page for accessibility, and that nothing is cut off, at each width in both schemes. */
async function inspect(page, state) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      const path = join(folder, `status-${state}-${width}-${colorScheme}.png`);
      await page.screenshot({ path, fullPage: true });
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0, `${state} at ${width} is too wide`);
    }
    await page.evaluate(axe);
    const { violations } = await page.evaluate(
      (values) =>
        window.axe.run(document, {
          runOnly: { type: "tag", values },
          rules: { "target-size": { enabled: true } },
        }),
      TAGS,
    );
    const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html)}`);
    assert.deepEqual(found, [], `${state}, ${colorScheme}`);
  }
}

const overall = (page) => page.locator("h1");
const freshness = (page) => page.locator("#freshness");

try {
  const plain = await open({ javaScriptEnabled: false });
  assert.equal(await overall(plain).textContent(), "Everything works");
  assert.match(await freshness(plain).textContent(), /^As of \d+ \w+ \d{4}, [\d:]+ UTC\.$/);
  assert.deepEqual(await plain.locator(".components h2").allTextContents(), [
    "API",
    "Live odds",
    "Feeders",
    "Mail",
  ]);
  assert.ok(!(await plain.getByRole("button").isVisible()), "it has no button that does nothing");
  await plain.getByRole("link", { name: "Refresh" }).click();
  await plain.context().close();
  report({ withoutScript: true });

  const page = await open();
  await freshness(page).filter({ hasText: "Updated" }).waitFor();
  await inspect(page, "live");

  // Without an answer to the next request, ages grow.
  const held = [];
  await page.route("**/status", (route) => held.push(route));
  const age = page.locator("[data-part=figures] [data-age]").first();
  const before = await age.textContent();
  await age.filter({ hasNotText: new RegExp(`^${before}$`) }).waitFor();
  await page.unroute("**/status");
  await Promise.all(held.map((route) => route.continue()));
  report({ ticks: true });

  await page.getByRole("button", { name: "Pause" }).click();
  await freshness(page).filter({ hasText: "Paused" }).waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await freshness(page).filter({ hasText: "Updated" }).waitFor();
  report({ paused: true });

  await page.context().setOffline(true);
  await page.getByRole("alert").filter({ hasText: "does not answer" }).waitFor();
  assert.equal(await overall(page).textContent(), "Not known");
  assert.match(await freshness(page).textContent(), /^As of .* ago\. Trying again\.$/);
  await inspect(page, "offline");
  await page.context().setOffline(false);
  await overall(page).filter({ hasText: "Everything works" }).waitFor();
  assert.ok(await page.getByRole("alert").isHidden());
  await freshness(page).filter({ hasText: "Updated" }).waitFor();
  report({ offline: true });

  await nextLine();
  const stale = page.locator(".incidents .lasting", { hasText: "Stale" });
  await stale.waitFor({ timeout: 60_000 });
  assert.notEqual(await overall(page).textContent(), "Everything works");
  await inspect(page, "stale");
  report({ stale: true });

  await nextLine();
  await overall(page).filter({ hasText: "Everything works" }).waitFor({ timeout: 60_000 });
  await page.locator(".incidents h3", { hasText: "Stale" }).waitFor();
  assert.equal(await page.locator(".incidents .lasting").count(), 0);
  await inspect(page, "after");
  report({ live: true });

  assert.deepEqual(problems, []);
  assert.deepEqual(await page.context().cookies(), []);
} finally {
  await browser.close();
  process.stdin.destroy();
}
