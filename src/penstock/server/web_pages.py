"""Requests of web pages: CORS, and what keeps pages away from an open server.

An open server does whatever it is asked, and every browser on the machine reaches it. A page may send a form or fetch
a URL without asking; it only cannot read the response. A page whose host name is made to point at us (DNS rebinding)
can read it, too. So a request that a page may have caused is refused, unless ``cors_origins`` lists the page's
origin, or it is a link that anyone may follow (:attr:`penstock.wire.service.Action.by_link`). A secured server needs
none of this: pages cannot sign.

These headers, which no page can remove, tell pages from programs:

- Origin: sent with everything that the page may read, and with everything but GET and HEAD.
- Sec-Fetch-*: sent by today's browsers to this machine or over TLS. Sec-Fetch-Site is ``none`` if the user typed the
  URL or followed a link in another program, such as a mail: that may read, but not change anything.
- Neither: a GET to a host name that the browser takes for the page's own. Only Host shows it, and programs use
  host names, too, so it counts if the request is a browser's. A page can change its User-Agent, but cannot suppress
  Accept-Language. Only ``localhost`` and IP addresses cannot be made to point at us.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from penstock.names import region_of_host
from penstock.server.client_addresses import read_ip, without_port
from penstock.server.http.request import Request
from penstock.wire.faults import access_denied
from penstock.wire.service import Fault, Headers

METHODS = b"DELETE, GET, HEAD, OPTIONS, PATCH, POST"
_EXPOSED = b"x-amzn-RequestId, x-amzn-query-error, x-amzn-errortype, Date"
_SEC_FETCH = frozenset((b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"sec-fetch-user"))
_BROWSER_HEADERS = _SEC_FETCH | {b"origin", b"accept-language"}
_NO_PAGES = "This server has no credentials, so it refuses requests of web pages"


class Cors:
    """Pages of the listed origins may call; ``*`` lists every origin."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def allows(self, origin: bytes) -> bool:
        return b"*" in self._origins or origin in self._origins

    def response_headers(self, request: Request) -> Headers:
        origin = request.headers.get(b"origin") if self._origins else None
        if origin is None:
            return []
        vary = (b"Vary", b"Origin")
        if not self.allows(origin):
            return [vary]
        allowed = b"*" if b"*" in self._origins else origin
        return [(b"Access-Control-Allow-Origin", allowed), (b"Access-Control-Expose-Headers", _EXPOSED), vary]

    def preflight_headers(self, request: Request) -> Headers:
        headers = self.response_headers(request)
        if len(headers) > 1:
            wanted = request.headers.get(b"access-control-request-headers", b"")
            headers += [
                (b"Access-Control-Allow-Methods", METHODS),
                # New SDKs add headers: allow any.
                (b"Access-Control-Allow-Headers", wanted),
                (b"Access-Control-Max-Age", b"600"),
            ]
        return headers


class WebPageFilter:
    """Refuses requests of web pages on an open server."""

    def __init__(self, cors: Cors, public_url: str | None) -> None:
        self._cors = cors
        self._public_host = (urlsplit(public_url).hostname or "") if public_url else ""

    def check(self, request: Request) -> Fault | None:
        """Raises the Fault to respond with. Returns the one to respond with if the request would change something."""
        headers = request.headers
        browser = headers.get(b"user-agent", b"")[:8] == b"Mozilla/"
        if not browser and _BROWSER_HEADERS.isdisjoint(headers):
            return None
        origin = headers.get(b"origin")
        if origin is not None:
            if not self._cors.allows(origin):
                raise access_denied(f"{_NO_PAGES} of other origins than cors_origins lists.")
            return None
        if headers.get(b"sec-fetch-site", b"none") != b"none":
            raise access_denied(f"{_NO_PAGES}, unless they have an Origin that cors_origins lists.")
        # Some programs send Accept-Language. But they have no reason to GET, and a page without Origin can only GET.
        browser = browser or (b"accept-language" in headers and request.method != b"POST")
        if browser and not self.is_ours(headers.get(b"host", b"")):
            raise access_denied(
                f"{_NO_PAGES}, and this may be one. In a browser, use localhost, the IP address or the host in "
                "public_url; a page's origin has to be listed in cors_origins."
            )
        if _SEC_FETCH.isdisjoint(headers):
            return None
        return access_denied(
            f"{_NO_PAGES} and links that change something, unless cors_origins lists their Origin."
        )

    def is_ours(self, host: bytes) -> bool:
        """Whether the name of the host is one of this server. Any other may have been made to point here."""
        name = without_port(host.decode("latin-1").lower())
        return (
            name == "localhost"
            or name.endswith(".localhost")
            or (name != "" and name == self._public_host)
            or region_of_host(name, self._public_host) is not None
            or read_ip(name.strip("[]")) is not None
        )
