"""HTTP answer times while a feeder publishes invalid messages at full speed, and their size on disk."""

import json
import shutil
import subprocess
import time

from common import JETSTREAM, POLL, BenchError, Figures, issue_key, log, metric, nats_server, programs, run_json, start_nats
from common import start_railbird, stop, version

FULL = {"seconds": 10, "events": 100_000}
SMALL = {"seconds": 2, "events": 10_000}

RATE = 500
# Payload bytes: the size of an event, and one that is kept only in part.
NOISE = {"small": 100, "large": 8_000}
# nats-server's default, with which they are published fastest, and the setting of nats.conf.
SYNC = {"": JETSTREAM, "synced_": "jetstream { sync_interval: always }"}
PATHS = [
    "/api/v1/horses/HK_2021_000005",
    "/api/v1/horses/HK_2021_000005/form",
    "/api/v1/racecards/2025-09-03",
    "/api/v1/results/2025-09-03",
    "/api/v1/odds/2025-09-03/3",
]


class Setup:
    """A service on the log of a season, its nats-server, and another nats-server without a service."""

    def __init__(self, bench, size, folder, sync):
        self.bench, self.seconds = bench, size["seconds"]
        server = nats_server()
        railbird, self.load = programs(folder)
        self.nats, addresses = start_nats(bench, server, options=sync)
        self.other, others = start_nats(bench, server, "other", sync)
        self.url, self.other_url = addresses["nats"], others["nats"]
        run_json([self.load, "--nats", self.url, "season", "--events", size["events"]])
        run_json([self.load, "--nats", self.other_url, "horses", "--count", 1])
        self.key = issue_key(railbird, self.url)
        self.service, self.port, self.admin, _ = start_railbird(bench, railbird, self.url, bench.folder / "data")

    def close(self):
        for process in (self.service, self.nats, self.other):
            stop(process)
        for name in ("data", "nats-log", "other-log"):
            shutil.rmtree(self.bench.folder / name, ignore_errors=True)

    def measure_answers(self):
        paths = [part for path in PATHS for part in ("--path", path)]
        address = ["--http", f"127.0.0.1:{self.port}", "--key", self.key]
        return run_json([self.load, "http-load", *address, "--rate", RATE, "--seconds", self.seconds, *paths])

    def measure_answers_while_fed(self, url, noise):
        """Measures answers while invalid events are published; that starts earlier and ends later."""
        command = [self.load, "--nats", url, "invalid-events", "--bytes", noise, "--seconds", self.seconds + 2]
        feeding = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
        self.bench.stack.callback(stop, feeding)
        time.sleep(1)
        answers = self.measure_answers()
        out = feeding.stdout.read()
        if feeding.wait():
            raise BenchError("publishing invalid events failed")
        fed = json.loads(out)
        return answers, fed["events"], fed["events"] / fed["seconds"]

    def seq(self):
        return metric(self.admin, "railbird_log_seq")

    def until_idle(self, seq):
        while self.seq() < seq:
            time.sleep(POLL)


def measure_one(figures, setup, name, noise, runs):
    for run in range(runs):
        alone = setup.measure_answers()
        beside, _, _ = setup.measure_answers_while_fed(setup.other_url, noise)
        before, bytes_before = setup.seq(), metric(setup.admin, "railbird_store_bytes")
        fed, events, rate = setup.measure_answers_while_fed(setup.url, noise)
        folded = setup.seq() - before
        setup.until_idle(before + events)
        time.sleep(1)
        kept = (metric(setup.admin, "railbird_store_bytes") - bytes_before) / events
        for case, answers in (("alone", alone), ("beside", beside), ("fed", fed)):
            for figure in ("p50_ms", "p99_ms", "p999_ms"):
                figures.add(f"{name}_{case}_{figure}", answers[figure])
        figures.add(f"{name}_invalid_events_per_second", rate)
        figures.add(f"{name}_folded_meanwhile", folded / events)
        figures.add(f"{name}_store_bytes_each", kept)
        log(
            f"run {run + 1}: {name}: p99 alone {alone['p99_ms']:.2f} ms, beside {beside['p99_ms']:.2f} ms, fed {fed['p99_ms']:.2f} ms; "
            f"{rate:,.0f} messages/s, {folded / events:.0%} folded meanwhile, {kept:,.0f} bytes of store per message"
        )
    figures.ratio(f"{name}_p99", f"{name}_fed_p99_ms", f"{name}_alone_p99_ms")
    figures.ratio(f"{name}_p99_of_beside", f"{name}_fed_p99_ms", f"{name}_beside_p99_ms")


def measure(bench, size, runs, folder):
    figures = Figures()
    for prefix, sync in SYNC.items():
        for kind, noise in NOISE.items():
            setup = Setup(bench, size, folder, sync)
            try:
                measure_one(figures, setup, f"{prefix}{kind}", noise, runs)
            finally:
                setup.close()
    figures.facts = {"requests_per_second": RATE, "nats_server": version([nats_server(), "--version"])}
    return figures
