"""Turns a request into its response: find the service, the action and the protocol; decode, authorise, handle,
encode.

Every request gets exactly one response, in the protocol it was sent in. An unexpected error is logged with the
request's id and answered as an internal error. Neither the log nor the response quotes the request: the traceback is
logged without the text of the error.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from time import perf_counter
from typing import Any, Protocol, TypeVar

import msgspec

from penstock.errors import DecideAgain, NotOwned, SignatureMissing, StoreError, TooManyWaiting
from penstock.metrics.histogram import Histogram
from penstock.promise import Promise, Running, run, start
from penstock.turns import WAITING_MAX, Steps, Turns
from penstock.wire.cbor import CborProtocol, is_cbor, service_and_action
from penstock.wire.compression import uncompressed
from penstock.wire.faults import (
    access_denied,
    internal_error,
    invalid_action,
    no_such_path,
    request_throttled,
    store_fault,
    wrong_service,
)
from penstock.wire.json import FRAMEWORK_ERRORS, JSON_TYPES, JsonProtocol
from penstock.wire.long_lists import encode_lists
from penstock.wire.query import Form, is_query, read_query
from penstock.wire.query_response import QueryJsonWriter, QueryProtocol, no_operation
from penstock.wire.rest_json import RestJsonProtocol, RestRequest, UriTemplate
from penstock.wire.service import (
    Action,
    Call,
    Fault,
    HttpRequest,
    ProtocolName,
    Response,
    ResponseWriter,
    Service,
    StepwiseDecoder,
    WireProtocol,
)
from penstock.wire.shapes import AtRoot, resource_members, struct_shape

Done = Callable[[Response], None]
T = TypeVar("T")


class Recorder(Protocol):
    """Records requests, such as in an audit log."""

    def wants(self, action: Action) -> bool:
        """Whether successful requests of this action are recorded. All others are passed to ``answered``, too."""

    def answered(
        self, service: Service, action: Action, request: Any, call: Call, response: Any, fault: Fault | None
    ) -> None:
        """An action ended: with its request, and its response or None, and the fault or None."""


class Meter(Protocol):
    """Measures the requests of one action."""

    succeeded: Histogram

    def failed(self, code: str, seconds: float) -> None: ...


Authorize = Callable[[Call, Action, Any], None]
"""(call, action, its resource): raises a domain error, which the service words, if the caller may not do this."""

PassOn = Callable[[Any, Done, int], None]
"""(request, what takes its response, shard): another process owns the shard, and nothing was decided here."""

_log = logging.getLogger("penstock.wire")
# A longer request is decoded in turns, if its action takes long requests: decoding it takes milliseconds.
_LONG_BYTES = 4096
_WAITING_BYTES_MAX = 32 * 1024 * 1024  # of requests of one account, about
_ACTION_SHOWN_MAX = 128
_PATH_SHOWN_MAX = 256
_QUERY_JSON = QueryJsonWriter()
_BARE_XML = QueryProtocol("")
_BARE_CBOR = CborProtocol("")


class _Route(msgspec.Struct, frozen=True):
    """An action of a service in one protocol."""

    service: Service
    action: Action
    decode: Callable[[Any], msgspec.Struct]
    writer: ResponseWriter
    recorded: bool  # even if it succeeds
    meter: Meter | None
    plain_writer: ResponseWriter | None = None  # if clients without a query mode get other statuses
    # Reads what names the resource, and nothing else; None if that is not shorter.
    decode_resource: Callable[[Any], msgspec.Struct] | None = None
    # Decodes long requests in turns; None: there are none, or this one was decoded.
    decode_steps: Callable[[Any], Steps[msgspec.Struct]] | None = None

    def decoded(self, promise: Promise[msgspec.Struct]) -> _Route:
        """The route of one request that was decoded."""
        return msgspec.structs.replace(self, decode=lambda _: promise.result(), decode_steps=None)

    def writer_for(self, request: HttpRequest) -> ResponseWriter:
        if self.plain_writer is None or request.headers.get(b"x-amzn-query-mode", b"").lower() == b"true":
            return self.writer
        return self.plain_writer


_Found = tuple[_Route, ResponseWriter, Any]


class Dispatcher:
    def __init__(
        self,
        services: Iterable[Service],
        recorder: Recorder | None = None,
        authorize: Authorize | None = None,
        pass_on: PassOn | None = None,
        meter: Callable[[Service, Action], Meter] | None = None,
        turns: Turns | None = None,
    ) -> None:
        """If there is no ``authorize``, every caller may do everything: the server is open. If there is no
        ``pass_on``, this process owns all shards. ``meter`` gives what measures an action. Large responses are
        encoded in ``turns``."""
        self._meter = meter
        self._turns = turns or Turns()
        self._recorder = recorder
        self._authorize = authorize
        self._pass_on = pass_on
        self._targets: dict[bytes | None, _Route] = {}  # AWS JSON, by X-Amz-Target
        self._moded_targets: dict[bytes | None, _Route] = {}  # those with a query mode
        self._unsupported: dict[str, str] = {}  # by action: the service that has it
        self._queries: dict[str, list[_Route]] = {}  # Query, by action: services share names of actions
        self._xml: dict[str, ResponseWriter] = {}  # Query, by version: for errors
        self._uris: list[tuple[UriTemplate, _Route]] = []  # REST-JSON
        self._roots: dict[bytes, _Route] = {}  # REST-JSON, an action for each first part
        self._operations: dict[tuple[bytes, bytes], _Route] = {}  # CBOR, by service and action
        for service in services:
            self._add(service)
        self._uris.sort(key=lambda uri: uri[0].label_count)  # "/things/new" before "/things/{Name}"
        self.methods = {b"POST", b"GET", *(template.method for template, _ in self._uris)}

    def _add(self, service: Service) -> None:
        self._unsupported |= dict.fromkeys(service.unsupported, service.signing_name)
        for name in service.protocols:
            protocol = _protocol(name, service)
            plain = _protocol(name, service, is_plain=True) if service.has_query_mode else None
            routes = [self._route(service, action, protocol, plain) for action in service.actions.values()]
            match name:
                case "json-1.0" | "json-1.1":
                    targets = self._targets if plain is None else self._moded_targets
                    for route in routes:
                        targets[f"{service.target_prefix}.{route.action.name}".encode()] = route
                case "query":
                    self._xml[service.version] = protocol
                    for route in routes:
                        self._queries.setdefault(route.action.name, []).append(route)
                case "rest-json":
                    self._uris += [(UriTemplate(route.action.http), route) for route in routes]
                    self._roots |= {_first_part(route.action.http.encode()): route for route in routes}
                case "rpc-v2-cbor":
                    prefix = service.target_prefix.encode()
                    self._operations |= {(prefix, route.action.name.encode()): route for route in routes}

    def _route(
        self, service: Service, action: Action, protocol: WireProtocol, plain: WireProtocol | None
    ) -> _Route:
        meter = None if self._meter is None else self._meter(service, action)
        recorded = self._recorder is not None and self._recorder.wants(action)
        decode_resource = None
        if action.anonymous and self._authorize is not None and (named := resource_members(action.request)):
            decode_resource = protocol.decoder(msgspec.structs.replace(action, request=named))
        decode = protocol.decoder(action)
        steps = decode.steps if action.members_max and isinstance(decode, StepwiseDecoder) else None
        return _Route(service, action, decode, protocol, recorded, meter, plain, decode_resource, steps)

    def answer(
        self, request: HttpRequest, call: Call, done: Done, found: _Found | Response | None = None
    ) -> None:
        """Call ``done`` once: before this returns, or when what the handler waits for has come.

        A request that is uncompressed or decoded in turns is answered again then, with what was ``found`` so far.
        """
        headers = request.headers
        if (
            found is None
            and headers.get(b"content-type") in JSON_TYPES
            and (route := self._targets.get(headers.get(b"x-amz-target")))
        ):
            writer, given = route.writer, request.body
        else:
            if found is None:
                if b"content-encoding" in headers:
                    call.decoding = start(self._find_compressed(request, call))
                    call.decoding.on_done(lambda promise: self.answer(request, call, done, promise.result()))
                    return
                found = self._find(request, call)
            else:
                call.decoding = None
            if isinstance(found, Response):
                done(found)
                return
            route, writer, given = found
        service, action = route.service, route.action
        call.action = action.name
        if route.meter is not None and not call.began_s:
            call.began_s = perf_counter()
        decoded = None
        by_link = False  # someone without a signature follows a link
        pass_on = None if self._pass_on is None else partial(self._pass_on, request, done)
        try:
            if call.principal is not None:  # refused before the request is decoded, which may take long
                if call.principal.kind == "anonymous":
                    if not action.anonymous:
                        raise SignatureMissing(f"{call.base_url}/")
                    by_link = action.by_link
                    if route.decode_resource is not None and self._authorize is not None:
                        assert action.resource is not None, "a member names it"
                        decoded = route.decode_resource(given)
                        self._authorize(call, action, action.resource(service.context, decoded, call))
                if call.signed_for is not None and call.signed_for != service.signing_name:
                    raise wrong_service(service.signing_name)
            if not action.by_link:
                if call.page_refusal is not None:
                    raise call.page_refusal
                if call.write_refusal is not None and (action.has_effects or not action.read_only):
                    raise call.write_refusal
            if route.decode_steps is not None and (size := _size_of(given)) > _LONG_BYTES:
                call.decoding = start(self._alone(route.decode_steps(given), size, call))
                call.decoding.on_done(
                    lambda promise: self.answer(request, call, done, (route.decoded(promise), writer, given))
                )
                return
            decoded = route.decode(given)
            if action.resource is not None:
                call.resource = action.resource(service.context, decoded, call)
            if self._authorize is not None and action.permission and not by_link:
                self._authorize(call, action, call.resource)
            coroutine = action.handler(service.context, decoded, call)
        except Exception as error:
            call.asked = decoded
            _Exchange(None, route, writer, call, done, decoded, self._recorder, pass_on, self._turns).ended(
                None, error
            )
            return
        _Exchange(coroutine, route, writer, call, done, decoded, self._recorder, pass_on, self._turns)()

    async def _alone(self, steps: Steps[T], size: int, call: Call) -> T:
        """One request of an account at a time: what is made of it takes fifty times its memory."""
        most = max(WAITING_MAX, _WAITING_BYTES_MAX // (size or 1))
        account = call.space.account
        async with self._turns.alone(account, inf, purpose="decode", waiting_max=most) as work:
            return await work.do(steps)

    async def _find_compressed(self, request: HttpRequest, call: Call) -> _Found | Response:
        try:
            if call.principal is not None and call.principal.kind == "anonymous":
                raise access_denied("A request with a compressed body must be signed.")
            plain = await self._alone(uncompressed(request), len(request.body), call)
            return self._find(plain, call)
        except Fault as fault:
            return refusal(fault, call.request_id, request)
        except TooManyWaiting:
            return refusal(request_throttled(), call.request_id, request)
        except Exception as error:
            _log_trace(error, call)
            return refusal(internal_error(), call.request_id, request)

    def _find(self, request: HttpRequest, call: Call) -> _Found | Response:
        """The action, how to write its response, and what to decode; or the response to a request for no action."""
        target = request.headers.get(b"x-amz-target")
        if target and not is_query(request):
            found = self._targets.get(target) or self._moded_targets.get(target)
            if found is None:
                return FRAMEWORK_ERRORS.error(self._unknown(target.decode("latin-1")), call.request_id)
            return found, found.writer_for(request), request.body
        if is_cbor(request):
            name = service_and_action(request)
            found = self._operations.get(name)
            if found is None:
                return _BARE_CBOR.error(self._unknown(name[1].decode("latin-1")), call.request_id)
            return found, found.writer_for(request), request.body
        for template, route in self._uris:
            if call.signed_for is None or call.signed_for == route.service.signing_name:
                labels = template.match(request)
                if labels is not None:
                    return route, route.writer, RestRequest(request, labels)
        if (near := self._roots.get(_first_part(request.target))) is not None:
            return near.writer.error(_not_in_service(near.service, request, call), call.request_id)
        if is_query(request):
            return self._find_query(request, call)
        return FRAMEWORK_ERRORS.error(self._unknown(""), call.request_id)

    def _find_query(self, request: HttpRequest, call: Call) -> _Found | Response:
        wants_json = _wants_json(request)
        try:
            form = read_query(request)
        except Fault as fault:
            return (_QUERY_JSON if wants_json else self._xml_writer("")).error(fault, call.request_id)
        if not form.action:
            return no_operation(call.request_id)
        route = _choose(self._queries.get(form.action, ()), form, call)
        if route is None:
            writer = _QUERY_JSON if wants_json else self._xml_writer(form.version)
            return writer.error(self._unknown(form.action), call.request_id)
        return route, _QUERY_JSON if wants_json else route.writer, form

    def _unknown(self, target: str) -> Fault:
        if not target:
            return invalid_action("The request must name its action in the header X-Amz-Target.")
        action = target.rpartition(".")[2]
        if (service := self._unsupported.get(action)) is not None:
            return invalid_action(f"The action {action} of {service} is not supported by this server.")
        # A form may hold lone surrogates.
        action = action[:_ACTION_SHOWN_MAX].encode("utf-8", "replace").decode()
        return invalid_action(f"The action {action} is not valid for this endpoint.")

    def _xml_writer(self, version: str) -> ResponseWriter:
        """The writer of responses to a request that no action takes."""
        return self._xml.get(version) or next(iter(self._xml.values()), _BARE_XML)

    def refusal(self, fault: Fault, request_id: str, request: HttpRequest) -> Response:
        """Does what the function does, with errors of the Query protocol in the form of the service whose version the
        request names."""
        try:
            version = read_query(request).version if is_query(request) else ""
        except Fault:
            version = ""
        return refusal(fault, request_id, request, self._xml_writer(version))


def _protocol(name: ProtocolName, service: Service, *, is_plain: bool = False) -> WireProtocol:
    match name:
        case "json-1.0" | "json-1.1":
            return JsonProtocol(service.shape_namespace, name, is_plain=is_plain)
        case "query":
            return QueryProtocol(
                service.xml_namespace,
                error_detail=service.xml_error_detail,
                is_indented=service.xml_is_indented,
            )
        case "rest-json":
            return RestJsonProtocol()
        case "rpc-v2-cbor":
            return CborProtocol(service.shape_namespace, is_plain=is_plain)


def _choose(routes: Iterable[_Route], form: Form, call: Call) -> _Route | None:
    """The signature decides between services that share the name of an action, then the version, then the host.

    SQS: the version may be absent, and no client is known to be refused for it. Then the first service will do.
    """
    taken = [r for r in routes if not (form.resource and issubclass(r.action.request, AtRoot))]
    if len(taken) < 2:
        return taken[0] if taken else None
    host = call.base_url.partition("://")[2]
    return (
        next((route for route in taken if route.service.signing_name == call.signed_for), None)
        or next((route for route in taken if route.service.version == form.version), None)
        or next((route for route in taken if host.startswith(f"{route.service.signing_name}.")), taken[0])
    )


class _Exchange(Running):
    """One request, from the start of its handler to its response."""

    route: _Route
    writer: ResponseWriter
    call: Call
    done: Done
    request: msgspec.Struct | None  # None if it could not be decoded
    recorder: Recorder | None
    pass_on: Callable[[int], None] | None
    turns: Turns
    tries_left: int = 3  # after the first, if its commit was refused for what another request changed

    def ended(self, response: Any, error: BaseException | None, encoded: Any = None) -> None:
        """``encoded``: the response with its long lists encoded, once that is done."""
        call, route, fault = self.call, self.route, None
        if (
            error is None
            and (route.action.is_large or call.is_large)
            and encoded is None
            and response is not None
        ):
            run(
                self._encode_lists(response),
                lambda encoded, failure: self.ended(response, failure, encoded),
            )
            return
        if error is None:
            try:
                shown = response if encoded is None else encoded
                written = self.writer.success(route.action, shown, call.request_id)
            except Exception as unwritable:
                error = unwritable
        if error is not None:
            if isinstance(error, DecideAgain) and self.tries_left:
                self.tries_left -= 1
                self.coroutine = _start_again(route, self.request, call)
                self()
                return
            if isinstance(error, NotOwned) and self.pass_on is not None:
                self.pass_on(error.shard)
                return
            fault = _to_fault(error, route.service, call)
            written = self.writer.error(fault, call.request_id)
            if call.if_unread is not None:
                # The response says that it failed, so the messages that it was to carry go back.
                give_back, call.if_unread = call.if_unread, None
                give_back()
        if route.meter is not None:
            seconds = perf_counter() - call.began_s
            if fault is None:
                route.meter.succeeded.observe(seconds)
            else:
                route.meter.failed(fault.code, seconds)
        self.done(written)
        if self.recorder is not None and (route.recorded or fault is not None):
            try:
                self.recorder.answered(route.service, route.action, self.request, call, response, fault)
            except Exception as failure:
                _log_trace(failure, call)  # the request has its response already

    async def _encode_lists(self, response: Any) -> Any:
        action = self.route.action
        assert action.response is not None, f"{action.name} has no response"
        steps = encode_lists(self.writer, response, struct_shape(action.response))
        return await self.turns.run(steps, self.call.space.account)


async def _start_again(route: _Route, request: Any, call: Call) -> Any:
    return await route.action.handler(route.service.context, request, call)


def refusal(fault: Fault, request_id: str, request: HttpRequest, xml: ResponseWriter = _BARE_XML) -> Response:
    """An error that no service gave, in the protocol of the request."""
    if is_cbor(request):
        return _BARE_CBOR.error(fault, request_id)
    if is_query(request):
        return (_QUERY_JSON if _wants_json(request) else xml).error(fault, request_id)
    return FRAMEWORK_ERRORS.error(fault, request_id)


def _size_of(given: Any) -> int:
    """The bytes that are to be decoded."""
    return sum(map(len, given.sources)) if isinstance(given, Form) else len(given)


def _wants_json(request: HttpRequest) -> bool:
    return b"application/json" in request.headers.get(b"accept", b"").lower()


def _first_part(target: bytes) -> bytes:
    """``admin`` of ``/admin/v1/queues?limit=1``; of a template, ``{Name}`` matches no request."""
    return target.partition(b"?")[0].partition(b"/")[2].partition(b"/")[0]


def _not_in_service(service: Service, request: HttpRequest, call: Call) -> Fault:
    """Why no action of a REST service took a request to one of its paths."""
    if call.signed_for is not None and call.signed_for != service.signing_name:
        return wrong_service(service.signing_name)
    path = request.target.partition(b"?")[0][:_PATH_SHOWN_MAX].decode("latin-1")
    return no_such_path(
        f"There is no {request.method.decode('latin-1')} {path} in the service {service.signing_name}."
    )


def _to_fault(error: BaseException, service: Service, call: Call) -> Fault:
    if isinstance(error, Fault):
        return error
    if isinstance(error, (StoreError, NotOwned)):
        return store_fault(error)
    fault = service.to_fault(error) if isinstance(error, Exception) else None
    if fault is not None:
        return fault
    _log_trace(error, call)
    return internal_error()


def _log_trace(error: BaseException, call: Call) -> None:
    trace = "".join(traceback.format_tb(error.__traceback__))
    _log.error("request %s failed with %s\n%s", call.request_id, type(error).__name__, trace)
