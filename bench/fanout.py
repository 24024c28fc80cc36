"""Live odds to many WebSocket clients, beside nats-server's own gateway with the same messages."""

import resource
import shutil
import subprocess

from common import BenchError, Figures, issue_key, nats_server, programs, run_json, log, start_nats, start_railbird, stop, version

FULL = {"clients": [200, 1_000, 5_000, 10_000], "idle_seconds": 16, "seconds": 8}
SMALL = {"clients": [200, 1_000], "idle_seconds": 2, "seconds": 2}

RATE = 50
WINDOW = 256
# Files that a server with no client has open.
SPARE_FILES = 200
# Behind by more than this after the last message, a server did not keep up.
BEHIND_MS = 1_000

GATEWAY = 'websocket { listen: "127.0.0.1:-1", no_tls: true }'


def allow_files(clients):
    """For the servers and the load: what is started inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = clients + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise BenchError(f"{clients} clients need {needed} open files, and only {hard} are allowed: raise ulimit -Hn, or give --clients")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


class Fanout:
    def __init__(self, bench, size, folder):
        self.bench = bench
        self.size = size
        self.nats = nats_server()
        self.railbird, self.load = programs(folder)
        help_text = subprocess.run([self.railbird, "serve", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        # What has no limit for a key has no filters either.
        self.has_flag = "--connections-per-key" in help_text
        self.has_filters = self.has_flag or "--plans" in help_text
        self.text = None

    def measure_railbird(self, clients):
        """All clients follow all races, then each of them one; the second is None where there are no filters."""
        nats, addresses = start_nats(self.bench, self.nats)
        url = addresses["nats"]
        key = issue_key(self.railbird, url)
        options = ["--connections-max", clients + SPARE_FILES]
        if self.has_flag:
            options += ["--connections-per-key", clients + SPARE_FILES]
        data = self.bench.folder / "data"
        railbird, port, _, _ = start_railbird(self.bench, self.railbird, url, data, options)
        websocket = f"127.0.0.1:{port}/ws/live/odds?api_key={key}"
        processes = {"railbird": railbird, "log": nats}
        try:
            followed = self.run(url, "railbird", websocket, clients, processes)
            self.text = followed["text"]
            one_race = self.run(url, "railbird", websocket, clients, processes, "--one-race") if self.has_filters else None
            return followed, one_race
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

    def run(self, url, server, websocket, clients, processes, *options):
        command = [self.load, "--nats", url, "fanout", "--server", server, "--ws", websocket, "--clients", clients]
        for name, process in processes.items():
            command += ["--process", f"{name}={process.pid}"]
        idle = 0 if "--one-race" in options else self.size["idle_seconds"]
        command += ["--rate", RATE, "--window", WINDOW, "--seconds", self.size["seconds"], "--idle-seconds", idle, *options]
        done = run_json(command)
        if done["gaps"] or done["conflated"]:
            raise BenchError(f"{server} left out messages: {done['gaps']} gaps, {done['conflated']} conflated")
        return done


def cpu(phase):
    """Of all processes together."""
    return sum(value for name, value in phase.items() if name.endswith("_cpu_s_per_million"))


def note(figures, run, name, done, idle=True):
    rate, saturation = done["rate"], done["saturation"]
    taken = {
        "p50_ms": rate["p50_ms"],
        "p99_ms": rate["p99_ms"],
        f"cpu_at_{RATE}": cpu(rate),
        "deliveries_per_s": saturation["deliveries_per_second"],
        "cpu": cpu(saturation),
    }
    if idle:
        taken["idle_kib"] = done["idle_kib_per_connection"]
    if "log_cpu_s_per_million" in rate:
        taken[f"own_cpu_at_{RATE}"] = rate["railbird_cpu_s_per_million"]
        taken["own_cpu"] = saturation["railbird_cpu_s_per_million"]
        taken[f"fan_out_cpu_at_{RATE}"] = rate["fan_out_threads"]
        taken["fan_out_cpu"] = saturation["fan_out_threads"]
    for figure, value in taken.items():
        figures.add(f"{name}_{figure}", value)
    for who in ("load_cores", "others_cores"):
        cores = max(round(rate[who], 2), round(saturation[who], 2))
        figures.facts[f"{who}_max"] = max(figures.facts.get(f"{who}_max", 0), cores)
    if rate["behind_ms"] > BEHIND_MS:
        figures.facts[f"{name}_kept_up"] = "no"
    log(
        f"run {run + 1}: {name:<16}{taken.get('idle_kib', 0):>6.1f} KiB; at {RATE}/s p50 {rate['p50_ms']:.1f} ms, "
        f"p99 {rate['p99_ms']:.1f} ms, {cpu(rate):.2f} CPU s a million; {saturation['deliveries_per_second']:,.0f} deliveries/s, "
        f"{cpu(saturation):.3f} CPU s a million; cores for the load {rate['load_cores']:.2f}, {saturation['load_cores']:.2f}, "
        f"for others {rate['others_cores']:.2f}, {saturation['others_cores']:.2f}"
    )


def measure(bench, size, runs, folder):
    allow_files(max(size["clients"]))
    fanout = Fanout(bench, size, folder)
    if not fanout.has_filters:
        log("this railbird has no filters: that each client follows one race is not measured")
    figures = Figures()
    for clients in size["clients"]:
        for run in range(runs):
            followed, one_race = fanout.measure_railbird(clients)
            note(figures, run, f"{clients}_railbird", followed)
            if one_race:
                note(figures, run, f"{clients}_one_race", one_race, idle=False)
            gateway = fanout.measure_gateway(clients)
            note(figures, run, f"{clients}_nats", gateway)
        aims = {"deliveries_per_s": ">= 8", "cpu": "<= 0.125", "p99_ms": "<= 0.5"} if clients == 5_000 else {}
        for figure in ("deliveries_per_s", "cpu", f"cpu_at_{RATE}", "p50_ms", "p99_ms", "idle_kib"):
            figures.ratio(f"{clients}_{figure}", f"{clients}_railbird_{figure}", f"{clients}_nats_{figure}", aims.get(figure, ""))
        if fanout.has_filters:
            for figure in (f"{whose}{figure}" for whose in ("", "own_", "fan_out_") for figure in ("cpu", f"cpu_at_{RATE}")):
                figures.ratio(f"{clients}_one_race_{figure}", f"{clients}_one_race_{figure}", f"{clients}_railbird_{figure}")
    figures.facts |= {
        "railbird_message_bytes": round(followed["bytes_per_message"]),
        "nats_message_bytes": round(gateway["bytes_per_message"]),
        "window": WINDOW,
        "nats_server": version([fanout.nats, "--version"]),
    }
    return figures
