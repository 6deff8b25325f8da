"""HTTP requests as the wire sees them, without a transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

FORM = b"application/x-www-form-urlencoded; charset=utf-8"


class PlainRequest(msgspec.Struct):
    method: bytes = b"POST"
    target: bytes = b"/"
    headers: dict[bytes, bytes] = {}
    body: bytes = b""


def json_request(target: str | bytes, body: bytes = b"") -> PlainRequest:
    """AWS JSON 1.0: ``AmazonSQS.SendMessage`` and its members."""
    name = target.encode("latin-1") if isinstance(target, str) else target
    return PlainRequest(
        headers={b"x-amz-target": name, b"content-type": b"application/x-amz-json-1.0"}, body=body
    )


def form_request(
    body: bytes = b"", *, target: bytes = b"/", method: bytes = b"POST", accept: bytes = b""
) -> PlainRequest:
    """The Query protocol: parameters in the body, or in the URL."""
    headers = {b"content-type": FORM} if method == b"POST" else {}
    if accept:
        headers[b"accept"] = accept
    return PlainRequest(method, target, headers, body)


def form_parameters(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The members of a request as parameters of the Query protocol, with ``member`` in the names of lists."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from form_parameters(member, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, member in enumerate(value, 1):
            yield from form_parameters(member, f"{name}.member.{number}")
    elif value is not None:
        yield name, value
