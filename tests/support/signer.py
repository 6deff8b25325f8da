"""Signature Version 4 as a client computes it, for plain paths and parameters. It shares no code with the server.

Key, time and host are constants, so that an input means the same in every process.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

KEY, SECRET, TOKEN = "AKIAFUZZFUZZFUZZFUZZ", "a secret that no input contains", "the+session/token=="
NOW_S = 1_770_000_000
STAMP = "20260202T024000Z"
SCOPE = f"{STAMP[:8]}/us-east-1/sqs/aws4_request"
HOST = "localhost:9324"

_CLAIM = re.compile(rb"Signature=([0-9a-f]+)")


class SignedRequest(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    body: str
    signature: str

    @property
    def http(self) -> bytes:
        headers = {**self.headers, "Content-Length": str(len(self.body))}
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        return "\r\n".join([*lines, "", self.body]).encode()


def sign_header(
    path: str, parameters: dict[str, str], headers: dict[str, str], body: str, *, payload: str | None = None
) -> SignedRequest:
    """``payload`` is what stands for the body, if not its hash."""
    headers = {"Host": HOST, "X-Amz-Date": STAMP, **headers}
    if payload is not None:
        headers["X-Amz-Content-Sha256"] = payload
    signature = _signature("POST", path, parameters, headers, payload or sha256(body.encode()).hexdigest())
    named = f"SignedHeaders={_names(headers)}, Signature={signature}"
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={KEY}/{SCOPE}, {named}"
    query = _query(parameters)
    return SignedRequest("POST", path + (f"?{query}" if query else ""), headers, body, signature)


def sign_url(path: str, parameters: dict[str, str]) -> SignedRequest:
    headers = {"Host": HOST}
    parameters = {
        **parameters,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY}/{SCOPE}",
        "X-Amz-Date": STAMP,
        "X-Amz-Expires": "600",
        "X-Amz-SignedHeaders": "host",
    }
    signature = _signature("GET", path, parameters, headers, sha256().hexdigest())
    target = f"{path}?{_query(parameters)}&X-Amz-Signature={signature}"
    return SignedRequest("GET", target, headers, "", signature)


def claimed_by(data: bytes, signed: Sequence[SignedRequest]) -> list[SignedRequest]:
    """Those of the requests whose signatures an input contains."""
    claims = {claim.decode() for claim in _CLAIM.findall(data)}
    return [each for each in signed if each.signature in claims]


def _signature(
    method: str, path: str, parameters: dict[str, str], headers: dict[str, str], payload: str
) -> str:
    values = {name.lower(): value for name, value in headers.items()}
    lines = "".join(f"{name}:{values[name]}\n" for name in sorted(values))
    canonical = "\n".join([method, path, _query(parameters), lines, _names(headers), payload])
    to_sign = f"AWS4-HMAC-SHA256\n{STAMP}\n{SCOPE}\n{sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in (*SCOPE.split("/"), to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _names(headers: dict[str, str]) -> str:
    return ";".join(sorted(name.lower() for name in headers))


def _query(parameters: dict[str, str]) -> str:
    return "&".join(f"{quote(name, '-._~')}={quote(parameters[name], '-._~')}" for name in sorted(parameters))
