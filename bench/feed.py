"""A million quotes through `railbird publish`, compared with the client library, and with nats-server killed three times."""

import collections
import json
import os
import re
import shutil
import subprocess
import time

from common import POLL, BenchError, Figures, cpu_seconds, free_port, get, issue_key, log, metric, nats_server, programs
from common import run_json
from common import start_nats, start_railbird, stop, version

FULL = {"events": 1_000_000, "synced": 100_000}
SMALL = {"events": 50_000, "synced": 10_000}

# Of the client library.
WINDOW = 256
# nats-server's default, which measures the client, and the setting of nats.conf, which measures the disk.
SYNC = {"": '"2m"', "synced_": "always"}
KILLS = 3
DOWN_SECONDS = 1


class Feed:
    def __init__(self, bench, folder):
        self.bench = bench
        self.server = nats_server()
        self.railbird, self.load = programs(folder)

    def quotes(self, count):
        file = self.bench.folder / f"{count}.ndjson"
        written = run_json([self.load, "quotes", "--count", count, "--file", file])
        log(f"{count:,} quotes, {written['bytes'] / count:.0f} bytes each")
        return file

    def publish(self, url, file):
        return [self.railbird, "publish", file, "--nats", url]

    def raw(self, url, file):
        return [self.load, "--nats", url, "raw", "--file", file, "--window", WINDOW]

    def timed(self, command, sync, count):
        """Events per second of the whole command into an empty log, and CPU us per event of the command and of the server."""
        nats, addresses = start_nats(self.bench, self.server, options=f"jetstream {{ sync_interval: {sync} }}")
        try:
            command = [str(part) for part in command(addresses["nats"])]
            started = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            out = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            seconds, own_cpu = time.monotonic() - started, used.ru_utime + used.ru_stime
            if status:
                raise BenchError(f"{command} failed:\n{out}")
            if out.startswith("{"):
                # The load program leaves out its preparation.
                seconds, own_cpu = (json.loads(out)[name] for name in ("seconds", "cpu_seconds"))
            return count / seconds, own_cpu / count * 1e6, cpu_seconds(nats.pid) / count * 1e6
        finally:
            stop(nats)
            shutil.rmtree(self.bench.folder / "nats-log", ignore_errors=True)


def measure_rates(feed, figures, runs, counts):
    for prefix, sync in SYNC.items():
        count = counts[prefix]
        file = feed.quotes(count)
        for run in range(runs):
            for name, command in (("publish", feed.publish), ("raw", feed.raw)):
                rate, own_cpu, server_cpu = feed.timed(lambda url: command(url, file), sync, count)
                log(f"run {run + 1}: {prefix}{name:<8}{rate:>9,.0f} events/s, CPU us per event: {own_cpu:.2f}, nats-server {server_cpu:.2f}")
                figures.add(f"{prefix}{name}_events_per_second", rate)
                figures.add(f"{prefix}{name}_cpu_us_per_event", own_cpu)
                figures.add(f"{prefix}{name}_server_cpu_us_per_event", server_cpu)
        figures.ratio(f"{prefix}publish_rate", f"{prefix}publish_events_per_second", f"{prefix}raw_events_per_second")


class Oracle:
    """The expected board and history of each race, computed from the lines of the file."""

    def __init__(self, file):
        self.boards = collections.defaultdict(dict)
        self.histories = collections.defaultdict(list)
        with open(file) as lines:
            for line in lines:
                self.quote(json.loads(line))

    def quote(self, event):
        data = event["data"]
        race = (data["date"], data["venue"], data["race_number"])
        prices = [(runner["horse_no"], runner["win"], runner.get("place")) for runner in data["runners"]]
        self.histories[race].append((event["time"], prices))
        for horse, win, place in prices:
            opening, last, _, previous = self.boards[race].get(horse, (win, win, place, None))
            self.boards[race][horse] = (opening, win, place, last if win != last else previous)

    def differences(self, port, key):
        for (date, venue, number), prices in self.boards.items():
            path = f"/api/v1/odds/{date}/{number}/history?venue={venue}"
            history, next_page = [], path
            while next_page:
                status, _, body = get(port, next_page, {"X-API-Key": key})
                if status != 200:
                    yield f"{next_page} answers {status}"
                    break
                answer = json.loads(body)
                history += answer["history"]
                next_page = answer["next"]
            else:
                board = {r["horse_no"]: (r["opening"], r["win"], r["place"], r["previous"]) for r in answer["runners"]}
                if board != prices:
                    yield f"{path}: the board differs"
                quotes = [quote for quote in history if not quote["stale"]]
                quotes = [(q["time"], [(r["horse_no"], r["win"], r.get("place")) for r in q["runners"]]) for q in quotes]
                if quotes != self.histories[date, venue, number]:
                    yield f"{path}: the history differs"


def try_deaths(feed, figures, count):
    """Kills nats-server KILLS times while the file is published once and a service follows the log."""
    port, options = free_port(), "jetstream { sync_interval: always }"
    start = lambda: start_nats(feed.bench, feed.server, "deaths", options, port)
    nats, addresses = start()
    url = addresses["nats"]
    file = feed.bench.folder / f"{count}.ndjson"
    key = issue_key(feed.railbird, url)
    _, http, admin, _ = start_railbird(feed.bench, feed.railbird, url, feed.bench.folder / "data")
    started = time.monotonic()
    publishing = subprocess.Popen([str(part) for part in feed.publish(url, file)], stdout=subprocess.PIPE, text=True)
    feed.bench.stack.callback(stop, publishing)
    kills = 0
    while publishing.poll() is None:
        if kills < KILLS and metric(admin, "railbird_log_seq") >= (kills + 1) * count / (KILLS + 1):
            nats.kill()
            nats.wait()
            kills += 1
            log(f"killed nats-server, {kills} of {KILLS}")
            time.sleep(DOWN_SECONDS)
            nats, _ = start()
        time.sleep(POLL)
    seconds = time.monotonic() - started
    summary = publishing.stdout.read()
    if publishing.returncode or kills < KILLS:
        raise BenchError(f"publish ended with {publishing.returncode} after {kills} kills:\n{summary}")
    published, known = map(int, re.search(r"(\d+) published, (\d+) duplicates", summary).groups())
    in_log = run_json([feed.load, "--nats", url, "distinct", "--file", file])
    while metric(admin, "railbird_log_seq") < in_log["messages"]:
        time.sleep(POLL)
    log("comparing boards and histories with the file")
    differences = list(Oracle(file).differences(http, key))
    for difference in differences[:10]:
        log(f"DIFFERENCE {difference}")
    figures.facts |= {
        "deaths_kills": kills,
        "deaths_seconds": round(seconds, 1),
        "deaths_acknowledged": published + known,
        "deaths_acknowledged_as_known": known,
        "deaths_messages_in_log": in_log["messages"],
        "deaths_distinct_in_log": in_log["distinct"],
        "deaths_missing": in_log["missing"],
        "deaths_stale_in_views": int(metric(admin, "railbird_events_stale_total")),
        "deaths_objections": len(differences),
    }
    if in_log["missing"] or in_log["unknown"] or published + known != count or differences:
        figures.show()
        raise BenchError("events were lost, or the views differ")


def measure(bench, size, runs, folder):
    feed = Feed(bench, folder)
    figures = Figures()
    measure_rates(feed, figures, runs, {"": size["events"], "synced_": size["synced"]})
    figures.facts = {
        "events": size["events"],
        "synced_events": size["synced"],
        "window": WINDOW,
        "nats_server": version([feed.server, "--version"]),
    }
    try_deaths(feed, figures, size["events"])
    return figures
