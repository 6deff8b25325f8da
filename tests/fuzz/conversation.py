"""Requests as lines of text, so that an input is readable and a mutation of it is still a series of requests.

A later line can use values of an earlier answer: ``$ReceiptHandle``, ``$TaskHandle``, ``$NextToken``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote_from_bytes
from xml.etree import ElementTree

import msgspec

from fuzz.server import FuzzServer
from penstock.wire.service import Response
from support.http_requests import form_request, json_request

REQUESTS_MAX = 8

_VALUE = re.compile(rb'(ReceiptHandle|TaskHandle|NextToken)(?:":"|>)([^"<]+)')
_REFERENCE = re.compile(rb"\$(ReceiptHandle|TaskHandle|NextToken)")


class Conversation:
    def __init__(self, server: FuzzServer) -> None:
        self._server = server
        self._values: dict[bytes, bytes] = {}
        self._only_anonymous = True

    def json(self, line: bytes) -> Response:
        """``alice AmazonSQS.SendMessage {"QueueUrl":"q"}``"""
        who, target, body = _words(line, 3)
        body = _REFERENCE.sub(lambda found: self._values.get(found[1], b""), body)
        answer = self._server.ask(who, json_request(target, body))
        assert isinstance(msgspec.json.decode(answer.body or b"{}"), dict)
        return self._checked(who, answer)

    def query(self, line: bytes) -> Response:
        """``alice POST /111122223333/q xml Action=SendMessage&MessageBody=x``: the third is the answer's format."""
        who, method, address, accept, body = _words(line, 5)
        path, _, query = address.partition(b"?")
        target = path + b"?" + self._filled(query)
        accept = b"application/json" if accept == b"json" else b""
        request = form_request(self._filled(body), target=target, method=method, accept=accept)
        answer = self._server.ask(who, request)
        if b"xml" in dict(answer.headers).get(b"Content-Type", b""):
            ElementTree.fromstring(answer.body)
        elif answer.body:
            assert isinstance(msgspec.json.decode(answer.body), dict)
        return self._checked(who, answer)

    def _filled(self, form: bytes) -> bytes:
        return _REFERENCE.sub(lambda found: quote_from_bytes(self._values.get(found[1], b"")).encode(), form)

    def _checked(self, who: bytes, answer: Response) -> Response:
        self._only_anonymous &= who == b"anonymous"
        assert answer.status != 200 or not self._only_anonymous, "no policy admits anonymous callers yet"
        self._values.update(_VALUE.findall(answer.body))
        return answer


def lines_of(data: bytes) -> Iterator[bytes]:
    yield from data.split(b"\n")[:REQUESTS_MAX]


def _words(line: bytes, count: int) -> list[bytes]:
    words = line.split(b" ", count - 1)
    return words + [b""] * (count - len(words))
