"""Keeps a correct board of each open race, through lost connections and restarts of the service."""
import json, os, random, sys, time
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

URL = os.environ.get("RAILBIRD_URL", "ws://127.0.0.1:8080/ws/live/odds")
KEY = os.environ.get("RAILBIRD_API_KEY") or sys.exit("RAILBIRD_API_KEY has to hold an API key")
boards, last, since, at, epoch, failures = {}, {}, None, None, None, 0

def take(m, event):
    race = f"{m['date']} {m['venue_code']} {m['race_number']}"
    had = 0 if m.get("snapshot") else last.get((race, event), 0)
    if m["seq"] <= had: return f"{m['seq']} {event} | {race} came again"
    gap = f" | GAP after {had}" if had and m["prev_seq"] not in (had, 0) else ""
    last[race, event] = m["seq"]
    if event == "odds_update": boards[race] = m
    board = boards.get(race, {"status": "no board", "runners": []})
    if event == "status_update": board["status"] = m["status"]
    prices = [f"{r['number']} {r['horse_name']} {r['win'] or r['state']}" for r in board["runners"]]
    return f"{m['seq']} {event} | {race} {board['status']} | {', '.join(prices)}{gap}"

while True:
    resume = "" if since is None else f"{'&' if '?' in URL else '?'}since={since}&recorded_at={at}&epoch={epoch}"
    heartbeat, wait, failures = 5000, random.uniform(1, 1000 * min(30, 2**failures)), failures + 1
    try:
        with connect(URL + resume, additional_headers={"X-API-Key": KEY}, close_timeout=1) as ws:
            while True:
                m = json.loads(text := ws.recv(timeout=2 * heartbeat / 1000))
                event, epoch = m["event"], m.get("epoch", epoch)
                heartbeat, wait = m.get("heartbeat_ms", heartbeat), m.get("retry_after_ms", wait)
                if event == "resync" or event == "welcome" and not m.get("recovered"):
                    boards, last, since = {}, {}, None
                elif event == "snapshot_complete" or since is not None and "recorded_at" in m and "more" not in m:
                    since, at, failures = m["seq"], m["recorded_at"], 0
                print(take(m, event) if "race_number" in m else text, flush=True)
    except (OSError, WebSocketException) as error:
        if wait == 0 or isinstance(error, InvalidStatus) and error.response.status_code in (400, 401, 403): raise
        print(f"lost: {type(error).__name__}: {error}", flush=True)
    time.sleep(wait / 1000)
