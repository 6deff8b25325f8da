"""The errors of STS, in its words."""

from __future__ import annotations

from penstock.errors import SignatureMissing
from penstock.wire.service import Fault


def access_denied(message: str) -> Fault:
    return _fault("AccessDenied", 403, message)


def not_authorized(arn: str, action: str, resource: str) -> Fault:
    """AWS: whether the role is there, and which policy said no, is not for the caller to know."""
    return access_denied(f"User: {arn} is not authorized to perform: {action} on resource: {resource}")


def unsigned() -> Fault:
    return _fault("MissingAuthenticationToken", 403, "Request is missing Authentication Token")


def validation_error(message: str) -> Fault:
    return _fault("ValidationError", 400, message)


def invalid_parameter_value(message: str) -> Fault:
    return _fault("InvalidParameterValue", 400, message)


def malformed_policy(message: str) -> Fault:
    return _fault("MalformedPolicyDocument", 400, message)


def packed_too_large(message: str) -> Fault:
    return _fault("PackedPolicyTooLarge", 400, message)


def to_fault(error: Exception) -> Fault | None:
    return unsigned() if isinstance(error, SignatureMissing) else None


def _fault(code: str, status: int, message: str) -> Fault:
    return Fault(code, code, status, message, modelled=False)
