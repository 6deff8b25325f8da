"""Passes requests on to the process that owns their shard, and serves those that others pass on.

A request travels unchanged, with the client's address and certificate. The owner handles it as its own: verified,
authorised and recorded there, and only there. It never passes it on again: if it is not the owner, it says so, and
the first process looks for the owner again. While a shard moves it has no owner for a moment, so the request waits,
for a few seconds. That is safe, because nothing was decided about it.

A request that was sent and has no answer when the connection breaks may have been carried out. It is never sent a
second time: the client gets 503 and decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container
from functools import partial
from typing import Any, Protocol

import msgspec

from penstock.backoff import backoff
from penstock.cluster.accepting import IncomingCall, LinkListener
from penstock.cluster.frames import UNDECODABLE
from penstock.cluster.link import Link, NotSent, Peers
from penstock.cluster.owners import Owners
from penstock.cluster.streams import OpenStreams, pieces_of
from penstock.errors import NotOwned, Unreachable
from penstock.promise import Promise, run_detached, start
from penstock.wire.dispatch import Done, refusal
from penstock.wire.faults import internal_error, service_unavailable
from penstock.wire.service import Response, RunningCall

log = logging.getLogger("penstock.cluster")

REQUEST = "request"
SAME_SHARD = -1  # as the one who passes on says: a process that starts or stops does not look at the request


class ForwardLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of requests that wait for an owner."""

    wait_s: float = 5.0
    waiting_max: int = 10_000
    waiting_bytes_max: int = 64 * 1024 * 1024
    pause_s_min: float = 0.02  # between two looks for an owner, doubled each time
    pause_s_max: float = 0.3
    stream_idle_s: float = 60.0  # a stream that is not read is closed


class ServedPeer(Protocol):
    """The two ends of the connection on which a request came."""

    address: str
    scheme: str
    listening: str
    certificate: str


class ServedRequest(Protocol):
    """A request as the server has it."""

    id: str
    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    raw_headers: list[tuple[bytes, bytes]] | None
    body: bytes
    call: RunningCall | None
    on_not_owned: Callable[[int], None] | None

    @property
    def peer(self) -> ServedPeer: ...


class PassedRequest(msgspec.Struct, array_like=True, gc=False):
    id: str
    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    raw_headers: list[tuple[bytes, bytes]] | None
    body: bytes
    address: str
    scheme: str
    listening: str
    certificate: str
    counted: bool  # against the rate limit of its caller


class PassedResponse(msgspec.Struct, array_like=True, gc=False):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    returnable: bool  # it carries messages that go back if the client does not read it
    stream: int  # its number at the owner, if the body is a stream


Serve = Callable[[PassedRequest, Callable[[Any, Response], None], Callable[[int], None]], ServedRequest]
"""(request, what takes the response, what takes the shard if it is not ours) -> the request as it is served."""

_NO_ANSWER = (
    "The node that owns this queue could not answer. The request may or may not have been carried out."
)

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(PassedRequest).decode
_decode_response = msgspec.msgpack.Decoder(PassedResponse).decode


class Passage:
    """A request on its way to the owner and back. For the connection of the client it stands for the running call."""

    __slots__ = (
        "_done", "_forwarder", "_if_lost", "_link", "_local", "_number", "deadline", "decoding", "gone", "if_unread",
        "payload", "shard", "tries",
    )  # fmt: skip

    def __init__(self, forwarder: Forwarder, payload: bytes, shard: int, done: Done) -> None:
        self._forwarder = forwarder
        self._done: Done | None = done  # the request itself: dropped with the answer, to leave no cycle
        self._link: Link | None = None
        self._number = 0
        self._local: ServedRequest | None = None  # if the shard came to this process meanwhile
        self._if_lost: Response | None = None  # once the payload was dropped
        self.payload = payload
        self.shard = shard
        self.tries = 0
        self.deadline = 0.0
        self.gone = False
        self.if_unread: Callable[[], None] | None = None
        self.decoding: Promise[Any] | None = None  # the owner does that

    def send(self, link: Link) -> None:
        """Raises Unreachable: it was not sent."""
        self._link = link
        self._number = link.send(REQUEST, self.payload, self._answered, self._taken)

    def serve_here(self, serve: Serve) -> None:
        tries = self.tries
        local = serve(_decode_request(self.payload), self._served_here, self._not_owned)
        if self._done is not None and self.tries == tries:  # neither answered nor refused yet
            self._local = local

    def hang_up(self) -> None:
        """The client has disconnected."""
        self.gone = True
        if self._local is not None:
            if self._local.call is not None:
                self._local.call.hang_up()
        elif self._link is not None:
            self._link.cancel(self._number)  # and then the owner answers soon

    def _taken(self) -> None:
        """The owner has the request, as a long poll: it is not kept here, so it cannot be sent again."""
        request = _decode_request(self.payload)
        self._if_lost = refusal(service_unavailable(_NO_ANSWER), request.id, request)
        self.payload = b""

    def refuse(self, error: Exception) -> None:
        if self._if_lost is not None:
            self._respond(self._if_lost)
            return
        if isinstance(error, Unreachable):
            fault = service_unavailable(str(error))
        else:
            log.error("a request could not be passed on", exc_info=error)
            fault = internal_error()
        request = _decode_request(self.payload)
        self._respond(refusal(fault, request.id, request))

    def _respond(self, response: Response) -> None:
        done, self._done, self._local = self._done, None, None
        assert done is not None, "a request is answered once"
        done(response)

    def _answered(self, payload: bytes | None, error: Exception | None) -> None:
        if payload is not None:
            try:
                answer = _decode_response(payload)
            except UNDECODABLE:
                self.refuse(Unreachable("The answer of another node cannot be understood."))
                return
            link = self._link
            assert link is not None
            if answer.returnable:  # the owner takes the messages back
                self.if_unread = partial(link.cancel, self._number)
            stream = self._forwarder.read_stream(link.address, answer.stream) if answer.stream else None
            self._respond(Response(answer.status, answer.headers, answer.body, stream))
        elif isinstance(error, NotOwned) and self._if_lost is None:
            self._not_owned(error.shard)
        elif isinstance(error, NotSent):
            self._forwarder.wait(self)
        else:
            assert error is not None
            self.refuse(error)

    def _served_here(self, request: ServedRequest, response: Response) -> None:
        if request.call is not None:
            self.if_unread = request.call.if_unread
        self._respond(response)

    def _not_owned(self, shard: int) -> None:
        self._local = self._link = None
        if shard != SAME_SHARD:  # else what we thought of was right, or is as good as any
            self.shard = shard
        self._forwarder.wait(self)


class Forwarder:
    def __init__(
        self,
        address: str,
        owners: Owners,
        owned: Container[int],
        peers: Peers,
        serve: Serve,
        hint: Callable[[Any], int | None] | None = None,
        limits: ForwardLimits | None = None,
    ) -> None:
        """``address``: under which others reach this process. ``owned``: the shards that it serves at present.
        ``hint``: the shard of a request as far as that is easily seen; it may be wrong."""
        self._address = address
        self._owners = owners
        self._owned = owned
        self._peers = peers
        self._serve = serve
        self._hint = hint
        self._limits = limits or ForwardLimits()
        self._waiting: dict[int, list[Passage]] = {}  # for an owner, by shard
        self._refreshing: dict[int, Promise[None]] = {}  # what looks for an owner, by shard
        self._waiting_count = 0
        self._waiting_bytes = 0
        self._streams = OpenStreams(self._limits.stream_idle_s)
        self.stopping = False  # others keep their requests until the next owner is there
        self.passed_on = self.served = 0  # requests of our clients for others, and of other processes here

    def listen(self, listener: LinkListener) -> None:
        """Serve what other processes pass on."""
        listener.handlers[REQUEST] = self.serve
        self._streams.listen(listener)

    # Requests of our clients.

    def shard_elsewhere(self, request: ServedRequest) -> int | None:
        """The shard, if it can be seen without verifying the request that another process owns it."""
        shard = None if self._hint is None else self._hint(request)
        return None if shard is None or shard in self._owned else shard

    def pass_on(self, request: ServedRequest, done: Done, shard: int) -> None:
        """``done`` gets the response. ``request`` is not kept."""
        if request.on_not_owned is not None:
            request.on_not_owned(shard)  # it was passed on to us: once is enough
            return
        self.passed_on += 1
        peer = request.peer
        passed = PassedRequest(
            request.id, request.method, request.target, request.headers, request.raw_headers, request.body,
            peer.address, peer.scheme, peer.listening, peer.certificate,
            request.call is not None,  # else its shard was seen before its caller was
        )  # fmt: skip
        passage = request.call = Passage(self, _encode(passed), shard, done)
        if not request.target:
            # It waited for something before it turned out not to be ours, and was released from memory.
            passage.refuse(Unreachable("The queue has just moved to another node. Try again."))
        else:
            self._start(passage)

    def _start(self, passage: Passage) -> None:
        address = self._owners.address_of(passage.shard)
        if passage.gone:
            passage.refuse(Unreachable("The client disconnected."))
        elif address is not None and address != self._address:
            try:
                passage.send(self._peers.link(address))
            except NotSent:
                self.wait(passage)
            except Unreachable as error:
                passage.refuse(error)
        elif address == self._address and passage.shard in self._owned:
            passage.serve_here(self._serve)
        else:
            self.wait(passage)

    # Waiting for an owner.

    def wait(self, passage: Passage) -> None:
        """Nothing was decided about the request: look for the owner again, then try again."""
        limits, now = self._limits, asyncio.get_running_loop().time()
        if not passage.deadline:
            passage.deadline = now + limits.wait_s
        passage.tries += 1
        size = len(passage.payload)
        if now >= passage.deadline:
            passage.refuse(Unreachable("No node serves this queue at present. Try again."))
        elif (
            self._waiting_count >= limits.waiting_max or self._waiting_bytes + size > limits.waiting_bytes_max
        ):
            passage.refuse(
                Unreachable("Too many requests wait for a node that serves their queue. Try again.")
            )
        else:
            self._waiting_count += 1
            self._waiting_bytes += size
            if passage.shard in self._waiting:
                self._waiting[passage.shard].append(passage)
            else:
                self._waiting[passage.shard] = [passage]
                run_detached(self._look_for_owner(passage.shard, passage.tries))

    async def _look_for_owner(self, shard: int, tries: int) -> None:
        """Look for the owner once for all requests that wait for a shard. The first look follows at once, others
        after longer pauses."""
        limits = self._limits
        if tries > 1:
            await asyncio.sleep(backoff(tries + 1, limits.pause_s_min, limits.pause_s_max))
        await self._refreshed(shard)
        for passage in self._waiting.pop(shard):
            self._waiting_count -= 1
            self._waiting_bytes -= len(passage.payload)
            self._start(passage)

    def _refreshed(self, shard: int) -> Promise[None]:
        """Returns a promise that is resolved when the owner was looked for. It is also resolved after a pause if that
        takes longer: perhaps the owner is the same and can be reached."""
        looked: Promise[None] = Promise()

        def go_on(_: object = None) -> None:
            timer.cancel()
            if not looked.done:
                looked.resolve(None)

        timer = asyncio.get_running_loop().call_later(self._limits.pause_s_max, go_on)
        if shard not in self._refreshing:
            self._refreshing[shard] = start(self._owners.refresh(shard))
            self._refreshing[shard].on_done(partial(self._refresh_ended, shard))
        if shard in self._refreshing:
            self._refreshing[shard].on_done(go_on)
        else:
            go_on()
        return looked

    def _refresh_ended(self, shard: int, refresh: Promise[None]) -> None:
        del self._refreshing[shard]
        try:
            refresh.result()
        except Exception as error:
            log.warning("cannot find the owner of shard %d: %s", shard, error)

    # Requests that others pass on.

    def serve(self, incoming: IncomingCall) -> None:
        try:
            passed = _decode_request(incoming.payload)
        except UNDECODABLE:
            incoming.fail(Unreachable("Another node does not understand the request."))
            return
        incoming.payload = b""
        if self.stopping:
            incoming.fail(NotOwned(SAME_SHARD))
            return
        self.served += 1
        served = _Served(incoming, self._streams)
        request = self._serve(passed, served.respond, served.not_owned)
        if not served.is_answered:
            served.request = request
            incoming.on_cancel = served.hang_up

    def read_stream(self, address: str, number: int) -> AsyncIterator[bytes]:
        return pieces_of(self._peers, address, number)


class _Served:
    """A request that another process passed on, while it runs here."""

    __slots__ = ("_incoming", "_streams", "is_answered", "request")

    def __init__(self, incoming: IncomingCall, streams: OpenStreams) -> None:
        self._incoming = incoming
        self._streams = streams
        self.request: ServedRequest | None = None
        self.is_answered = False

    def respond(self, request: ServedRequest, response: Response) -> None:
        self.is_answered = True
        self.request = None
        give_back = request.call.if_unread if request.call is not None else None
        stream = 0 if response.stream is None else self._streams.add(response.stream)
        answer = PassedResponse(
            response.status, response.headers, response.body, give_back is not None, stream
        )
        self._incoming.answer(_encode(answer), give_back)

    def not_owned(self, shard: int) -> None:
        self.is_answered = True
        self.request = None
        self._incoming.fail(NotOwned(shard))

    def hang_up(self) -> None:
        if self.request is not None and self.request.call is not None:
            self.request.call.hang_up()
