"""The board with a free key on a day of ten meetings: the requests of an hour. Fails if one is refused, or if they are too many."""

import datetime
import itertools
import json
import os
import subprocess
import threading
import time
import tomllib

from board import event, until_seq
from common import ROOT, BenchError, Figures, issue_key, nats_server, programs, script, start_nats, start_railbird

FULL = {"seconds": 3600}
# Two times the page reads what has changed.
SMALL = {"seconds": 125}

PLAN = "free"
PLANS = ROOT / "ops" / "plans.toml"
VENUES = [f"B{number}" for number in range(10)]
RACES = 8
RUNNERS = 12
DATE = datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=8))).date().isoformat()
# For as long a plan has to last, on a day without a minute in which nothing changes.
HOURS_MIN = 6
ROUND_SECONDS = 5
# Each read of the page finds something new.
RESULT_EVERY = 6


def of_race(kind, venue, number, data):
    return event(kind, number, {"date": DATE, "venue": venue, **data})


def runners(number, fields):
    return [{"horse_no": f"H{number:02}{n:02}", "number": n, **fields(n)} for n in range(1, RUNNERS + 1)]


def named(n):
    return {"horse_name": f"BENCH HORSE {n}", "jockey": "J Ockey", "trainer": "T Rainer"}


def opening():
    first = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    for (place, venue), number in itertools.product(enumerate(VENUES), range(1, RACES + 1)):
        off = (first + datetime.timedelta(minutes=30 * number + 3 * place)).isoformat()
        on_card = lambda n: named(n) | {"draw": n, "weight": 126}
        card = {"race_name": "THE BENCH PLATE", "distance": 1200, "class": "4", "off_time": off, "runners": runners(10 * place + number, on_card)}
        yield of_race("race.declared", venue, number, card)
        yield of_race("race.status_changed", venue, number, {"status": "open"})


def quotes(step):
    """The prices of the next race of each meeting."""
    for place, venue in enumerate(VENUES):
        number = step % RACES + 1
        prices = lambda n: {"win": round(2 + n * 1.3 + (step * (n + 3)) % 17 / 10, 1)}
        yield of_race("odds.quoted", venue, number, {"runners": runners(10 * place + number, prices)})


def result(race):
    """The result of a race; that of the first race again, amended, once there are no more."""
    place, number = divmod(race % (len(VENUES) * RACES), RACES)
    data = {"revision": 1 + race // (len(VENUES) * RACES), "status": "official", "runners": runners(10 * place + number + 1, lambda n: named(n) | {"position": n})}
    return of_race("result.declared", VENUES[place], number + 1, data)


class Publisher:
    """`railbird publish -` with quotes and results, until it is stopped."""

    def __init__(self, bench, railbird, url):
        command = [railbird, "publish", "-", "--nats", url]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.publish)
        self.send(opening())
        bench.stack.callback(self.stop)

    def send(self, events):
        self.process.stdin.writelines(json.dumps(one) + "\n" for one in events)
        self.process.stdin.flush()

    def publish(self):
        for step in itertools.count():
            self.send(quotes(step))
            if step % RESULT_EVERY == 0:
                self.send([result(step // RESULT_EVERY)])
            if self.stopping.wait(ROUND_SECONDS):
                return

    def stop(self):
        self.stopping.set()
        if self.thread.is_alive():
            self.thread.join()
        self.process.stdin.close()
        self.process.wait(30)


def measure_page(port, key, seconds):
    script("node-packages", "tests/browser")
    address = f"http://127.0.0.1:{port}/#/{DATE}"
    command = [script("node"), ROOT / "tests/browser/board_requests.mjs", address, str(len(VENUES) * RACES), str(seconds)]
    environment = {"RAILBIRD_BROWSER": script("browser"), "RAILBIRD_API_KEY": key, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if found.returncode != 0:
        raise BenchError("the page could not be measured")
    return json.loads(found.stdout)


def measure(bench, size, runs, folder):
    server = nats_server()
    railbird, _ = programs(folder)
    plan = next(plan for plan in tomllib.loads(PLANS.read_text())["plan"] if plan["name"] == PLAN)
    os.environ["RAILBIRD_PLANS"] = str(PLANS)
    figures = Figures()
    _, addresses = start_nats(bench, server)
    url = addresses["nats"]
    key, reader = (issue_key(railbird, url, name) for name in (PLAN, "default"))
    _, port, _, _ = start_railbird(bench, railbird, url, bench.folder / "data")
    publisher = Publisher(bench, railbird, url)
    until_seq(port, reader, len(list(opening())))
    publisher.thread.start()
    for _ in range(runs):
        began = time.monotonic()
        found = measure_page(port, key, size["seconds"])
        elapsed = time.monotonic() - began
        per_hour = found["requests_later"] * 3600 / size["seconds"]
        hours = (plan["requests_per_day"] - found["requests_at_start"]) / max(per_hour, 1)
        figures.add("requests_at_start", found["requests_at_start"])
        figures.add("requests_per_hour", per_hour)
        figures.add("hours_of_the_plan", hours)
        figures.facts |= {f"requests_{path}": count for path, count in found["paths"].items()}
        figures.facts |= {"refused": found["refused"], "results_shown": found["results_shown"], "seconds": round(elapsed)}
        if found["refused"]:
            raise BenchError(f"{found['refused']} requests were refused: {found}")
        if found["results_shown"] == 0:
            raise BenchError(f"the page shows no new result: {found}")
        if hours < HOURS_MIN:
            raise BenchError(f"the requests of a day last for {hours:.1f} hours: {found}")
    return figures
