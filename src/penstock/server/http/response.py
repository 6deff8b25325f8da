"""Answers as bytes: one answer is one write.

Status lines are made once, the Date line once a second. An :class:`Answer` brings its own request id; what
only the transport knows (Date, Content-Length, Connection) is added here.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus

from penstock.server.http.request import Refusal, new_request_id
from penstock.wire.dispatch import Answer
from penstock.wire.json10 import FRAMEWORK_VOICE
from penstock.wire.registry import Fault

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REQUEST_ID = b"x-amzn-RequestId"

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_CONNECTION_CLOSE = b"Connection: close\r\n"
_CONNECTION_KEEP_ALIVE = b"Connection: keep-alive\r\n"

# Clients name an error by these, whoever refused the request: a refusal of the transport must have one too.
_REFUSAL_NAMES = {
    408: "RequestTimeout",
    413: "RequestEntityTooLarge",
    503: "ServiceUnavailable",
}


class _DateLine:
    """The Date header, made anew when the second changes."""

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def __call__(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._line = f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
        return self._line


_date_line = _DateLine()


def encode_answer(
    answer: Answer, version: str = "1.1", *, head_only: bool = False, close: bool = False
) -> bytes:
    body = answer.body
    headers = b"".join([b"%b: %b\r\n" % header for header in answer.headers])
    if close:
        headers += _CONNECTION_CLOSE
    elif version == "1.0":
        headers += _CONNECTION_KEEP_ALIVE  # the older version closes unless told otherwise
    return b"%b%b%bContent-Length: %d\r\n\r\n%b" % (
        _STATUS_LINES[answer.status], _date_line(), headers, len(body), b"" if head_only else body,
    )  # fmt: skip


def refusal_answer(refusal: Refusal, request_id: str) -> Answer:
    code = _REFUSAL_NAMES.get(refusal.status, "MalformedHttpRequest")
    fault = Fault(f"{code}Exception", code, refusal.status, refusal.message, modelled=False)
    return FRAMEWORK_VOICE.error(fault, request_id)


def encode_refusal(refusal: Refusal) -> bytes:
    """What the transport itself writes before it closes the connection."""
    return encode_answer(refusal_answer(refusal, new_request_id()), close=True)
