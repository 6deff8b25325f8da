"""From a request to its answer: which protocol, which operation; read, run, write.

Rule 1: every request gets exactly one answer, in the protocol it was asked in.
Rule 2: X-Amz-Target means JSON. Without it a form, or parameters in the URL, mean the Query protocol.
Rule 3: a request that was signed for one service is not for another.
Rule 4: an error nobody foresaw is logged with the request's id and answered as an internal error. Neither the
log nor the answer holds what the request said: the traceback is logged without the error's own text.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from penstock.errors import SignatureMissing, StoreError
from penstock.promise import run
from penstock.wire.faults import internal_error, invalid_action, store_fault, wrong_service
from penstock.wire.json10 import FRAMEWORK_VOICE, JsonVoice, RequestDecoder
from penstock.wire.query import Form, FormDecoder, is_query, read_query
from penstock.wire.query_json import QueryJsonVoice
from penstock.wire.service import Action, Asked, Call, Fault, Response, ResponseWriter, Service
from penstock.wire.xml import XmlVoice, no_operation

__all__ = ["Answer", "Dispatcher", "refusal"]

T = TypeVar("T")
Answer = Response
Done = Callable[[Response], None]
OnEnd = Callable[[Service, Action, Any, Call, Any, Fault | None], None]
"""Called at the end of every action with its request and response (None if there was none) and its fault."""

Authorize = Callable[[Call, Action, Any], None]
"""(call, action, its resource): raises a domain error, which the service words, if the caller may not do this."""

_log = logging.getLogger("penstock.wire")
_ACTION_SHOWN_MAX = 128
_QUERY_JSON = QueryJsonVoice()
_BARE_XML = XmlVoice("")


class _Route(msgspec.Struct, frozen=True):
    """An operation in one protocol."""

    decode: Callable[[Any], msgspec.Struct]
    action: Action
    service: Service


class _JsonRoute(_Route, frozen=True):
    voice: ResponseWriter


class _FormRoute(_Route, frozen=True):
    voice: XmlVoice
    takes: Callable[[Form], bool]


class Dispatcher:
    def __init__(
        self, services: Iterable[Service], on_end: OnEnd | None = None, authorize: Authorize | None = None
    ) -> None:
        """Without ``authorize`` every caller may do everything: the server is open."""
        self._on_end = on_end
        self._authorize = authorize
        self._routes: dict[str, _JsonRoute] = {}
        # Services share names of actions, and only the version tells them apart: SQS's is 2012-11-05.
        self._actions: dict[str, dict[str, _FormRoute]] = {}
        self._xml: dict[str, XmlVoice] = {}
        for service in services:
            self._add(service)

    def _add(self, service: Service) -> None:
        voice = JsonVoice(service.shape_namespace)
        for name, action in service.actions.items():
            decode = RequestDecoder(action.request)
            self._routes[f"{service.target_prefix}.{name}"] = _JsonRoute(decode, action, service, voice)
        if not service.xml_namespace:
            return
        version = service.xml_namespace.rstrip("/").rpartition("/")[2]
        voice_in_xml = self._xml[version] = XmlVoice(service.xml_namespace)
        for name, action in service.actions.items():
            read = FormDecoder(action.request)
            route = _FormRoute(read, action, service, voice_in_xml, read.takes)
            self._actions.setdefault(name, {})[version] = route

    def answer(self, target: str | None, body: bytes, call: Call, done: Done) -> None:
        """Call ``done`` once: before this returns, or when what the handler waits for has come."""
        route = self._routes.get(target) if target else None
        if route is not None:
            self._serve(route, route.voice, body, call, done)
        elif not target and call.asked is not None and is_query(call.asked):
            self._answer_query(call.asked, body, call, done)
        else:
            done(FRAMEWORK_VOICE.error(_unknown(target), call.request_id))

    def _answer_query(self, asked: Asked, body: bytes, call: Call, done: Done) -> None:
        try:
            form = read_query(asked, body)
        except Fault as fault:
            done(self._query_voice(asked, "").error(fault, call.request_id))
            return
        if not form.action:
            done(no_operation(call.request_id))
            return
        route = _of_version(self._actions.get(form.action, {}), form.version)
        if route is None or not route.takes(form):
            voice = self._query_voice(asked, form.version)
            done(voice.error(_unknown(form.action), call.request_id))
        else:
            self._serve(route, _QUERY_JSON if _wants_json(asked) else route.voice, form, call, done)

    def _query_voice(self, asked: Asked, version: str) -> ResponseWriter:
        """For a request that no operation takes."""
        return _QUERY_JSON if _wants_json(asked) else _of_version(self._xml, version) or _BARE_XML

    def _serve(self, route: _Route, voice: ResponseWriter, given: Any, call: Call, done: Done) -> None:
        service, action = route.service, route.action
        call.action = action.name
        request = None

        def finish(response: Any, error: BaseException | None) -> None:
            fault = None
            if error is None:
                try:
                    answer = voice.success(action, response, call.request_id)
                except Exception as unwritable:
                    error = unwritable
            if error is not None:
                fault = _fault(error, service, call)
                answer = voice.error(fault, call.request_id)
                if call.if_unread is not None:
                    # The caller is told that it failed, so what it was to get goes back.
                    give_back, call.if_unread = call.if_unread, None
                    give_back()
            done(answer)
            if self._on_end is not None:
                try:
                    self._on_end(service, action, request, call, response, fault)
                except Exception as error:
                    # The request has its answer: whatever this is, it gets no second one.
                    _log_trace(error, call)

        try:
            if call.principal is not None:
                _check_signature(service, action, call)
            request = route.decode(given)
            if action.resource is not None:
                call.resource = action.resource(service.context, request, call)
            if self._authorize is not None and action.permission:
                self._authorize(call, action, call.resource)
        except Exception as error:
            finish(None, error)
            return
        run(action.handler(service.context, request, call), finish)


def _check_signature(service: Service, action: Action, call: Call) -> None:
    """What can be refused before the request is decoded, which may take long."""
    if call.principal.kind == "anonymous" and not action.anonymous:
        raise SignatureMissing(f"{call.base_url}/")
    if call.signed_for is not None and call.signed_for != service.signing_name:
        raise wrong_service(service.signing_name)


def _of_version(choices: Mapping[str, T], version: str) -> T | None:
    """SQS: the version may be absent, and no client is known to be refused for it: the first will do."""
    return choices.get(version) or next(iter(choices.values()), None)


def refusal(fault: Fault, request_id: str, asked: Asked | None) -> Response:
    """An error that no service gave, in the protocol of whoever asked."""
    if asked is None or not is_query(asked):
        return FRAMEWORK_VOICE.error(fault, request_id)
    return (_QUERY_JSON if _wants_json(asked) else _BARE_XML).error(fault, request_id)


def _wants_json(asked: Asked) -> bool:
    return b"application/json" in asked.accept.lower()


def _unknown(target: str | None) -> Fault:
    if not target:
        return invalid_action("The request must name its action in the header X-Amz-Target.")
    action = target.rpartition(".")[2][:_ACTION_SHOWN_MAX]
    # A header's bytes need not be text; the answer's are.
    action = action.encode("utf-8", "replace").decode()
    return invalid_action(f"The action {action} is not valid for this endpoint.")


def _fault(error: BaseException, service: Service, call: Call) -> Fault:
    if isinstance(error, Fault):
        return error
    if isinstance(error, StoreError):
        return store_fault(error)
    fault = service.to_fault(error) if isinstance(error, Exception) else None
    if fault is not None:
        return fault
    _log_trace(error, call)
    return internal_error()


def _log_trace(error: BaseException, call: Call) -> None:
    trace = "".join(traceback.format_tb(error.__traceback__))
    _log.error("request %s failed with %s\n%s", call.request_id, type(error).__name__, trace)
