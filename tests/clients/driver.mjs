// Prints what the client reports, a JSON object a line, and takes commands.
import { createInterface } from "node:readline";
import { LiveOdds } from "../../clients/js/railbird.js";

const { RAILBIRD_URL, RAILBIRD_API_KEY: apiKey } = process.env;
const odds = new LiveOdds(RAILBIRD_URL, { apiKey, heartbeatMs: 1000 });
odds.addEventListener("message", ({ detail }) => console.log(JSON.stringify(detail)));
odds.addEventListener("state", ({ detail }) => console.log(JSON.stringify({ event: "state", ...detail })));

const sleeping = new Int32Array(new SharedArrayBuffer(4));
const commands = {
  subscribe: (filter) => odds.subscribe(filter),
  unsubscribe: (filter) => odds.unsubscribe(filter),
  resync: () => odds.resync(),
  close: () => odds.close(),
  connect: (key) => {
    odds.apiKey = key;
    odds.connect();
  },
  // In a listener.
  closeOn: (reason) => odds.addEventListener("state", ({ detail }) => detail.reason === reason && odds.close()),
  random: (value) => (Math.random = () => value),
  block: (milliseconds) => Atomics.wait(sleeping, 0, 0, milliseconds),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, value] = Object.entries(JSON.parse(line))[0];
  commands[name](value);
});
odds.connect();
