"""Reads every resource with the client that openapi-python-client made of /openapi.json, and compares what it parsed
with the JSON."""

import importlib
import re
import sys
from datetime import date

from railbird_client import AuthenticatedClient
from railbird_client.models import PriceState, RaceStatus

base_url, key, day = sys.argv[1:]
client = AuthenticatedClient(base_url, token=key, prefix="", auth_header_name="X-API-Key")
meeting = {"date": date.fromisoformat(day)}
race = {**meeting, "race_number": 1}
horse = {"horse_no": "H1"}


def times(value):
    """JSON with each time in one form: the client parses times and writes them with another offset."""
    if isinstance(value, dict):
        return {name: times(item) for name, item in value.items()}
    if isinstance(value, list):
        return [times(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}T.*", value):
        value = re.sub(r"(\.\d*?)0+(?=\+)|\.0+(?=\+)", r"\1", value.replace("Z", "+00:00"))
        return value.replace(".+", "+")
    return value


def read(module, path, model, **parameters):
    """Reads a resource. It is of the model, and has every field of the JSON."""
    operation = importlib.import_module(f"railbird_client.api.{module}")
    response = operation.sync_detailed(client=client, **parameters)
    assert response.status_code == 200, response
    assert type(response.parsed).__name__ == model, response.parsed
    raw = client.get_httpx_client().get(path).json()
    if model != "Readiness":
        assert times(response.parsed.to_dict()) == times(raw), (response.parsed.to_dict(), raw)
    print(path)
    return response.parsed


board = read("odds.get_odds_board", f"/api/v1/odds/{day}/1", "OddsBoard", **race)
assert board.status is RaceStatus.RESULT
assert [runner.state for runner in board.runners if runner.win is None] == [PriceState.SCRATCHED]
read("odds.get_odds_history", f"/api/v1/odds/{day}/1/history", "OddsHistory", **race)
read("race_cards.get_racecard", f"/api/v1/racecards/{day}", "Racecard", **meeting)
read("results.get_meeting_results", f"/api/v1/results/{day}", "MeetingResults", **meeting)
read("results.get_race_result", f"/api/v1/results/{day}/1", "RaceResult", **race)
read("results.get_result_revisions", f"/api/v1/results/{day}/1/revisions", "ResultRevisions", **race)
read("horses.get_horse", "/api/v1/horses/H1", "HorseProfile", **horse)
read("horses.get_horse_form", "/api/v1/horses/H1/form", "HorseForm", **horse)
read("meetings.list_meetings", "/api/v1/meetings", "MeetingList")
read("service.get_readiness", "/readyz", "Readiness")
read("service.get_health", "/healthz", "Health")

missing = importlib.import_module("railbird_client.api.horses.get_horse")
response = missing.sync_detailed(client=client, horse_no="NOBODY")
assert response.status_code == 404, response
assert response.parsed.error == "not_found", response.parsed
