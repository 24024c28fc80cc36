"""Reads every resource with the client that openapi-python-client made of /openapi.json, and compares what it parsed
with the JSON."""

import importlib
import json
import sys
import time
from datetime import date

from railbird_client import AuthenticatedClient
from railbird_client.models import PriceState, RaceStatus
from times import times

# Seconds in which the prices of a race move.
PATIENCE = 60

base_url, key, day = sys.argv[1:]
client = AuthenticatedClient(base_url, token=key, prefix="", auth_header_name="X-API-Key")
meeting = {"date": date.fromisoformat(day)}
race = {**meeting, "race_number": 1}
horse = {"horse_no": "H1"}


def get(module, model, **parameters):
    """Reads a resource. It is of the model, and has every field of the JSON."""
    operation = importlib.import_module(f"railbird_client.api.{module}")
    response = operation.sync_detailed(client=client, **parameters)
    assert response.status_code == 200, response
    assert type(response.parsed).__name__ == model, response.parsed
    parsed, raw = response.parsed.to_dict(), json.loads(response.content)
    assert times(parsed) == times(raw), (parsed, raw)
    return response.parsed


def read(module, path, model, **parameters):
    """Reads a resource once, and prints its path."""
    parsed = get(module, model, **parameters)
    print(path)
    return parsed


board = read("odds.get_odds_board", f"/api/v1/odds/{day}/1", "OddsBoard", **race)
assert board.status is RaceStatus.RESULT
assert [runner.state for runner in board.runners if runner.win is None] == [PriceState.SCRATCHED]
read("odds.get_odds_history", f"/api/v1/odds/{day}/1/history", "OddsHistory", **race)
read("odds.get_odds_sources", f"/api/v1/odds/{day}/1/sources", "OddsSources", **race)
read("race_cards.get_racecard", f"/api/v1/racecards/{day}", "Racecard", **meeting)
read("results.get_meeting_results", f"/api/v1/results/{day}", "MeetingResults", **meeting)
read("results.get_race_result", f"/api/v1/results/{day}/1", "RaceResult", **race)
read("results.get_result_revisions", f"/api/v1/results/{day}/1/revisions", "ResultRevisions", **race)
read("horses.get_horse", "/api/v1/horses/H1", "HorseProfile", **horse)
read("horses.get_horse_form", "/api/v1/horses/H1/form", "HorseForm", **horse)
read("days.list_meetings", "/api/v1/meetings", "MeetingList")
read("service.get_readiness", "/readyz", "Readiness")
read("service.get_health", "/healthz", "Health")

# The prices of the second race move while its board is read.
open_race, boards, end = {**meeting, "race_number": 2}, {}, time.monotonic() + PATIENCE
while len(boards) < 3:
    assert time.monotonic() < end, f"the prices do not move: {boards}"
    board = get("odds.get_odds_board", "OddsBoard", **open_race)
    boards[board.seq] = board
for board in boards.values():
    assert board.status is RaceStatus.OPEN
    moving, suspended, no_market, scratched = board.runners
    assert moving.opening == 3.5 and moving.win != moving.previous, moving
    assert moving.win and moving.place and not moving.state, moving
    for runner, state, opening, previous in [
        (suspended, PriceState.SUSPENDED, 4.0, 4.0),
        (no_market, PriceState.NO_MARKET, 5.0, 5.0),
        # A withdrawal is no quote.
        (scratched, PriceState.SCRATCHED, 6.0, None),
    ]:
        assert runner.win is None and runner.place is None and runner.state is state, runner
        assert (runner.opening, runner.previous) == (opening, previous), runner
assert len({board.runners[0].win for board in boards.values()}) > 1, boards
print(f"/api/v1/odds/{day}/2")

missing = importlib.import_module("railbird_client.api.horses.get_horse")
response = missing.sync_detailed(client=client, horse_no="NOBODY")
assert response.status_code == 404, response
assert response.parsed.error == "not_found", response.parsed
