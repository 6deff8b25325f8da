"""From a request's target and bytes to its answer: find the operation, read, run, write.

Rule 1: every request gets exactly one answer.
Rule 2: an error nobody foresaw is logged with the request's id and answered as an internal error. Neither the
log nor the answer holds what the request said: the traceback is logged without the error's own text.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock.errors import StoreError
from penstock.later import drive
from penstock.wire.call import Call
from penstock.wire.faults import internal_error, invalid_action, store_fault
from penstock.wire.json10 import CONTENT_TYPE, RequestDecoder, encode_fault, encode_response
from penstock.wire.registry import Fault, Handler, Service

_log = logging.getLogger("penstock.wire")
_CONTENT_TYPE = (b"Content-Type", CONTENT_TYPE)


class Answer(msgspec.Struct, frozen=True):
    """A response without what only the transport knows: Date, Content-Length, Connection."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class _Route(msgspec.Struct, frozen=True):
    decode: RequestDecoder
    handler: Handler
    service: Service


class Dispatcher:
    def __init__(self, services: Iterable[Service]) -> None:
        self._routes = {
            f"{service.target_prefix}.{operation.name}": _Route(
                RequestDecoder(operation.request), operation.handler, service
            )
            for service in services
            for operation in service.operations.values()
        }

    def answer(self, target: str | None, body: bytes, call: Call, done: Callable[[Answer], None]) -> None:
        """Call ``done`` once: before this returns, or when what the handler waits for has come."""
        route = self._routes.get(target) if target else None
        if route is None:
            done(refusal(_unknown(target), "", call.request_id))
            return
        service = route.service
        try:
            request = route.decode(body)
        except Exception as error:
            done(refusal(_fault(error, service, call), service.shape_namespace, call.request_id))
            return

        def finish(response: Any, error: BaseException | None) -> None:
            if error is None:
                try:
                    answer = _success(encode_response(response), call)
                except Exception as unwritable:
                    error = unwritable
            if error is not None:
                answer = refusal(_fault(error, service, call), service.shape_namespace, call.request_id)
            done(answer)

        drive(route.handler(request, call), finish)


def _success(body: bytes, call: Call) -> Answer:
    return Answer(200, [_CONTENT_TYPE, (b"x-amzn-RequestId", call.request_id.encode())], body)


def refusal(fault: Fault, namespace: str, request_id: str) -> Answer:
    """``namespace`` is the service's own; the framework's faults have theirs."""
    blame = "Sender" if fault.sender_fault else "Receiver"
    headers = [
        _CONTENT_TYPE,
        (b"x-amzn-RequestId", request_id.encode()),
        (b"x-amzn-query-error", f"{fault.code};{blame}".encode()),
    ]
    return Answer(fault.status, headers, encode_fault(fault, namespace))


def _unknown(target: str | None) -> Fault:
    if not target:
        return invalid_action("The request must name its action in the header X-Amz-Target.")
    action = target.rpartition(".")[2]
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
    trace = "".join(traceback.format_tb(error.__traceback__))
    _log.error("request %s failed with %s\n%s", call.request_id, type(error).__name__, trace)
    return internal_error()
