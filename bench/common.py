"""Shared by all benches: programs, folder and processes of a run, and the figures."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CORES = len(os.sched_getaffinity(0))

NOISY_SPREAD = 0.15
READY_TIMEOUT = 600
POLL = 0.01


# Plans without limits, except for the limits that a bench measures.
os.environ["RAILBIRD_PLANS"] = str(ROOT / "bench" / "plans.toml")


class BenchError(Exception):
    """The bench cannot go on; the message is the reason."""


def log(text):
    print(text, file=sys.stderr, flush=True)


def programs(folder):
    """The paths of railbird and railbird-bench: in a folder, or built now without one."""
    if folder:
        return [str(pathlib.Path(folder) / name) for name in ("railbird", "railbird-bench")]
    found = built("railbird", "railbird-bench")
    return found["railbird"], found["railbird-bench"]


def built(*packages):
    """The paths of the programs of packages, built now, by name."""
    log("building (release)")
    command = ["cargo", "build", "--release", "--locked", *(f"--package={package}" for package in packages)]
    messages = subprocess.run(command + ["--message-format=json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE)
    if messages.returncode != 0:
        raise BenchError("the build failed")
    found = {}
    for line in messages.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable"):
            found[message["target"]["name"]] = message["executable"]
    return found


def script(name, *args):
    """The path of a tool, which a script finds or installs."""
    found = subprocess.run([ROOT / "script" / name, *args], stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        raise BenchError(f"{' '.join([name, *args])} is missing")
    return found.stdout.strip()


def nats_server():
    return script("nats-server")


def version(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return re.search(r"\d+\.\d+(\.\d+)?", out).group()


class Bench:
    """A temporary folder and the processes that use it. Both are removed at the end, also after an error."""

    def __init__(self, stack):
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="railbird-bench-")))
        self.stack = stack

    def start(self, name, command):
        with open(self.folder / f"{name}.log", "ab") as out:
            process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=out, start_new_session=True)
        process.name = name
        self.stack.callback(stop, process)
        return process

    def tail(self, process):
        lines = (self.folder / f"{process.name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:])

    def check(self, process):
        if process.poll() is not None:
            raise BenchError(f"{process.name} ended with {process.returncode}:\n{self.tail(process)}")


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for_port(bench, process, port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        bench.check(process)
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(POLL)
    raise BenchError(f"{process.name} did not start")


def run_json(command):
    out = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if out.returncode != 0:
        raise BenchError(f"{command[0]} ended with {out.returncode}")
    return json.loads(out.stdout)


# nats-server's default interval: benches do not measure how fast the log is filled.
JETSTREAM = 'jetstream { sync_interval: "2m" }'


def start_nats(bench, server, name="nats", options=JETSTREAM, port=-1):
    """Starts a server on the log that an earlier one of this name left. Returns the process and its addresses by protocol."""
    config = bench.folder / f"{name}.conf"
    config.write_text(f'listen: "127.0.0.1:{port}"\nmax_payload: 1MB\n{options}\n')
    ports = bench.folder / f"{name}-ports"
    ports.mkdir(exist_ok=True)
    nats = bench.start(name, [server, "-c", config, "-sd", bench.folder / f"{name}-log", "--ports_file_dir", ports])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        bench.check(nats)
        for file in ports.glob(f"*_{nats.pid}.ports"):
            with contextlib.suppress(ValueError, KeyError, IndexError):
                return nats, {protocol: urls[0] for protocol, urls in json.loads(file.read_text()).items()}
        time.sleep(POLL)
    raise BenchError("nats-server did not start")


# As the service creates it.
ACCOUNTS = {"name": "ACCOUNTS", "subjects": ["accounts.>"], "deny_delete": True, "deny_purge": True, "allow_direct": True}


def create_accounts(url):
    """Keys are issued before the service starts, which would create the stream."""
    host, port = url.removeprefix("nats://").rsplit(":", 1)
    config = json.dumps(ACCOUNTS).encode()
    create = b"PUB $JS.API.STREAM.CREATE.ACCOUNTS inbox %d\r\n%s\r\n" % (len(config), config)
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answers:
        connection.sendall(b'CONNECT {"verbose":false}\r\nSUB inbox 1\r\n' + create)
        while not answers.readline().startswith(b"MSG"):
            pass


def issue_key(railbird, url, plan="default"):
    create_accounts(url)
    issue = [railbird, "keys", "issue", "--nats", url, "--plan", plan]
    return subprocess.run(issue, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout.split()[-1]


def get(port, path, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()
    finally:
        connection.close()


def metric(admin, name):
    """The value of a metric without labels; 0 if there is none."""
    found = re.search(rf"^{name} (\S+)$", get(admin, "/metrics")[2].decode(), re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def start_railbird(bench, railbird, url, data, options=(), under=()):
    """Returns the process, its HTTP and admin ports, and the seconds from start to readiness. `under` is a command that runs it."""
    port, admin = free_port(), free_port()
    started = time.monotonic()
    command = [railbird, "serve", "--nats", url, "--data", data, "--http", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    process = bench.start("railbird", [*under, *command, *options])
    while time.monotonic() - started < READY_TIMEOUT:
        bench.check(process)
        with contextlib.suppress(OSError):
            # That of /readyz, which has TLS where the service has.
            if json.loads(get(admin, "/status")[2])["ready"]:
                return process, port, admin, time.monotonic() - started
        time.sleep(POLL)
    raise BenchError(f"railbird was not ready within {READY_TIMEOUT} s")


LIVE_CLIENTS = 200
LIVE_RATE = 50


def live_p99(load, url, port, key, process, seconds):
    """The p99 in milliseconds of live odds, from their publication to a socket."""
    websocket = f"127.0.0.1:{port}/ws/live/odds?api_key={key}"
    command = [load, "--nats", url, "fanout", "--server", "railbird", "--ws", websocket, "--clients", LIVE_CLIENTS]
    command += ["--process", f"railbird={process.pid}", "--rate", LIVE_RATE, "--seconds", seconds, "--idle-seconds", 0, "--window", 0]
    measured = run_json(command)
    if measured["gaps"] or measured["conflated"]:
        raise BenchError(f"left out messages: {measured['gaps']} gaps, {measured['conflated']} conflated")
    return measured["rate"]["p99_ms"]


def resident_bytes(process, field="VmRSS"):
    """The memory of a process: now, or with `VmHWM` at most."""
    [line] = [line for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) * 1024


def cpu_seconds(pid):
    """User and system CPU seconds of a process and its children."""
    ticks = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if pid in (int(stat.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def spread(values):
    return (max(values) - min(values)) / median(values)


class Figures:
    """The measured values by run, and the ratios of their medians."""

    def __init__(self):
        self.runs = {}
        self.facts = {}
        self.ratios = []

    def add(self, name, value):
        self.runs.setdefault(name, []).append(value)

    def of(self, name):
        return median(self.runs[name])

    def ratio(self, name, over, under, aim=""):
        self.ratios.append((name, self.of(over) / self.of(under), aim))

    def difference(self, name, over, under, aim=""):
        self.ratios.append((name, self.of(over) - self.of(under), aim))

    def noisy(self):
        return [name for name, values in self.runs.items() if spread(values) > NOISY_SPREAD]

    def show(self):
        print(f"\n{'ratio or difference':<32}{'':>12}  aim")
        for name, value, aim in self.ratios:
            print(f"{name:<32}{value:>12.3f}  {aim}")
        print(f"\n{'median of ' + str(len(next(iter(self.runs.values())))):<32}{'':>12}  spread  runs")
        for name, values in self.runs.items():
            runs = " ".join(f"{value:.6g}" for value in values)
            print(f"{name:<32}{self.of(name):>12.6g}  {spread(values):>5.0%}   {runs}")
        print()
        for name, value in self.facts.items():
            print(f"{name:<32}{value:>12}")
        noisy = self.noisy()
        if noisy:
            print(f"\nNOISY: the runs differ by more than {NOISY_SPREAD:.0%} in {', '.join(noisy)}. Repeat when the machine is quiet.")

    def write(self, path):
        ratios = {name: round(value, 4) for name, value, _ in self.ratios}
        medians = {name: round(self.of(name), 4) for name in self.runs}
        spreads = {f"{name}_spread": round(spread(values), 4) for name, values in self.runs.items()}
        flat = {"ratios": ratios, **medians, **spreads, **self.facts, "noisy": bool(self.noisy())}
        pathlib.Path(path).write_text(json.dumps(flat, indent=2) + "\n")
