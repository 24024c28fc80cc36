"""An independent reading of one Betfair stream file, for comparison: it shares no code with the importer or the folds.

Prints JSON, prices in thousandths: every tick and every removal in the order of the file, the board of last prices behind
each message that has one, the whole last board, the starting prices, and how often each name is used that is not one of those."""

import bz2
import collections
import json
import sys
from decimal import Decimal


def lines(path):
    packed = open(path, "rb").read()
    text = bz2.decompress(packed) if packed.startswith(b"BZh") else packed
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.strip()]


def thousandths(price):
    exact = Decimal(price) * 1000
    assert exact == int(exact), price
    return int(exact)


ticks, removed, boards, names, prices, starting = [], [], [], {}, {}, {}


def tick(runner, win):
    price = prices.setdefault(runner, {"opening": win, "previous": None, "win": win})
    if price["win"] != win:
        price["previous"], price["win"] = price["win"], win


omitted = collections.Counter()


def count(value, read):
    omitted.update(name for name in value if name not in read.split())


for message in lines(sys.argv[1]):
    count(message, "op pt mc")
    for change in message["mc"]:
        count(change, "id marketDefinition rc")
        definition = change.get("marketDefinition", {})
        read = "eventId eventTypeId marketType marketTime openDate timezone venue countryCode name status inPlay runners"
        count(definition, read)
        for runner in definition.get("runners", []):
            count(runner, "id status name bsp")
            if "bsp" in runner:
                starting[f"BF_{runner['id']}"] = thousandths(runner["bsp"])
        for runner in change.get("rc", []):
            count(runner, "id ltp")
        for runner in definition.get("runners", []):
            names[runner["id"]] = runner["name"]
            if runner["status"] == "REMOVED" and runner["id"] not in removed:
                removed.append(runner["id"])
        moved = [(runner["id"], thousandths(runner["ltp"])) for runner in change.get("rc", []) if "ltp" in runner]
        for runner, win in moved:
            ticks.append([message["pt"], f"BF_{runner}", win])
            tick(runner, win)
        if moved:
            boards.append({f"BF_{runner}": None if runner in removed else price["win"] for runner, price in prices.items()})

final = {
    f"BF_{runner}": price | {"horse_name": names[runner]} | ({"win": None, "state": "scratched"} if runner in removed else {})
    for runner, price in prices.items()
}
removed = [f"BF_{runner}" for runner in removed]
found = {"ticks": ticks, "removed": removed, "boards": boards, "final": final, "starting": starting, "omitted": omitted}
json.dump(found, sys.stdout)
