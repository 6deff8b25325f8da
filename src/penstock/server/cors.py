"""Pages of other origins may call us only if those origins are listed (or ``*`` is)."""

from __future__ import annotations

from collections.abc import Collection

from penstock.server.http.request import Request

Headers = list[tuple[bytes, bytes]]

METHODS = b"GET, HEAD, OPTIONS, POST"
_EXPOSED = b"x-amzn-RequestId, x-amzn-query-error, x-amzn-errortype, Date"


class Cors:
    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def allows(self, origin: bytes) -> bool:
        return b"*" in self._origins or origin in self._origins

    def headers(self, request: Request) -> Headers:
        """What an answer to this request carries beside its own headers."""
        origin = request.headers.get(b"origin") if self._origins else None
        if origin is None:
            return []
        vary = (b"Vary", b"Origin")
        if not self.allows(origin):
            return [vary]
        allowed = b"*" if b"*" in self._origins else origin
        return [(b"Access-Control-Allow-Origin", allowed), (b"Access-Control-Expose-Headers", _EXPOSED), vary]

    def preflight(self, request: Request) -> Headers:
        """The answer's headers to an OPTIONS request; a browser goes on only if they let it."""
        headers = self.headers(request)
        if len(headers) > 1:
            wanted = request.headers.get(b"access-control-request-headers", b"")
            headers += [
                (b"Access-Control-Allow-Methods", METHODS),
                # SDKs sign ever new headers; an origin that may call at all may send what it likes.
                (b"Access-Control-Allow-Headers", wanted),
                (b"Access-Control-Max-Age", b"600"),
            ]
        return headers
