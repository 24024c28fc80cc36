"""The cost of the key check, of plan limits and of counting the use, compared with the same answer without a key."""

import re
import subprocess

from common import CORES, BenchError, Figures, cpu_seconds, get, issue_key, log, median, nats_server, programs, run_json, script
from common import start_nats, start_railbird, version

FULL = {"turn_seconds": 2, "turns": 10, "seconds": 10, "calls": 5_000_000, "unauthenticated": 1_000_000}
SMALL = {"turn_seconds": 1, "turns": 1, "seconds": 2, "calls": 200_000, "unauthenticated": 20_000}

CONNECTIONS = 64
# Two paths with the same handler and the same answer; only the one under /api/v1 needs a key.
OPEN, GUARDED = "/no/such/path", "/api/v1/no/such/path"
PROFILE = "/api/v1/horses/HK_2016_000000"
# Requests per second: the limit of the plan `small`, and the rate of a client that exceeds it.
ALLOWED, GREEDY = 100, 1_000
RATE = 500


def wrk(program, seconds, url, key):
    """The number of requests, and p99 in ms. The caller has checked the answer."""
    command = [program, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-H", f"X-API-Key: {key}", url]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    if "Socket errors" in out:
        raise BenchError(f"not every request was answered:\n{out}")
    number, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", out).groups()
    p99_ms = float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]
    return int(re.search(r"(\d+) requests in", out).group(1)), p99_ms


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


class Setup:
    def __init__(self, bench, size, folder):
        self.bench, self.size, self.wrk = bench, size, script("program", "wrk")
        self.railbird, self.load = programs(folder)
        _, addresses = start_nats(bench, nats_server())
        url = addresses["nats"]
        run_json([self.load, "--nats", url, "horses", "--count", 1_000])
        self.keys = {plan: issue_key(self.railbird, url, plan) for plan in ("default", "metered", "small")}
        options = ["--trusted-proxies", "127.0.0.1"]
        self.service, self.port, *_ = start_railbird(bench, self.railbird, url, bench.folder / "data", options)

    def expect(self, path, plan, status, limit):
        """Checks that the answer is the one to measure: its status, and whether it has a rate limit."""
        found, headers, _ = get(self.port, path, {"X-API-Key": self.keys[plan]})
        found_limit = dict((name.lower(), value) for name, value in headers).get("x-ratelimit-limit")
        if (found, found_limit is not None) != (status, limit):
            raise BenchError(f"{path} on plan {plan} answers {found} with limit {found_limit}")

    def load_with(self, path, plan, seconds):
        """The number of requests, their CPU in seconds, and p99 in ms."""
        before = cpu_seconds(self.service.pid)
        requests, p99_ms = wrk(self.wrk, seconds, f"http://127.0.0.1:{self.port}{path}", self.keys[plan])
        return requests, cpu_seconds(self.service.pid) - before, p99_ms

    def load_command(self, plan, rate, seconds):
        address = ["--http", f"127.0.0.1:{self.port}", "--key", self.keys[plan], "--path", PROFILE]
        return [self.load, "http-load", *address, "--rate", rate, "--seconds", seconds, "--or-refused"]

    def request_beside(self, plan):
        """Answer times of one key while another key, on a plan, sends GREEDY requests per second."""
        beside = self.bench.start("beside", self.load_command(plan, GREEDY, self.size["seconds"] + 2)) if plan else None
        answers = run_json(self.load_command("metered", RATE, self.size["seconds"]))
        if beside and beside.wait():
            raise BenchError(f"the load of the other key failed:\n{self.bench.tail(beside)}")
        return answers


ANSWERS = {
    "open": (OPEN, "default", 404, False),
    "keyed": (GUARDED, "default", 404, False),
    "metered": (GUARDED, "metered", 404, True),
    "profile": (PROFILE, "metered", 200, True),
}


def measure_checks(figures, setup, runs):
    """The same work with more checks before it each time, in short turns so that background load affects all of them."""
    seconds, rounds = setup.size["turn_seconds"], setup.size["turns"]
    for path, plan, status, limit in ANSWERS.values():
        setup.expect(path, plan, status, limit)
        setup.load_with(path, plan, seconds)
    for run in range(runs):
        turns = {name: [] for name in ANSWERS}
        for _ in range(rounds):
            for name, (path, plan, *_) in ANSWERS.items():
                turns[name].append(setup.load_with(path, plan, seconds))
        for name, measured in turns.items():
            requests = sum(turn[0] for turn in measured)
            cpu_us = sum(turn[1] for turn in measured) / requests * 1e6
            per_second, p99_ms = requests / (rounds * seconds), median([turn[2] for turn in measured])
            log(f"run {run + 1}: {name:<12}{per_second:>8.0f} requests/s, {cpu_us:.2f} us of CPU per request, p99 {p99_ms:.2f} ms")
            figures.add(f"{name}_cpu_us_per_request", cpu_us)
            figures.add(f"{name}_requests_per_second", per_second)
            figures.add(f"{name}_p99_ms", p99_ms)
    cpu = "{}_cpu_us_per_request".format
    figures.difference("key_and_limits_cpu_us", cpu("metered"), cpu("open"), "<= 0.5")
    figures.difference("key_cpu_us", cpu("keyed"), cpu("open"))
    figures.difference("limits_cpu_us", cpu("metered"), cpu("keyed"))
    figures.ratio("metered_requests_per_second", "metered_requests_per_second", "open_requests_per_second")
    figures.ratio("metered_cpu_per_request", cpu("metered"), cpu("open"))


def measure_calls(figures, setup, runs):
    """The checks in one thread, without HTTP, compared with the hash of the key, without which none can be checked."""
    for _ in range(runs):
        for name, ns in run_json([setup.load, "check", "--count", setup.size["calls"]]).items():
            figures.add(name, ns)
    figures.ratio("call_all", "call_all_ns", "call_hash_ns")


def measure_greed(figures, setup, runs):
    for run in range(runs):
        for name, plan in (("alone", None), ("beside_allowed", "default"), ("beside_refused", "small")):
            answers = setup.request_beside(plan)
            log(f"run {run + 1}: {name:<16}p50 {answers['p50_ms']:.2f} ms, p99 {answers['p99_ms']:.2f} ms, {answers['refused']} rejected")
            if answers["refused"]:
                raise BenchError("a key was rate-limited for the requests of another key")
            for figure in ("p50_ms", "p99_ms"):
                figures.add(f"greed_{name}_{figure}", answers[figure])
    figures.ratio("greed_p99", "greed_beside_refused_p99_ms", "greed_alone_p99_ms")
    figures.ratio("greed_p99_of_allowed", "greed_beside_refused_p99_ms", "greed_beside_allowed_p99_ms")


def measure_unauthenticated(figures, setup):
    """Memory growth by requests with keys that were never issued, each from its own network address; first a tenth to warm up."""
    load = [setup.load, "unauthenticated", "--http", f"127.0.0.1:{setup.port}", "--count"]
    run_json([*load, setup.size["unauthenticated"] // 10])
    before = resident_kib(setup.service.pid)
    answers = run_json([*load, setup.size["unauthenticated"]])
    grown = resident_kib(setup.service.pid) - before
    log(f"{setup.size['unauthenticated']:,} unknown keys: {answers['unauthorized']:,} times 401, {answers['refused']:,} times 429, memory grew by {grown:,} KiB")
    figures.facts |= {"unauthenticated": setup.size["unauthenticated"], "unauthenticated_refused": answers["refused"], "unauthenticated_memory_kib": grown}


def measure(bench, size, runs, folder):
    figures = Figures()
    setup = Setup(bench, size, folder)
    measure_checks(figures, setup, runs)
    measure_calls(figures, setup, runs)
    measure_greed(figures, setup, runs)
    measure_unauthenticated(figures, setup)
    figures.facts |= {"threads": CORES, "wrk": version([setup.wrk, "-v"]), "greedy_times_its_limit": GREEDY // ALLOWED}
    return figures
