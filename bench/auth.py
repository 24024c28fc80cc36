"""What the key of a request and the limits of its plan cost, beside the same answer without a key."""

import re
import subprocess

from common import CORES, Failed, Figures, cpu_seconds, get, issue_key, median, nats_server, need, programs, run_json, say
from common import start_nats, start_railbird, version

FULL = {"turn_seconds": 2, "turns": 10, "seconds": 10, "calls": 5_000_000, "unauthenticated": 1_000_000}
SMALL = {"turn_seconds": 1, "turns": 1, "seconds": 2, "calls": 200_000, "unauthenticated": 20_000}

CONNECTIONS = 64
# The same request but for the path, the same handler and the same answer: under /api/v1 the key is looked at before.
OPEN, GUARDED = "/no/such/path", "/api/v1/no/such/path"
PROFILE = "/api/v1/horses/HK_2016_000000"
# Of the plan `small`, and how often who is over its limit asks.
ALLOWED, GREEDY = 100, 1_000
RATE = 500


def wrk(program, seconds, url, key):
    """Requests, and p99 in ms. What the answers say was looked at before."""
    command = [program, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-H", f"X-API-Key: {key}", url]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    if "Socket errors" in out:
        raise Failed(f"not every request was answered:\n{out}")
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    p99_ms = float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
    return int(re.search(r"(\d+) requests in", out).group(1)), p99_ms


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


class Scene:
    def __init__(self, bench, size, folder):
        self.bench, self.size, self.wrk = bench, size, need("wrk")
        self.railbird, self.load = programs(folder)
        _, addresses = start_nats(bench, nats_server())
        url = addresses["nats"]
        run_json([self.load, "--nats", url, "horses", "--count", 1_000])
        self.keys = {plan: issue_key(self.railbird, url, plan) for plan in ("default", "metered", "small")}
        options = ["--trusted-proxies", "127.0.0.1"]
        self.service, self.port, *_ = start_railbird(bench, self.railbird, url, bench.folder / "data", options)

    def expect(self, path, plan, status, limit):
        """Holds an answer to be the one that is meant to be measured."""
        found, headers, _ = get(self.port, path, {"X-API-Key": self.keys[plan]})
        told = dict((name.lower(), value) for name, value in headers).get("x-ratelimit-limit")
        if (found, told is not None) != (status, limit):
            raise Failed(f"{path} on {plan} is {found}, with limit {told}")

    def load_with(self, path, plan, seconds):
        """Requests, their CPU in seconds, and p99 in ms."""
        before = cpu_seconds(self.service.pid)
        asked, p99_ms = wrk(self.wrk, seconds, f"http://127.0.0.1:{self.port}{path}", self.keys[plan])
        return asked, cpu_seconds(self.service.pid) - before, p99_ms

    def asking(self, plan, rate, seconds):
        address = ["--http", f"127.0.0.1:{self.port}", "--key", self.keys[plan], "--path", PROFILE]
        return [self.load, "http-load", *address, "--rate", rate, "--seconds", seconds, "--or-refused"]

    def ask_beside(self, plan):
        """How long the answers of one key take while another one, on a plan, asks as often as the greedy."""
        beside = self.bench.start("beside", self.asking(plan, GREEDY, self.size["seconds"] + 2)) if plan else None
        asked = run_json(self.asking("metered", RATE, self.size["seconds"]))
        if beside and beside.wait():
            raise Failed(f"who asks beside ended:\n{self.bench.tail(beside)}")
        return asked


SERVINGS = {
    "open": (OPEN, "default", 404, False),
    "keyed": (GUARDED, "default", 404, False),
    "metered": (GUARDED, "metered", 404, True),
    "profile": (PROFILE, "metered", 200, True),
}


def measure_checks(figures, scene, runs):
    """The same work, with more before it each time. They take turns often, so that what else goes on here falls on all of them."""
    seconds, rounds = scene.size["turn_seconds"], scene.size["turns"]
    for path, plan, status, limit in SERVINGS.values():
        scene.expect(path, plan, status, limit)
        scene.load_with(path, plan, seconds)
    for run in range(runs):
        turns = {name: [] for name in SERVINGS}
        for _ in range(rounds):
            for name, (path, plan, *_) in SERVINGS.items():
                turns[name].append(scene.load_with(path, plan, seconds))
        for name, took in turns.items():
            asked = sum(turn[0] for turn in took)
            cpu_us = sum(turn[1] for turn in took) / asked * 1e6
            per_second, p99_ms = asked / (rounds * seconds), median([turn[2] for turn in took])
            say(f"run {run + 1}: {name:<12}{per_second:>8.0f} requests/s, {cpu_us:.2f} us of CPU a request, p99 {p99_ms:.2f} ms")
            figures.add(f"{name}_cpu_us_per_request", cpu_us)
            figures.add(f"{name}_requests_per_second", per_second)
            figures.add(f"{name}_p99_ms", p99_ms)
    cpu = "{}_cpu_us_per_request".format
    figures.difference("key_and_limits_cpu_us", cpu("metered"), cpu("open"), "<= 0.5")
    figures.difference("key_cpu_us", cpu("keyed"), cpu("open"))
    figures.difference("limits_cpu_us", cpu("metered"), cpu("keyed"))
    figures.ratio("metered_requests_per_second", "metered_requests_per_second", "open_requests_per_second")
    figures.ratio("metered_cpu_per_request", cpu("metered"), cpu("open"))


def measure_calls(figures, scene, runs):
    """The same in one thread, without HTTP."""
    for _ in range(runs):
        for name, ns in run_json([scene.load, "check", "--count", scene.size["calls"]]).items():
            figures.add(name, ns)


def measure_greed(figures, scene, runs):
    for run in range(runs):
        for name, plan in (("alone", None), ("beside_allowed", "default"), ("beside_refused", "small")):
            asked = scene.ask_beside(plan)
            say(f"run {run + 1}: {name:<16}p50 {asked['p50_ms']:.2f} ms, p99 {asked['p99_ms']:.2f} ms, {asked['refused']} refused")
            if asked["refused"]:
                raise Failed("one key was refused for what another one asked")
            for figure in ("p50_ms", "p99_ms"):
                figures.add(f"greed_{name}_{figure}", asked[figure])
    figures.ratio("greed_p99", "greed_beside_refused_p99_ms", "greed_alone_p99_ms")
    figures.ratio("greed_p99_of_allowed", "greed_beside_refused_p99_ms", "greed_beside_allowed_p99_ms")


def measure_unauthenticated(figures, scene):
    """As many keys that were never issued, each from a network address of its own. The first ones warm up what does not grow."""
    load = [scene.load, "unauthenticated", "--http", f"127.0.0.1:{scene.port}", "--count"]
    run_json([*load, scene.size["unauthenticated"] // 10])
    before = resident_kib(scene.service.pid)
    asked = run_json([*load, scene.size["unauthenticated"]])
    grown = resident_kib(scene.service.pid) - before
    say(f"{scene.size['unauthenticated']:,} requests without a valid key: {asked['unauthorized']:,} times 401, {asked['refused']:,} times 429, memory grew by {grown:,} KiB")
    figures.facts |= {"unauthenticated": scene.size["unauthenticated"], "unauthenticated_refused": asked["refused"], "unauthenticated_memory_kib": grown}


def measure(bench, size, runs, folder):
    figures = Figures()
    scene = Scene(bench, size, folder)
    measure_checks(figures, scene, runs)
    measure_calls(figures, scene, runs)
    measure_greed(figures, scene, runs)
    measure_unauthenticated(figures, scene)
    figures.facts |= {"threads": CORES, "wrk": version([scene.wrk, "-v"]), "greedy_times_its_limit": GREEDY // ALLOWED}
    return figures
