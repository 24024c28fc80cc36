"""The start of a replica from a snapshot of 2,000,000 events, compared with the fold of the same log; and live odds while
a snapshot is written, compared with no such writer."""

import json
import shutil
import subprocess
import threading

from common import BenchError, Figures, get, issue_key, live_p99, log, metric, nats_server, programs, run_json
from common import start_nats, start_railbird, stop, version

FULL = {"events": 1_000_000, "seconds": 20}
SMALL = {"events": 250_000, "seconds": 4}

# Each snapshot is asked for.
NO_WRITER = ["--snapshot-every", "0s", "--snapshot-secret", "the-secret-of-the-replicas-of-a-bench"]


class Writer:
    """Has a service write one snapshot after the other."""

    def __init__(self, railbird, admin):
        self.command = [railbird, "snapshot", "create", "--admin", f"127.0.0.1:{admin}"]
        self.stopped = threading.Event()
        self.written = 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopped.is_set():
            subprocess.run([str(part) for part in self.command], check=True, stdout=subprocess.DEVNULL)
            self.written += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()
        if not self.written:
            raise BenchError("no snapshot was written")


def start(bench, railbird, url, run, expected):
    """A replica with an empty folder. Returns it, the seconds until it was ready, and the digest."""
    data = bench.folder / f"data-{run}"
    process, port, admin, seconds = start_railbird(bench, railbird, url, data, NO_WRITER)
    if metric(admin, "railbird_log_seq") != expected:
        raise BenchError("railbird was ready before it had all events")
    return process, port, admin, seconds, json.loads(get(admin, "/digest")[2])["digest"]


def measure(bench, size, runs, folder):
    server = nats_server()
    railbird, load = programs(folder)
    _, addresses = start_nats(bench, server)
    url = addresses["nats"]
    log(f"publishing {size['events']:,} events")
    filled = run_json([load, "--nats", url, "season", "--events", size["events"]])
    key = issue_key(railbird, url)
    figures = Figures()
    digests = set()
    for run in range(runs):
        process, _, admin, seconds, digest = start(bench, railbird, url, run, filled["events"])
        digests.add(digest)
        figures.add("fold_seconds", seconds)
        log(f"run {run + 1}: ready after a fold of the log in {seconds:.1f} s")
        if run + 1 == runs:
            written = subprocess.run([railbird, "snapshot", "create", "--admin", f"127.0.0.1:{admin}"], check=True, capture_output=True, text=True)
            log(written.stdout.strip())
            figures.facts["snapshot_bytes"] = metric(admin, "railbird_snapshot_bytes")
            figures.facts["store_bytes"] = metric(admin, "railbird_store_bytes")
        stop(process)
        shutil.rmtree(bench.folder / f"data-{run}")
    for run in range(runs):
        process, port, admin, seconds, digest = start(bench, railbird, url, run, filled["events"])
        digests.add(digest)
        figures.add("load_seconds", seconds)
        log(f"run {run + 1}: ready from a snapshot in {seconds:.1f} s")
        if run + 1 < runs:
            stop(process)
            shutil.rmtree(bench.folder / f"data-{run}")
    if len(digests) != 1:
        raise BenchError(f"the views differ: {digests}")
    for run in range(runs):
        quiet = live_p99(load, url, port, key, process, size["seconds"])
        with Writer(railbird, admin) as writer:
            writing = live_p99(load, url, port, key, process, size["seconds"])
        figures.add("live_p99_ms", quiet)
        figures.add("live_p99_ms_while_writing", writing)
        log(f"run {run + 1}: live p99 {quiet:.1f} ms, {writing:.1f} ms while {writer.written} snapshots were written")
    stop(process)
    figures.ratio("load", "load_seconds", "fold_seconds", "<= 0.1")
    figures.ratio("live_p99", "live_p99_ms_while_writing", "live_p99_ms")
    figures.facts |= {"events": filled["events"], "log_bytes": filled["bytes"], "nats_server": version([server, "--version"])}
    return figures
