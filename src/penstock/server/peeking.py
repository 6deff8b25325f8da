"""LocalStack's page of all messages of a queue, as an address: ``/_aws/sqs/messages`` and what is below it.

    GET  /_aws/sqs/messages?QueueUrl=URL
    GET  /_aws/sqs/messages/REGION/ACCOUNT/QUEUE
    POST /_aws/sqs/messages                        with a ReceiveMessage, as a client of AWS sends it

It is answered by a dispatcher of its own, to which each of these is a ReceiveMessage at a queue's URL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from penstock.names import Space, is_region
from penstock.server.http.request import Request
from penstock.services.sqs.peeking import PEEKING
from penstock.services.sqs.resources import Sqs
from penstock.wire.dispatch import Authorize, Dispatcher, PassOn, Recorder, refusal
from penstock.wire.faults import invalid_action
from penstock.wire.service import Call, Response

_PATH = b"/_aws/sqs/messages"


class PeekedRequest(NamedTuple):
    """The request that the dispatcher sees."""

    original: Request
    method: bytes
    target: bytes
    headers: Mapping[bytes, bytes]
    body: bytes


class PeekPage:
    def __init__(
        self, sqs: Sqs, recorder: Recorder | None, authorize: Authorize | None, pass_on: PassOn | None
    ) -> None:
        self._dispatcher = Dispatcher(
            [PEEKING.with_context(sqs)],
            recorder,
            authorize,
            None if pass_on is None else lambda peeked, done, shard: pass_on(peeked.original, done, shard),
        )

    def accepts(self, request: Request) -> bool:
        return request.target.startswith(_PATH)

    def answer(self, request: Request, call: Call, done: Callable[[Response], None]) -> None:
        target = _as_receive(request, call)
        if target is None:
            fault = invalid_action("GET /_aws/sqs/messages?QueueUrl=… or …/messages/REGION/ACCOUNT/QUEUE.")
            done(refusal(fault, call.request_id, request))
            return
        peeked = PeekedRequest(request, request.method, target, request.headers, request.body)
        self._dispatcher.answer(peeked, call, done)


def _as_receive(request: Request, call: Call) -> bytes | None:
    """The target of a ReceiveMessage for the same queue; None if the path is of another form."""
    path, _, query = request.target.partition(b"?")
    below = path[len(_PATH) :].strip(b"/")
    queue = b"/"
    if below:
        parts = below.split(b"/")
        region = unquote(parts[0].decode("latin-1"))
        if len(parts) != 3 or not is_region(region):
            return None
        if call.principal is None:  # a signature is for one region; without one the path may say it
            call.space = Space(call.space.account, region)
        queue = b"/" + b"/".join(parts[1:])
    if request.method == b"GET":
        query = b"Action=ReceiveMessage&" + query
    return queue + b"?" + query if query else queue
