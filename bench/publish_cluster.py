"""Quotes published to three synced nats-servers, compared with one, with the client library alone."""

import json
import shutil
import time

from common import POLL, Bench, BenchError, Figures, free_port, log, nats_server, programs, run_json, start_nats, stop
from common import version

FULL = {"events": 50_000, "alone": 2_000}
SMALL = {"events": 2_500, "alone": 100}

# That of `railbird publish`, for the rate.
WINDOW = 256
# As in nats.conf: an acknowledged event is on disk.
JETSTREAM = "jetstream { sync_interval: always }"
# Longer than JetStream needs to elect its first leader.
READY_SECONDS = 30


class Servers:
    """One server, or several as a cluster, with an empty log that has a replica on each."""

    def __init__(self, bench, server, load, count):
        self.bench, self.load, self.count = bench, load, count
        ports = [free_port() for _ in range(count)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.processes, urls = [], []
        for number, port in enumerate(ports, 1):
            cluster = f'server_name: node{number}\ncluster {{ name: bench, listen: "127.0.0.1:{port}", routes: [{routes}] }}'
            options = f"{JETSTREAM}\n{cluster if count > 1 else ''}"
            process, addresses = start_nats(bench, server, f"node{number}", options)
            self.processes.append(process)
            urls.append(addresses["nats"])
        self.url = ",".join(urls)

    def publish(self, file, window):
        return run_json([self.load, "--nats", self.url, "--replicas", self.count, "raw", "--file", file, "--window", window])

    def wait(self, file):
        """Publishes until that succeeds, which creates the log."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                return self.publish(file, 1)
            except BenchError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL)

    def end(self):
        for process in self.processes:
            stop(process)
        for folder in self.bench.folder.glob("node*-log"):
            shutil.rmtree(folder)


def measure(bench: Bench, size, runs, folder):
    server, (_, load) = nats_server(), programs(folder)
    figures, files = Figures(), {}
    # Those of the second and the third file are other quotes than those of the first.
    written = bench.folder / "all.ndjson"
    run_json([load, "quotes", "--count", 1 + size["alone"] + size["events"], "--file", written])
    lines = written.read_text().splitlines(keepends=True)
    for name, part in (("ready", lines[:1]), ("alone", lines[1 : 1 + size["alone"]]), ("rate", lines[1 + size["alone"] :])):
        files[name] = bench.folder / f"{name}.ndjson"
        files[name].write_text("".join(part))
    for run in range(runs):
        for name, count in (("one", 1), ("three", 3)):
            servers = Servers(bench, server, load, count)
            try:
                servers.wait(files["ready"])
                rate, alone = servers.publish(files["rate"], WINDOW), servers.publish(files["alone"], 1)
            finally:
                servers.end()
            per_second = rate["events"] / rate["seconds"]
            log(f"run {run + 1}: {name:<6}{per_second:>9,.0f} events/s, p99 {rate['ack_p99_ms']:.1f} ms; one at a time: {json.dumps(alone)}")
            figures.add(f"{name}_events_per_second", per_second)
            figures.add(f"{name}_ack_p99_ms", rate["ack_p99_ms"])
            figures.add(f"{name}_alone_ack_p50_ms", alone["ack_p50_ms"])
            figures.add(f"{name}_alone_ack_p99_ms", alone["ack_p99_ms"])
    for figure in ("events_per_second", "ack_p99_ms", "alone_ack_p50_ms", "alone_ack_p99_ms"):
        figures.ratio(figure, f"three_{figure}", f"one_{figure}")
    figures.facts = {**size, "window": WINDOW, "nats_server": version([server, "--version"])}
    return figures
