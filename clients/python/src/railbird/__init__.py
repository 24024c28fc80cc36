"""Follows the live odds channel of railbird, as docs/live-odds.md describes it, and proves that nothing is missing."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import parse_qsl, urlencode, urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

HEARTBEAT_MS_DEFAULT = 5_000  # Until the service has sent its own value.
SILENT_HEARTBEATS_MAX = 2  # A connection that is silent for longer is dead, also if the system calls it open.
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 1_000, 30_000  # Bounds of the random pause, which doubles with each failure.
CLOSE_SECONDS_MAX = 1  # For the service to answer a close frame.
LAST_SEQS_MAX = 100_000  # Kinds of messages times races: more than a year of racing.
# Close codes and HTTP statuses after which the same request would fail again.
FINAL_CODES = (1002, 1003, 1007, 1009, 4401, 4403, 400, 401, 403, 404)

# At DEBUG, websockets logs the headers of the handshake, and the key is one of them.
_transport_log = logging.getLogger("railbird.transport")
_transport_log.setLevel(logging.INFO)

Message = dict[str, Any]


# A race; on any date without `date`, at any venue without `venue`.
class RacePattern(TypedDict, total=False):
    date: str
    venue: str
    race_number: int


# Races to follow: those that match at least one value of each list given.
class Filter(TypedDict, total=False):
    dates: Sequence[str]
    venues: Sequence[str]
    races: Sequence[RacePattern | int]
    horses: Sequence[str]
    events: Sequence[str]
    conflate_ms: int
    heartbeat_ms: int


@dataclass(frozen=True)
class State:
    # connecting: no connection, or snapshots or missed messages still arrive. live, stale, down: everything was
    # received; the service's state of its feed. waiting: for the next attempt. closed: by `close`, or for good.
    phase: Literal["connecting", "live", "stale", "down", "waiting", "closed"] = "closed"
    reason: str = ""  # Why, for people.
    code: int | None = None  # The close code, or the HTTP status of a rejected handshake.
    retry_in_ms: int | None = None  # The pause before the next attempt.
    recovered: bool | None = None  # Whether the last reconnect resumed without a loss; None before the first.
    gaps: int = 0  # Gaps found since the start. There must be none.
    last_gap: tuple[int, Message] | None = None  # A `seq`, and the first message after those that are missing.
    seq: int | None = None  # Everything was received up to this log sequence.
    last_message_at: float | None = None  # As `time.time()`.


class LiveOddsClosed(Exception):
    """The same request would fail again, for example with a revoked key: set ``api_key`` and iterate again."""


class LiveOdds:
    """Iterating connects, and returns every message of the service in order, without those received before.

    After a ``welcome`` without ``"recovered": true`` and after a ``resync``, discard every board. The iteration ends
    after ``close``, and raises `LiveOddsClosed` if the same request would fail again.
    """

    def __init__(self, url: str, *, api_key: str | None = None, **filter: Unpack[Filter]) -> None:
        parts = urlsplit(url)
        self._url = parts._replace(scheme=parts.scheme.replace("http", "ws"), query="").geturl()
        query = dict(parse_qsl(parts.query))
        self.api_key = query.pop("api_key", api_key)
        self.on_state: Callable[[State], object] | None = None  # Not for `seq` and `last_message_at` alone.
        self.state = State()
        self._socket: ClientConnection | None = None
        self._ended = asyncio.Event()
        request = _to_request(filter)
        self._query = query | _to_query(request, request)  # The subscription in force.
        self._silence_max = SILENT_HEARTBEATS_MAX * request.get("heartbeat_ms", HEARTBEAT_MS_DEFAULT) / 1000
        self._failures, self._retry_at, self._welcomed, self._request_count, self._epoch = 0, 0.0, False, 0, ""
        self._feed = "live"  # In the last heartbeat.
        self._closing: Message = {}  # The `closing` message of this connection.
        self._position: dict[str, str] = {}  # The latest message that counts, as the parameters of a resume.
        self._last: dict[tuple[str, ...], int] = {}  # The last `seq` of each kind of message about each race.
        self._filter_seq = 0  # Since when the filter is the same.
        # Requests that are not completed, by their id, and their acks. They are sent again after a reconnect.
        self._requests: dict[str, Message] = {}
        self._acks: dict[str, Message] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while self._socket or not await self._pause():
            try:
                socket = self._socket or await self._connect()
                message: Message = json.loads(await asyncio.wait_for(socket.recv(), self._silence_max))
                event = message["event"]
            except (OSError, WebSocketException, asyncio.TimeoutError, ValueError, LookupError, TypeError) as error:
                self._lose(error)
                continue
            self.state = replace(self.state, last_message_at=time.time())
            if "prev_seq" not in message or self._is_new(message):
                await self._handle(message, event)
                return message
        raise StopAsyncIteration

    async def close(self) -> None:
        """Closes the connection and ends the iteration."""
        self._ended.set()
        if self.state.phase != "closed":
            self._change(phase="closed", reason="closed by this client", code=None, retry_in_ms=None)
        if self._socket:
            await self._socket.close()

    async def subscribe(self, **filter: Unpack[Filter]) -> str:
        """Replaces the lists in force; without a list, everything is followed. Returns the ``id`` of the answers."""
        return await self._request("subscribe", filter)

    async def unsubscribe(self, **filter: Unpack[Filter]) -> str:
        """Removes values from the lists in force; without a list, all races. Returns the ``id`` of the answer."""
        return await self._request("unsubscribe", filter)

    async def resync(self) -> str:
        """Requests a snapshot of each open race that is followed. Returns the ``id`` of the answers."""
        return await self._request("resync", {})

    async def _request(self, op: str, filter: Filter) -> str:
        self._request_count += 1
        request = {"op": op, "id": str(self._request_count), **_to_request(filter)}
        self._requests[request["id"]] = request
        await self._send([request] if self._welcomed else [])
        return str(request["id"])

    async def _send(self, requests: list[Message]) -> None:
        with suppress(ConnectionClosed):  # They are sent again after the reconnect.
            for request in requests:
                if self._socket:
                    await self._socket.send(json.dumps(request))

    async def _pause(self) -> bool:
        """Waits until the next attempt is due. Returns whether the client was closed."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), self._retry_at - time.monotonic())
        if not self._ended.is_set():
            self._change(phase="connecting", retry_in_ms=None)
        return self._ended.is_set()

    async def _connect(self) -> ClientConnection:
        self._closing, self._feed = {}, "live"
        self._socket = await _Connect(
            f"{self._url}?{urlencode(self._query | self._position)}",
            additional_headers={"X-API-Key": self.api_key} if self.api_key else None,
            open_timeout=self._silence_max,
            ping_interval=None,  # The heartbeats of the service are enough.
            close_timeout=CLOSE_SECONDS_MAX,
            logger=_transport_log,
        )
        if self._ended.is_set():
            await self._socket.close()
        return self._socket

    def _is_new(self, message: Message) -> bool:
        """Whether a message about a race was not received before. Notes a gap."""
        key = tuple(str(message[name]) for name in ("event", "date", "venue_code", "race_number"))
        last = 0 if message.get("snapshot") else self._last.get(key, 0)
        seq, prev_seq = message["seq"], message["prev_seq"]
        if seq <= last:
            return False
        # A race that was not followed for a while has changed unseen: no gap.
        if last > 0 and prev_seq != last and prev_seq > self._filter_seq:
            self._change(gaps=self.state.gaps + 1, last_gap=(last, message))
        self._last[key] = seq
        if len(self._last) > LAST_SEQS_MAX:
            del self._last[next(iter(self._last))]
        return True

    async def _handle(self, message: Message, event: str) -> None:
        is_complete = event == "snapshot_complete"
        self._closing = message if event == "closing" else self._closing
        self._feed = message["feed"]["state"] if event == "heartbeat" else self._feed
        if event in ("ack", "error", "snapshot_complete"):
            self._answer(message, event)
        # After a `subscribe` or `resync`, only its `snapshot_complete` counts.
        is_pending = any(request["op"] != "unsubscribe" for request in self._requests.values())
        counts = self._position and "recorded_at" in message and "more" not in message and not is_pending
        if is_complete or counts:
            seq, recorded_at = message["seq"], message["recorded_at"]
            self._position = {"since": str(seq), "recorded_at": recorded_at, "epoch": self._epoch}
            self.state, self._failures = replace(self.state, seq=seq), 0
        if event == "resync" or (event == "welcome" and not message.get("recovered")):
            # Earlier messages no longer hold; snapshots follow.
            self._epoch, self._position, self._filter_seq = message["epoch"], {}, 0
            self._last.clear()
            self._change(phase="connecting", reason=message.get("reason", ""), seq=None)
        if event == "welcome":
            self._set_in_force(message)
            self._change(recovered=message.get("recovered"), reason=message.get("reason", ""))
            self._welcomed = True
            await self._send(list(self._requests.values()))
        if self._position and (is_complete or event == "heartbeat"):
            self._change(phase=self._feed, reason="", code=None)

    def _answer(self, message: Message, event: str) -> None:
        id, op = str(message.get("id")), message.get("op")
        if event == "ack":
            self._acks[id] = message
            self._filter_seq = self._filter_seq if op == "resync" else message["seq"]
        if event != "ack" or op == "unsubscribe":
            self._requests.pop(id, None)
            self._set_in_force(self._acks.pop(id, {}))

    def _set_in_force(self, values: Message) -> None:
        """Takes the values with which to connect again."""
        if values:
            self._silence_max = SILENT_HEARTBEATS_MAX * values["heartbeat_ms"] / 1000
            self._query = _to_query(values, values["filter"])

    def _lose(self, error: Exception) -> None:
        """Notes a lost connection, and when to connect again."""
        if self._socket:
            self._socket.transport.abort()
        self._socket, self._welcomed = None, False
        if self._ended.is_set():
            return
        reason, code, wait_ms = _explain(error)
        values = {"reason": self._closing.get("reason", reason), "code": self._closing.get("code", code)}
        after = self._closing.get("retry_after_ms")
        if after == 0 or values["code"] in FINAL_CODES:
            self._change(phase="closed", retry_in_ms=None, **values)
            raise LiveOddsClosed(values["reason"], values["code"]) from None
        pause_max = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**self._failures)
        retry_in_ms = round(wait_ms + random.uniform(0, pause_max) if after is None else after)
        self._failures += 1
        self._retry_at = time.monotonic() + retry_in_ms / 1000
        self._change(phase="waiting", retry_in_ms=retry_in_ms, **values)

    def _change(self, **values: Any) -> None:
        before, self.state = self.state, replace(self.state, **values)
        if self.on_state and replace(before, seq=self.state.seq) != self.state:
            self.on_state(self.state)


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception:
        return exc  # The key is for this address only.


def _explain(error: Exception) -> tuple[str, int | None, int]:
    """The reason, the close code or HTTP status, and the milliseconds for which the service asks."""
    if isinstance(error, InvalidStatus):
        status, after = error.response.status_code, error.response.headers.get("Retry-After", "")
        reason = f"HTTP {status}"
        with suppress(ValueError, LookupError, TypeError):
            reason = str(json.loads(error.response.body)["message"])
        return reason, status, 1000 * int(after) if after.isdecimal() else 0
    if isinstance(error, ConnectionClosed) and error.rcvd:
        return error.rcvd.reason or "the connection was lost", error.rcvd.code, 0
    return "no heartbeat" if isinstance(error, asyncio.TimeoutError) else f"no connection: {error}", None, 0


def _to_request(filter: Filter) -> Message:
    """The fields of a client message."""
    request: Message = dict(filter)
    if "races" in request:
        races = request["races"]
        request["races"] = [{"race_number": race} if isinstance(race, int) else race for race in races]
    return request


def _to_query(values: Message, filter: Message) -> dict[str, str]:
    """The parameters of a query."""
    names = {"date": "dates", "venue": "venues", "race": "races", "horse": "horses"}
    lists = {name: filter[list_name] for name, list_name in names.items() if list_name in filter}
    lists |= {"events": values["events"]} if "events" in values else {}
    if "race" in lists:
        parts = ("date", "venue", "race_number")
        lists["race"] = ["/".join(str(race[part]) for part in parts if part in race) for race in lists["race"]]
    numbers = {name: str(values[name]) for name in ("conflate_ms", "heartbeat_ms") if name in values}
    return numbers | {name: ",".join(items) or "none" for name, items in lists.items()}
