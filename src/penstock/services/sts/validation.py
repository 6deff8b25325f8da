"""Validation of STS requests: the constraints of the model (:mod:`.structs`), and what they cannot say."""

from __future__ import annotations

from penstock.services.sts.faults import access_denied, invalid_parameter_value, validation_error
from penstock.services.sts.structs import AssumeRoleRequest, GetSessionTokenRequest
from penstock.wire.constraints import Constraints

_CONSTRAINTS = Constraints(validation_error, shown_list=lambda members: str(len(members)))


def check_assume_role(request: AssumeRoleRequest) -> None:
    _CONSTRAINTS.check(request)
    _check_tags_agree(request)
    _check_no_mfa(request)
    for name in ("PolicyArns", "SourceIdentity", "ProvidedContexts", "MinimumSessionTokenSize"):
        if getattr(request, name):
            raise validation_error(f"{name} is not supported by this server.")


def check_get_session_token(request: GetSessionTokenRequest) -> None:
    _CONSTRAINTS.check(request)
    _check_no_mfa(request)
    if request.MinimumSessionTokenSize:
        raise validation_error("MinimumSessionTokenSize is not supported by this server.")


def _check_tags_agree(request: AssumeRoleRequest) -> None:
    keys = [(tag.Key or "").lower() for tag in request.Tags or ()]
    if len(set(keys)) != len(keys):
        raise invalid_parameter_value(
            "Duplicate tag keys found. Please note that Tag keys are case insensitive."
        )
    if any(key.startswith("aws:") for key in keys):
        raise invalid_parameter_value("Tag keys must not begin with 'aws:'. This prefix is reserved.")
    if not {key.lower() for key in request.TransitiveTagKeys or ()} <= set(keys):
        raise invalid_parameter_value(
            "The specified transitive tag key must be included in the requested tags."
        )


def _check_no_mfa(request: AssumeRoleRequest | GetSessionTokenRequest) -> None:
    """No MFA devices are supported, so no code can be valid."""
    if request.SerialNumber is not None or request.TokenCode is not None:
        raise access_denied("MultiFactorAuthentication failed with invalid MFA one time pass code.")
