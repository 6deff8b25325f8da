"""From where, and under which address, did the caller reach us?

Queue URLs are built on that address, for each request anew: first a configured public URL, then what a trusted
proxy says, then the request's Host, then where we listen. What a proxy says is believed if it is trusted, else not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from penstock.server.neighbours import Network, is_within
from penstock.server.request import Refusal, Request

Headers = Sequence[tuple[bytes, bytes]]

_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PORT_SUFFIX = re.compile(r":[0-9]+$")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Origins:
    def __init__(self, public_url: str | None, trusted_proxies: Sequence[Network]) -> None:
        self._public_url = public_url.rstrip("/") if public_url else None
        self._proxies = tuple(trusted_proxies)
        self._trusts = lru_cache(maxsize=1024)(self._is_proxy)

    def of(self, request: Request) -> str:
        """scheme://host[:port]. Raises Refusal for a Host that cannot be one."""
        if self._public_url is not None:
            return self._public_url
        scheme = request.peer.scheme
        host = request.headers.get(b"host", b"").decode("latin-1") or request.peer.listening
        if self._came_by_proxy(request):
            scheme, host = _forwarded(request, scheme, host)
        if _HOST.fullmatch(host) is None:
            raise Refusal(400, "The request's Host header is not a host.")
        return f"{scheme}://{host}"

    def source_ip(self, request: Request) -> str:
        """The nearest address that is not a trusted proxy's: what stands before it is hearsay."""
        address = request.peer.address
        if self._came_by_proxy(request):
            for named in reversed(request.headers.get(b"x-forwarded-for", b"").decode("latin-1").split(",")):
                if not named.strip():
                    continue
                address = named.strip()
                if not self._trusts(address):
                    break
        return address

    def is_secure(self, request: Request) -> bool:
        """Whether it came by TLS, to us or to the proxy in front of us."""
        scheme = request.peer.scheme
        if self._came_by_proxy(request):
            scheme, _ = _forwarded(request, scheme, "")
        return scheme == "https"

    def as_signed(self, request: Request) -> tuple[Headers, Mapping[bytes, bytes]]:
        """The headers as the client signed them: a proxy that puts its own Host in says what the client's was."""
        forwarded = _first(request, b"x-forwarded-host") if self._came_by_proxy(request) else ""
        if not forwarded:
            return request.raw_headers, request.headers
        _, host = _forwarded(request, request.peer.scheme, "")
        signed_host = host.encode("latin-1")
        headers = [
            (name, signed_host if name.lower() == b"host" else value) for name, value in request.raw_headers
        ]
        return headers, {**request.headers, b"host": signed_host}

    def _came_by_proxy(self, request: Request) -> bool:
        return bool(self._proxies) and self._trusts(request.peer.address)

    def _is_proxy(self, address: str) -> bool:
        return is_within(address, self._proxies)


def _forwarded(request: Request, scheme: str, host: str) -> tuple[str, str]:
    proto = _first(request, b"x-forwarded-proto").lower()
    if proto in _DEFAULT_PORTS:
        scheme = proto
    host = _first(request, b"x-forwarded-host") or host
    port = _first(request, b"x-forwarded-port")
    if port.isdecimal():
        host = _PORT_SUFFIX.sub("", host)
        if port != _DEFAULT_PORTS[scheme]:
            host = f"{host}:{port}"
    return scheme, host


def _first(request: Request, name: bytes) -> str:
    """A chain of proxies appends; the first entry is what the client used."""
    return request.headers.get(name, b"").decode("latin-1").partition(",")[0].strip()
