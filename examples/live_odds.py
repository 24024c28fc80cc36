"""Keeps a correct board of each open race, through lost connections and restarts of the service."""

import asyncio
import json
import os
from typing import Any

from railbird import LiveOdds

URL = os.environ.get("RAILBIRD_URL", "ws://127.0.0.1:8080/ws/live/odds")


async def main() -> None:
    boards: dict[str, Any] = {}
    async with LiveOdds(URL, api_key=os.environ["RAILBIRD_API_KEY"]) as odds:
        odds.on_state = lambda state: print(f"{state.phase}: {state.reason}, {state.gaps} gaps", flush=True)
        async for message in odds:
            if message["event"] in ("welcome", "resync") and not message.get("recovered"):
                boards.clear()
            print(take(message, boards) if "race_number" in message else json.dumps(message), flush=True)


def take(message: Any, boards: dict[str, Any]) -> str:
    race, event = f"{message['date']} {message['venue_code']} {message['race_number']}", message["event"]
    board = boards.setdefault(race, {"status": "no board", "runners": []})
    board |= message if event == "odds_update" else {"status": message["status"]} if event == "status_update" else {}
    prices = [f"{r['number']} {r['horse_name']} {r['win'] or r['state']}" for r in board["runners"]]
    return f"{message['seq']} {event} | {race} {board['status']} | {', '.join(prices)}"


asyncio.run(main())
