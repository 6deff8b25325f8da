"""One request as the audit log records it: what the server knows of it, and the CloudTrail event made from that.

Only what is named here is written. Parameters and responses come through the lists in the rows of the actions, and
every text that a caller chose is cut to a length.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.clock import iso_time
from penstock.server.audit.encode import cut, fit
from penstock.server.audit.rate_cap import Outcome
from penstock.server.client_addresses import caller_name
from penstock.wire.service import AuditRule

if TYPE_CHECKING:
    from penstock.auth.policy import Verdict
    from penstock.auth.principal import Principal

EVENT_VERSION = "1.11"
LOG_SOURCE = "penstock"
# Everything that SQS accepts fits, so that a change is recorded whole: three policies of 8 KiB, which may double when
# quoted, fifty tags of 384 characters, and the name of a key.
PARAMETERS_BYTES_MAX = 160 * 1024
# Requests that change nothing can be repeated at will: they must not fill the disk or displace older events.
CAPPED_PARAMETERS_BYTES_MAX = 2 * 1024

# Errors whose messages contain only our own words, ARNs, key ids and times.
_QUOTES_NOTHING = frozenset(
    {"AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "RequestThrottled"}
)
DENIALS = frozenset(
    {"AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "IncompleteSignature"}
)


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is recorded of a request. It is created at the end of a request, if :meth:`AuditLog.wants` it."""

    at_ms: int  # wall clock
    request_id: str
    source: str  # of the service: "sqs.amazonaws.com"
    action: str  # "" if the request named none
    rule: AuditRule
    read_only: bool
    region: str
    account: str  # recipient of the event if neither a resource nor a principal names one
    source_ip: str
    user_agent: str
    secure: bool
    host: str = ""  # the Host header
    certificate: str = ""  # subject of the client certificate
    principal: Principal | None = None  # None: the server is open, or the caller could not be verified
    access_key: str = ""  # claimed by a caller without a principal
    resource: str = ""  # ARN of the queue or role
    resource_type: str = ""  # "AWS::SQS::Queue"
    parameters: Mapping[str, Any] | None = None
    response: Mapping[str, Any] | None = None
    verdict: Verdict | None = None  # None: the policies were not evaluated
    refused: bool = False  # before the request was decoded
    error_code: str | None = None  # of the Query protocol (Fault.code), as in CloudTrail
    error_message: str | None = None

    @property
    def denied(self) -> bool:
        by_policy = self.verdict is not None and not self.verdict.allowed
        return self.refused or by_policy or self.error_code in DENIALS

    @property
    def capped_outcome(self) -> Outcome | None:
        """None if the event is always written: the request was allowed and did something."""
        if self.denied:
            return "denied"
        if self.error_code is not None:
            return "unchanged"
        if self.principal is None or self.verdict is not None:
            return None
        # Every signed caller may do this, as often as it likes.
        return "credentials" if self.rule.gives_credentials else "unchanged"

    @property
    def verified(self) -> bool:
        """Whether the caller's signature was verified: others cannot act under its name."""
        return self.principal is not None and self.principal.kind != "anonymous"

    @property
    def caller(self) -> str:
        """The name under which capped events are counted."""
        return caller_name(self.principal, self.source_ip)

    @property
    def decision(self) -> str:
        if self.denied:
            return "denied"
        # A request that failed before the policies were evaluated was neither allowed nor denied.
        return "none" if self.verdict is None and self.error_code is not None else "allowed"


def cloudtrail_event(event: AuditEvent) -> dict[str, Any]:
    parameters, full_size = _parameters(event)
    details = _decision(event)
    if full_size is not None:
        details["parametersSize"] = full_size
    fields: dict[str, Any] = {
        "eventVersion": EVENT_VERSION,
        "userIdentity": _identity(event),
        "eventTime": iso_time(event.at_ms / 1000),
        "eventSource": event.source,
        "eventName": cut(event.action) or "Unknown",
        "awsRegion": event.region,
        "sourceIPAddress": event.source_ip,
        "userAgent": cut(event.user_agent),
    }
    if event.error_code is not None:
        fields["errorCode"] = event.error_code
        if event.error_message and _shows_message(event):
            fields["errorMessage"] = cut(event.error_message)
    fields |= {
        "requestParameters": parameters,
        "responseElements": event.response,
        "additionalEventData": details,
        "requestID": event.request_id,
        "eventID": str(uuid.uuid4()),
        "readOnly": event.read_only,
        "eventType": "AwsApiCall",
        "managementEvent": event.rule.category != "Data",
        "recipientAccountId": _recipient(event),
        "eventCategory": event.rule.category or "Management",
    }
    if event.resource:
        fields["resources"] = [_resource(event)]
    if tls := _tls(event):
        fields["tlsDetails"] = tls
    return fields


def log_event(at_ms: int, name: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """An event about the audit log itself."""
    return {
        "eventVersion": EVENT_VERSION,
        "eventTime": iso_time(at_ms / 1000),
        "eventSource": LOG_SOURCE,
        "eventName": name,
        "eventID": str(uuid.uuid4()),
        "eventType": "AwsServiceEvent",
        "managementEvent": True,
        "eventCategory": "Management",
        "serviceEventDetails": details,
    }


def _identity(event: AuditEvent) -> dict[str, Any]:
    principal = event.principal
    if principal is None:
        claimed = {"accessKeyId": cut(event.access_key)} if event.access_key else {}
        return {"type": "Unknown", **claimed}
    if principal.kind == "anonymous":
        return {"type": "AWSAccount", "principalId": "", "accountId": "ANONYMOUS_PRINCIPAL"}
    fields: dict[str, Any] = {
        "type": _identity_type(principal),
        "principalId": principal.id,
        "arn": principal.arn,
        "accountId": principal.account,
        "accessKeyId": principal.access_key,
    }
    if principal.name is not None:
        fields["userName"] = principal.name
    if principal.role_arn is not None:
        fields["sessionContext"] = {
            "sessionIssuer": {
                "type": "Role",
                "principalId": principal.id.partition(":")[0],
                "arn": principal.role_arn,
                "accountId": principal.account,
                "userName": principal.role_arn.rpartition("/")[2],
            }
        }
    return fields


def _identity_type(principal: Principal) -> str:
    if principal.kind == "root":
        return "Root"
    # Credentials from GetSessionToken act as the user.
    return "AssumedRole" if principal.role_arn is not None else "IAMUser"


def _parameters(event: AuditEvent) -> tuple[Mapping[str, Any] | None, int | None]:
    """Returns the parameters as they are written and, if they were shortened, their full size."""
    if event.parameters is None:
        return None, None
    capped = event.capped_outcome is not None
    return fit(event.parameters, CAPPED_PARAMETERS_BYTES_MAX if capped else PARAMETERS_BYTES_MAX)


def _decision(event: AuditEvent) -> dict[str, Any]:
    """The decision and its reason. CloudTrail has no such fields: it does not name the statement that decided."""
    fields: dict[str, Any] = {"decision": event.decision}
    if event.verdict is not None:
        fields |= {"policy": event.verdict.policy, "statement": event.verdict.statement}
        if not event.verdict.allowed:
            fields["reason"] = event.verdict.reason  # not shown to a caller of another account
    return fields


def _tls(event: AuditEvent) -> dict[str, str]:
    """The subject of the client certificate is not in CloudTrail."""
    fields = {"clientProvidedHostHeader": cut(event.host)} if event.secure else {}
    return fields | {"clientCertificateSubject": cut(event.certificate)} if event.certificate else fields


def _shows_message(event: AuditEvent) -> bool:
    """Messages may quote the request: a receipt handle, an Authorization header. They are written for management
    actions, whose parameters are written too, and for errors that quote nothing."""
    managed = event.rule.category == "Management" and not event.denied
    return managed or event.error_code in _QUOTES_NOTHING


def _recipient(event: AuditEvent) -> str:
    if parts := _arn_parts(event.resource):
        return parts[4]
    return event.principal.account if event.principal and event.principal.account else event.account


def _resource(event: AuditEvent) -> dict[str, str]:
    arn = cut(event.resource)
    if not event.resource_type:
        return {"ARN": arn}
    return {"accountId": _arn_parts(event.resource)[4], "type": event.resource_type, "ARN": arn}


def _arn_parts(arn: str) -> list[str]:
    """Six parts, of which a role leaves the region empty; none if it is not an ARN."""
    parts = arn.split(":", 5)
    return parts if len(parts) == 6 else []
