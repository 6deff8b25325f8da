"""The debug line of a request: what was asked for, by which account, and how it was answered.

Neither bodies nor attributes, receipt handles or query strings are logged: of a request only its action and its
queue, and of an error only its code.
"""

from __future__ import annotations

import logging
import re
from time import perf_counter

from penstock.server.http.request import Request
from penstock.wire.service import Call, Response

log = logging.getLogger("penstock.http")

_ACTION = re.compile(rb"(?:^|&)Action=(\w{1,64})(?:&|$)")
_CODE = re.compile(rb'<Code>([\w.]{1,80})</Code>|"__type": ?"(?:[^"#]{0,80}#)?([\w.]{1,80})"')
_HEAD_BYTES = 4096  # of a body; the code of an error is at its beginning


def log_when_answered(request: Request) -> None:
    """Log the request when it is answered. Call it before the request is served, if debug lines are logged."""
    began = perf_counter()
    method, path, address = request.method.decode(), request.path.decode("latin-1"), request.peer.address
    action = _action(request)
    respond = request.on_response
    assert respond is not None

    def logged(request: Request, response: Response) -> None:
        facts: dict[str, object] = {"request_id": request.id, "action": action, "status": response.status}
        if response.status >= 400:
            facts["error"] = _error_code(response)
        if isinstance(request.call, Call):  # else no service served it, or another process does
            facts |= _facts_of(request.call)
        facts |= {"peer": address, "ms": round((perf_counter() - began) * 1000, 1)}
        log.debug("%s %s", method, path, extra=facts)
        respond(request, response)

    request.on_response = logged


def _action(request: Request) -> str:
    """The action that the request names in a header or in a form."""
    target = request.headers.get(b"x-amz-target")
    if target is not None:
        return target.rpartition(b".")[2][:64].decode("latin-1")
    found = _ACTION.search(request.query) or _ACTION.search(request.body[:_HEAD_BYTES])
    return "" if found is None else found[1].decode()


def _facts_of(call: Call) -> dict[str, object]:
    facts: dict[str, object] = {
        "account": call.space.account,
        "region": call.space.region,
        "queue": _queue(call),
    }
    return {"action": call.action, **facts} if call.action else facts


def _queue(call: Call) -> str:
    arn = str(getattr(call.resource, "arn", ""))
    if arn:
        return arn.rpartition(":")[2]
    for member in ("QueueUrl", "QueueName", "queue"):
        asked = getattr(call.asked, member, None)
        if isinstance(asked, str):
            return asked.rpartition("/")[2][:80]
    return ""


def _error_code(response: Response) -> str:
    for name, value in response.headers:
        if name.lower() in (b"x-amzn-query-error", b"x-amzn-errortype"):
            return value.partition(b";")[0].decode("latin-1")
    found = _CODE.search(response.body[:_HEAD_BYTES])
    return "" if found is None else (found[1] or found[2]).decode()
