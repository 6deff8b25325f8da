"""Responses as bytes: one response is one write, unless it is a stream."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus

from penstock.clock import real_s
from penstock.server.http.request import HttpError
from penstock.wire.json import FRAMEWORK_ERRORS
from penstock.wire.service import Fault, Headers, Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REQUEST_ID = b"x-amzn-RequestId"

KEEP_ALIVE = b"Connection: keep-alive\r\n"
CLOSE = b"Connection: close\r\n"

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}

# SDKs read the error's name also from responses that no service wrote.
_ERROR_NAMES = {
    408: "RequestTimeout",
    413: "RequestEntityTooLarge",
    503: "ServiceUnavailable",
}


class DateHeader:
    """The line for the current second, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self.line = b""

    def update(self) -> None:
        second = int(real_s())
        if second != self._second:
            self._second = second
            self.line = f"Date: {formatdate(second, usegmt=True)}\r\n".encode()


def encode_response(
    response: Response, date: bytes, connection: bytes = b"", *, head_only: bool = False
) -> bytes:
    """``date`` and ``connection`` are whole header lines, or nothing."""
    body = response.body
    lines = b""
    for name, value in response.headers:
        lines += b"%b: %b\r\n" % (name, value)
    return b"%b%b%b%bContent-Length: %d\r\n\r\n%b" % (
        _STATUS_LINES[response.status], date, lines, connection, len(body), b"" if head_only else body,
    )  # fmt: skip


def encode_stream_head(response: Response, date: bytes, connection: bytes, *, chunked: bool) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % header for header in response.headers])
    if chunked:
        lines += b"Transfer-Encoding: chunked\r\n"
    return b"%b%b%b%b\r\n" % (_STATUS_LINES[response.status], date, lines, connection)


def with_headers(response: Response, more: Headers) -> Response:
    return Response(response.status, [*response.headers, *more], response.body, response.stream)


def error_response(error: HttpError, request_id: str) -> Response:
    code = _ERROR_NAMES.get(error.status, "MalformedHttpRequest")
    fault = Fault(f"{code}Exception", code, error.status, error.message, modelled=False)
    return FRAMEWORK_ERRORS.error(fault, request_id)
