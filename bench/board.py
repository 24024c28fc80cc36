"""The board in a browser: 300 runners on one page, 50 updates a second. Fails on long tasks, and on memory that grows."""

import datetime
import json
import subprocess
import threading
import time
import uuid

from common import POLL, READY_TIMEOUT, ROOT, BenchError, Figures, get, issue_key, log, nats_server, programs, script, start_nats
from common import start_railbird

FULL = {"seconds": 60, "memory_seconds": 600}
SMALL = {"seconds": 15, "memory_seconds": 0}

RACES = 25
RUNNERS = 12
UPDATES_PER_SECOND = 50
LONG_TASK_MS_MAX = 50
# Of the used heap after garbage collections: of its peak in the last two minutes over that in the first two.
HEAP_GROWTH_MAX = 0.10
# Quotes of each race before the page is opened: more than it keeps, so that its memory is at its highest from the
# start.
QUOTES_BEFORE = 600
MEASURED = ["texts_changed_per_second", "frames_per_second", "busy_share", "heap_start_mb", "heap_end_mb", "nodes_end"]
DATE = "2026-11-21"
VENUE = "BN"


def event(kind, number, data):
    data = {"date": DATE, "venue": VENUE, "race_number": number, **data}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "bench", "type": f"racing.{kind}.v1", "time": now, "data": data}


def horse(number, runner):
    return f"H{number:02}{runner:02}"


def opening():
    for number in range(1, RACES + 1):
        runners = [
            {"horse_no": horse(number, n), "horse_name": f"BENCH HORSE {number} {n}", "number": n, "jockey": "J Ockey", "trainer": "T Rainer", "draw": n, "weight": 126}
            for n in range(1, RUNNERS + 1)
        ]
        yield event("race.declared", number, {"race_name": "THE BENCH PLATE", "distance": 1200, "class": "4", "runners": runners})
        yield event("race.status_changed", number, {"status": "open"})
        for step in range(QUOTES_BEFORE):
            yield quote(number, step)


def quote(number, step):
    """All runners of a race, each at another price than before."""
    win = [round(2 + n * 1.3 + (step * (n + 3)) % 17 / 10, 1) for n in range(1, RUNNERS + 1)]
    return event("odds.quoted", number, {"runners": [{"horse_no": horse(number, n), "number": n, "win": price} for n, price in enumerate(win, 1)]})


class Publisher:
    """`railbird publish -` with quotes at an even rate, until it is stopped."""

    def __init__(self, bench, railbird, url):
        self.process = subprocess.Popen([railbird, "publish", "-", "--nats", url], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        bench.stack.callback(self.stop)
        self.stopping = threading.Event()
        self.published = 0
        self.send(list(opening()))
        self.thread = threading.Thread(target=self.publish)

    def send(self, events):
        for one in events:
            self.process.stdin.write(json.dumps(one) + "\n")
        self.process.stdin.flush()

    def publish(self):
        start = time.monotonic()
        while not self.stopping.is_set():
            due = int((time.monotonic() - start) * UPDATES_PER_SECOND)
            self.send([quote(n % RACES + 1, n // RACES + QUOTES_BEFORE) for n in range(self.published, due)])
            self.published = due
            self.stopping.wait(1 / UPDATES_PER_SECOND)

    def stop(self):
        self.stopping.set()
        if self.process.poll() is None:
            if self.thread.is_alive():
                self.thread.join()
            self.process.stdin.close()
            self.process.wait(30)


def measure_page(bench, port, key, size):
    script("node-packages", "tests/browser")
    address = f"http://127.0.0.1:{port}/#/{DATE}"
    command = [script("node"), ROOT / "tests/browser/board_bench.mjs", address, str(RACES * RUNNERS), str(size["seconds"]), str(size["memory_seconds"])]
    environment = {"RAILBIRD_BROWSER": script("browser"), "RAILBIRD_API_KEY": key, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if found.returncode != 0:
        raise BenchError("the page could not be measured")
    return json.loads(found.stdout)


def check(found):
    """The reasons why the page is not good enough."""
    if found["gaps"] or not found["is_live"]:
        yield "the live channel had gaps or was lost"
    if found["longest_task_ms"] > LONG_TASK_MS_MAX:
        yield f"{found['long_tasks']} tasks were longer than {LONG_TASK_MS_MAX} ms, the longest {found['longest_task_ms']:.0f} ms"
    if found["heap_growth"] > HEAP_GROWTH_MAX:
        yield f"the used heap grew by {found['heap_growth']:.0%}"
    if found["nodes_end"] > found["nodes_start"] * 1.05:
        yield f"the page has {found['nodes_end']} nodes, {found['nodes_start']} at the start"


def until_seq(port, key, seq):
    """Waits until the service has folded this many events."""
    deadline = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < deadline:
        headers = dict(get(port, "/api/v1/meetings", {"X-API-Key": key})[1])
        if int(headers.get("Railbird-Seq", headers.get("railbird-seq", 0))) >= seq:
            return
        time.sleep(POLL)
    raise BenchError("the service did not fold the races")


def measure(bench, size, runs, folder):
    server = nats_server()
    railbird, _ = programs(folder)
    figures = Figures()
    nats, addresses = start_nats(bench, server)
    key = issue_key(railbird, addresses["nats"])
    _, port, _, _ = start_railbird(bench, railbird, addresses["nats"], bench.folder / "data")
    publisher = Publisher(bench, railbird, addresses["nats"])
    until_seq(port, key, len(list(opening())))
    publisher.thread.start()
    for run in range(runs):
        log(f"page {run + 1} of {runs}")
        found = measure_page(bench, port, key, size)
        for name in MEASURED:
            figures.add(name, found[name])
        for name in ("long_tasks", "longest_task_ms", "heap_growth", "gaps"):
            figures.facts[name] = max(found[name], figures.facts.get(name, found[name]))
        problems = list(check(found))
        if problems:
            raise BenchError("; ".join(problems))
    figures.facts |= {"runners": RACES * RUNNERS, "updates_per_second": UPDATES_PER_SECOND, "published": publisher.published}
    return figures
