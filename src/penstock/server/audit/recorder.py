"""Makes audit events: from the dispatcher at the end of an action, and from the routes for refused requests.

Parameters and the event itself are made only for what will be written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from penstock.names import Space
from penstock.server.audit.event import DENIALS, AuditEvent
from penstock.server.audit.log import AuditLog
from penstock.server.callers import Caller, claimed_credential
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.wire.cbor import is_cbor, service_and_action
from penstock.wire.rest_json import UriTemplate
from penstock.wire.service import Action, AuditRule, Call, Fault, Service

_ACTION = re.compile(rb"(?:^|&)Action=([A-Za-z]{1,64})(?:&|$)")
_VERSION = re.compile(rb"(?:^|&)Version=([0-9-]{10})(?:&|$)")
_FORM_START_BYTES = 4096  # clients name the action near the start
_MEMBER = re.compile(r"(?:(?P<function>count|pairs)\()?(?P<path>[\w.]+)\)?(?: as (?P<name>\w+))?")
_UNKNOWN = AuditRule("Management")  # of an action that no service has


class AuditRecorder:
    def __init__(
        self,
        log: AuditLog,
        origins: Origins,
        home: Space,
        now_ms: Callable[[], int],
        services: Iterable[Service],
    ) -> None:
        self._log = log
        services = list(services)
        self._finder = _ActionFinder(services)
        self._arns = [kind for service in services for kind in service.arns]
        self._origins = origins
        self._home = home  # account and region of requests that could not be verified
        self._now_ms = now_ms

    def wants(self, action: Action) -> bool:
        """A request that was denied is always recorded; its response is an error."""
        return self._log.wants(action.audit)

    def answered(
        self,
        service: Service,
        action: Action,
        request: msgspec.Struct | None,
        call: Call,
        response: msgspec.Struct | None,
        fault: Fault | None,
    ) -> None:
        rule = action.audit
        # Some denials are worded as another error: to another account, a queue it may not see does not exist.
        denied_by_policy = call.verdict is not None and not call.verdict.allowed
        denied = denied_by_policy or (fault is not None and fault.code in DENIALS)
        if not denied and not self._log.wants(rule):
            return
        self._log.record(
            AuditEvent(
                at_ms=self._now_ms(),
                request_id=call.request_id,
                source=service.event_source,
                action=action.name,
                rule=rule,
                read_only=action.read_only,
                region=call.space.region,
                account=call.space.account,
                source_ip=call.source_ip,
                user_agent=call.user_agent,
                secure=call.secure,
                host=call.base_url.partition("://")[2],
                certificate=call.certificate,
                principal=call.principal,
                resource=call.resource_arn,
                resource_type=self._resource_type(call.resource_arn),
                parameters=None if request is None else listed_members(rule.parameters, request),
                response=listed_members(rule.response, response) if response and fault is None else None,
                verdict=call.verdict,
                **_error(fault),
            )
        )

    def refused_early(self, request: Request, fault: Fault, caller: Caller | None) -> None:
        """A request that was refused before it was decoded. Without a caller, what it says of itself is claimed."""
        key, _, scope = claimed_credential(request).decode("latin-1").partition("/")
        service, action = self._finder.find(request, scope)
        row = service.actions.get(action)
        self._log.record(
            AuditEvent(
                at_ms=self._now_ms(),
                request_id=request.id,
                source=service.event_source,
                action=action,
                rule=_UNKNOWN if row is None else row.audit,
                read_only=row is not None and row.read_only,
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

    def _resource_type(self, arn: str) -> str:
        """The resource type that a service declares; empty for what no service declares, such as ``*``."""
        parts = arn.split(":", 5)
        return next(
            (
                kind.resource_type
                for kind in self._arns
                if len(parts) == 6 and kind.service == parts[2] and parts[5].startswith(kind.prefix)
            ),
            "",
        )


class _ActionFinder:
    """Finds the service and the action that a request was for, as far as they can be seen without decoding it."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = services
        self._by_prefix = {service.target_prefix: service for service in services}
        self._by_signature = {service.signing_name: service for service in services}
        self._uris = [
            (UriTemplate(action.http), service, action.name)
            for service in services
            if service.is_rest
            for action in service.actions.values()
        ]
        self._by_root = {
            action.http.split("/")[1].encode(): service
            for service in services
            if service.is_rest
            for action in service.actions.values()
        }

    def find(self, request: Request, scope: str) -> tuple[Service, str]:
        """``scope``: of the credential, such as "20260101/us-east-1/sqs/aws4_request". The first service for a
        request that names none. An empty action: it names none."""
        signed_for = self._by_signature.get(scope.split("/")[2]) if scope.count("/") >= 2 else None
        if target := _header(request, b"x-amz-target"):
            prefix, _, action = target.rpartition(".")
            return self._by_prefix.get(prefix) or signed_for or self._services[0], action
        if is_cbor(request):
            prefix, action = (part.decode("latin-1") for part in service_and_action(request))
            return self._by_prefix.get(prefix) or signed_for or self._services[0], action
        for template, service, name in self._uris:
            if template.match(request) is not None:
                return service, name
        for form in (request.query, request.body[:_FORM_START_BYTES]):
            if found := _ACTION.search(form):
                return self._of_form(form, found[1].decode(), signed_for)
        root = request.target.partition(b"?")[0].strip(b"/").partition(b"/")[0]
        return self._by_root.get(root) or signed_for or self._services[0], ""

    def _of_form(self, form: bytes, action: str, signed_for: Service | None) -> tuple[Service, str]:
        """Services share names of actions: the signature decides, then the version, then which one has it."""
        version = found[1].decode() if (found := _VERSION.search(form)) else None
        by_version = (service for service in self._services if service.version == version)
        by_action = (service for service in self._services if action in service.actions)
        return signed_for or next(by_version, None) or next(by_action, self._services[0]), action


class _Member(NamedTuple):
    path: list[str]
    name: str
    function: Callable[[Any], Any] | None


def listed_members(entries: tuple[str, ...], struct: msgspec.Struct) -> dict[str, Any] | None:
    """The members of a request or response that an AuditRule lists, under their names in the event."""
    found = {}
    for path, name, function in _members(entries):
        value: Any = struct
        for part in path:
            value = getattr(value, part, None)
        if value is not None:
            found[name] = value if function is None else function(value)
    return found or None


@cache  # rows are few and live as long as the process
def _members(entries: tuple[str, ...]) -> list[_Member]:
    members = []
    for entry in entries:
        parsed = _MEMBER.fullmatch(entry)
        assert parsed is not None, f"not an entry of an AuditRule: {entry}"
        path = parsed["path"].split(".")
        name = parsed["name"] or _cloudtrail_name(path[-1])
        members.append(_Member(path, name, _FUNCTIONS.get(parsed["function"])))
    return members


def _cloudtrail_name(field: str) -> str:
    """``QueueUrl`` becomes ``queueUrl``; a name that starts with an abbreviation (``AWSAccountIds``) stays."""
    return field if field[1].isupper() else field[0].lower() + field[1:]


def _pairs(tags: Iterable[Any]) -> Mapping[str, Any]:
    return {str(tag.Key): tag.Value for tag in tags}


_FUNCTIONS: dict[str | None, Callable[[Any], Any]] = {"count": len, "pairs": _pairs}


def _error(fault: Fault | None) -> dict[str, Any]:
    return {} if fault is None else {"error_code": fault.code, "error_message": fault.message}


def _header(request: Request, name: bytes) -> str:
    return request.headers.get(name, b"").decode("latin-1")
