// Closes clients at awkward moments, and starts some with wrong values. The program ends once nothing is left behind.
import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { LiveOdds } from "../../clients/js/railbird.js";

const { RAILBIRD_URL: url, RAILBIRD_API_KEY: apiKey } = process.env;

const until = (odds, phase) =>
  new Promise((resolve) => {
    odds.addEventListener("state", ({ detail }) => detail.phase === phase && resolve(detail));
  });

const atOnce = new LiveOdds(url, { apiKey });
atOnce.addEventListener("message", ({ detail }) => assert.fail(`closed, but received ${detail.event}`));
atOnce.connect();
atOnce.close();

const silent = createServer().listen(0, "127.0.0.1");
silent.on("connection", (socket) => socket.on("error", () => {}));
await new Promise((resolve) => silent.once("listening", resolve));
const connecting = new LiveOdds(`ws://127.0.0.1:${silent.address().port}/ws/live/odds`, { apiKey });
silent.once("connection", () => connecting.close());
connecting.connect();
await until(connecting, "closed");
silent.close();

// It is closed while it asks why the handshake was rejected.
const rejecting = createHttpServer((request, response) => {
  explaining.close();
  response.writeHead(503).end();
});
rejecting.on("upgrade", (request, socket) => socket.destroy()).listen(0, "127.0.0.1");
await new Promise((resolve) => rejecting.once("listening", resolve));
const explaining = new LiveOdds(`ws://127.0.0.1:${rejecting.address().port}/ws/live/odds`, { apiKey });
explaining.connect();
await until(explaining, "closed");
rejecting.close();

const waiting = new LiveOdds("ws://127.0.0.1:1/ws/live/odds", { apiKey });
waiting.connect();
await until(waiting, "waiting");
waiting.close();

const live = new LiveOdds(url, { apiKey });
const events = [];
live.addEventListener("message", ({ detail }) => events.push(detail.event));
live.connect();
live.connect();
await until(live, "live");
assert.equal(events.filter((event) => event === "welcome").length, 1);
live.addEventListener("message", ({ detail }) => assert.fail(`closed, but received ${detail.event}`));
live.close();
assert.equal(live.state.phase, "closed");

// The option is the key, not the one in the address, and an empty list is not left out.
const mistyped = new LiveOdds(`${url}?race=&api_key=rb_wrong`, { apiKey });
mistyped.connect();
const { code, reason } = await until(mistyped, "closed");
assert.equal(code, 400, reason);

const unknown = /^there is no option "venue"; there are (apiKey, )?dates, venues, races, horses, events, /;
assert.throws(() => new LiveOdds(url, { apiKey, venue: ["ST"] }), { name: "TypeError", message: unknown });
assert.throws(() => live.subscribe({ venue: ["ST"] }), { name: "TypeError", message: unknown });
assert.throws(() => new LiveOdds("ftp://127.0.0.1/ws/live/odds", { apiKey }).connect(), { name: "SyntaxError" });
for (const { state } of [atOnce, connecting, explaining, waiting])
  assert.deepEqual([state.phase, state.reason], ["closed", "closed by this client"]);
