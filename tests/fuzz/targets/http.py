"""HTTP: bytes on a connection. Answers are well-formed, none is a 500, and how the bytes are split changes nothing.

The first byte of an input says how the rest is split, whether the server is secured, and whether a trusted proxy
passes the bytes on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

from fuzz.transport import ADDRESS, Exchange, converse
from penstock.auth.errors import InvalidToken
from penstock.auth.principal import Principal
from penstock.names import Space
from penstock.server.callers import OpenCallers, SignedCallers
from penstock.server.health import Health
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.server.routes import RequestHandlers, Routes
from penstock.server.web_pages import Cors
from penstock.wire.service import Call, Response
from support.signer import KEY, NOW_S, SECRET, TOKEN, claimed_by, sign_header, sign_url

_PIECE_BITS, _SECURED_BIT, _PROXY_BIT = 0x1F, 0x20, 0x40
_ALICE = Principal(kind="user", account="111122223333", arn="arn:aws:iam::111122223333:user/alice", id="AIDA")
_SIGNED = [
    sign_header("/", {}, {"X-Amz-Target": "AmazonSQS.ListQueues", "X-Amz-Security-Token": TOKEN}, "{}"),
    sign_url("/111122223333/q", {"Action": "ReceiveMessage"}),
]
_HEAD = b"POST / HTTP/1.1\r\nHost: localhost:9324\r\n"
_PLAIN = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\nHEAD /health HTTP/1.1\r\nHost: [::1]:9324\r\n\r\n",
    _HEAD + b"X-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: 2\r\n\r\n{}",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n",
    _HEAD + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nabcde" + _HEAD + b"Content-Length: 0\r\n\r\n",
    _HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
    b"OPTIONS /x HTTP/1.1\r\nOrigin: http://a\r\nAccess-Control-Request-Headers: x\r\n\r\n",
    b"GET /_localstack/health HTTP/1.1\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
    b"GET /?Action=ListQueues&X-Amz-Credential=1/20260202/eu-west-1/sqs/aws4_request HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1, 192.0.2.9\r\nX-Forwarded-Proto: https\r\n"
    b"X-Forwarded-Host: queues.example, h\r\nX-Forwarded-Port: 8443\r\n\r\n",
    b"DELETE /a HTTP/1.1\r\nHost: h\r\n\r\n" * 20,
    b"POST / HTTP/1.1\r\nContent-Length: 401\r\n\r\n",
    _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"91\r\n%b\r\n" % (b"x" * 0x91) * 3,
    b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 21 + b"\r\n",
]

WORDS = [
    *(b"GET ", b"POST ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n"),
    *(b"\r\n", b"\n", b"\r\n\r\n", b"\r\n ", b"\0", b"\xff", b"Content-Length: "),
    *(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    *(b"Expect: 100-continue\r\n", b"Expect: x\r\n", b"Upgrade: websocket\r\nConnection: upgrade\r\n"),
    *(b"Host: ", b"Connection: close\r\n"),
    *(b"X-Amz-Target: ", b"Authorization: AWS4-HMAC-SHA256 ", b"Origin: "),
    *(b"Accept: application/json\r\n", b"X-Amzn-Trace-Id: "),
    *(b"X-Forwarded-Host: ", b"X-Forwarded-Port: ", b"X-Forwarded-For: "),
    *(b"ffffffffffffffff\r\n", b"-1", b"18446744073709551616"),
    *(b"Content-Type: application/x-www-form-urlencoded\r\n", b"%2e"),
    *(b"/health/ready", b"?Action=", b"//", b"http://h/"),
]  # fmt: skip


def seeds() -> list[bytes]:
    requests = [*_PLAIN, *(signed.http for signed in _SIGNED)]
    return [bytes((cut,)) + request for request in requests for cut in (0x02, 0x25, 0x43, 0x7F)]


def check(data: bytes) -> None:
    how, data = data[0] if data else 0, data[1:]
    routes = _ROUTES[bool(how & _SECURED_BIT), bool(how & _PROXY_BIT)]
    size = 1 + (how & _PIECE_BITS) ** 2  # from a byte to a kilobyte
    whole = _answers(converse(routes.serve, [data]))
    pieces = _answers(converse(routes.serve, [data[at : at + size] for at in range(0, len(data), size)]))
    assert pieces == whole
    if any(_ALICE.arn.encode() in answer for answer in whole):
        assert claimed_by(data, _SIGNED), "this was never signed"


# -- a server whose service returns what it was asked -------------------------------------------------------


def _echo(request: Request, call: Call, done: Callable[[Response], None]) -> None:
    said = {
        "target": request.headers.get(b"x-amz-target", b"").decode("latin-1"),
        "body": hashlib.sha256(request.body).hexdigest(),
        "asked": [part.decode("latin-1") for part in (request.method, request.target)],
        "where": [call.space.account, call.space.region, call.base_url, call.source_ip, call.secure],
        "who": call.principal.arn if call.principal else call.sender,
    }
    done(Response(200, [(b"Content-Type", b"application/json")], json.dumps(said).encode()))


def _secret(access_key: str, token: str | None) -> str:
    if access_key != KEY or token not in (None, TOKEN):
        raise InvalidToken
    return SECRET


def _routes(*, secured: bool, proxied: bool) -> Routes:
    origins = Origins(None, [ip_network(f"{ADDRESS}/24", strict=False)] if proxied else ())
    directory = SimpleNamespace(secret=_secret, principal=lambda key, token: _ALICE)
    credentials: Any = SimpleNamespace(directory=directory)
    home = Space("000000000000", "us-east-1")
    signed = SignedCallers(credentials, origins, home, now_s=lambda: NOW_S + 1)
    callers = signed if secured else OpenCallers(home, origins)
    routes = Routes(callers=callers, origins=origins, cors=Cors(["http://a"]), health=Health())
    routes.open(RequestHandlers(_echo))
    return routes


_ROUTES = {
    (secured, proxied): _routes(secured=secured, proxied=proxied)
    for secured in (False, True)
    for proxied in (False, True)
}

# -- answers, read as a strict client reads them ---------------------------------------------------------------

_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [A-Za-z -]+")
_HEADER = re.compile(rb"([A-Za-z0-9-]+): ([\x20-\x7e\x80-\xff]*)")
_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def _answers(wire: Exchange) -> list[bytes]:
    """Each final answer, without what differs from one time to the next."""
    rest, found, methods = wire.written, [], iter(wire.methods)
    while rest:
        head, end, rest = rest.partition(b"\r\n\r\n")
        assert end, "an answer has a whole head"
        line, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(line)
        assert status, line
        code = int(status[1])
        if code == 100:
            continue
        assert code not in (500, 503), head
        headers: dict[bytes, bytes] = {}
        for each in lines:
            header = _HEADER.fullmatch(each)
            assert header, each
            assert header[1].lower() not in headers, "a header is repeated"
            headers[header[1].lower()] = header[2]
        length = 0 if next(methods, b"") == b"HEAD" else int(headers[b"content-length"])
        assert len(rest) >= length, "an answer has its whole body"
        body, rest = rest[:length], rest[length:]
        assert headers.pop(b"date")
        found.append(_ID.sub(b"-", b"%d %r %b" % (code, sorted(headers.items()), body)))
    served = len(wire.methods)
    assert served <= len(found) <= served + 1, "every request is answered, and the rest refused once"
    # Input with two mistakes may be refused for either of them.
    return [*found[:served], *(b"refused" for _ in found[served:])]
