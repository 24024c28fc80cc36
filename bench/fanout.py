"""Live odds to many WebSocket clients, compared with nats-server's WebSocket gateway and the same messages, with
uWebSockets, and with a loop that writes them."""

import datetime
import json
import pathlib
import resource
import shutil
import subprocess
import uuid

from common import ROOT, BenchError, Figures, free_port, issue_key, log, nats_server, programs, run_json, script, start_nats, start_railbird
from common import stop, version, wait_for_port

FULL = {"clients": [200, 5_000], "idle_seconds": 6, "seconds": 6}
SMALL = {"clients": [200, 1_000], "idle_seconds": 2, "seconds": 2}

RATE = 50
WINDOW = 256
# Open files of a server without clients.
SPARE_FILES = 200
# A server that is further behind after the last message did not keep up.
BEHIND_MS = 1_000

# Kinds of live odds beside full images: the query, and what the client offers.
KINDS = {
    "image": ("", ()),
    "image_deflated": ("", ("--deflate",)),
    "quote": ("&events=none&markets=win_place", ()),
    "quote_deflated": ("&events=none&markets=win_place", ("--deflate",)),
}
KINDS_CLIENTS = 5_000
# A field of average size in Hong Kong.
RUNNERS = 12

GATEWAY = 'websocket { listen: "127.0.0.1:-1", no_tls: true }'


# The WebSocket server of Bun is uWebSockets, in C++.
UWEBSOCKETS = "bench/uwebsockets"


def find_bun():
    packages = pathlib.Path(script("node-packages", UWEBSOCKETS))
    found = list(packages.glob("@oven/bun-linux-*/bin/bun"))
    if not found:
        raise BenchError(f"{UWEBSOCKETS}/package.json has no Bun for this machine")
    return found[0]


def allow_files(clients):
    """Raises the limit of open files for this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = clients + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchError(f"{clients} clients need {needed} open files, but only {hard} are allowed: raise ulimit -Hn, or set --clients")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


class Fanout:
    def __init__(self, bench, size, folder):
        self.bench = bench
        self.size = size
        self.nats = nats_server()
        self.railbird, self.load = programs(folder)
        self.text = None

    def measure_railbird(self, clients):
        """Measures with all clients on all races, then with each client on one race."""
        nats, addresses = start_nats(self.bench, self.nats)
        url = addresses["nats"]
        key = issue_key(self.railbird, url)
        limit = clients + SPARE_FILES
        options = ["--connections-max", limit, "--connections-per-network", limit]
        data = self.bench.folder / "data"
        railbird, port, _, _ = start_railbird(self.bench, self.railbird, url, data, options)
        websocket = f"127.0.0.1:{port}/ws/live/odds?api_key={key}"
        processes = {"railbird": railbird, "log": nats}
        try:
            all_races = self.run(url, "railbird", websocket, clients, processes)
            self.text = all_races["text"]
            return all_races, self.run(url, "railbird", websocket, clients, processes, "--one-race")
        finally:
            stop(railbird)
            stop(nats)
            shutil.rmtree(data, ignore_errors=True)
            shutil.rmtree(self.bench.folder / "nats-log", ignore_errors=True)

    def measure_kinds(self, clients):
        """Measures each kind of live odds about boards of real size."""
        nats, addresses = start_nats(self.bench, self.nats)
        url = addresses["nats"]
        key = issue_key(self.railbird, url)
        limit = clients + SPARE_FILES
        data = self.bench.folder / "data"
        options = ["--connections-max", limit, "--connections-per-network", limit]
        railbird, port, _, _ = start_railbird(self.bench, self.railbird, url, data, options)
        subprocess.run([self.railbird, "publish", "--nats", url, "-"], input=boards(), text=True, check=True, stdout=subprocess.DEVNULL)
        processes = {"railbird": railbird, "log": nats}
        websocket = f"127.0.0.1:{port}/ws/live/odds?api_key={key}"
        try:
            return {
                kind: self.run(url, "railbird", websocket + query, clients, processes, "--window", 0, "--idle-seconds", 0, *more)
                for kind, (query, more) in KINDS.items()
            }
        finally:
            stop(railbird)
            stop(nats)
            shutil.rmtree(data, ignore_errors=True)
            shutil.rmtree(self.bench.folder / "nats-log", ignore_errors=True)

    def measure_gateway(self, clients):
        nats, addresses = start_nats(self.bench, self.nats, "gateway", GATEWAY)
        try:
            websocket = addresses["websocket"].removeprefix("ws://")
            return self.run(addresses["nats"], "nats", websocket, clients, {"nats": nats}, "--text", self.text)
        finally:
            stop(nats)

    def measure_uwebsockets(self, clients, bun):
        """Each message of NATS is published to all sockets by uWebSockets."""
        peer = ROOT / UWEBSOCKETS / "peer.mjs"
        return self.measure_relay(clients, "uwebsockets", lambda nats, port: [bun, peer, nats.rsplit(":", 1)[1], port])

    def measure_loop(self, clients):
        """The limit: each message of NATS is written to each socket in a loop."""
        return self.measure_relay(clients, "loop", lambda nats, port: [self.load, "--nats", nats, "write-loop", "--ws", f"127.0.0.1:{port}"])

    def measure_relay(self, clients, name, command):
        """Measures a program that passes on what it receives from NATS. `command` gets the URL of NATS and a port."""
        nats, addresses = start_nats(self.bench, self.nats, name)
        port = free_port()
        relay = self.bench.start(f"{name}-relay", command(addresses["nats"], port))
        try:
            wait_for_port(self.bench, relay, port)
            measured = self.run(addresses["nats"], "loop", f"127.0.0.1:{port}", clients, {name: relay}, "--text", self.text)
            self.bench.check(relay)
            return measured
        finally:
            stop(relay)
            stop(nats)

    def run(self, url, server, websocket, clients, processes, *options):
        command = [self.load, "--nats", url, "fanout", "--server", server, "--ws", websocket, "--clients", clients]
        for name, process in processes.items():
            command += ["--process", f"{name}={process.pid}"]
        command += ["--rate", RATE, "--seconds", self.size["seconds"], *options]
        if "--window" not in options:
            command += ["--window", WINDOW, "--idle-seconds", 0 if "--one-race" in options else self.size["idle_seconds"]]
        measured = run_json(command)
        if measured["gaps"] or measured["conflated"]:
            raise BenchError(f"{next(iter(processes))} left out messages: {measured['gaps']} gaps, {measured['conflated']} conflated")
        return measured


def boards():
    """A quote of all runners of each race, one per line."""
    now = datetime.datetime.now(datetime.UTC).isoformat()
    lines = []
    for race in range(11, 21):
        runners = [
            {"horse_no": f"RB_{number}", "horse_name": f"HORSE NUMBER {number}", "number": number, "win": number + 1.5, "place": 1.9}
            for number in range(1, RUNNERS + 1)
        ]
        data = {"date": "2026-11-21", "venue": "RB", "race_number": race, "runners": runners}
        event = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "bench", "type": "racing.odds.quoted.v1", "time": now, "data": data}
        lines.append(json.dumps(event))
    return "\n".join(lines) + "\n"


def cpu(phase):
    """CPU seconds per million deliveries, of all processes."""
    return sum(value for name, value in phase.items() if name.endswith("_cpu_s_per_million"))


def add_figures(figures, run, name, measured, idle=True):
    rate, saturation = measured["rate"], measured["saturation"]
    values = {
        "p50_ms": rate["p50_ms"],
        "p99_ms": rate["p99_ms"],
        f"cpu_at_{RATE}": cpu(rate),
        "deliveries_per_s": saturation["deliveries_per_second"],
        "cpu": cpu(saturation),
    }
    if idle:
        values["idle_kib"] = measured["idle_kib_per_connection"]
    if "log_cpu_s_per_million" in rate:
        values[f"own_cpu_at_{RATE}"] = rate["railbird_cpu_s_per_million"]
        values["own_cpu"] = saturation["railbird_cpu_s_per_million"]
        values[f"fan_out_cpu_at_{RATE}"] = rate["fan_out_threads"]
        values["fan_out_cpu"] = saturation["fan_out_threads"]
    for figure, value in values.items():
        figures.add(f"{name}_{figure}", value)
    for user in ("load_cores", "others_cores"):
        cores = max(round(rate[user], 2), round(saturation[user], 2))
        figures.facts[f"{user}_max"] = max(figures.facts.get(f"{user}_max", 0), cores)
    if rate["behind_ms"] > BEHIND_MS:
        figures.facts[f"{name}_kept_up"] = "no"
    log(
        f"run {run + 1}: {name:<16}{values.get('idle_kib', 0):>6.1f} KiB; at {RATE}/s p50 {rate['p50_ms']:.1f} ms, "
        f"p99 {rate['p99_ms']:.1f} ms, {cpu(rate):.2f} CPU s per million; {saturation['deliveries_per_second']:,.0f} deliveries/s, "
        f"{cpu(saturation):.3f} CPU s per million; cores of the load {rate['load_cores']:.2f}, {saturation['load_cores']:.2f}, "
        f"of other processes {rate['others_cores']:.2f}, {saturation['others_cores']:.2f}"
    )


def add_kinds(figures, fanout, runs):
    for run in range(runs):
        for kind, measured in fanout.measure_kinds(KINDS_CLIENTS).items():
            rate = measured["rate"]
            values = {"bytes": measured["bytes_per_message"], f"cpu_at_{RATE}": cpu(rate), "p50_ms": rate["p50_ms"], "p99_ms": rate["p99_ms"]}
            for figure, value in values.items():
                figures.add(f"{KINDS_CLIENTS}_{kind}_{figure}", value)
            log(f"run {run + 1}: {kind:<16}" + ", ".join(f"{name} {value:.2f}" for name, value in values.items()))
    for kind in list(KINDS)[1:]:
        for figure in ("bytes", f"cpu_at_{RATE}", "p99_ms"):
            name = f"{KINDS_CLIENTS}_{kind}_{figure}"
            figures.ratio(name, name, f"{KINDS_CLIENTS}_image_{figure}")


def measure(bench, size, runs, folder):
    allow_files(max(size["clients"]))
    bun = find_bun()
    fanout = Fanout(bench, size, folder)
    figures = Figures()
    for clients in size["clients"]:
        for run in range(runs):
            all_races, one_race = fanout.measure_railbird(clients)
            add_figures(figures, run, f"{clients}_railbird", all_races)
            add_figures(figures, run, f"{clients}_one_race", one_race, idle=False)
            gateway = fanout.measure_gateway(clients)
            add_figures(figures, run, f"{clients}_nats", gateway)
            add_figures(figures, run, f"{clients}_uwebsockets", fanout.measure_uwebsockets(clients, bun), idle=False)
            add_figures(figures, run, f"{clients}_loop", fanout.measure_loop(clients), idle=False)
        if clients == KINDS_CLIENTS:
            add_kinds(figures, fanout, runs)
        aims = {"deliveries_per_s": ">= 8", "cpu": "<= 0.125", "p99_ms": "<= 0.5"} if clients == 5_000 else {}
        for figure in ("deliveries_per_s", "cpu", f"cpu_at_{RATE}", "p50_ms", "p99_ms", "idle_kib"):
            figures.ratio(f"{clients}_{figure}", f"{clients}_railbird_{figure}", f"{clients}_nats_{figure}", aims.get(figure, ""))
        # Without nats-server, which stores for railbird what it only passes on to uWebSockets and the loop.
        for peer, aim in (("uwebsockets", "<= 1"), ("loop", "<= 1.15")):
            for figure in ("cpu", f"cpu_at_{RATE}"):
                figures.ratio(f"{clients}_{figure}_to_{peer}", f"{clients}_railbird_own_{figure}", f"{clients}_{peer}_{figure}", aim)
        for figure, aim in (("deliveries_per_s", ""), ("p50_ms", ""), ("p99_ms", "<= 1")):
            figures.ratio(f"{clients}_{figure}_to_uwebsockets", f"{clients}_railbird_{figure}", f"{clients}_uwebsockets_{figure}", aim)
        for figure in (f"{prefix}{figure}" for prefix in ("", "own_", "fan_out_") for figure in ("cpu", f"cpu_at_{RATE}")):
            figures.ratio(f"{clients}_one_race_{figure}", f"{clients}_one_race_{figure}", f"{clients}_railbird_{figure}")
    figures.facts |= {
        "railbird_message_bytes": round(all_races["bytes_per_message"]),
        "nats_message_bytes": round(gateway["bytes_per_message"]),
        "window": WINDOW,
        "nats_server": version([fanout.nats, "--version"]),
        "bun": version([bun, "--version"]),
    }
    return figures
