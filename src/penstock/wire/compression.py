"""Requests whose body is compressed, as SDKs send the large ones of some services.

The signature covers the compressed body, so that this is done after the request was verified. A few kilobytes can
stand for gigabytes: reading stops at a bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from penstock.turns import Steps
from penstock.wire.faults import malformed_input
from penstock.wire.service import HttpRequest

UNCOMPRESSED_BYTES_MAX = 4 * 1024 * 1024
_BYTES_PER_STEP = 16 * 1024  # of the compressed body
_GZIP = 16 + zlib.MAX_WBITS
_ENCODINGS = (b"gzip", b"x-gzip")


class UncompressedRequest(NamedTuple):
    method: bytes
    target: bytes
    headers: Mapping[bytes, bytes]
    body: bytes


def uncompressed(request: HttpRequest) -> Steps[HttpRequest]:
    """Raises Fault."""
    encoding = request.headers[b"content-encoding"].strip().lower()
    if encoding in (b"", b"identity", b"amz-1.0"):
        return request
    if encoding not in _ENCODINGS:
        raise malformed_input("The header Content-Encoding has an unknown value: expected gzip or identity.")
    reader = zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    left = UNCOMPRESSED_BYTES_MAX
    for at in range(0, len(request.body), _BYTES_PER_STEP):
        try:
            part = reader.decompress(request.body[at : at + _BYTES_PER_STEP], left + 1)
        except (zlib.error, EOFError):
            raise malformed_input("The request body is not valid gzip.") from None
        left -= len(part)
        if left < 0:
            raise malformed_input(
                f"The request body has more than {UNCOMPRESSED_BYTES_MAX} bytes uncompressed."
            )
        parts.append(part)
        yield
    if not reader.eof or reader.unused_data:
        raise malformed_input("The request body is not valid gzip.")
    return UncompressedRequest(request.method, request.target, request.headers, b"".join(parts))
