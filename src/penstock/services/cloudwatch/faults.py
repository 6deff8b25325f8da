"""The errors of CloudWatch: each shape with its older code and status, and the text for each error of the domain.

Newer clients get status 400 for all errors of theirs, unless they ask for the statuses of the Query protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.auth.authorize import AccessDenied
from penstock.errors import (
    AlarmMissing,
    ClientGone,
    DashboardMissing,
    ExpressionInvalid,
    QuotaReached,
    RuleInvalid,
    SignatureMissing,
    TooManyWaiting,
    TooMuchWork,
)
from penstock.wire.faults import access_denied
from penstock.wire.service import NO_MEMBERS, Fault

_VALIDATION_NAMESPACE = "com.amazon.coral.validate"
_SHAPES: dict[str, tuple[str, int]] = {
    "InvalidParameterValueException": ("InvalidParameterValue", 400),
    "InvalidParameterCombinationException": ("InvalidParameterCombination", 400),
    "MissingRequiredParameterException": ("MissingParameter", 400),
    "LimitExceededFault": ("LimitExceeded", 400),
    "InvalidNextToken": ("InvalidNextToken", 400),
    "InvalidFormatFault": ("InvalidFormat", 400),
    "ResourceNotFound": ("ResourceNotFound", 404),
    "ResourceNotFoundException": ("ResourceNotFoundException", 404),
    "DashboardInvalidInputError": ("InvalidParameterInput", 400),
    "DashboardNotFoundError": ("ResourceNotFound", 404),
}


def cloudwatch_fault(shape: str, message: str, members: Mapping[str, Any] = NO_MEMBERS) -> Fault:
    code, status = _SHAPES[shape]
    return Fault(shape, code, status, message, modelled=True, plain_status=400, members=members)


def invalid_value(message: str) -> Fault:
    return cloudwatch_fault("InvalidParameterValueException", message)


def invalid_combination(message: str) -> Fault:
    return cloudwatch_fault("InvalidParameterCombinationException", message)


def missing(parameter: str) -> Fault:
    message = f"The parameter {parameter} is required."
    return cloudwatch_fault("MissingRequiredParameterException", message)


def validation_error(message: str) -> Fault:
    return Fault(
        "ValidationException",
        "ValidationError",
        400,
        message,
        modelled=False,
        namespace=_VALIDATION_NAMESPACE,
    )


def not_supported(member: str) -> Fault:
    return validation_error(f"{member} is not supported by this server.")


def to_fault(error: Exception) -> Fault | None:
    match error:
        case SignatureMissing():
            text = "Request is missing Authentication Token"
            return Fault(
                "MissingAuthenticationToken", "MissingAuthenticationToken", 403, text, modelled=False
            )
        case AccessDenied():
            return access_denied(str(error))
        case AlarmMissing():
            return cloudwatch_fault("ResourceNotFound", "")
        case DashboardMissing():
            return cloudwatch_fault("DashboardNotFoundError", f"Dashboard {error.name} does not exist")
        case QuotaReached():
            text = f"The account may have {error.most} {error.what}, and no more."
            return cloudwatch_fault("LimitExceededFault", text)
        case TooMuchWork():
            text = "The request takes too long to compute: ask for a shorter time, longer periods or fewer metrics."
            return validation_error(text)
        case TooManyWaiting():
            return Fault("ThrottlingException", "Throttling", 400, "Rate exceeded", modelled=False)
        case ClientGone():  # for the metrics and the audit log
            return Fault(
                "RequestCanceled", "RequestCanceled", 400, "The client disconnected.", modelled=False
            )
        case RuleInvalid():
            return validation_error(f"Error parsing the alarm rule: {error}.")
        case ExpressionInvalid():
            return validation_error(f"Error in expression: {error}.")
    return None
