"""The address a request came from, and the address under which the client reached us.

Queue URLs are built on the latter, for each request: a configured public URL, else what a trusted proxy says, else
the request's Host, else the address we listen on. Headers of a proxy count only if the proxy is trusted.

A public URL with ``{region}`` in its host (``http://sqs.{region}.localhost:9324``) gives each region its own queue
URLs, and an unsigned request to such a host belongs to that region.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from penstock.auth.sigv4.canonical import merged_headers
from penstock.cache import BoundedCache
from penstock.names import region_of_host
from penstock.server.client_addresses import Network, is_within, read_ip, without_port
from penstock.server.http.request import HttpError, Origin, Request

REGION = "{region}"
_CACHED_MAX = 1024

_HOST = re.compile(r"(?:[A-Za-z0-9._~-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PORT_SUFFIX = re.compile(r":[0-9]+$")
# Some proxies add the port. RFC 7239: IPv6 is in brackets then, and all of it in quotes.
_FORWARDED_FOR = re.compile(r'"?(?:\[(?P<v6>[^]]+)\]|(?P<v4>[0-9.]+))(?::[0-9]+)?"?')
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Origins:
    def __init__(self, public_url: str | None, trusted_proxies: Sequence[Network]) -> None:
        self._public_url = public_url.rstrip("/") if public_url else None
        self._host_pattern = ""
        if public_url and REGION in public_url:
            self._host_pattern = urlsplit(public_url).hostname or ""
        self._proxies = tuple(trusted_proxies)
        self._trusted: BoundedCache[str, bool] = BoundedCache(_CACHED_MAX)
        self._base_urls: BoundedCache[tuple[str, str], str] = BoundedCache(_CACHED_MAX)

    def of(self, request: Request) -> Origin:
        """``base_url`` may hold ``{region}``. Raises HttpError for an invalid Host."""
        if self._came_by_proxy(request):
            return Origin(self.base_url(request), self.source_ip(request), self.is_secure(request))
        peer, host = request.peer, request.headers.get(b"host")
        if host != peer.host:
            peer.origin = Origin(self.base_url(request), peer.address, peer.scheme == "https")
            peer.host = host
        return peer.origin

    def base_url(self, request: Request) -> str:
        if self._public_url is not None:
            return self._public_url
        address = self._address(request)
        base_url = self._base_urls.get(address)
        if base_url is None:
            scheme, host = address
            if _HOST.fullmatch(host) is None:
                raise HttpError(400, "The request's Host header is not a host.")
            base_url = self._base_urls.put(address, f"{scheme}://{host}")
        return base_url

    def is_own(self, request: Request, origin: bytes) -> bool:
        """Whether the header Origin names the scheme, host and port of this server, as the client reaches it."""
        named = _web_origin(origin.decode("latin-1"))
        used = "://".join(self._address(request))
        public = self.base_url(request).replace(REGION, self.region_of(request) or "")
        return named is not None and named in (_web_origin(used), _web_origin(public))

    def region_of(self, request: Request) -> str | None:
        """The region that the request's host names, if ``public_url`` has hosts for regions."""
        if not self._host_pattern:
            return None
        _, host = self._address(request)
        return region_of_host(without_port(host), self._host_pattern)

    def source_ip(self, request: Request) -> str:
        """The nearest address that is not a trusted proxy's: those before it may be made up.

        What is not an address ends the search: the proxy that wrote it counts as the source.
        """
        address = request.peer.address
        if self._came_by_proxy(request):
            for named in reversed(_entries(request, b"x-forwarded-for")):
                ip = _forwarded_ip(named)
                if ip is None:
                    break
                address = ip
                if not self._is_proxy(address):
                    break
        return address

    def is_secure(self, request: Request) -> bool:
        """Whether it came over TLS, to us or to the proxy in front of us."""
        scheme = request.peer.scheme
        if self._came_by_proxy(request):
            scheme, _ = _forwarded(request, scheme, "")
        return scheme == "https"

    def as_signed(self, request: Request) -> Mapping[bytes, bytes]:
        """The headers as the client signed them: a proxy that sets its own Host passes on the client's."""
        headers = request.headers if request.raw_headers is None else merged_headers(request.raw_headers)
        if not self._proxies or not self._came_by_proxy(request) or not _first(request, b"x-forwarded-host"):
            return headers
        _, host = _forwarded(request, request.peer.scheme, "")
        return {**headers, b"host": host.encode("latin-1")}

    def _address(self, request: Request) -> tuple[str, str]:
        """Scheme and host[:port]."""
        scheme = request.peer.scheme
        host = request.headers.get(b"host", b"").decode("latin-1") or request.peer.listening
        return _forwarded(request, scheme, host) if self._came_by_proxy(request) else (scheme, host)

    def _came_by_proxy(self, request: Request) -> bool:
        return bool(self._proxies) and self._is_proxy(request.peer.address)

    def _is_proxy(self, address: str) -> bool:
        trusted = self._trusted.get(address)
        if trusted is None:
            trusted = self._trusted.put(address, is_within(address, self._proxies))
        return trusted


def _web_origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None if it has none of them, such as ``null``."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or int(_DEFAULT_PORTS[parts.scheme])


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
    """Proxies append: the first entry is what the client used."""
    return next(iter(_entries(request, name)), "")


def _last(request: Request, name: bytes) -> str:
    """What the proxy next to us says. Unlike a host, which is signed, the entries before it may be made up."""
    return next(reversed(_entries(request, name)), "")


def _entries(request: Request, name: bytes) -> list[str]:
    value = request.headers.get(name, b"").decode("latin-1")
    return [entry for each in value.split(",") if (entry := each.strip())] if value else []
