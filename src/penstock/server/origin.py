"""From where, and under which address, did the caller reach us?

Queue URLs are built on that address, for each request anew: first a configured public URL, then what a trusted
proxy says, then the request's Host, then where we listen. What a proxy says is believed if it is trusted, else not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from penstock.server.client_addresses import Network, is_within, read_ip
from penstock.server.http.request import Origin, Refusal, Request

Headers = Sequence[tuple[bytes, bytes]]

_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PORT_SUFFIX = re.compile(r":[0-9]+$")
# Some proxies write the port as well; RFC 7239 has IPv6 in brackets then, and all of it in quotes.
_FORWARDED_FOR = re.compile(r'"?(?:\[(?P<v6>[^]]+)\]|(?P<v4>[0-9.]+))(?::[0-9]+)?"?')
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Origins:
    def __init__(self, public_url: str | None, trusted_proxies: Sequence[Network]) -> None:
        self._public_url = public_url.rstrip("/") if public_url else None
        self._proxies = tuple(trusted_proxies)
        self._trusts = lru_cache(maxsize=1024)(self._is_proxy)

    def of(self, request: Request) -> Origin:
        """Raises Refusal for a Host that cannot be one."""
        if self._came_by_proxy(request):
            return Origin(self.base_url(request), self.source_ip(request), self.is_secure(request))
        peer, host = request.peer, request.headers.get(b"host", b"")
        if host != peer.host:
            peer.origin = Origin(self.base_url(request), peer.address, peer.scheme == "https")
            peer.host = host
        return peer.origin

    def base_url(self, request: Request) -> str:
        if self._public_url is not None:
            return self._public_url
        scheme = request.peer.scheme
        host = request.headers.get(b"host", b"").decode("latin-1") or request.peer.listening
        if self._came_by_proxy(request):
            scheme, host = _forwarded(request, scheme, host)
        return _address(scheme, host)

    def source_ip(self, request: Request) -> str:
        """The nearest address that is not a trusted proxy's: what stands before it is hearsay.

        What cannot be read as an address stands for nobody: it is the proxy that wrote it who is believed to call.
        """
        address = request.peer.address
        if self._came_by_proxy(request):
            for named in reversed(_entries(request, b"x-forwarded-for")):
                ip = _forwarded_ip(named)
                if ip is None:
                    break
                address = ip
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
        if not self._came_by_proxy(request) or not _first(request, b"x-forwarded-host"):
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
    proto = _last(request, b"x-forwarded-proto").lower()
    if proto in _DEFAULT_PORTS:
        scheme = proto
    host = _first(request, b"x-forwarded-host") or host
    port = _first(request, b"x-forwarded-port")
    if port.isdecimal():
        host = _PORT_SUFFIX.sub("", host)
        if port != _DEFAULT_PORTS[scheme]:
            host = f"{host}:{port}"
    return scheme, host


def _forwarded_ip(named: str) -> str | None:
    found = _FORWARDED_FOR.fullmatch(named)
    ip = read_ip((found["v6"] or found["v4"]) if found else named.strip('"'))
    return None if ip is None else str(ip)


def _first(request: Request, name: bytes) -> str:
    """A chain of proxies appends; the first entry is what the client used."""
    return next(iter(_entries(request, name)), "")


def _last(request: Request, name: bytes) -> str:
    """What the proxy next to us says. Unlike a host, which is signed, what stands before it may be made up."""
    return next(reversed(_entries(request, name)), "")


def _entries(request: Request, name: bytes) -> list[str]:
    value = request.headers.get(name, b"").decode("latin-1")
    return [entry for each in value.split(",") if (entry := each.strip())] if value else []


@lru_cache(maxsize=1024)
def _address(scheme: str, host: str) -> str:
    if _HOST.fullmatch(host) is None:
        raise Refusal(400, "The request's Host header is not a host.")
    return f"{scheme}://{host}"
