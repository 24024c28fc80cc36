"""Keeps an exact copy of the answers of the API in a folder, also after being cut off: mirror.py FOLDER [--until-end].
/api/v1/results/2026-11-21/3?venue=ST is results/2026-11-21/3/venue=ST.json."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

URL = os.environ.get("RAILBIRD_URL", "http://127.0.0.1:8080") + "/api/v1/"
FOLDER, UNTIL_END = Path(sys.argv[1]), "--until-end" in sys.argv


def get(path, seq=0):
    headers = {"X-API-Key": os.environ["RAILBIRD_API_KEY"], "Railbird-Min-Seq": str(seq)}
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(URL + path, headers=headers), timeout=60) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            if error.code not in (429, 500, 502, 503, 504):
                raise
            time.sleep(int(error.headers.get("Retry-After", 1)))
        except (OSError, HTTPException):  # The service restarts.
            time.sleep(1)


def path_of(copy):
    return f"{copy.parent.relative_to(FOLDER).as_posix()}?{copy.stem}"


def update(path, seq):
    file, body = FOLDER / (path.replace("?", "/") + ".json"), get(path, seq)
    if body is None:
        return file.unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_bytes(body)
    new.replace(file)  # So a file never has half of an answer.
    if path.startswith("results/") and path.count("/") == 1:  # Those of its races repeat the fields of the meeting.
        meeting = json.loads(body).items()
        for copy in file.parent.glob(f"*/**/{file.name}"):
            if any(name != "races" and json.loads(copy.read_bytes()).get(name) != value for name, value in meeting):
                update(path_of(copy), seq)


FOLDER.mkdir(parents=True, exist_ok=True)
place = FOLDER / "place.txt"
after = int(place.read_text()) if place.exists() else 0
while True:
    paths, more = set(), True
    while more:  # To the end first: what changed often is read once.
        page = json.loads(get(f"changes?after={after}&wait_ms={0 if UNTIL_END or paths else 8000}"))
        paths |= {path.removeprefix("/api/v1/") for change in page["changes"] for path in change["resources"]}
        if any(change["type"] == "racing.sources.ranked.v1" for change in page["changes"]):
            paths |= {path_of(copy) for copy in FOLDER.glob("odds/*/*/sources/*.json")}
        after, more = page["after"], page["more"]
    for path in paths:
        update(path, after)
    place.with_suffix(".new").write_text(str(after))
    place.with_suffix(".new").replace(place)
    print(after, len(paths), flush=True)
    if UNTIL_END and not paths:
        break
