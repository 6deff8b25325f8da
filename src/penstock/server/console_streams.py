"""Server-sent events of the web console: an answer of the admin API, and again whenever it has changed.

Each open stream asks about once a second, so streams are the one thing of the console that costs without requests.
Their number is limited, in all and per client. They take turns: few ask at the same time, and a turn is free again
after a rest of some times what the answer took. So all streams together leave most of the time to other requests,
however many there are and whatever they ask for; under load they are updated less often. Between two questions a
stream holds nothing of the answer but its digest.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from hashlib import blake2b
from time import monotonic

from penstock.wire.service import Response

_EVERY_S, _PING_S = 1.0, 15.0
_STREAMS_MAX, _STREAMS_PER_CLIENT_MAX = 500, 50
_TURNS = 4  # so that an answer that takes long does not stop all streams
_REST = 3.0
_PING = b": still here\n\n"
TOO_MANY_STREAMS = "Too many pages are open. Close some."

Ask = Callable[[], Awaitable[Response]]


class ConsoleStreams:
    def __init__(self, *, every_s: float = _EVERY_S, now_s: Callable[[], float] = monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._open: Counter[str] = Counter()  # by client
        self._turns = asyncio.Semaphore(_TURNS)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End the streams, which would else keep their connections open."""
        self._stopping.set()
        for _ in range(self._open.total()):  # those that wait for their turn
            self._turns.release()

    def is_full(self, client: str) -> bool:
        return self._open[client] >= _STREAMS_PER_CLIENT_MAX or self._open.total() >= _STREAMS_MAX

    async def changes(self, client: str, ask: Ask) -> AsyncIterator[bytes]:
        if self.is_full(client):  # others have begun since this one was accepted
            yield _refused(503, "TooManyStreams", TOO_MANY_STREAMS)
            return
        self._open[client] += 1
        shown, silent_s = b"", 0.0
        try:
            while True:
                event, digest = await self._question(ask, shown)
                if event is not None:
                    yield event
                    event, silent_s = None, 0.0  # not held while nothing changes
                elif silent_s >= _PING_S:
                    silent_s = 0.0
                    yield _PING
                if digest is None or await self._stops_within(self._every_s):
                    return
                shown, silent_s = digest, silent_s + self._every_s
        finally:
            self._open[client] -= 1
            if not self._open[client]:
                del self._open[client]

    async def _stops_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    async def _question(self, ask: Ask, shown: bytes) -> tuple[bytes | None, bytes | None]:
        """The event, if the answer is not the one with the digest ``shown``; and its digest, if there may be more."""
        response = await self._in_turn(ask)
        if response is None:
            return None, None
        if response.status != 200:
            return _refused_by(response), None
        digest = blake2b(response.body, digest_size=16).digest()
        if digest == shown:
            return None, digest
        return b"data: " + response.body.strip().replace(b"\n", b" ") + b"\n\n", digest

    async def _in_turn(self, ask: Ask) -> Response | None:
        """None: the server stops."""
        await self._turns.acquire()
        if self._stopping.is_set():
            return None
        began_s = self._now_s()  # the clock of the event loop stands still while an answer is computed
        try:
            return await ask()
        finally:
            rest_s = _REST * (self._now_s() - began_s)
            asyncio.get_running_loop().call_later(rest_s, self._turns.release)


def _refused(status: int, code: str, message: str) -> bytes:
    """As an event: it has no status and no headers."""
    text = json.dumps({"status": status, "code": code, "message": message}).encode()
    return b"event: refused\ndata: " + text + b"\n\n"


def _refused_by(response: Response) -> bytes:
    headers = {name.lower(): value for name, value in response.headers}
    try:
        message = json.loads(response.body).get("message", "")
    except (ValueError, AttributeError):
        message = ""
    return _refused(response.status, headers.get(b"x-amzn-errortype", b"").decode("latin-1"), message)
