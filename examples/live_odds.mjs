// Keeps a correct board of each open race, through lost connections and restarts of the service.
import { LiveOdds } from "../clients/js/railbird.js";

const { RAILBIRD_URL = "ws://127.0.0.1:8080/ws/live/odds", RAILBIRD_API_KEY: apiKey } = process.env;
if (!apiKey) throw new Error("RAILBIRD_API_KEY has to hold an API key");
const odds = new LiveOdds(RAILBIRD_URL, { apiKey });
const boards = new Map();
let gaps = 0;

odds.addEventListener("message", ({ detail: message }) => {
  const { event, date, venue_code, race_number, seq } = message;
  if (event === "resync" || (event === "welcome" && !message.recovered)) boards.clear();
  if (race_number === undefined) return console.log(JSON.stringify(message));
  const race = `${date} ${venue_code} ${race_number}`;
  if (event === "odds_update") boards.set(race, message);
  const board = boards.get(race) ?? { status: "no board", runners: [] };
  if (event === "status_update") board.status = message.status;
  const prices = board.runners.map((runner) => `${runner.number} ${runner.horse_name} ${runner.win ?? runner.state}`);
  const gap = odds.state.gaps > gaps ? ` | GAP after ${odds.state.lastGap.after}` : "";
  gaps = odds.state.gaps;
  console.log(`${seq} ${event} | ${race} ${board.status} | ${prices.join(", ")}${gap}`);
});

odds.addEventListener("state", ({ detail: { phase, reason, code } }) => {
  if (phase === "waiting") console.log(`lost: ${reason} (${code})`);
  if (phase === "closed") throw new Error(`closed: ${reason} (${code})`);
});
odds.connect();
