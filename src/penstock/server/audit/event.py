"""One request as the trail tells it: what the server knows of it, and the CloudTrail event that becomes of it.

Rule 1: what is not named here is not written. Parameters and answers come through the lists of
:mod:`penstock.server.audit.parameters`; every text that a caller chose is cut to a length.
Rule 2: an error's own words may quote the request (a receipt handle, an Authorization header). They are written
for management actions, whose parameters are written as well, and for errors that are known to quote nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.clock import iso_time
from penstock.server.audit.actions import Kept, kept
from penstock.server.audit.fitting import fitted
from penstock.server.audit.spelling import plain, spelled
from penstock.server.client_addresses import caller_name

if TYPE_CHECKING:
    from penstock.auth.policy import Verdict
    from penstock.auth.principal import Principal

EVENT_VERSION = "1.11"
NOTICE_SOURCE = "penstock"
TEXT_MAX = 256  # of a name, a user agent or a key that the caller chose
ERROR_TEXT_MAX = 1024
# All that SQS takes fits, so that what was done is told whole: three policies of 8 KiB, which may double when they
# are quoted, fifty tags of 384 characters, and a key's name.
PARAMETERS_BYTES_MAX = 160 * 1024
# Whoever gets nothing done must not be able to fill the disk, nor to push older events out of the trail.
BOUNDED_PARAMETERS_BYTES_MAX = 2 * 1024

# Made of our own words, of ARNs, key ids and times.
_QUOTES_NOTHING = frozenset(
    {"AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "RequestThrottled"}
)
DENIALS = frozenset(
    {"AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "IncompleteSignature"}
)


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Made once per request, at its end, if :meth:`Audit.wants` it."""

    at_ms: int  # wall clock
    request_id: str
    service: str  # as it is signed for: "sqs", "sts"
    action: str  # "" if the request named none
    region: str
    account: str  # whose events these are if neither a resource nor a principal says so
    source_ip: str
    user_agent: str
    secure: bool
    host: str = ""  # the Host header
    certificate: str = ""  # whose certificate the client showed
    principal: Principal | None = None  # None: the server is open, or the caller could not be made sure of
    access_key: str = ""  # that was claimed, where there is no principal
    resource: str = ""  # ARN of the queue or role
    parameters: Mapping[str, Any] | None = None  # from safe_parameters
    response: Mapping[str, Any] | None = None  # from safe_response
    verdict: Verdict | None = None  # what the policies said; None if they were not asked
    refused: bool = False  # turned away before anybody looked at what was asked for
    error_code: str | None = None  # of the Query protocol (Fault.code), which is what CloudTrail shows
    error_message: str | None = None

    @property
    def denied(self) -> bool:
        judged = self.verdict is not None and not self.verdict.allowed
        return self.refused or judged or self.error_code in DENIALS

    @property
    def bounded(self) -> bool:
        """Denied or failed, or nobody was asked, though the server is secured. It can be had again and again, and
        changes nothing: of such there is a bound to what is written."""
        unasked = self.principal is not None and self.verdict is None
        return self.denied or self.error_code is not None or unasked

    @property
    def verified(self) -> bool:
        """Whether the caller was made sure of: strangers cannot act under its name."""
        return self.principal is not None and self.principal.kind != "anonymous"

    @property
    def gave_credentials(self) -> bool:
        answered = self.error_code is None and not self.denied
        return answered and kept(self.service, self.action).gives_credentials

    @property
    def caller(self) -> str:
        """Under which name what is bounded is counted."""
        return caller_name(self.principal, self.source_ip)

    @property
    def decision(self) -> str:
        if self.denied:
            return "denied"
        # What failed before anybody was asked was not allowed by anybody; what was done, was.
        return "none" if self.verdict is None and self.error_code is not None else "allowed"


def cloudtrail(event: AuditEvent) -> dict[str, Any]:
    what = kept(event.service, event.action)
    parameters, cut = _parameters(event)
    told: dict[str, Any] = {
        "eventVersion": EVENT_VERSION,
        "userIdentity": _identity(event),
        "eventTime": iso_time(event.at_ms / 1000),
        "eventSource": f"{event.service}.amazonaws.com",
        "eventName": _cut(event.action) or "Unknown",
        "awsRegion": event.region,
        "sourceIPAddress": event.source_ip,
        "userAgent": _cut(event.user_agent),
    }
    if event.error_code is not None:
        told["errorCode"] = event.error_code
        if event.error_message and _may_be_told(event, what):
            told["errorMessage"] = event.error_message[:ERROR_TEXT_MAX]
    told |= {
        "requestParameters": parameters,
        "responseElements": event.response,
        "additionalEventData": _decision(event) | cut,
        "requestID": event.request_id,
        "eventID": str(uuid.uuid4()),
        "readOnly": what.read_only,
        "eventType": "AwsApiCall",
        "managementEvent": what.category != "Data",
        "recipientAccountId": _recipient(event),
        "eventCategory": what.category or "Management",
    }
    if event.resource:
        told["resources"] = [_resource(event.resource)]
    if details := _tls(event):
        told["tlsDetails"] = details
    return told


def notice(at_ms: int, name: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """What the trail has to say about itself."""
    return {
        "eventVersion": EVENT_VERSION,
        "eventTime": iso_time(at_ms / 1000),
        "eventSource": NOTICE_SOURCE,
        "eventName": name,
        "eventID": str(uuid.uuid4()),
        "eventType": "AwsServiceEvent",
        "managementEvent": True,
        "eventCategory": "Management",
        "serviceEventDetails": details,
    }


def encoded(told: Mapping[str, Any]) -> bytes:
    """One line."""
    return spelled(told) + b"\n"


def _identity(event: AuditEvent) -> dict[str, Any]:
    principal = event.principal
    if principal is None:
        claimed = {"accessKeyId": _cut(event.access_key)} if event.access_key else {}
        return {"type": "Unknown", **claimed}
    if principal.kind == "anonymous":
        return {"type": "AWSAccount", "principalId": "", "accountId": "ANONYMOUS_PRINCIPAL"}
    told: dict[str, Any] = {
        "type": _type(principal),
        "principalId": principal.id,
        "arn": principal.arn,
        "accountId": principal.account,
        "accessKeyId": principal.access_key,
    }
    if principal.name is not None:
        told["userName"] = principal.name
    if principal.role_arn is not None:
        told["sessionContext"] = {
            "sessionIssuer": {
                "type": "Role",
                "principalId": principal.id.partition(":")[0],
                "arn": principal.role_arn,
                "accountId": principal.account,
                "userName": principal.role_arn.rpartition("/")[2],
            }
        }
    return told


def _type(principal: Principal) -> str:
    if principal.kind == "root":
        return "Root"
    # What GetSessionToken gave a user acts as the user.
    return "AssumedRole" if principal.role_arn is not None else "IAMUser"


def _parameters(event: AuditEvent) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """What is written of them and, if that is not all, how large they were."""
    if event.parameters is None:
        return None, {}
    size = len(plain(event.parameters))
    most = BOUNDED_PARAMETERS_BYTES_MAX if event.bounded else PARAMETERS_BYTES_MAX
    if size <= most and len(spelled(event.parameters)) <= most:
        return event.parameters, {}
    return fitted(event.parameters, most), {"parametersSize": size}


def _decision(event: AuditEvent) -> dict[str, Any]:
    """Ours: CloudTrail does not say which statement decided."""
    told: dict[str, Any] = {"decision": event.decision}
    if event.verdict is not None:
        told |= {"policy": event.verdict.policy, "statement": event.verdict.statement}
        if not event.verdict.allowed:
            told["reason"] = event.verdict.reason  # a caller of another account is not told it
    return told


def _tls(event: AuditEvent) -> dict[str, str]:
    """The certificate is ours: CloudTrail knows none."""
    told = {"clientProvidedHostHeader": _cut(event.host)} if event.secure else {}
    return told | {"clientCertificateSubject": _cut(event.certificate)} if event.certificate else told


def _may_be_told(event: AuditEvent, what: Kept) -> bool:
    managed = what.category == "Management" and not event.denied
    return managed or event.error_code in _QUOTES_NOTHING


def _recipient(event: AuditEvent) -> str:
    if parts := _arn_parts(event.resource):
        return parts[4]
    return event.principal.account if event.principal and event.principal.account else event.account


def _resource(arn: str) -> dict[str, str]:
    parts = _arn_parts(arn)
    kind = {"sqs": "AWS::SQS::Queue", "iam": "AWS::IAM::Role"}.get(parts[2]) if parts else None
    return {"accountId": parts[4], "type": kind, "ARN": _cut(arn)} if kind else {"ARN": _cut(arn)}


def _arn_parts(arn: str) -> list[str]:
    """Six, of which a role leaves the region empty; none if it is no ARN."""
    parts = arn.split(":", 5)
    return parts if len(parts) == 6 else []


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX]
