"""Writes requests, signed with AWS Signature Version 4.

Requests of one kind differ in body and time only. A template holds the rest, as it is written and as it is signed;
the key of a day is derived once.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from urllib.parse import urlsplit

from penstock import __version__
from penstock.auth.sigv4.canonical import canonical_path, canonical_query, read_parameters
from penstock.client.credentials import SigningKeys

_ALGORITHM = "AWS4-HMAC-SHA256"
_DATE = "\0"  # stands for the time in a template; no header can contain it
USER_AGENT = f"penstock/{__version__}"


class RequestTemplate:
    def __init__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        keys: SigningKeys | None,
        region: str,
        service: str,
    ) -> None:
        """``keys``: None leaves the requests unsigned. Raises ValueError for what no head of a request can hold."""
        parts = urlsplit(url)
        path, host = parts.path or "/", parts.netloc.rpartition("@")[2]
        target = f"{path}?{parts.query}" if parts.query else path
        sent = {name.lower(): value for name, value in headers.items()} | {"host": host}
        if keys is not None and keys.token:
            sent["x-amz-security-token"] = keys.token
        if " " in target or not _can_be_sent(target):
            raise ValueError(
                f"{method} {target!r} cannot be sent: quote spaces, line breaks and what is not ASCII"
            )
        in_head = sent if keys is None else sent | {"region": region, "access key": keys.access_key}
        for name, value in in_head.items():
            if not _can_be_sent(value):
                raise ValueError(f"invalid {name}: expected printable ASCII characters, without a line break")
        if keys is not None:
            sent["x-amz-date"] = _DATE
        # Proxies may change the user agent, so it is not signed.
        head = f"{method} {target} HTTP/1.1\r\nuser-agent: {USER_AGENT}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in sent.items()
        )
        self.keys = keys
        if keys is None:
            self._head = (head, "")
            return
        names = ";".join(sorted(sent))
        canonical = "\n".join((
            method,
            canonical_path(path.encode()).decode(),
            canonical_query(read_parameters(parts.query.encode())).decode(),
            *(f"{name}:{' '.join(sent[name].split())}" for name in sorted(sent)),
            "",
            names,
            "",
        ))  # fmt: skip
        self._scope = f"/{region}/{service}/aws4_request"
        self._region, self._service = region, service
        credential = f"authorization: {_ALGORITHM} Credential={keys.access_key}/"
        self._head = _halves(head + credential)
        self._canonical = _halves(canonical)
        self._signed_names = f", SignedHeaders={names}, Signature="

    def request(self, body: bytes, now_s: float) -> bytes:
        """The bytes of the whole request."""
        before, after = self._head
        if self.keys is None:
            return f"{before}content-length: {len(body)}\r\n\r\n".encode() + body
        stamp = _stamp(int(now_s))
        day = stamp[:8]
        canonical = f"{self._canonical[0]}{stamp}{self._canonical[1]}{sha256(body).hexdigest()}"
        digest = sha256(canonical.encode()).hexdigest()
        to_sign = f"{_ALGORITHM}\n{stamp}\n{day}{self._scope}\n{digest}"
        key = _signing_key(self.keys.secret_key, day, self._region, self._service)
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        return (
            f"{before}{stamp}{after}{day}{self._scope}{self._signed_names}{signature}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode() + body


def _can_be_sent(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _halves(text: str) -> tuple[str, str]:
    before, _, after = text.partition(_DATE)
    return before, after


@lru_cache(4)
def _stamp(now_s: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))


@lru_cache(64)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
