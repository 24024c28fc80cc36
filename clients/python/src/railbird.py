"""The live odds channel of railbird: keeps one connection, resumes it, and proves that no message is missing.

docs/live-odds.md describes the protocol. Example::

    async with LiveOdds("wss://example.org/ws/live/odds", api_key=key, venues=["ST"]) as odds:
        async for message in odds:
            print(odds.state.phase, message)
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["Filter", "LiveOdds", "LiveOddsClosed", "Message", "RacePattern", "State"]

HEARTBEAT_MS_DEFAULT = 5_000
"""Heartbeats are this far apart until the service has sent its own value."""
SILENT_HEARTBEATS_MAX = 2
"""A connection on which nothing arrives for this many heartbeats is dead, also if the system calls it open."""
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 1_000, 30_000
"""The bounds of the random pause before another attempt: it doubles with each failure."""
FINAL_CODES = frozenset({1002, 1003, 1007, 1009, 4401, 4403})
"""Close codes after which the same request would fail again."""
FINAL_STATUSES = frozenset({400, 401, 403, 404})
"""HTTP statuses of a handshake after which the same request would fail again."""
LAST_SEQS_MAX = 100_000
"""Races times kinds of messages of which the last ``seq`` is kept: more than a year of racing."""
CLOSE_SECONDS_MAX = 1
"""Time for the service to answer a close frame."""

# At DEBUG, websockets logs the headers of the handshake, and the key is one of them.
_transport_log = logging.getLogger("railbird.transport")
_transport_log.setLevel(logging.INFO)

Message = dict[str, Any]
"""A message of the service, as docs/live-odds.md describes it."""
Phase = Literal["connecting", "live", "stale", "down", "waiting", "closed"]


class RacePattern(TypedDict, total=False):
    """A race; on any date without ``date``, at any venue without ``venue``."""

    date: str
    venue: str
    race_number: int


class Filter(TypedDict, total=False):
    """Races to follow: those that match at least one value of each list given."""

    dates: Sequence[str]
    venues: Sequence[str]
    races: Sequence[RacePattern | int]
    horses: Sequence[str]
    events: Sequence[str]
    conflate_ms: int
    heartbeat_ms: int


@dataclass(frozen=True)
class State:
    """The state of the connection, as of the last message that was returned."""

    phase: Phase = "connecting"
    """``connecting``: no connection, or snapshots or missed messages still arrive. ``live``, ``stale``, ``down``:
    everything was received; the service's own state of its feed. ``waiting``: the connection was lost, and the next
    attempt is in ``retry_in_ms``. ``closed``: by ``close``, or because the same request would fail again."""
    reason: str = ""
    """Why, for people; empty while all is well."""
    code: int | None = None
    """The close code, or the HTTP status of a rejected handshake."""
    retry_in_ms: int | None = None
    recovered: bool | None = None
    """Whether the last reconnect resumed without a loss; None before the first one. If not, discard every board."""
    gaps: int = 0
    """Gaps found in the messages since the start. There must be none."""
    last_gap: tuple[int, Message] | None = None
    """The ``seq`` after which messages are missing, and the message that shows it."""
    seq: int | None = None
    """Everything was received up to this log sequence."""
    last_message_at: float | None = None
    """When a message last arrived, as ``time.time()``."""


class LiveOddsClosed(Exception):
    """The same request would fail again, for example because the key was revoked."""

    def __init__(self, reason: str, code: int | None) -> None:
        super().__init__(reason if code is None else f"{reason} ({code})")
        self.reason, self.code = reason, code


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception:
        return exc  # The key is for this address, and for no other that it may name.


class LiveOdds:
    """Follows the live odds channel through lost connections and restarts of the service.

    Iterating connects, and returns every message of the service, in order, without those received before. After a
    ``welcome`` without ``"recovered": true`` and after a ``resync``, discard every board. The iteration ends after
    ``close``, and raises ``LiveOddsClosed`` after a final error.

    ``url`` is that of ``/ws/live/odds``, optionally with filters in its query. ``on_state`` is called when anything in
    the state but ``seq`` and ``last_message_at`` has changed.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        on_state: Callable[[State], None] | None = None,
        **filter: Unpack[Filter],
    ) -> None:
        parts = urlsplit(url)
        self._url = urlunsplit(parts._replace(scheme=parts.scheme.replace("http", "ws"), query=""))
        self._query = dict(parse_qsl(parts.query))
        in_url = self._query.pop("api_key", None)
        self.api_key = in_url if api_key is None else api_key
        request = _to_request(filter)
        self._query.update((name, value) for name, value in _to_query(request, request) if value is not None)
        self._heartbeat_ms: int = request.get("heartbeat_ms", HEARTBEAT_MS_DEFAULT)
        self._on_state, self._state = on_state, State()
        self._socket: ClientConnection | None = None
        self._welcomed = False
        self._ended = asyncio.Event()
        self._failures, self._retry_at = 0, 0.0
        self._feed: Phase = "live"
        self._closing: Message = {}
        self._epoch = ""
        # The latest message that counts: its `seq` and `recorded_at`.
        self._position: tuple[int, str] | None = None
        # The last message of each kind about each race, without its content.
        self._last: dict[tuple[object, ...], Message] = {}
        # Requests that are not completed, with their `ack`. They are sent again after a reconnect.
        self._requests: dict[str, tuple[Message, Message]] = {}
        self._request_count = 0

    @property
    def state(self) -> State:
        return self._state

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while not self._ended.is_set():
            try:
                socket = self._socket or await self._connect()
                silent = SILENT_HEARTBEATS_MAX * self._heartbeat_ms / 1000
                text = await asyncio.wait_for(socket.recv(), silent)
                message: Message = json.loads(text)
            except (OSError, WebSocketException, asyncio.TimeoutError, ValueError) as error:
                self._lose(error)
                continue
            if await self._receive(message):
                return message
        raise StopAsyncIteration

    async def close(self) -> None:
        """Closes the connection and ends the iteration."""
        self._ended.set()
        if self._socket is not None:
            await self._socket.close()
            self._socket = None
        if self._state.phase != "closed":
            self._change(phase="closed", reason="closed by this client", code=None, retry_in_ms=None)

    async def subscribe(self, **filter: Unpack[Filter]) -> str:
        """Replaces the lists in force; without a list, everything is followed.

        Returns the ``id`` of the answers: ``ack`` and ``snapshot_complete``, or ``error``.
        """
        return await self._request("subscribe", _to_request(filter))

    async def unsubscribe(self, **filter: Unpack[Filter]) -> str:
        """Removes values from the lists in force; without a list, no race is followed any more.

        Returns the ``id`` of the answer: ``ack`` or ``error``.
        """
        return await self._request("unsubscribe", _to_request(filter))

    async def resync(self) -> str:
        """Requests a snapshot of each open race that is followed. Returns the ``id`` of the answers."""
        return await self._request("resync", {})

    async def _request(self, op: str, values: Message) -> str:
        self._request_count += 1
        request = {"op": op, "id": str(self._request_count), **values}
        self._requests[request["id"]] = (request, {})
        if self._welcomed:
            await self._send(request)
        return request["id"]

    async def _send(self, request: Message) -> None:
        try:
            if self._socket is not None:
                await self._socket.send(json.dumps(request))
        except ConnectionClosed:
            pass  # The request is sent again after the reconnect.

    async def _connect(self) -> ClientConnection:
        """Connects after the pause, with the subscription in force and the position to resume from."""
        try:
            await asyncio.wait_for(self._ended.wait(), self._retry_at - time.monotonic())
        except asyncio.TimeoutError:
            pass
        self._closing, self._feed = {}, "live"
        self._change(phase="connecting", retry_in_ms=None)
        query = dict(self._query)
        if self._position is not None:
            seq, recorded_at = self._position
            query |= {"since": str(seq), "recorded_at": recorded_at, "epoch": self._epoch}
        self._socket = await _Connect(
            f"{self._url}?{urlencode(query)}",
            additional_headers={"X-API-Key": self.api_key} if self.api_key else None,
            compression=None,
            open_timeout=SILENT_HEARTBEATS_MAX * self._heartbeat_ms / 1000,
            ping_interval=None,  # The heartbeats of the service do this.
            close_timeout=CLOSE_SECONDS_MAX,
            logger=_transport_log,
        )
        return self._socket

    async def _receive(self, message: Message) -> bool:
        """Handles a message. Returns whether it was not received before."""
        self._state = replace(self._state, last_message_at=time.time())
        if "prev_seq" in message and not self._is_new(message):
            return False
        event, id = message.get("event"), message.get("id")
        request, ack = self._requests.get(str(id), ({}, {}))
        if event == "welcome":
            await self._welcome(message)
        elif event == "resync":
            self._discard(message)
        elif event == "heartbeat":
            self._feed = message.get("feed", {}).get("state", "live")
        elif event == "closing":
            self._closing = message
        elif event == "error":
            self._requests.pop(str(id), None)
        elif event == "ack" and request:
            self._acknowledge(request, message)
        elif event == "snapshot_complete" and request:
            self._complete(request, ack)
        self._count(message)
        if event in ("snapshot_complete", "heartbeat") and self._position is not None:
            self._change(phase=self._feed, reason="", code=None)
        return True

    def _is_new(self, message: Message) -> bool:
        """Whether a message about a race was not received before. Notes a gap."""
        key = tuple(message[name] for name in ("event", "date", "venue_code", "race_number"))
        known = None if message.get("snapshot") else self._last.get(key)
        last = known and known["seq"]
        if last is not None and message["seq"] <= last:
            return False
        if last is not None and message["prev_seq"] not in (0, last):
            self._change(gaps=self._state.gaps + 1, last_gap=(last, message))
        self._last.pop(key, None)
        self._last[key] = {name: message[name] for name in _OF_RACE}
        if len(self._last) > LAST_SEQS_MAX:
            del self._last[next(iter(self._last))]
        return True

    async def _welcome(self, message: Message) -> None:
        self._set_in_force(message)
        if not message.get("recovered"):
            self._discard(message)
        self._epoch = message["epoch"]
        self._change(recovered=message.get("recovered"), reason=message.get("reason", ""))
        self._welcomed = True
        for request, _ in list(self._requests.values()):
            await self._send(request)

    def _discard(self, message: Message) -> None:
        """Earlier messages no longer hold; snapshots follow."""
        self._epoch, self._position = message["epoch"], None
        self._state = replace(self._state, seq=None)
        self._last.clear()
        self._change(phase="connecting", reason=message.get("reason", ""))

    def _acknowledge(self, request: Message, ack: Message) -> None:
        # Races that are not followed any more may change unseen. If they are followed again, that is no gap.
        self._last = {key: last for key, last in self._last.items() if _follows(ack, last)}
        self._requests[request["id"]] = (request, ack)
        if ack["op"] == "unsubscribe":
            self._complete(request, ack)

    def _complete(self, request: Message, ack: Message) -> None:
        del self._requests[request["id"]]
        self._set_in_force(ack)

    def _set_in_force(self, values: Message) -> None:
        """Takes the values with which to connect again."""
        self._heartbeat_ms = values.get("heartbeat_ms", self._heartbeat_ms)
        for name, value in _to_query(values, values.get("filter", {})) if "filter" in values else ():
            self._query.pop(name, None)
            if value is not None:
                self._query[name] = value

    def _count(self, message: Message) -> None:
        """Remembers the position of a message that counts."""
        if message.get("event") != "snapshot_complete":
            # After a `subscribe` or `resync`, only its `snapshot_complete` counts.
            is_pending = any(request["op"] != "unsubscribe" for request, _ in self._requests.values())
            if self._position is None or "recorded_at" not in message or "more" in message or is_pending:
                return
        self._position = (message["seq"], message["recorded_at"])
        self._state = replace(self._state, seq=message["seq"])
        self._failures = 0

    def _lose(self, error: Exception) -> None:
        """Notes a lost connection, and when to connect again."""
        reason, code, wait = _explain(error)
        reason, code = self._closing.get("reason", reason), self._closing.get("code", code)
        if self._socket is not None:
            self._socket.transport.abort()
        self._socket, self._welcomed = None, False
        if self._ended.is_set():
            return
        is_final = self._closing.get("retry_after_ms") == 0 or code in FINAL_CODES | FINAL_STATUSES
        if is_final:
            self._ended.set()
            self._change(phase="closed", reason=reason, code=code, retry_in_ms=None)
            raise LiveOddsClosed(reason, code) from None
        pause = random.uniform(0, min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**self._failures))
        self._failures += 1
        retry_in_ms = round(self._closing.get("retry_after_ms", pause + wait))
        self._retry_at = time.monotonic() + retry_in_ms / 1000
        self._change(phase="waiting", reason=reason, code=code, retry_in_ms=retry_in_ms)

    def _change(self, **values: Any) -> None:
        before, self._state = self._state, replace(self._state, **values)
        if self._on_state is not None and before != self._state:
            self._on_state(self._state)


_OF_RACE = ("event", "date", "venue", "venue_code", "race_number", "seq")
_LISTS = {"date": "dates", "venue": "venues", "race": "races", "horse": "horses"}


def _explain(error: Exception) -> tuple[str, int | None, int]:
    """The reason, the close code or HTTP status, and the milliseconds for which the service asks."""
    if isinstance(error, ConnectionClosed):
        received = error.rcvd
        return (received.reason or "the connection was lost", received.code, 0) if received else ("the connection was lost", None, 0)
    if isinstance(error, InvalidStatus):
        response = error.response
        try:
            reason = str(json.loads(response.body or b"")["message"])
        except (ValueError, LookupError, TypeError):
            reason = f"HTTP {response.status_code}"
        after = response.headers.get("Retry-After", "")
        return reason, response.status_code, 1000 * int(after) if after.isdecimal() else 0
    if isinstance(error, asyncio.TimeoutError):
        return "no heartbeat", None, 0
    if isinstance(error, ValueError):
        return "a message that is not JSON", None, 0
    return "no connection", None, 0


def _to_request(filter: Filter) -> Message:
    """The fields of a client message."""
    request: Message = {name: value for name, value in filter.items() if value is not None}
    if "races" in request:
        races = request["races"]
        request["races"] = [{"race_number": race} if isinstance(race, int) else race for race in races]
    return request


def _to_query(values: Message, filter: Message) -> Iterator[tuple[str, str | None]]:
    """The parameters of a query, None for those that are left out."""
    for name, list_name in _LISTS.items():
        items = filter.get(list_name)
        if list_name == "races" and items is not None:
            items = ["/".join(str(race[part]) for part in ("date", "venue", "race_number") if part in race) for race in items] or ["none"]
        yield name, None if items is None else ",".join(items)
    yield "events", ",".join(values["events"]) if "events" in values else None
    for name in ("conflate_ms", "heartbeat_ms"):
        yield name, str(values[name]) if name in values else None


def _follows(values: Message, message: Message) -> bool:
    """Whether a message about a race surely matches the values in force."""
    filter = values["filter"]

    def is_at(venue: str) -> bool:
        return venue.lower() in (message["venue"].lower(), message["venue_code"].lower())

    def is_race(race: Message) -> bool:
        date, number = race.get("date", message["date"]), race["race_number"]
        at = "venue" not in race or is_at(race["venue"])
        return at and (date, number) == (message["date"], message["race_number"])

    return (
        message["event"] in values["events"]
        and message["date"] in filter.get("dates", [message["date"]])
        and ("venues" not in filter or any(map(is_at, filter["venues"])))
        and ("races" not in filter or any(map(is_race, filter["races"])))
        and "horses" not in filter  # Horses of a race change with its card.
    )
