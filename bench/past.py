"""The past: an answer as of an earlier event in a short and in a long log, and live clients without and with replays."""

import datetime
import http.client
import json
import selectors
import shutil
import socket
import statistics
import subprocess
import threading
import time
import uuid

from common import BenchError, Figures, issue_key, log, nats_server, programs, run_json, start_nats, start_railbird, stop, version
from fanout import SPARE_FILES, Fanout, allow_files

FULL = {"events": [50_000, 1_000_000], "answers": 300, "clients": 1_000, "replays": 100, "recorded_seconds": 60, "seconds": 8}
SMALL = {"events": [2_500, 50_000], "answers": 50, "clients": 200, "replays": 20, "recorded_seconds": 10, "seconds": 2}

DATE = "2025-11-22"
RUNNERS = 14
QUOTES = 600
# Of a busy race day.
QUOTES_PER_SECOND = 10


def quote(n):
    """All runners of a race, each at another price than before."""
    runners = [{"horse_no": f"H{r}", "number": r, "win": round(2 + r * 1.3 + (n * (r + 3)) % 17 / 10, 1)} for r in range(1, RUNNERS + 1)]
    now = datetime.datetime.now(datetime.UTC).isoformat()
    data = {"date": DATE, "venue": "BN", "race_number": 1, "runners": runners}
    event = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "bench", "type": "racing.odds.quoted.v1", "time": now, "data": data}
    return json.dumps(event) + "\n"


def publish(railbird, url, lines):
    command = [railbird, "publish", "--nats", url, "-"]
    subprocess.run(command, input="".join(lines), text=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def answer_ms(port, key, answers, as_of):
    """The median of an answer as of events that were not asked for before, or of the latest one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times = []
    for n in range(answers):
        path = f"/api/v1/odds/{DATE}/1" + (f"?as_of={QUOTES // 2 + n % (QUOTES // 2)}" if as_of else "")
        begun = time.perf_counter()
        connection.request("GET", path, headers={"X-API-Key": key})
        response = connection.getresponse()
        body = response.read()
        times.append((time.perf_counter() - begun) * 1e3)
        if response.status != 200:
            raise BenchError(f"{path} answers {response.status}: {body}")
    return statistics.median(times)


def measure_answers(bench, size, figures, railbird, load):
    for name, events in zip(("short", "long"), size["events"], strict=True):
        nats, addresses = start_nats(bench, nats_server())
        url = addresses["nats"]
        key = issue_key(railbird, url)
        publish(railbird, url, [quote(n) for n in range(QUOTES)])
        run_json([load, "--nats", url, "season", "--events", events])
        data = bench.folder / "data"
        process, port, _, _ = start_railbird(bench, railbird, url, data)
        for kind, as_of in (("as_of", True), ("latest", False)):
            value = answer_ms(port, key, size["answers"], as_of)
            figures.add(f"{name}_{kind}_ms", value)
            log(f"{name} log: {kind} {value:.2f} ms")
        for running in (process, nats):
            stop(running)
        shutil.rmtree(data)
        shutil.rmtree(bench.folder / "nats-log")


class Replays:
    """Clients of replays that read and forget what they are sent."""

    def __init__(self, port, key, count):
        self.selector = selectors.DefaultSelector()
        self.received = 0
        path = f"/ws/replay/odds?date={DATE}&api_key={key}"
        head = f"GET {path} HTTP/1.1\r\nHost: railbird\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(head.encode())
            answer = client.recv(64)
            if not answer.startswith(b"HTTP/1.1 101"):
                raise BenchError(f"a replay is refused: {answer}")
            self.selector.register(client, selectors.EVENT_READ)
        self.is_over = False
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.is_over:
            for found, _ in self.selector.select(0.1):
                self.received += len(found.fileobj.recv(1 << 16))

    def stop(self):
        self.is_over = True
        self.thread.join()
        for found in list(self.selector.get_map().values()):
            found.fileobj.close()


def measure_replays(bench, size, figures, railbird, fanout):
    nats, addresses = start_nats(bench, fanout.nats)
    url = addresses["nats"]
    key = issue_key(railbird, url)
    limit = size["clients"] + size["replays"] + SPARE_FILES
    data = bench.folder / "data"
    options = ["--connections-max", limit, "--connections-per-network", limit]
    process, port, _, _ = start_railbird(bench, railbird, url, data, options)
    for _ in range(size["recorded_seconds"]):
        begun = time.monotonic()
        publish(railbird, url, [quote(n) for n in range(QUOTES_PER_SECOND)])
        time.sleep(max(0, 1 - (time.monotonic() - begun)))
    websocket = f"127.0.0.1:{port}/ws/live/odds?api_key={key}"
    processes = {"railbird": process, "log": nats}

    def p99_ms():
        return fanout.run(url, "railbird", websocket, size["clients"], processes, "--window", 0, "--idle-seconds", 0)["rate"]["p99_ms"]

    figures.add("alone_p99_ms", p99_ms())
    replays = Replays(port, key, size["replays"])
    try:
        figures.add("with_replays_p99_ms", p99_ms())
    finally:
        replays.stop()
    if not replays.received:
        raise BenchError("no replay has sent anything")
    for running in (process, nats):
        stop(running)
    shutil.rmtree(data)
    shutil.rmtree(bench.folder / "nats-log")


def measure(bench, size, runs, folder):
    railbird, load = programs(folder)
    allow_files(2 * (size["clients"] + size["replays"]))
    fanout = Fanout(bench, size, folder)
    figures = Figures()
    for run in range(runs):
        measure_answers(bench, size, figures, railbird, load)
        measure_replays(bench, size, figures, railbird, fanout)
        log(f"run {run + 1} is over")
    figures.ratio("as_of_long_to_short", "long_as_of_ms", "short_as_of_ms", "<= 1.3")
    figures.ratio("live_p99_with_replays", "with_replays_p99_ms", "alone_p99_ms", "<= 1.2")
    figures.facts.update(size, nats_server=version([fanout.nats, "--version"]))
    return figures
