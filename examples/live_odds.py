"""Keeps a correct board of each open race, through lost connections and restarts of the service."""

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "clients/python/src"))  # Without: pip install railbird
from railbird import LiveOdds, Message, State  # noqa: E402

URL = os.environ.get("RAILBIRD_URL", "ws://127.0.0.1:8080/ws/live/odds")
KEY = os.environ.get("RAILBIRD_API_KEY") or sys.exit("RAILBIRD_API_KEY has to hold an API key")


def print_state(state: State) -> None:
    print(f"{state.phase}: {state.reason}, {state.gaps} gaps", flush=True)


async def main() -> None:
    boards: dict[str, Message] = {}
    async with LiveOdds(URL, api_key=KEY) as odds:
        odds.on_state = print_state
        async for message in odds:
            if message["event"] in ("welcome", "resync") and not message.get("recovered"):
                boards.clear()
            print(take(message, boards) if "race_number" in message else json.dumps(message), flush=True)


def take(message: Message, boards: dict[str, Message]) -> str:
    race = f"{message['date']} {message['venue_code']} {message['race_number']}"
    if message["event"] == "odds_update":
        boards[race] = message
    board = boards.get(race, {"status": "no board", "runners": []})
    if message["event"] == "status_update":
        board["status"] = message["status"]
    prices = [f"{r['number']} {r['horse_name']} {r['win'] or r['state']}" for r in board["runners"]]
    return f"{message['seq']} {message['event']} | {race} {board['status']} | {', '.join(prices)}"


asyncio.run(main())
