// Uses the client of the live channel in a page of another origin than the service.
//
//     node live_odds.mjs http://127.0.0.1:8080 rb_...
//
// RAILBIRD_BROWSER is the path of the browser. Prints a line of JSON: the state of the client once it is settled, and
// the answer to a GET of the API.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { launch, patient, report } from "./browser.mjs";

const [service, apiKey] = process.argv.slice(2);
const client = readFileSync(new URL("../../clients/js/railbird.js", import.meta.url));
const server = createServer((request, response) => {
  const isPage = request.url === "/";
  response.setHeader("Content-Type", isPage ? "text/html" : "text/javascript");
  response.end(isPage ? "<title>A page</title>" : client);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await launch();
try {
  const page = patient(await browser.newPage());
  const origin = `http://localhost:${server.address().port}`;
  await page.goto(origin);
  const [state, answer] = await page.evaluate(
    async ([service, apiKey]) => {
      const { LiveOdds } = await import("/railbird.js");
      const odds = new LiveOdds(service, { apiKey });
      const settled = new Promise((resolve) =>
        odds.addEventListener("state", ({ detail }) => detail.phase !== "connecting" && resolve(detail)),
      );
      odds.connect();
      const response = await fetch(`${service}/api/v1/meetings`, { headers: { "X-API-Key": apiKey } });
      return [await settled, { status: response.status, ...(await response.json()) }];
    },
    [service, apiKey],
  );
  report({ origin, state, answer });
} finally {
  await browser.close();
  server.close();
  process.stdin.destroy();
}
