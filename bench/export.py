"""All files of one season and of eighteen: memory and rate; the same rows by requests for each meeting."""

import http.client
import json
import os
import shutil
import subprocess
import time

from common import BenchError, Figures, issue_key, log, nats_server, programs, resident_bytes, run_json, script, start_nats, start_railbird, stop
from common import version

# Meetings, and events of each with quotes and results: a season in Hong Kong has 79 meetings of ten races.
FULL = {"season_meetings": 79, "all_meetings": 1_425, "events_of_meeting": 300}
SMALL = {"season_meetings": 2, "all_meetings": 6, "events_of_meeting": 300}

KINDS = ("results", "racecards", "odds", "dividends", "form")
# The winners among the favourites of each venue.
FAVOURITES = """
select venue_code, count(*), sum((position = 1)::int)
from (select *, min(win_odds) over (partition by date, venue_code, race_number) as shortest
      from '{}/results/*.parquet' where win_odds > 0)
where win_odds = shortest group by venue_code order by venue_code
"""
SUMS = "select count(*), sum(race_number * position), sum(win_odds) from '{}/results/*.parquet'"


def export(bench, railbird, port, key, kinds, to, out):
    """The seconds and the peak of memory, in bytes, of an export."""
    command = [railbird, "export", *kinds, "--out", out, "--url", f"http://127.0.0.1:{port}", "--to", to]
    begun = time.monotonic()
    with open(bench.folder / "export.log", "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | {"RAILBIRD_API_KEY": key})
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        raise BenchError(f"export fails: {(bench.folder / 'export.log').read_text()}")
    return time.monotonic() - begun, usage.ru_maxrss * 1024


def query(sql):
    """The rows of a query, by the DuckDB that the tests have."""
    python = script("python", "tests/documents")
    program = f"import duckdb, json; print(json.dumps(duckdb.sql({sql!r}).fetchall(), default=float))"
    return json.loads(subprocess.run([python, "-c", program], stdout=subprocess.PIPE, check=True).stdout)


class Answers:
    """The answers of the API, over one connection."""

    def __init__(self, port, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"X-API-Key": key}

    def get(self, path):
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise BenchError(f"{path} answers {answer.status}: {body}")
        return json.loads(body)

    def pages(self, path):
        while path:
            page = self.get(path)
            yield page
            path = page["next"]


def favourites(answers, meetings):
    """What the query says, by a request for each meeting."""
    found = {}
    for meeting in meetings:
        venue = meeting["venue_code"]
        for race in answers.get(f"/api/v1/results/{meeting['date']}?venue={venue}")["races"]:
            priced = [runner for runner in race["runners"] + race["unplaced"] if runner.get("win_odds")]
            shortest = min((runner["win_odds"] for runner in priced), default=None)
            for runner in priced:
                if runner["win_odds"] == shortest:
                    races, won = found.get(venue, (0, 0))
                    found[venue] = (races + 1, won + (runner.get("position") == 1))
    return [[venue, *found[venue]] for venue in sorted(found)]


def check_sums(answers, folder):
    rows = [row for page in answers.pages("/api/v1/results") for race in page["races"] for row in with_number(race)]
    expected = [len(rows), sum(row["race_number"] * row.get("position", 0) for row in rows), sum(row.get("win_odds") or 0 for row in rows)]
    [found] = query(SUMS.format(folder))
    if found[:2] != expected[:2] or abs(found[2] - expected[2]) > 0.01:
        raise BenchError(f"the files have {found}, the API {expected}")
    return len(rows)


def with_number(race):
    return [row | {"race_number": race["race_number"]} for row in race["runners"] + race["unplaced"]]


def measure_run(bench, figures, railbird, port, key, process, meetings, size):
    season_end = meetings[size["season_meetings"] - 1]["date"]
    out = bench.folder / "files"
    for name, to in (("season", season_end), ("all", meetings[-1]["date"])):
        seconds, peak = export(bench, railbird, port, key, KINDS, to, out)
        figures.add(f"{name}_seconds", seconds)
        figures.add(f"{name}_command_peak_mb", peak / 1e6)
        service_peak = resident_bytes(process, "VmHWM")
        figures.add(f"{name}_service_peak_mb", service_peak / 1e6)
        log(f"{name}: {seconds:.1f} s, peaks {peak / 1e6:.0f} MB and {service_peak / 1e6:.0f} MB in the service")
        if name == "all":
            figures.add("all_files_mb", sum(file.stat().st_size for file in out.rglob("*.parquet")) / 1e6)
            figures.facts["rows_of_results"] = check_sums(Answers(port, key), out)
        shutil.rmtree(out)
    season = meetings[: size["season_meetings"]]
    begun = time.monotonic()
    by_requests = favourites(Answers(port, key), season)
    figures.add("favourites_requests_seconds", time.monotonic() - begun)
    begun = time.monotonic()
    export(bench, railbird, port, key, ["results"], season_end, out)
    by_files = query(FAVOURITES.format(out))
    figures.add("favourites_export_seconds", time.monotonic() - begun)
    begun = time.monotonic()
    query(FAVOURITES.format(out))
    figures.add("favourites_again_seconds", time.monotonic() - begun)
    shutil.rmtree(out)
    if by_requests != by_files:
        raise BenchError(f"favourites by requests are {by_requests}, by files {by_files}")


def measure(bench, size, runs, folder):
    railbird, load = programs(folder)
    server = nats_server()
    figures = Figures()
    nats, addresses = start_nats(bench, server)
    url = addresses["nats"]
    key = issue_key(railbird, url)
    events = size["all_meetings"] * size["events_of_meeting"]
    run_json([load, "--nats", url, "season", "--events", events, "--of-meeting", size["events_of_meeting"]])
    for run in range(runs):
        data = bench.folder / f"data-{run}"
        process, port, _, _ = start_railbird(bench, railbird, url, data)
        meetings = [meeting for page in Answers(port, key).pages("/api/v1/meetings") for meeting in page["meetings"]]
        figures.add("idle_service_mb", resident_bytes(process, "VmHWM") / 1e6)
        measure_run(bench, figures, railbird, port, key, process, meetings, size)
        stop(process)
        shutil.rmtree(data)
        log(f"run {run + 1} is over")
    stop(nats)
    figures.ratio("command_peak_all_to_season", "all_command_peak_mb", "season_command_peak_mb", "<= 1.3")
    figures.ratio("service_peak_all_to_season", "all_service_peak_mb", "season_service_peak_mb", "<= 1.3")
    figures.ratio("favourites_export_to_requests", "favourites_export_seconds", "favourites_requests_seconds")
    figures.facts.update(size, meetings=len(meetings), nats_server=version([server, "--version"]))
    return figures
