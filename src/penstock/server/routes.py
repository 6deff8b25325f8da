"""Finds what answers an HTTP request: a mount or a service.

Paths that are not a service's (health, metrics, administration, console) are mounts, one per first path segment, for
all HTTP methods. A mount may also be a service with an address of its own. Everything else goes to the dispatcher:
SQS accepts the same request at ``/`` and at a queue's URL, so the path does not name the service.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.cache import BoundedCache
from penstock.cluster.forwarding import SAME_SHARD, PassedRequest
from penstock.promise import run
from penstock.server.callers import OpenCallers, Requesters, SignedCallers
from penstock.server.client_addresses import caller_name
from penstock.server.health import Health
from penstock.server.http.request import HttpError, Peer, Request
from penstock.server.http.response import REQUEST_ID, error_response, with_headers
from penstock.server.origin import REGION, Origins
from penstock.server.request_log import log_when_answered
from penstock.server.throttle import SharedThrottle, Throttle
from penstock.server.web_pages import METHODS, Cors, WebPageFilter
from penstock.wire.dispatch import refusal
from penstock.wire.faults import internal_error, request_throttled, service_unavailable
from penstock.wire.service import TRACE_BYTES_MAX, Call, Fault, Response

if TYPE_CHECKING:
    from penstock.cluster.forwarding import Forwarder
    from penstock.server.audit.recorder import AuditRecorder
    from penstock.server.metrics.requests import RequestMeter

log = logging.getLogger("penstock.http")

_USER_AGENT_MAX = 1024  # in the audit log
_PASSED_PEERS_MAX = 1024
_HEALTH_CHECKS = (b"health", b"_localstack")
_CONSOLE = b"console"


class Mount(NamedTuple):
    """Answers all requests below one path segment."""

    handler: Callable[[Request], Coroutine[Any, Any, Response]]
    for_any_page: bool = False  # web pages of any origin may call it, even on an open server
    accepts: Callable[[Request], bool] | None = None  # if not, the request goes to the services


class Dispatch(Protocol):
    def __call__(self, request: Request, call: Call, done: Callable[[Response], None]) -> None: ...


class ServiceMount(NamedTuple):
    """Answers calls below one path segment. Their callers are verified as those of all services."""

    dispatch: Dispatch
    accepts: Callable[[Request], bool] | None = None  # if not, the request goes to the services


Refusal = Callable[[Fault, str, Request], Response]
"""(the error, the request's id, the request) -> an error that no service gave, in the protocol of the request."""


class RequestHandlers(NamedTuple):
    """What answers the requests that are not for a mount of pages."""

    dispatch: Dispatch | None  # to the services; None while the store is being opened
    refusal: Refusal = refusal  # in the words of the services
    methods: Collection[bytes] = (b"POST", b"GET")  # of requests to services
    forwarder: Forwarder | None = None  # if other processes own some of the shards


_STARTING = RequestHandlers(dispatch=None)


class Routes:
    def __init__(
        self,
        *,
        callers: OpenCallers | SignedCallers,
        origins: Origins,
        cors: Cors,
        health: Health,
        throttle: Throttle | SharedThrottle | None = None,
        recorder: AuditRecorder | None = None,
        meter: RequestMeter | None = None,
        pages: WebPageFilter | None = None,
        mounts: Mapping[bytes, Mount | ServiceMount] | None = None,
    ) -> None:
        self._handlers = _STARTING
        self._callers = callers
        self._origins = origins
        self._cors = cors
        self._health = health
        self._throttle = throttle
        self._recorder = recorder
        self._meter = meter
        self.pages = pages
        self._passed_peers: BoundedCache[tuple[str, str, str, str], Peer] = BoundedCache(_PASSED_PEERS_MAX)
        self._requesters = Requesters()
        self._root = Mount(self._root_page, for_any_page=True)
        self._mounts: dict[bytes, Mount | ServiceMount] = {
            b"health": Mount(health.page, for_any_page=True),
            b"_localstack": Mount(health.localstack_page, for_any_page=True),
            **(mounts or {}),
        }

    def mount(self, segment: bytes, mount: Mount | ServiceMount) -> None:
        """Let ``mount`` answer the paths below this segment."""
        self._mounts[segment] = mount

    def open(self, handlers: RequestHandlers) -> None:
        """Serve from now on: the store is open. Until then, only mounts are answered."""
        self._handlers = handlers

    def change(
        self, throttle: Throttle | SharedThrottle | None, cors: Cors, pages: WebPageFilter | None
    ) -> None:
        """Change what applies to requests from now on."""
        self._throttle, self._cors, self.pages = throttle, cors, pages

    def is_health_check(self, request: Request) -> bool:
        """What is answered even if there are too many connections."""
        if request.method not in (b"GET", b"HEAD") or b"x-amz-target" in request.headers:
            return False
        return request.path[1:].partition(b"/")[0] in _HEALTH_CHECKS

    def serve(self, request: Request) -> None:
        """Calls ``request.respond`` once, now or later. Raises nothing."""
        try:
            # The SDKs of today send everything to "/".
            usual = request.target == b"/" and request.method == b"POST" and b"origin" not in request.headers
            if usual:
                self._serve_call(request, self._handlers.dispatch)
            else:
                self._serve_special(request)
        except HttpError as error:
            request.respond(error_response(error, request.id))
        except Exception as error:
            # Its text may quote the request: only its type is logged.
            log.error("request failed with %s", type(error).__name__, extra={"request_id": request.id})
            request.respond(self._handlers.refusal(internal_error(), request.id, request))

    def serve_passed_on(
        self,
        passed: PassedRequest,
        on_response: Callable[[Request, Response], None],
        on_not_owned: Callable[[int], None],
    ) -> Request:
        """A client's request that came through another process. One of the two is called, now or later."""
        client = passed.address, passed.scheme, passed.listening, passed.certificate
        peer = self._passed_peers.get(client) or self._passed_peers.put(client, Peer(*client))
        request = Request(
            peer, passed.id, passed.method, passed.target, passed.headers, passed.raw_headers, passed.body,
            on_response=on_response, on_not_owned=on_not_owned, counted=passed.counted,
        )  # fmt: skip
        if log.isEnabledFor(logging.DEBUG):
            log_when_answered(request)
        self.serve(request)
        request.release()
        return request

    def _serve_call(self, request: Request, dispatch: Dispatch | None) -> None:
        health, handlers = self._health, self._handlers
        if dispatch is None or not (health.unconditional or health.ready):
            if request.on_not_owned is not None:  # soon it may be, or another process takes its shards
                request.on_not_owned(SAME_SHARD)
                return
            fault = service_unavailable(f"Not ready: {'; '.join(health.reasons)}.")
            request.respond(handlers.refusal(fault, request.id, request))
            return
        forwarder = handlers.forwarder
        if forwarder is not None and request.on_not_owned is None:
            shard = forwarder.shard_elsewhere(request)
            if shard is not None:  # the owner verifies it
                forwarder.pass_on(request, request.respond, shard)
                return
        caller = on_work = write_refusal = page_refusal = None
        try:
            if self.pages is not None:
                try:
                    write_refusal = self.pages.check(request)
                except Fault as fault:
                    if request.method != b"GET":
                        raise
                    page_refusal = fault  # unless it is a link that anyone may follow
            caller = self._callers.of(request)
            if self._throttle is not None and not request.counted:
                name = caller_name(caller.principal, self._origins.source_ip(request))
                if not self._throttle.accept(name, monotonic()):
                    raise request_throttled()
                on_work = partial(_count_work, self._throttle, name)
        except Fault as fault:
            if self._recorder is not None:
                self._recorder.refused_early(request, fault, caller)
            if self._meter is not None:
                self._meter.refused(fault.code)
            request.respond(handlers.refusal(fault, request.id, request))
            return
        headers, peer = request.headers, request.peer
        origin = peer.origin if headers.get(b"host") == peer.host else self._origins.of(request)
        agent = headers.get(b"user-agent", b"")
        key = caller, origin, agent
        requester = peer.requester if key == peer.requester_key else self._requesters.of(peer, key)
        call = request.call = Call(
            request_id=request.id,
            space=caller.space,
            sender=caller.sender,
            base_url=origin.base_url,
            signed_for=caller.signed_for,
            principal=caller.principal,
            requester=requester,
            on_work=on_work,
        )
        if REGION in origin.base_url:
            call.base_url = origin.base_url.replace(REGION, caller.space.region)
        if write_refusal is not None:
            call.write_refusal = write_refusal
        if page_refusal is not None:
            call.page_refusal = page_refusal
        # Clients and proxies add it by themselves: one that is too long is ignored.
        trace = headers.get(b"x-amzn-trace-id")
        if trace is not None and 0 < len(trace) <= TRACE_BYTES_MAX:
            call.trace = trace.decode("latin-1")
        if caller.principal is not None or self._recorder is not None:
            call.source_ip, call.secure = origin.source_ip, origin.secure
            call.certificate = peer.certificate
            call.user_agent = agent[:_USER_AGENT_MAX].decode("latin-1")
        dispatch(request, call, request.respond)

    def _serve_special(self, request: Request) -> None:
        """Serves what may be for a mount, requests of web pages, and methods that no service has."""
        headers, method, mount = request.headers, request.method, self._mount_of(request)
        if b"origin" in headers:
            request.cors_headers = self._cors.response_headers(request)
        if isinstance(mount, Mount) and b"x-amz-target" not in headers:
            self._serve_mount(mount, request)
        elif method == b"OPTIONS":
            allowed = [(REQUEST_ID, request.id.encode()), (b"Allow", METHODS)]
            request.cors_headers = self._cors.preflight_headers(request)
            request.respond(Response(200, allowed))
        elif method not in self._handlers.methods:  # HEAD, too: nothing may be done for it
            error = HttpError(405, f"The method {method.decode()} is not supported here.")
            request.respond(with_headers(error_response(error, request.id), [(b"Allow", METHODS)]))
        else:
            own = mount.dispatch if isinstance(mount, ServiceMount) else None
            self._serve_call(request, own or self._handlers.dispatch)

    # Mounts.

    def _mount_of(self, request: Request) -> Mount | ServiceMount | None:
        path, _, query = request.target.partition(b"?")
        segment = path[1:].partition(b"/")[0]
        if path == b"/":
            return self._root if not query and request.method in (b"GET", b"HEAD") else None
        if b"access-control-request-method" in request.headers and request.method == b"OPTIONS":
            return None
        # What follows a hyphen may be a part of a name that only the mount knows.
        mount = self._mounts.get(segment) or self._mounts.get(segment.partition(b"-")[0])
        return None if mount is None or (mount.accepts is not None and not mount.accepts(request)) else mount

    async def _root_page(self, request: Request) -> Response:
        """Programs get what the server is, browsers the console, if there is one."""
        if _CONSOLE not in self._mounts or b"text/html" not in request.headers.get(b"accept", b""):
            return await self._health.root_page(request)
        headers = [(b"Location", b"/console/"), (b"Vary", b"Accept"), (REQUEST_ID, request.id.encode())]
        return Response(302, headers)

    def _serve_mount(self, mount: Mount, request: Request) -> None:
        if not mount.for_any_page and self.pages is not None:
            try:
                write_refusal = self.pages.check(request)
                if write_refusal is not None and request.method not in (b"GET", b"HEAD"):
                    raise write_refusal
            except Fault as fault:
                request.respond(self._handlers.refusal(fault, request.id, request))
                return
        answer_with(mount.handler(request), request)


def _count_work(throttle: Throttle | SharedThrottle, name: str, seconds: float) -> None:
    throttle.worked(name, seconds, monotonic())


def answer_with(handled: Coroutine[Any, Any, Response], request: Request) -> None:
    """The outcome of a handler becomes the response."""
    run(handled, _MountResponse(request))


class _MountResponse:
    """The outcome of a mount's handler becomes the response."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def __call__(self, response: Response | None, error: BaseException | None) -> None:
        request = self._request
        if isinstance(error, HttpError):
            response = error_response(error, request.id)
        elif response is None:
            log.error("request failed with %s", type(error).__name__, extra={"request_id": request.id})
            response = refusal(internal_error(), request.id, request)
        request.respond(response)
