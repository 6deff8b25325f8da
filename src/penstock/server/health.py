"""Health: whether the server is alive and may be sent requests, and the pages that say so.

Alive: it responds. Ready: everything that was expected at the start is done, no stop was requested, and no watched
condition holds. A server that can do a part of its work is ready; the pages show what it cannot do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from penstock import __version__
from penstock.server.http.request import Request
from penstock.server.http.response import REQUEST_ID
from penstock.wire.service import Response

_METHODS = (b"GET", b"HEAD")


class Health:
    def __init__(self, speaks: Sequence[str] = ()) -> None:
        """``speaks``: the names of the services."""
        self._speaks = speaks
        self._expected: list[str] = []
        self._watched: dict[str, Callable[[], bool]] = {}
        self._advised: dict[str, Callable[[], bool]] = {}
        self._shown: dict[str, Callable[[], str]] = {}
        self.facts: dict[str, str] = {}
        """Lines of /health that do not change."""
        self.unconditional = True
        """Whether the server is ready, and no condition has to be asked."""

    def expect(self, reason: str) -> None:
        """The server is not ready until :meth:`done` is called with the same text, which is shown."""
        self._expected.append(reason)
        self.unconditional = False

    def done(self, reason: str) -> None:
        self._expected.remove(reason)
        self.unconditional = not self._expected and not self._watched

    def watch(self, reason: str, holds: Callable[[], bool]) -> None:
        """The server is not ready while ``holds`` returns true. It is called for every request."""
        self._watched[reason] = holds
        self.unconditional = False

    def advise(self, reason: str, holds: Callable[[], bool]) -> None:
        """While this holds the pages say not ready, so that clients are sent elsewhere; requests are served."""
        self._advised[reason] = holds

    def show(self, name: str, state: Callable[[], str]) -> None:
        """A line of the page that does not decide about readiness. It is left out while it is empty."""
        self._shown[name] = state

    @property
    def ready(self) -> bool:
        return self.unconditional or not self.reasons

    @property
    def reasons(self) -> list[str]:
        """Why it is not ready."""
        return self._expected + [reason for reason, holds in self._watched.items() if holds()]

    # Pages.

    async def page(self, request: Request) -> Response:
        """Responds to requests for /health and what is below it."""
        if request.method not in _METHODS:
            return _wrong_method(request)
        reasons = self.reasons + [reason for reason, holds in self._advised.items() if holds()]
        ready = not reasons
        match request.path.rstrip(b"/"):
            case b"/health/live":
                return json_page(request, {"status": "alive"})
            case b"/health/ready":
                page: dict[str, object] = {"status": "ready" if ready else "not ready"}
            case b"/health":
                page = {"status": "ready" if ready else "not ready", "live": True, "ready": ready}
                page |= {"version": __version__, **self.facts}
            case _:
                return json_page(request, {"error": "not found"}, 404)
        if not ready:
            page["reasons"] = reasons
        page |= {name: text for name, state in self._shown.items() if (text := state())}
        return json_page(request, page, 200 if ready else 503)

    async def localstack_page(self, request: Request) -> Response:
        """Responds to scripts that wait for LocalStack: they look for "running" or "available"."""
        if request.method not in _METHODS:
            return _wrong_method(request)
        if request.path.rstrip(b"/") != b"/_localstack/health":
            return json_page(request, {"error": "not found"}, 404)
        ready = self.ready
        page = {
            "services": dict.fromkeys(self._speaks, "running" if ready else "not ready"),
            "edition": "penstock",
            "version": __version__,
        }
        return json_page(request, page, 200 if ready else 503)

    async def root_page(self, request: Request) -> Response:
        page = {
            "service": "penstock",
            "version": __version__,
            "speaks": self._speaks,
            "health": "/health",
        }
        return json_page(request, page)


def _wrong_method(request: Request) -> Response:
    response = json_page(request, {"error": "use GET or HEAD"}, 405)
    response.headers.append((b"Allow", b"GET, HEAD"))
    return response


def json_page(request: Request, page: Mapping[str, object], status: int = 200) -> Response:
    headers = [
        (b"Content-Type", b"application/json"),
        (b"Cache-Control", b"no-store"),
        (REQUEST_ID, request.id.encode()),
    ]
    return Response(status, headers, json.dumps(page).encode() + b"\n")
