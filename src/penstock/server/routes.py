"""From an HTTP request to whoever answers it: health, hello, preflight, or a service.

A service is named by the header X-Amz-Target, or by a form's own parameters, never by the path: SQS takes the
same request at ``/`` and at a queue's own URL.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from time import monotonic, perf_counter
from typing import Protocol

from penstock import __version__
from penstock.server import localstack
from penstock.server.caller import Caller
from penstock.server.client_addresses import caller_name
from penstock.server.cors import METHODS, Cors
from penstock.server.health import Health
from penstock.server.http.request import Refusal, Request
from penstock.server.http.response import REQUEST_ID, refusal_answer
from penstock.server.origin import Origins
from penstock.wire.call import TRACE_BYTES_MAX, Call
from penstock.wire.dispatch import Answer, refusal
from penstock.wire.faults import internal_error, request_throttled, service_unavailable
from penstock.wire.registry import Fault

Done = Callable[[Answer], None]

log = logging.getLogger("penstock.http")

_USER_AGENT_MAX = 1024  # of what the audit trail may tell


class Dispatch(Protocol):
    def __call__(self, request: Request, call: Call, done: Done) -> None: ...


class Callers(Protocol):
    def of(self, request: Request) -> Caller:
        """Raises the Fault to answer with if nobody may call like this."""


class Browsers(Protocol):
    def check(self, request: Request) -> None:
        """Raises the Fault to answer with if it may be a web page's, and those may not call."""


class Throttle(Protocol):
    def take(self, caller: str, now_s: float) -> bool: ...


class Witness(Protocol):
    def turned_away(self, request: Request, fault: Fault, caller: Caller | None) -> None:
        """A request was refused before anybody knew what it asked for; and its caller, if that was known."""


class Routes:
    def __init__(
        self,
        *,
        callers: Callers,
        origins: Origins,
        cors: Cors,
        health: Health,
        throttle: Throttle | None = None,
        witness: Witness | None = None,
        browsers: Browsers | None = None,
    ) -> None:
        self.dispatch: Dispatch | None = None  # set when there is a broker to dispatch to
        self._throttle = throttle
        self._witness = witness
        self._browsers = browsers
        self._callers = callers
        self._origins = origins
        self._cors = cors
        self._health = health

    def serve(self, request: Request, done: Done) -> None:
        """Answer a request: ``done`` is called once, now or later. Nothing is raised."""
        if b"origin" in request.headers:
            done = self._with_cors(request, done)
        if log.isEnabledFor(logging.DEBUG):
            done = _logged(request, done)
        try:
            self._route(request, done)
        except Refusal as refused:
            done(refusal_answer(refused, request.id))
        except Exception as error:
            # The text of an unforeseen error may quote the request: only its kind is logged.
            log.error("request failed with %s", type(error).__name__, extra={"request_id": request.id})
            done(refusal(internal_error(), request.id, request))

    def _route(self, request: Request, done: Done) -> None:
        method = request.method
        target = request.headers.get(b"x-amz-target")
        if method == b"OPTIONS":
            done(Answer(200, [_id(request), (b"Allow", METHODS), *self._cors.preflight(request)], b""))
        elif target is None and method in (b"GET", b"HEAD") and (own := self._own_page(request)) is not None:
            done(own)
        elif method not in (b"POST", b"GET"):  # whoever asks for a head alone wants nothing to be done
            answer = refusal_answer(
                Refusal(405, f"The method {method.decode()} is not used here."), request.id
            )
            done(Answer(405, [*answer.headers, (b"Allow", METHODS)], answer.body))
        elif self.dispatch is None or not self._health.ready:
            why = "; ".join(self._health.obstacles)
            done(refusal(service_unavailable(f"Not ready: {why}."), request.id, request))
        else:
            caller = None
            try:
                if self._browsers is not None:
                    self._browsers.check(request)
                caller = self._callers.of(request)
                if self._throttle is not None:
                    self._check_rate(self._throttle, caller, request)
            except Fault as fault:
                if self._witness is not None:
                    self._witness.turned_away(request, fault, caller)
                done(refusal(fault, request.id, request))
                return
            request.call = self._call(request, caller)
            self.dispatch(request, request.call, done)

    def _check_rate(self, throttle: Throttle, caller: Caller, request: Request) -> None:
        name = caller_name(caller.principal, self._origins.source_ip(request))
        if not throttle.take(name, monotonic()):
            raise request_throttled()

    def _call(self, request: Request, caller: Caller) -> Call:
        headers, origin = request.headers, self._origins.of(request)
        trace = headers.get(b"x-amzn-trace-id")
        call = Call(
            request_id=request.id,
            space=caller.space,
            sender=caller.sender,
            base_url=origin.base_url,
            # Clients and proxies add it by themselves: one that is too long is passed over, not refused.
            trace=trace.decode("latin-1") if trace and len(trace) <= TRACE_BYTES_MAX else None,
        )
        if caller.principal is not None or self._witness is not None:
            call.principal, call.signed_for = caller.principal, caller.signed_for
            call.source_ip, call.secure = origin.source_ip, origin.secure
            call.certificate = request.peer.certificate
            call.user_agent = headers.get(b"user-agent", b"")[:_USER_AGENT_MAX].decode("latin-1")
        return call

    def _own_page(self, request: Request) -> Answer | None:
        match request.path.rstrip(b"/"):
            case b"" if not request.query:
                hello = {
                    "service": "penstock",
                    "version": __version__,
                    "speaks": ["sqs", "sts"],
                    "health": "/health",
                }
                return _json(request, 200, hello)
            case b"/health/live":
                return _json(request, 200, {"status": "alive"})
            case b"/health/ready" | b"/health":
                return self._ready_page(request)
            case localstack.PATH:
                ready = self._health.ready
                return _json(request, 200 if ready else 503, localstack.health_page(ready=ready))
        return None

    def _ready_page(self, request: Request) -> Answer:
        ready = self._health.ready
        page: dict[str, object] = {"status": "ready" if ready else "not ready"}
        if request.path.rstrip(b"/") == b"/health":
            page = {**page, "live": True, "ready": ready, "version": __version__}
        if not ready:
            page["reasons"] = self._health.obstacles
        page |= self._health.told
        return _json(request, 200 if ready else 503, page)

    def _with_cors(self, request: Request, done: Done) -> Done:
        extra = self._cors.headers(request) if request.method != b"OPTIONS" else []
        if not extra:
            return done
        return lambda answer: done(Answer(answer.status, [*answer.headers, *extra], answer.body))


def _id(request: Request) -> tuple[bytes, bytes]:
    return REQUEST_ID, request.id.encode()


def _json(request: Request, status: int, page: Mapping[str, object]) -> Answer:
    headers = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store"), _id(request)]
    return Answer(status, headers, json.dumps(page).encode() + b"\n")


def _logged(request: Request, done: Done) -> Done:
    begun = perf_counter()
    path = request.path.decode("latin-1")
    target = request.headers.get(b"x-amz-target", b"").decode("latin-1")

    def finish(answer: Answer) -> None:
        log.debug(
            "%s %s", request.method.decode(), path,
            extra={
                "request_id": request.id,
                "target": target,
                "status": answer.status,
                "peer": request.peer.address,
                "ms": round((perf_counter() - begun) * 1000, 1),
            },
        )  # fmt: skip
        done(answer)

    return finish
