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

FULL = {"short_events": 200_000, "long_events": 1_000_000, "answers": 300, "clients": 1_000, "replays": 100, "recorded_seconds": 60, "seconds": 8}
SMALL = {"short_events": 2_500, "long_events": 25_000, "answers": 50, "clients": 200, "replays": 20, "recorded_seconds": 10, "seconds": 2}

DATE = "2025-11-22"
RUNNERS = 14
QUOTES = 600
# Of each runner.
STARTS = 60
# Of a busy race day.
QUOTES_PER_SECOND = 10
# The answers that are measured: a card, a result, the runs of a horse with 60 starts, and a board with 600 quotes.
ANSWERS = {
    "card": f"/api/v1/racecards/{DATE}",
    "result": f"/api/v1/results/{DATE}/1",
    "form": "/api/v1/horses/H1/form",
    "board": f"/api/v1/odds/{DATE}/1",
}


def line(kind, date, data):
    now = datetime.datetime.now(datetime.UTC).isoformat()
    data = {"date": date, "venue": "BN", "race_number": 1, **data}
    event = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "bench", "type": f"racing.{kind}.v1", "time": now, "data": data}
    return json.dumps(event) + "\n"


def quote(n):
    """All runners of a race, each at another price than before."""
    runners = [{"horse_no": f"H{r}", "number": r, "win": round(2 + r * 1.3 + (n * (r + 3)) % 17 / 10, 1)} for r in range(1, RUNNERS + 1)]
    return line("odds.quoted", DATE, {"runners": runners})


def starts():
    """The cards and results of the races of 14 horses, the last one on the date of the quotes."""
    for n in reversed(range(STARTS)):
        date = (datetime.date.fromisoformat(DATE) - datetime.timedelta(days=7 * n)).isoformat()
        names = [{"horse_no": f"H{r}", "horse_name": f"HORSE {r}", "jockey": f"J {r}", "trainer": f"T {r}"} for r in range(1, RUNNERS + 1)]
        numbered = [{**horse, "number": r, "draw": r, "weight": 120} for r, horse in enumerate(names, 1)]
        yield line("race.declared", date, {"race_name": "Bench Plate", "distance": 1200, "class": "3", "runners": numbered})
        placed = [{**horse, "position": r, "finish_time": f"1:09.{10 + r}", "win_odds": 2 + r} for r, horse in enumerate(names, 1)]
        yield line("result.declared", date, {"revision": 1, "status": "official", "runners": placed})


def publish(railbird, url, lines):
    command = [railbird, "publish", "--nats", url, "-"]
    done = subprocess.run(command, input="".join(lines), text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise BenchError(f"publish fails: {done.stderr}")


def answers_ms(port, key, path, answers, place):
    """The sorted times of answers, as of places that were not asked for before, or of the present."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times = []
    for n in range(answers):
        target = path + (f"?as_of={place(n)}" if place else "")
        begun = time.perf_counter()
        connection.request("GET", target, headers={"X-API-Key": key})
        response = connection.getresponse()
        body = response.read()
        times.append((time.perf_counter() - begun) * 1e3)
        if response.status != 200:
            raise BenchError(f"{target} answers {response.status}: {body}")
    return sorted(times)


class Log:
    """A server with a log of some events, and a service on it."""

    def __init__(self, bench, name, facts, size, railbird, load):
        self.bench, self.name, self.railbird = bench, name, railbird
        self.nats, addresses = start_nats(bench, nats_server(), name)
        self.url = addresses["nats"]
        self.key = issue_key(railbird, self.url)
        self.data = bench.folder / f"{name}-data"
        publish(railbird, self.url, facts)
        run_json([load, "--nats", self.url, "season", "--events", size[f"{name}_events"]])

    def start(self):
        self.process, self.port, _, _ = start_railbird(self.bench, self.railbird, self.url, self.data)

    def stop(self):
        stop(self.process)
        shutil.rmtree(self.data)

    def remove(self):
        stop(self.nats)
        shutil.rmtree(self.bench.folder / f"{self.name}-log")


def measure_answers(bench, size, runs, figures, railbird, load):
    """Each run folds both logs into empty stores, and asks them in turn: what else the machine does is the same."""
    facts = [*starts(), *(quote(n) for n in range(QUOTES))]
    logs = [Log(bench, name, facts, size, railbird, load) for name in ("short", "long")]
    for _ in range(runs):
        for of in logs:
            of.start()
        for number, (kind, path) in enumerate(ANSWERS.items()):
            # Of one race, an answer as of the same event is kept for all kinds.
            places = lambda n, number=number: len(facts) + 1 + n * len(ANSWERS) + number
            for when, place in (("as_of", places), ("now", None)):
                for of in logs:
                    times = answers_ms(of.port, of.key, path, size["answers"], place)
                    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
                    figures.add(f"{of.name}_{kind}_{when}_p50_ms", p50)
                    figures.add(f"{of.name}_{kind}_{when}_p99_ms", p99)
                    log(f"{of.name} log: {kind} {when}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        for of in logs:
            of.stop()
    for of in logs:
        of.remove()


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
    measure_answers(bench, size, runs, figures, railbird, load)
    for run in range(runs):
        measure_replays(bench, size, figures, railbird, fanout)
        log(f"run {run + 1} is over")
    for kind in ANSWERS:
        for percentile in ("p50", "p99"):
            of = f"{kind}_as_of_{percentile}_ms"
            figures.ratio(f"long_to_short_{kind}_{percentile}", f"long_{of}", f"short_{of}", "<= 1.3")
    figures.ratio("live_p99_with_replays", "with_replays_p99_ms", "alone_p99_ms", "<= 1.2")
    figures.facts.update(size, nats_server=version([fanout.nats, "--version"]))
    return figures
