// Keeps a correct board of each open race, through lost connections and restarts of the service.
import { LiveOdds } from "../clients/js/railbird.js";

const { RAILBIRD_URL = "ws://127.0.0.1:8080/ws/live/odds", RAILBIRD_API_KEY: apiKey } = process.env;
if (!apiKey) throw new Error("RAILBIRD_API_KEY has to hold an API key");
const odds = new LiveOdds(RAILBIRD_URL, { apiKey });
const boards = new Map();

odds.addEventListener("message", ({ detail: message }) => {
  if (["welcome", "resync"].includes(message.event) && !message.recovered) boards.clear();
  console.log("race_number" in message ? take(message) : JSON.stringify(message));
});
odds.addEventListener("state", ({ detail: { phase, reason, gaps } }) => {
  console.log(`${phase}: ${reason}, ${gaps} gaps`);
  if (phase === "closed") process.exitCode = 1;
});
odds.connect();

function take({ event, date, venue_code, race_number, seq, ...message }) {
  const race = `${date} ${venue_code} ${race_number}`;
  if (event === "odds_update") boards.set(race, message);
  const board = boards.get(race) ?? { status: "no board", runners: [] };
  if (event === "status_update") board.status = message.status;
  const prices = board.runners.map((runner) => `${runner.number} ${runner.horse_name} ${runner.win ?? runner.state}`);
  return `${seq} ${event} | ${race} ${board.status} | ${prices.join(", ")}`;
}
