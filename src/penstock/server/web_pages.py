"""Keeps web pages away from an open server, which does whatever it is asked and is reached by every browser here.

A page needs nobody's leave to send a form or to fetch a URL: it only cannot read the answer. And one whose own name
is made to point at us (DNS rebinding) reads that too. So a request that a page may have caused is refused, unless
``cors_origins`` lists where the page is from; one that a person typed is answered. A secured server needs none of
this: pages cannot sign.

What tells them apart are headers that no page can take away:

1. Origin: whatever a page sends to elsewhere and may read, and everything but GET and HEAD.
2. Sec-Fetch-Site: everything else, from today's browsers to this machine or over TLS; ``none`` is a person.
3. Neither: a GET under a name that looks to the browser like the page's own. Only Host shows it, and programs use
   names too: it counts if the request is a browser's. A page can call its browser something else, but not keep it
   from saying which language it reads. Only ``localhost`` and addresses are names that nobody can take for a page.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from penstock.server.client_addresses import read_ip
from penstock.server.cors import Cors
from penstock.server.http.request import Request
from penstock.wire.faults import access_denied

_NO_PAGES = "This server has no credentials, so it takes nothing from web pages"


class Browsers:
    def __init__(self, cors: Cors, public_url: str | None) -> None:
        self._cors = cors
        self._public_host = urlsplit(public_url).hostname if public_url else None

    def check(self, request: Request) -> None:
        """Raises the Fault to answer with."""
        headers = request.headers
        origin = headers.get(b"origin")
        if origin is not None:
            if not self._cors.allows(origin):
                raise access_denied(f"{_NO_PAGES} of other origins than cors_origins lists.")
        elif headers.get(b"sec-fetch-site", b"none") != b"none":
            raise access_denied(f"{_NO_PAGES}, unless their requests have an Origin that cors_origins lists.")
        elif _is_browser(request) and not self._is_ours(headers.get(b"host", b"")):
            raise access_denied(
                f"{_NO_PAGES}, and this may be one's. In a browser, call it localhost, by its IP address, or by "
                "the name in public_url; a page's origin has to be listed in cors_origins."
            )

    def _is_ours(self, host: bytes) -> bool:
        """No other name: it could be anybody's that was made to point here."""
        name = _without_port(host.decode("latin-1").lower())
        return (
            name in ("localhost", self._public_host)
            or name.endswith(".localhost")
            or read_ip(name.strip("[]")) is not None
        )


def _is_browser(request: Request) -> bool:
    headers = request.headers
    if headers.get(b"user-agent", b"").startswith(b"Mozilla/"):
        return True
    # Some programs speak languages as well; they have no reason to GET, and a page has no other way without Origin.
    return request.method != b"POST" and b"accept-language" in headers


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) else host
