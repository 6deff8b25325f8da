"""Who tells the trail: the dispatcher, of every operation at its end, and the routes, of whom they turned away.

What costs something (parameters, the event itself) is made only for what will be written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.names import Space
from penstock.server.audit.event import DENIALS, AuditEvent
from penstock.server.audit.log import Audit
from penstock.server.audit.parameters import safe_parameters, safe_response
from penstock.server.callers import Caller, claimed_credential
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.wire.call import Call
from penstock.wire.registry import Fault, Operation, Service

_ACTION = re.compile(rb"(?:^|&)Action=([A-Za-z]{1,64})(?:&|$)")
_FORM_START_BYTES = 4096  # where clients name the action


class AuditRecorder:
    def __init__(self, audit: Audit, origins: Origins, home: Space, now_ms: Callable[[], int]) -> None:
        self._audit = audit
        self._origins = origins
        self._home = home  # whose a request is that tells nothing we could believe
        self._now_ms = now_ms

    def answered(
        self,
        service: Service,
        operation: Operation,
        request: msgspec.Struct | None,
        call: Call,
        response: msgspec.Struct | None,
        fault: Fault | None,
    ) -> None:
        name, action = service.signing_name, operation.name
        # Some denials are told as something else: to a stranger, a queue that he may not find is not there.
        judged = call.verdict is not None and not call.verdict.allowed
        denied = judged or (fault is not None and fault.code in DENIALS)
        if not denied and not self._audit.wants(name, action):
            return
        self._audit.record(
            AuditEvent(
                at_ms=self._now_ms(),
                request_id=call.request_id,
                service=name,
                action=action,
                region=call.space.region,
                account=call.space.account,
                source_ip=call.source_ip,
                user_agent=call.user_agent,
                secure=call.secure,
                host=call.base_url.partition("://")[2],
                certificate=call.certificate,
                principal=call.principal,
                resource=call.resource_arn,
                parameters=None if request is None else safe_parameters(name, action, request),
                response=safe_response(name, action, response) if fault is None else None,
                verdict=call.verdict,
                **_error(fault),
            )
        )

    def turned_away(self, request: Request, fault: Fault, caller: Caller | None) -> None:
        """Without a caller, whatever it says of itself is only claimed."""
        key, _, scope = claimed_credential(request).decode("latin-1").partition("/")
        self._audit.record(
            AuditEvent(
                at_ms=self._now_ms(),
                request_id=request.id,
                service="sts" if "/sts/" in scope else "sqs",
                action=_claimed_action(request),
                region=self._home.region,
                account=self._home.account,
                source_ip=self._origins.source_ip(request),
                user_agent=_header(request, b"user-agent"),
                secure=self._origins.is_secure(request),
                host=_header(request, b"host"),
                certificate=request.peer.certificate,
                principal=caller.principal if caller is not None else None,
                access_key=key,
                refused=True,
                **_error(fault),
            )
        )


def _error(fault: Fault | None) -> dict[str, Any]:
    return {} if fault is None else {"error_code": fault.code, "error_message": fault.message}


def _claimed_action(request: Request) -> str:
    target = _header(request, b"x-amz-target")
    if target:
        return target.rpartition(".")[2]
    for form in (request.query, request.body[:_FORM_START_BYTES]):
        if found := _ACTION.search(form):
            return found[1].decode()
    return ""


def _header(request: Request, name: bytes) -> str:
    return request.headers.get(name, b"").decode("latin-1")
