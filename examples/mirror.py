"""Keeps a copy of the answers of the API in a folder, exact up to the last change, also after being cut off at any
moment: mirror.py FOLDER [--until-end]. /api/v1/results/2026-11-21/3?venue=ST is results/2026-11-21/3/venue=ST.json."""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

URL = os.environ.get("RAILBIRD_URL", "http://127.0.0.1:8080")
FOLDER, UNTIL_END = Path(sys.argv[1]), "--until-end" in sys.argv
PLACE = FOLDER / "place"  # The sequence up to which the folder has all changes.


def get(path, seq=0):
    """The answer as of an event or later, as often as it takes; None if there is no such resource."""
    request = urllib.request.Request(URL + path)
    request.add_header("X-API-Key", os.environ["RAILBIRD_API_KEY"])
    request.add_header("Railbird-Min-Seq", str(seq))
    while True:
        wait = 1
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code not in (429, 500, 502, 503, 504):
                raise
            wait = int(error.headers.get("Retry-After", 1))
        except (OSError, http.client.HTTPException):
            pass  # The service restarts.
        time.sleep(wait)


def file_of(path):
    return FOLDER / (path.removeprefix("/api/v1/").replace("?", "/") + ".json")


def path_of(file):
    folder, _, name = file.relative_to(FOLDER).with_suffix("").as_posix().rpartition("/")
    return f"/api/v1/{folder}?{name}"


def write(file, body):
    """Writes a file at once: it never has half of an answer."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_bytes(body)
    new.replace(file)


def update(path, seq):
    file, body = file_of(path), get(path, seq)
    if body is None:
        file.unlink(missing_ok=True)
        return
    write(file, body)
    if path.startswith("/api/v1/results/") and path.count("/") == 4:
        for of_race in file.parent.glob(f"*/**/{file.name}"):
            if meeting(of_race.read_bytes()) != meeting(body):
                update(path_of(of_race), seq)


def meeting(body):
    """The fields of the meeting, which answers about one of its races repeat."""
    answer = json.loads(body)
    return [answer[name] for name in ("venue", "meeting_status", "other_venues")]


place = int(PLACE.read_text()) if PLACE.exists() else 0
while True:
    paths, more = set(), True
    while more:  # To the end first: what changed often is read once.
        page = json.loads(get(f"/api/v1/changes?after={place}&wait_ms={0 if UNTIL_END or paths else 8000}"))
        place, more = page["after"], page["more"]
        for change in page["changes"]:
            paths |= set(change["resources"])
            if change["type"] == "racing.sources.ranked.v1":
                paths |= {path_of(file) for file in FOLDER.glob("odds/*/*/sources/*.json")}
    for path in paths:
        update(path, place)
    write(PLACE, str(place).encode())
    print(place, len(paths), flush=True)
    if UNTIL_END and not paths:
        break
