"""Prints what a client returns that is cancelled again and again while it waits, and whose callback fails."""

import asyncio
import json
import os
from dataclasses import asdict

from railbird import LiveOdds, State


def fail(state: State) -> None:
    print(json.dumps({"event": "state", **asdict(state)}), flush=True)
    raise ValueError("this is reported, and changes nothing")


async def main() -> None:
    odds = LiveOdds(os.environ["RAILBIRD_URL"], api_key=os.environ["RAILBIRD_API_KEY"], heartbeat_ms=1000)
    odds.on_state = fail
    async for message in odds:
        print(json.dumps(message), flush=True)
        break
    while True:
        try:
            print(json.dumps(await asyncio.wait_for(anext(odds), 0.001)), flush=True)
        except asyncio.TimeoutError:
            pass


asyncio.run(main())
