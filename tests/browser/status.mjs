// Reads the status page in a browser: without JavaScript, with it, offline, while the log is frozen, and after.
//
//     node status.mjs http://127.0.0.1:8080 screenshots/
//
// RAILBIRD_BROWSER is the path of the browser. Each completed step is printed as a line of JSON. A line to continue is
// read from standard input when the log is frozen, and when it is back.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch, nextLine, report, violations, watch } from "./browser.mjs";

const [service, folder] = process.argv.slice(2);
const WIDTHS = [360, 768, 1280, 1920];
mkdirSync(folder, { recursive: true });

const browser = await launch();

/** What no page did. */
const problems = [];

/** A page of a new context. Responses that fail while it is offline are no problem. */
async function open(options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  problems.push(watch(page, service, (message) => !message.text().includes("ERR_INTERNET_DISCONNECTED")));
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
    assert.deepEqual(await violations(page), [], `${state}, ${colorScheme}`);
  }
}

const overall = (page) => page.locator("h1");
const freshness = (page) => page.locator("#freshness");

try {
  const plain = await open({ javaScriptEnabled: false });
  assert.equal(await overall(plain).textContent(), "Everything works");
  assert.match(await freshness(plain).textContent(), /^As of \d+ \w+ \d{4}, [\d:]+ UTC\.$/);
  assert.deepEqual(await plain.locator(".components h2").allTextContents(), ["API", "Live odds", "Feeders", "Mail"]);
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
  // The page has given up those that took too long.
  await Promise.allSettled(held.map((route) => route.continue()));
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
  await stale.waitFor();
  assert.notEqual(await overall(page).textContent(), "Everything works");
  await inspect(page, "stale");
  report({ stale: true });

  await nextLine();
  await overall(page).filter({ hasText: "Everything works" }).waitFor();
  await page.locator(".incidents h3", { hasText: "Stale" }).waitFor();
  assert.equal(await page.locator(".incidents .lasting").count(), 0);
  await inspect(page, "after");
  report({ live: true });

  assert.deepEqual(problems.flat(), []);
  assert.deepEqual(await page.context().cookies(), []);
} finally {
  await browser.close();
  process.stdin.destroy();
}
