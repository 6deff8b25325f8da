"""Server-sent events of the web console: an answer of the admin API, and again whenever it has changed.

Each open stream asks about once a second, so streams are the one thing of the console that costs without requests.
Their number is limited, in all and per viewer. If all places are taken, a viewer with fewer gets one of the viewer
with the most: accounts share the places, and within an account the networks of its viewers do.

Streams take turns, which accounts share, too: few ask at the same time, and a turn is free again after a rest of some
times what the answer took. So all of them together leave most of the time to other requests, however many there are
and whatever they ask for; under load they are updated less often. Between two questions a stream holds of the answer
only its digest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from hashlib import blake2b
from time import monotonic
from typing import NamedTuple

from penstock.fair_share import FairShare
from penstock.wire.service import Response

_EVERY_S, _PING_S = 1.0, 15.0
_STREAMS_MAX, _STREAMS_PER_VIEWER_MAX = 500, 50
_TURNS, _TURNS_PER_ACCOUNT = 5, 4  # so that answers that take long do not stop all streams
_REST = 3.0
_PING = b": still here\n\n"
TOO_MANY_STREAMS = "Too many pages are open. Close some."

Ask = Callable[[], Awaitable[Response]]
Ending = asyncio.Event  # of one stream: set if it has to end


class Viewer(NamedTuple):
    """The account and the network whose streams are counted together."""

    account: str  # empty on an open server
    network: str


class ConsoleStreams:
    def __init__(self, *, every_s: float = _EVERY_S, now_s: Callable[[], float] = monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._open: dict[Viewer, list[Ending]] = {}  # in the order in which they began
        self._turns = FairShare(_TURNS, _TURNS_PER_ACCOUNT)
        self._is_stopping = False

    def stop(self) -> None:
        """End the streams, which would else keep their connections open."""
        self._is_stopping = True
        for ending in [each for endings in self._open.values() for each in endings]:
            ending.set()
        self._turns.lift()  # for those that wait for their turn

    def is_full(self, viewer: Viewer) -> bool:
        """Whether there is no place for one more stream of this viewer."""
        if len(self._open.get(viewer, ())) >= _STREAMS_PER_VIEWER_MAX:
            return True
        return self._count() >= _STREAMS_MAX and self._who_gives_way(viewer) is None

    def _count(self, account: str | None = None) -> int:
        return sum(len(streams) for each, streams in self._open.items() if account in (None, each.account))

    def _who_gives_way(self, viewer: Viewer) -> Viewer | None:
        """The viewer that gives up a stream for this one: that with most, if it then still has as many as this
        one."""
        accounts = {each.account: self._count(each.account) for each in self._open}
        account = max(accounts, key=accounts.__getitem__)
        if accounts[account] <= accounts.get(viewer.account, 0) + 1:
            account = viewer.account
        streams = {each: len(streams) for each, streams in self._open.items() if each.account == account}
        most = max(streams, key=streams.__getitem__, default=viewer)
        fewer = account == viewer.account and streams.get(most, 0) <= streams.get(viewer, 0) + 1
        return None if fewer else most

    def _begin(self, viewer: Viewer) -> Ending | None:
        """Begins a stream; None if there is no place."""
        if self.is_full(viewer):
            return None
        if self._count() >= _STREAMS_MAX and (other := self._who_gives_way(viewer)) is not None:
            last = self._open[other][-1]
            last.set()
            self._end(other, last)
        ending = Ending()
        self._open.setdefault(viewer, []).append(ending)
        if self._is_stopping:
            ending.set()
        return ending

    def _end(self, viewer: Viewer, ending: Ending) -> None:
        endings = self._open.get(viewer, [])
        if ending in endings:  # else it gave way
            endings.remove(ending)
        if not endings:
            self._open.pop(viewer, None)

    async def changes(self, viewer: Viewer, ask: Ask) -> AsyncIterator[bytes]:
        ending = self._begin(viewer)
        if ending is None:  # others have begun since this one was accepted
            yield _refused(503, "TooManyStreams", TOO_MANY_STREAMS)
            return
        shown, silent_s = b"", 0.0
        try:
            while True:
                event, digest = await self._question(viewer, ending, ask, shown)
                if event is not None:
                    yield event
                    event, silent_s = None, 0.0  # not in memory while nothing changes
                elif silent_s >= _PING_S:
                    silent_s = 0.0
                    yield _PING
                if digest is None or await _set_within(ending, self._every_s):
                    break
                shown, silent_s = digest, silent_s + self._every_s
            if ending.is_set() and not self._is_stopping:
                yield _refused(503, "TooManyStreams", TOO_MANY_STREAMS)
        finally:
            self._end(viewer, ending)

    async def _question(
        self, viewer: Viewer, ending: Ending, ask: Ask, shown: bytes
    ) -> tuple[bytes | None, bytes | None]:
        """The event, if the answer is not the one with the digest ``shown``; and its digest, if there may be more."""
        response = await self._in_turn(viewer.account, ending, ask)
        if response is None:
            return None, None
        if response.status != 200:
            return _refused_by(response), None
        digest = blake2b(response.body, digest_size=16).digest()
        if digest == shown:
            return None, digest
        return b"data: " + response.body.strip().replace(b"\n", b" ") + b"\n\n", digest

    async def _in_turn(self, account: str, ending: Ending, ask: Ask) -> Response | None:
        """Wait for a turn, and ask. Returns None if the stream has to end."""
        await self._turns.take(account)
        if ending.is_set():
            self._turns.give_back(account)
            return None
        began_s = self._now_s()  # the clock of the event loop stands still while an answer is computed
        try:
            return await ask()
        finally:
            rest_s = _REST * (self._now_s() - began_s)
            asyncio.get_running_loop().call_later(rest_s, self._turns.give_back, account)


async def _set_within(ending: Ending, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ending.wait()
    return ending.is_set()


def _refused(status: int, code: str, message: str) -> bytes:
    """The refusal as an event, which has no status and no headers."""
    text = json.dumps({"status": status, "code": code, "message": message}).encode()
    return b"event: refused\ndata: " + text + b"\n\n"


def _refused_by(response: Response) -> bytes:
    headers = {name.lower(): value for name, value in response.headers}
    try:
        message = json.loads(response.body).get("message", "")
    except (ValueError, AttributeError):
        message = ""
    return _refused(response.status, headers.get(b"x-amzn-errortype", b"").decode("latin-1"), message)
