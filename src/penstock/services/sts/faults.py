"""The errors of STS."""

from __future__ import annotations

from penstock.auth.authorize import AccessDenied
from penstock.errors import SignatureMissing
from penstock.wire.service import Fault


def access_denied(message: str) -> Fault:
    return _fault("AccessDenied", 403, message)


def validation_error(message: str) -> Fault:
    return _fault("ValidationError", 400, message)


def invalid_parameter_value(message: str) -> Fault:
    return _fault("InvalidParameterValue", 400, message)


def malformed_policy(message: str) -> Fault:
    return _fault("MalformedPolicyDocument", 400, message)


def packed_too_large(message: str) -> Fault:
    return _fault("PackedPolicyTooLarge", 400, message)


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, SignatureMissing):
        return _fault("MissingAuthenticationToken", 403, "Request is missing Authentication Token")
    if isinstance(error, AccessDenied):
        # AWS: the caller learns neither whether the role exists nor which policy denied it.
        asked = error.question
        return access_denied(
            f"User: {asked.principal.arn} is not authorized to perform: {asked.action} on resource: {asked.resource}"
        )
    return None


def _fault(code: str, status: int, message: str) -> Fault:
    return Fault(code, code, status, message, modelled=False)
