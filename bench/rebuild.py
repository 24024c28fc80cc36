"""The fold of a log of 1,000,000 events into an empty store, and of eighteen seasons' worth of results, compared with
reading the same log; and live odds while the views are rebuilt."""

import json
import shutil
import subprocess
import time

from common import BenchError, Figures, cpu_seconds, get, issue_key, live_p99, log, metric, nats_server, programs, resident_bytes
from common import run_json, start_nats, start_railbird, stop, version

# Events in all and of each meeting. Eighteen seasons have 1,425 meetings with 171,000 runners.
FULL = {"odds": (1_000_000, 10_000), "results": (427_500, 300), "seconds": 20}
SMALL = {"odds": (50_000, 10_000), "results": (3_000, 300), "seconds": 2}


def fold(bench, figures, name, railbird, url, filled):
    """Folds the log into an empty store. Returns the digest of the views."""
    data = bench.folder / f"data-{name}"
    process, _, admin, seconds = start_railbird(bench, railbird, url, data)
    cpu = cpu_seconds(process.pid)
    if metric(admin, "railbird_log_seq") != filled["events"]:
        raise BenchError("railbird was ready before it had folded the log")
    digest = json.loads(get(admin, "/digest")[2])["digest"]
    figures.add(f"{name}_fold_events_per_second", filled["events"] / seconds)
    figures.add(f"{name}_fold_cpu_us_per_event", cpu / filled["events"] * 1e6)
    figures.add(f"{name}_store_bytes", metric(admin, "railbird_store_bytes"))
    figures.add(f"{name}_log_bytes", filled["bytes"])
    figures.add(f"{name}_peak_mb", resident_bytes(process, "VmHWM") / 1e6)
    stop(process)
    process, *_, seconds = start_railbird(bench, railbird, url, data)
    figures.add(f"{name}_restart_seconds", seconds)
    figures.add(f"{name}_resident_mb", resident_bytes(process) / 1e6)
    stop(process)
    shutil.rmtree(data)
    return digest


def measure_log(bench, figures, name, railbird, load, url, filled, runs):
    """Folds and reads the log in turn."""
    pulls = {"pull": [load, "--nats", url, "pull"], "bare_pull": [load, "--nats", url, "pull", "--bare"]}
    for pull in pulls.values():
        run_json(pull)
    digests = set()
    for run in range(runs):
        digests.add(fold(bench, figures, name, railbird, url, filled))
        log(f"run {run + 1}: {name}, fold {figures.runs[f'{name}_fold_events_per_second'][-1]:>9,.0f} events/s")
        for pull, command in pulls.items():
            started = time.monotonic()
            pulled = run_json(command)
            seconds = time.monotonic() - started
            if (pulled["events"], pulled["bytes"]) != (filled["events"], filled["bytes"]):
                raise BenchError("the pull did not read the whole log")
            log(f"run {run + 1}: {name}, {pull} {filled['events'] / seconds:>9,.0f} events/s")
            figures.add(f"{name}_{pull}_events_per_second", filled["events"] / seconds)
    if len(digests) != 1:
        raise BenchError(f"the folds differ: {digests}")
    aims = {"odds": (">= 0.5", ">= 0.35"), "results": (">= 0.33", "")}[name]
    for pull, aim in zip(pulls, aims, strict=True):
        figures.ratio(f"{name}_fold_to_{pull}", f"{name}_fold_events_per_second", f"{name}_{pull}_events_per_second", aim)
    figures.ratio(f"{name}_store_to_log", f"{name}_store_bytes", f"{name}_log_bytes", "<= 1.0" if name == "odds" else "")
    figures.facts[f"{name}_events"] = filled["events"]


def measure_live(bench, figures, railbird, load, url, runs, seconds):
    """Live odds while nothing else happens, and while the views are made again from the log."""
    key = issue_key(railbird, url)
    process, port, admin, _ = start_railbird(bench, railbird, url, bench.folder / "data-live")
    for run in range(runs):
        figures.add("live_p99_ms", live_p99(load, url, port, key, process, seconds))
        rebuild = subprocess.Popen([railbird, "rebuild", "--admin", f"127.0.0.1:{admin}"], stdout=subprocess.DEVNULL)
        figures.add("live_p99_ms_while_rebuilding", live_p99(load, url, port, key, process, seconds))
        if rebuild.wait() != 0:
            raise BenchError("the rebuild failed")
        log(f"run {run + 1}: live p99 {figures.runs['live_p99_ms'][-1]:.1f} ms, {figures.runs['live_p99_ms_while_rebuilding'][-1]:.1f} ms")
    figures.ratio("live_p99_while_rebuilding", "live_p99_ms_while_rebuilding", "live_p99_ms", "<= 2")


def measure(bench, size, runs, folder):
    server = nats_server()
    railbird, load = programs(folder)
    figures = Figures()
    for name in ("results", "odds"):
        nats, addresses = start_nats(bench, server, f"nats-{name}")
        url = addresses["nats"]
        events, of_meeting = size[name]
        log(f"publishing {events:,} events")
        filled = run_json([load, "--nats", url, "season", "--events", events, "--of-meeting", of_meeting])
        log(f"published {filled['events']:,} events, {filled['bytes'] / filled['events']:.0f} bytes each, in {filled['seconds']:.1f} s")
        measure_log(bench, figures, name, railbird, load, url, filled, runs)
        if name == "odds":
            measure_live(bench, figures, railbird, load, url, runs, size["seconds"])
        stop(nats)
    figures.facts["nats_server"] = version([server, "--version"])
    return figures
