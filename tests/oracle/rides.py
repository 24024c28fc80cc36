"""An independent count of rides, for comparison: it shares no code with the folds, and is written from docs/api.md.

`rides.py facts SEED` prints three simulated seasons as events, a season after the other: cards, results, and what changes
them later. `rides.py figures` reads events from standard input, in the order of the log, and prints what the API has to
answer: the path of each answer, and its figures."""

import calendar
import collections
import itertools
import json
import random
import sys
import urllib.parse
import uuid
from decimal import ROUND_HALF_UP, Decimal

ZONES = {"ST": "Asia-Hong_Kong", "HV": "Asia-Hong_Kong", "CH": "Asia-Shanghai"}
NO_STARTS = {"WV", "WV-A", "WX", "WX-A", "WXNR", "WX-NR", "WR", "SCR", "NR", "VOID"}
BY = ["season", "venue", "distance", "going", "class", "draw", "jockey", "trainer"]
# An answer counts the newest so many.
RIDES_MAX = 5_000

SEASONS = ["2023/24", "2024/25", "2025/26"]
# Also the last day of a season and the first one of the next.
DAYS = ["-09-01", "-10-08", "-12-25", "-01-01", "-02-11", "-04-14", "-07-16", "-08-31"]
JOCKEYS = ["Z Purton", "K Teetan", "H Bowman", "潘頓", "L Ferraris"]
TRAINERS = ["J Size", "C Fownes", "D Whyte"]
HORSES = [f"HK_2021_{number:03}" for number in range(40)]


def event(kind, race, more):
    data = {"date": race[0], "venue": race[1], "race_number": race[2], **more}
    return {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "season", "type": f"racing.{kind}.v1", "time": f"{race[0]}T06:00:00Z", "data": data}


def result(chance, race, card, revision):
    """A result with dead heats, runners without a placing, and without a price."""
    runners, order = [], chance.sample(card["runners"], len(card["runners"]))
    position = 0
    for place, declared in enumerate(order, 1):
        position = position if position and chance.random() < 0.1 else place
        row = {name: declared[name] for name in ("horse_no", "horse_name", "jockey", "trainer")}
        if chance.random() < 0.08:
            row["jockey"] = chance.choice(JOCKEYS)
        row |= {"outcome": chance.choice(["PU", "FE", "WV", "DISQ", "NR", "VOID"])} if chance.random() < 0.08 else {"position": position}
        if chance.random() < 0.95:
            row["win_odds"] = chance.choice([1.1, 2.35, 3.5, 4.333, 12, 99])
        runners.append(row)
    return event("result.declared", race, {"revision": revision, "status": "official", "runners": runners, "going": chance.choice(["GOOD", "YIELDING"])})


def season(chance, first_year):
    """The facts of a season, and later ones of any of its races."""
    facts, later = [], []
    for (day, venue), number in itertools.product(zip(DAYS, itertools.cycle(["ST", "HV", "CH"])), range(1, 5)):
        race = (f"{first_year + (day < '-09')}{day}", venue, number)
        runners = [
            {"horse_no": horse, "horse_name": f"HORSE {horse[-3:]}", "number": draw, "draw": draw, "weight": 126, "trainer": chance.choice(TRAINERS)}
            | {"jockey": chance.choice(JOCKEYS)}
            for draw, horse in enumerate(chance.sample(HORSES, 8), 1)
        ]
        for runner in runners:
            if runner["jockey"] == "H Bowman":
                runner["jockey_id"] = "BH"
        card = {"race_name": "HANDICAP", "distance": chance.choice([1200, 1650]), "class": chance.choice(["3", "4", ""]), "runners": runners}
        declared = event("race.declared", race, card)
        first = [result(chance, race, card, 1)]
        facts += chance.sample([declared, *first], 2)
        fate = chance.random()
        if fate < 0.2:
            later += [result(chance, race, card, revision) for revision in chance.choice([(2, 2), (2, 3), (3, 2)])]
        elif fate < 0.3:
            later += [event("result.voided", race, {"revision": 2})]
        elif fate < 0.35:
            later += [event("result.voided", race, {"revision": 2}), result(chance, race, card, 3)]
        elif fate < 0.4:
            later += [event("race.declared", race, card | {"class": "5"})]
    return [*facts, *later]


def in_force(events):
    """Card and result of each race."""
    cards, results, first = {}, {}, {}
    for one in events:
        # A repeated event changes nothing.
        first.setdefault((one["source"], one["id"]), one)
    for one in first.values():
        kind, data = one["type"].removeprefix("racing.").removesuffix(".v1"), one["data"]
        race = (data.get("date"), data.get("venue"), data.get("race_number"))
        if kind == "race.declared":
            cards[race] = data
        elif kind in ("result.declared", "result.voided"):
            if race not in results or data["revision"] >= results[race][1]["revision"]:
                results[race] = kind, data
    for race, (kind, data) in results.items():
        if kind == "result.declared":
            yield race, cards.get(race, {}), data


def rides(events):
    """All starts, newest first: what each is grouped by, and the keys of its people."""
    for (date, venue, _), card, result in sorted(in_force(events), key=lambda found: found[0], reverse=True):
        on_card = {runner["horse_no"]: runner for runner in card.get("runners", [])}
        shared = collections.Counter(runner.get("position") for runner in result["runners"])
        for runner in sorted(result["runners"], key=lambda runner: runner["horse_no"], reverse=True):
            if runner.get("outcome") in NO_STARTS:
                continue
            declared = on_card.get(runner["horse_no"], {})
            people = {role: runner.get(role) or declared.get(role, "") for role in ("jockey", "trainer")}
            keys = {"venue": venue}
            for role, name in people.items():
                number_of = declared.get(f"{role}_id") if declared.get(role) == name else None
                keys[role] = f"{ZONES.get(venue, '')};{number_of}" if number_of else f"{ZONES.get(venue, '')}:{name}"
            year = int(date[:4]) - (date[5:] < "09-01")
            yield {
                "date": date,
                "keys": {role: key for role, key in keys.items() if people.get(role, venue)},
                "season": f"{year}/{(year + 1) % 100:02}",
                "venue": venue,
                "distance": str(result.get("distance") or card.get("distance") or 0),
                "going": result.get("going") or card.get("going") or "",
                "class": card.get("class", ""),
                "draw": str(declared.get("draw") or 0),
                **people,
                "position": runner.get("position"),
                "shared": shared[runner.get("position")],
                "odds": Decimal(str(runner.get("win_odds") or 0)),
            }


def figures(some):
    some = list(some)
    priced = [ride for ride in some if ride["odds"]]
    wins = [ride for ride in some if ride["position"] == 1]
    # In thousandths, as odds are.
    returned = sum(ride["odds"] * 1000 // ride["shared"] for ride in priced if ride["position"] == 1)
    return {
        "starts": len(some),
        "wins": len(wins),
        "places": sum(ride["position"] in (2, 3) for ride in some),
        "strike_rate": float((Decimal(len(wins)) / len(some)).quantize(Decimal("0.0001"), ROUND_HALF_UP)),
        "priced_starts": len(priced),
        "profit": float(returned / 1000 - len(priced)),
    }


def last_day(month):
    year, number = month.split("-")
    return calendar.monthrange(int(year), int(number))[1]


def answers(events):
    by_key = collections.defaultdict(list)
    for ride in rides(events):
        for role, key in ride["keys"].items():
            by_key[role, key].append(ride)
    found = {}
    for (role, key), all_of_key in by_key.items():
        path = f"/api/v1/{role}s/{urllib.parse.quote(key, safe='')}"
        periods = {"": all_of_key}
        if len(all_of_key) > RIDES_MAX:
            months = itertools.groupby(all_of_key, lambda ride: ride["date"][:7])
            periods = {f"&from={month}-01&to={month}-{last_day(month)}": list(of_month) for month, of_month in months}
        for (period, of_period), by in itertools.product(periods.items(), BY):
            groups = collections.defaultdict(list)
            for ride in of_period:
                groups[ride[by]].append(ride)
            grouped = {value: figures(group) for value, group in groups.items()}
            found[f"{path}?by={by}{period}"] = {"totals": figures(of_period), "groups": grouped}
    return found


if sys.argv[1] == "facts":
    chance = random.Random(int(sys.argv[2]))
    for year in (int(name[:4]) for name in SEASONS):
        for fact in season(chance, year):
            print(json.dumps(fact))
else:
    json.dump(answers([json.loads(line) for line in sys.stdin]), sys.stdout)
