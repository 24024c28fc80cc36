"""Compares the files of `railbird export` in a folder with the answers of the API, as of the same event.

export.py FOLDER, with RAILBIRD_URL and RAILBIRD_API_KEY. Parquet is read by Polars, pandas and DuckDB, CSV by pandas.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

import duckdb
import pandas
import polars

FOLDER = Path(sys.argv[1])
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
# The columns of each kind.
SCHEMAS = {}
KEYS = {
    "results": ["date", "venue_code", "race_number", "horse_no"],
    "racecards": ["date", "venue_code", "race_number", "horse_no"],
    "odds": ["source", "event_id", "horse_no"],
    "dividends": ["date", "venue_code", "race_number", "pool", "combination"],
    "form": ["date", "venue_code", "race_number", "horse_no"],
}

def get(path):
    """The answer as of the export; an empty one if there is none."""
    if "as_of=" not in path:
        path += ("&" if "?" in path else "?") + f"as_of={MANIFEST['as_of']}"
    headers = {"X-API-Key": os.environ["RAILBIRD_API_KEY"]}
    request = urllib.request.Request(os.environ["RAILBIRD_URL"] + path, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        assert error.code == 404, (path, error.read())
        return {}


def pages(path):
    while path:
        page = get(path)
        yield page
        path = page.get("next")


def flat(fields, prefix=""):
    """Fields without those of nested objects, which have both names."""
    row = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            row |= flat(value, f"{prefix}{name}.")
        else:
            row[prefix + name] = value
    return row


def around(fields):
    """The fields of an answer that its rows have as well."""
    left_out = ("next", "more")
    return {name: value for name, value in fields.items() if not isinstance(value, list) and name not in left_out}


def runners(kind, date, venue, lists):
    meeting = get(f"/api/v1/{kind}/{date}?venue={venue}")
    of_meeting = {name: meeting[name] for name in ("date", "venue", "venue_code")}
    for race in meeting["races"]:
        for name in lists:
            for runner in race.get(name, []):
                yield flat(of_meeting | around(race) | {"list": name} | runner)


def race_numbers(date, venue, *kinds):
    races = [race for kind in kinds for race in get(f"/api/v1/{kind}/{date}?venue={venue}")["races"]]
    return list(dict.fromkeys(race["race_number"] for race in races))


def expected(kind, date, venue):
    if kind == "results":
        yield from runners(kind, date, venue, ["runners", "unplaced"])
    elif kind == "racecards":
        yield from runners(kind, date, venue, ["runners", "withdrawn"])
    elif kind == "odds":
        for race in race_numbers(date, venue, "racecards", "results"):
            for page in pages(f"/api/v1/odds/{date}/{race}/history?venue={venue}"):
                for quote in page.get("history", []):
                    for runner in quote["runners"]:
                        yield flat(around(page) | around(quote) | runner)
    elif kind == "dividends":
        for race in race_numbers(date, venue, "results"):
            answer = get(f"/api/v1/results/{date}/{race}/dividends?venue={venue}")
            for line in answer.get("dividends", []):
                yield flat(around(answer) | line)
    else:
        for run in runners("results", date, venue, ["runners", "unplaced"]):
            for page in pages(f"/api/v1/horses/{run['horse_no']}/form"):
                for name in ("form", "unplaced"):
                    for row in page[name]:
                        if all(row[field] == run[field] for field in ("date", "venue_code", "race_number")):
                            yield flat(around(page) | {"list": name} | row)


def check(rows, found, what):
    """Compares rows of the API with those of a file, which have `None` where they have no value."""
    assert len(rows) == len(found), (what, len(rows), len(found))
    for row, read in zip(rows, found, strict=True):
        assert set(row) <= set(read), (what, set(row) - set(read))
        for name, value in read.items():
            if isinstance(row.get(name), list):
                value = json.loads(value)
            assert row.get(name) == value, (what, name, row.get(name), value)


def check_parquet(path, kind, rows):
    frame = polars.read_parquet(path)
    schema = SCHEMAS.setdefault(kind, frame.schema)
    assert frame.schema == schema, f"{path} has other columns: {frame.schema}, {schema}"
    check(rows, frame.to_dicts(), f"{path} by Polars")
    frame = pandas.read_parquet(path, dtype_backend="pyarrow").astype(object)
    check(rows, frame.where(frame.notna(), None).to_dict("records"), f"{path} by pandas")
    table = duckdb.sql(f"select * from '{path}'")
    check(rows, [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()], f"{path} by DuckDB")


def text(value):
    """A value as CSV has it. Lists are compared as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def check_csv(path, kind, rows):
    frame = pandas.read_csv(path, dtype=str, keep_default_na=False)
    columns = SCHEMAS.setdefault(kind, list(frame.columns))
    assert list(frame.columns) == columns, f"{path} has other columns: {columns}"
    for row, read in zip(rows, frame.to_dict("records"), strict=True):
        assert set(row) <= set(read), (path, set(row) - set(read))
        for name, found in read.items():
            value = row.get(name)
            if isinstance(value, list):
                value, found = json.dumps(value), json.dumps(json.loads(found))
            assert text(value) == found, (path, name, value, found)


def check_sums():
    """Sums over all files of a season are those of the API."""
    files = FOLDER / "results" / "*.parquet"
    [(stakes, starters)] = duckdb.sql(f"select sum(stakes), count(*) from '{files}'").fetchall()
    rows = [
        row for page in pages("/api/v1/results") for race in page["races"] for row in race["runners"] + race["unplaced"]
    ]
    assert (stakes, starters) == (sum(row["stakes"] for row in rows), len(rows)), (stakes, starters)


def main():
    files = {file["path"]: file for file in MANIFEST["files"]}
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert there == set(files) | {"journal.ndjson", "manifest.json"}, there ^ set(files)
    counts = {}
    for page in pages("/api/v1/meetings"):
        for meeting in page["meetings"]:
            date, venue = meeting["date"], meeting["venue_code"]
            for kind in MANIFEST["kinds"]:
                rows = list(expected(kind, date, venue))
                path = f"{kind}/{date}-{venue}.{MANIFEST['format']}"
                file = files.pop(path)
                assert file["bytes"] == os.path.getsize(FOLDER / path), file
                keys = {tuple(str(row.get(name)) for name in KEYS[kind]) for row in rows}
                assert len(keys) == len(rows), f"{path} has a row twice"
                {"parquet": check_parquet, "csv": check_csv}[MANIFEST["format"]](str(FOLDER / path), kind, rows)
                counts[kind] = counts.get(kind, 0) + len(rows)
    assert not files, f"files of no meeting: {files}"
    if MANIFEST["format"] == "parquet" and "results" in MANIFEST["kinds"]:
        check_sums()
    print(json.dumps(counts))


main()
