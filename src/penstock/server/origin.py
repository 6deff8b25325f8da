"""Under which address did the caller reach us? Queue URLs are built on it, for each request anew.

First a configured public URL, then what a trusted proxy says, then the request's Host, then where we listen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address

from penstock.server.request import Refusal, Request

Network = IPv4Network | IPv6Network

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
        if self._proxies and self._trusts(request.peer.address):
            scheme, host = _forwarded(request, scheme, host)
        if _HOST.fullmatch(host) is None:
            raise Refusal(400, "The request's Host header is not a host.")
        return f"{scheme}://{host}"

    def _is_proxy(self, address: str) -> bool:
        try:
            ip = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        # A dual-stack socket shows IPv4 peers as ::ffff:a.b.c.d.
        mapped = getattr(ip, "ipv4_mapped", None)
        return any((mapped or ip) in network for network in self._proxies)


def _forwarded(request: Request, scheme: str, host: str) -> tuple[str, str]:
    def first(name: bytes) -> str:
        # A chain of proxies appends; the first entry is what the client used.
        return request.headers.get(name, b"").decode("latin-1").partition(",")[0].strip()

    proto = first(b"x-forwarded-proto").lower()
    if proto in _DEFAULT_PORTS:
        scheme = proto
    host = first(b"x-forwarded-host") or host
    port = first(b"x-forwarded-port")
    if port.isdecimal():
        host = _PORT_SUFFIX.sub("", host)
        if port != _DEFAULT_PORTS[scheme]:
            host = f"{host}:{port}"
    return scheme, host
