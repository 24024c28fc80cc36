"""The fold of a log of 1,000,000 events into an empty store, compared with reading the same log."""

import json
import shutil
import time

from common import BenchError, Figures, cpu_seconds, get, log, metric, nats_server, programs, run_json, start_nats
from common import start_railbird, stop, version

FULL = {"events": 1_000_000}
SMALL = {"events": 50_000}


def measure(bench, size, runs, folder):
    server = nats_server()
    railbird, load = programs(folder)
    _, addresses = start_nats(bench, server)
    url = addresses["nats"]
    log(f"publishing {size['events']:,} events")
    filled = run_json([load, "--nats", url, "season", "--events", size["events"]])
    log(f"published {filled['events']:,} events, {filled['bytes'] / filled['events']:.0f} bytes each, in {filled['seconds']:.1f} s")
    pull = [load, "--nats", url, "pull"]
    run_json(pull)

    figures = Figures()
    digests = set()
    for run in range(runs):
        data = bench.folder / f"data-{run}"
        process, _, admin, seconds = start_railbird(bench, railbird, url, data)
        cpu = cpu_seconds(process.pid)
        if metric(admin, "railbird_log_seq") != filled["events"]:
            raise BenchError("railbird was ready before it had folded the log")
        digests.add(json.loads(get(admin, "/digest")[2])["digest"])
        keys = [line.split(b" ", 1)[1] for line in get(admin, "/views")[2].splitlines()]
        views = sum(not key.startswith((b"meta/", b"state/")) for key in keys)
        store = metric(admin, "railbird_store_bytes")
        stop(process)
        shutil.rmtree(data)
        log(f"run {run + 1}: fold {filled['events'] / seconds:>9,.0f} events/s")
        figures.add("fold_events_per_second", filled["events"] / seconds)
        figures.add("fold_cpu_us_per_event", cpu / filled["events"] * 1e6)
        figures.add("store_bytes", store)

        started = time.monotonic()
        pulled = run_json(pull)
        seconds = time.monotonic() - started
        if (pulled["events"], pulled["bytes"]) != (filled["events"], filled["bytes"]):
            raise BenchError("the pull did not read the whole log")
        log(f"run {run + 1}: pull {filled['events'] / seconds:>9,.0f} events/s")
        figures.add("pull_events_per_second", filled["events"] / seconds)
    if len(digests) != 1:
        raise BenchError(f"the folds differ: {digests}")
    figures.ratio("rebuild_rate", "fold_events_per_second", "pull_events_per_second", ">= 0.333")
    figures.facts = {
        "events": filled["events"],
        "log_bytes": filled["bytes"],
        "views": views,
        "keys": len(keys),
        "nats_server": version([server, "--version"]),
    }
    return figures
