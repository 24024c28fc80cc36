// Keeps a correct board of each open race, through lost connections and restarts of the service.
const { RAILBIRD_URL = "ws://127.0.0.1:8080/ws/live/odds", RAILBIRD_API_KEY: key } = process.env;
if (!key) { console.error("RAILBIRD_API_KEY has to hold an API key"); process.exit(1); }
const url = `${RAILBIRD_URL}${RAILBIRD_URL.includes("?") ? "&" : "?"}api_key=${key}`;
let boards = {}, last = {}, since, at, epoch, heartbeat, wait, failures = 0;

function take(m) {
  const race = `${m.date} ${m.venue_code} ${m.race_number}`, kind = `${m.event} | ${race}`;
  const had = m.snapshot ? 0 : (last[kind] ?? 0);
  if (m.seq <= had) return `${m.seq} ${kind} came again`;
  const gap = had && m.prev_seq && m.prev_seq !== had ? ` | GAP after ${had}` : "";
  last[kind] = m.seq;
  if (m.event === "odds_update") boards[race] = m;
  const board = boards[race] ?? { status: "no board", runners: [] };
  if (m.event === "status_update") board.status = m.status;
  const prices = board.runners.map((r) => `${r.number} ${r.horse_name} ${r.win ?? r.state}`);
  return `${m.seq} ${kind} ${board.status} | ${prices.join(", ")}${gap}`;
}

for (;; await new Promise((slept) => setTimeout(slept, wait))) {
  [heartbeat, wait] = [5000, 1 + 1000 * Math.random() * Math.min(30, 2 ** failures++)];
  const resume = since === undefined ? "" : `&since=${since}&recorded_at=${at}&epoch=${epoch}`;
  const socket = new WebSocket(url + resume);
  await new Promise((lost) => {
    let silence = setTimeout(lost, 2 * heartbeat);
    socket.onerror = socket.onclose = lost;
    socket.onmessage = ({ data }) => {
      const m = JSON.parse(data);
      ({ epoch = epoch, heartbeat_ms: heartbeat = heartbeat, retry_after_ms: wait = wait } = m);
      clearTimeout(silence); silence = setTimeout(lost, 2 * heartbeat);
      if (m.event === "resync" || (m.event === "welcome" && !m.recovered))
        [boards, last, since] = [{}, {}, undefined];
      else if (m.event === "snapshot_complete" || (since !== undefined && "recorded_at" in m && !m.more))
        [since, at, failures] = [m.seq, m.recorded_at, 0];
      console.log("race_number" in m ? take(m) : data);
    };
  }).then((e) => console.log(`lost: ${e?.code ?? (e ? "no connection" : "no heartbeat")}`));
  socket.onmessage = null; socket.close();
  if (wait === 0) process.exit(1); // The same request would fail again.
}
