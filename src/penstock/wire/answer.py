"""An answer as the wire gives it, and what every protocol has to be able to say."""

from __future__ import annotations

from typing import Protocol

import msgspec

from penstock.wire.registry import Fault, Operation

Headers = list[tuple[bytes, bytes]]


class Answer(msgspec.Struct, frozen=True):
    """A response without what only the transport knows: Date, Content-Length, Connection."""

    status: int
    headers: Headers
    body: bytes


class Voice(Protocol):
    """Answers in the words of one protocol. Made once for each service that speaks it."""

    def success(self, operation: Operation, response: msgspec.Struct | None, request_id: str) -> Answer: ...

    def refusal(self, fault: Fault, request_id: str) -> Answer: ...


def refusal_headers(fault: Fault, content_type: bytes, request_id: str) -> Headers:
    headers = [(b"Content-Type", content_type), (b"x-amzn-RequestId", request_id.encode())]
    if fault.status == 503:
        headers.append((b"Retry-After", b"1"))
    return headers
