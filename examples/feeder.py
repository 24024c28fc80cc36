"""Publishes a whole meeting: horses, cards, odds that move, withdrawals, results, amendments.
Retries unacknowledged events under the same id. Exits with 1 if one was rejected or never acknowledged."""

import asyncio
import contextlib
import hashlib
import json
import os
import random
import sys
import time
import uuid
from datetime import datetime, timedelta

import nats
import nats.errors
import nats.js.errors

URL = os.environ.get("RAILBIRD_NATS", "nats://127.0.0.1:4222")
RETRIES = int(os.environ.get("RAILBIRD_RETRIES", 15))  # 15 take a minute, enough for an election or a restart.
WINDOW = 16  # Events in flight: railbird recognises a repeated quote among the latest 16 of its race.
DATE = sys.argv[1] if len(sys.argv) > 1 else time.strftime("%Y-%m-%d")
FIELDS = [["PAPER LANTERN", "SLOW TIDE", "NIGHT FERRY"], ["LONG DIVISION", "PLAIN SONG", "SUNDIAL", "TIN BOX"]]


def message_id(subject, event):
    """Differs for an id that is used again on another subject, or by another feeder."""
    return hashlib.sha256(f"{subject}\n{event['source']}\n{event['id']}".encode()).hexdigest()


async def publish_one(js, subject, event):
    """NATS looks for an id on all subjects: where another feeder has taken this one, it does not store the event."""
    payload = json.dumps(event).encode()
    ack = await js.publish(subject, payload, 5, headers={"Nats-Msg-Id": message_id(subject, event)})
    if ack.duplicate and (await js.get_msg("RACING", ack.seq, direct=True)).subject != subject:
        ack = await js.publish(subject, payload, 5, headers={"Nats-Msg-Id": uuid.uuid4().hex})
    return ack


async def publish(js, events):
    """Publishes events, a window at a time, and retries those that were not acknowledged, in order."""
    failures = 0
    while events:
        sent, events = events[:WINDOW], events[WINDOW:]
        publishing = (publish_one(js, subject, event) for subject, event in sent)
        answers = await asyncio.gather(*publishing, return_exceptions=True)
        missing = []
        for (subject, event), answer in zip(sent, answers, strict=True):
            if not isinstance(answer, Exception):
                print(answer.seq, subject, event["type"], "known" if answer.duplicate else "new", flush=True)
            elif isinstance(answer, nats.js.errors.APIError) or failures == RETRIES:
                sys.exit(f"not acknowledged: {event['type']} on {subject}: {answer}")
            else:
                missing.append((subject, event))
        if missing:
            print(f"retrying: {len(missing)}", flush=True)
            await asyncio.sleep(random.uniform(0.5, 1) * min(0.1 * 2**failures, 5))
        events, failures = missing + events, failures + 1 if missing else 0


def event_groups(number, names):
    """The events of a race, in groups that may be in flight together: only quotes, which are ordered by their time."""
    off = datetime.fromisoformat(f"{DATE}T12:30:00+08:00") + timedelta(minutes=30 * number)
    race, key = f"{DATE}.ST.{number}", {"date": DATE, "venue": "ST", "race_number": number}
    horses = [{"horse_no": f"EX_{number}{n}", "horse_name": name} for n, name in enumerate(names, 1)]
    people = {"jockey": "A. Quill", "trainer": "T. Marlowe"}

    def event(subject, kind, seconds, data):
        fact = {
            "specversion": "1.0",
            "source": "feeder.py",
            "type": f"racing.{kind}.v1",
            "data": data,
            "time": (off + timedelta(seconds=seconds)).isoformat(),
        }
        # The id is a hash of the content, so a second run repeats the same events.
        return f"racing.{subject}", {**fact, "id": hashlib.sha256(json.dumps(fact).encode()).hexdigest()}

    def quote(tick):
        prices = [{"horse_no": h["horse_no"], "win": (20 * n + tick * n % 9) / 10} for n, h in enumerate(horses, 1)]
        return event(f"odds.{race}", "odds.quoted", 5 * tick - 1000, {**key, "runners": prices})

    for horse in horses:
        yield [
            event(
                f"horse.{horse['horse_no']}",
                "horse.registered",
                -86400,
                {
                    **horse,
                    "country_of_origin": "NZ",
                    "colour": "Bay",
                    "sex": "Gelding",
                    "foaled": "2020-10-02",
                    "trainer": "T. Marlowe",
                    "owner": "The Example Syndicate",
                },
            )
        ]
    runners = [{**horse, **people, "number": n, "draw": n, "weight": 134 - n} for n, horse in enumerate(horses, 1)]
    yield [
        event(
            f"race.{race}",
            "race.declared",
            -86400,
            {
                **key,
                "race_name": f"HANDICAP {number}",
                "distance": 1200,
                "class": "4",
                "going": "GOOD",
                "runners": runners,
            },
        )
    ]
    yield [event(f"race.{race}", "race.status_changed", -1100, {**key, "status": "open"})]
    yield [quote(tick) for tick in range(100)]
    out = horses.pop()["horse_no"]
    yield [event(f"race.{race}", "runner.withdrawn", -500, {**key, "horse_no": out, "reason": "Lame"})]
    yield [quote(tick) for tick in range(100, 200)]
    yield [event(f"race.{race}", "race.status_changed", 0, {**key, "status": "off"})]
    ran = [{**horse, **people, "finish_time": f"1:09.{n}0", "win_odds": 2 * n} for n, horse in enumerate(horses, 1)]
    for revision, reason in enumerate(["", "Placings amended after an inquiry"], 1):
        placed = [{**runner, "position": n, "stakes": 9000 // n} for n, runner in enumerate(ran, 1)]
        data = {**key, "revision": revision, "status": "official", "reason": reason, "runners": placed}
        yield [event(f"result.{race}", "result.declared", 600 * revision, data)]
        ran[:2] = ran[1::-1]


async def report(error):
    """Prints an error of the connection. A denied message gets no other response, so a retry would never end."""
    denied = "violation" in str(error).lower() and "alive." not in str(error)
    print(f"{'not permitted' if denied else 'NATS'}: {error}", flush=True)
    if denied:
        os._exit(1)  # sys.exit would first end the client's reader, which prints a traceback.


async def show_alive(nc):
    """A source that does not do so for 20 seconds is shown as down."""
    while True:
        with contextlib.suppress(nats.errors.Error):
            await nc.publish("alive.feeder.py")
        await asyncio.sleep(10)


async def main():
    # No buffer while disconnected: the client would send it between the retried events.
    nc = await nats.connect(
        URL, error_cb=report, pending_size=0, max_reconnect_attempts=60, reconnect_time_wait=random.uniform(0.5, 1.5)
    )
    alive = asyncio.create_task(show_alive(nc))
    for number, names in enumerate(FIELDS, 1):
        for events in event_groups(number, names):
            await publish(nc.jetstream(), events)
    alive.cancel()
    await nc.close()


try:
    asyncio.run(main())
except nats.errors.NoServersError as error:
    sys.exit(f"no connection: {error}")
