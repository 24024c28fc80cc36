// Counts what the board asks the API for while its page is open, from when it is shown. Prints the counts as JSON.
//
//     node board_requests.mjs http://127.0.0.1:8080/#/2026-11-21 RACES SECONDS
//
// RAILBIRD_BROWSER is the path of the browser, RAILBIRD_API_KEY a key whose plan has no live odds.

import { launch } from "./browser.mjs";

const [address, races, seconds] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
await context.addInitScript((key) => sessionStorage.setItem("railbird-key", key), process.env.RAILBIRD_API_KEY);
const page = await context.newPage();
const answers = [];
page.on("response", (response) => {
  const path = response.url().split("/api/v1/")[1];
  if (path) answers.push({ path: path.replace(/[/?].*/, ""), status: response.status() });
});
await page.goto(address);
await page.waitForFunction((races) => document.querySelectorAll("details.race").length >= races, Number(races));
await page.waitForFunction(() => document.querySelector(".phase").innerText === "Not live");
await page.waitForLoadState("networkidle");
const atStart = answers.length;
await pause(seconds * 1000);
const results = await page.locator(".race .status[data-status=official]").count();
await browser.close();

const paths = {};
for (const { path } of answers) paths[path] = (paths[path] ?? 0) + 1;
console.log(
  JSON.stringify({
    requests_at_start: atStart,
    requests_later: answers.length - atStart,
    refused: answers.filter(({ status }) => status === 429).length,
    paths,
    results_shown: results,
  }),
);
