"""The errors of SNS: each shape with its code and status, and the text for each error of the domain."""

from __future__ import annotations

from penstock.auth.authorize import AccessDenied
from penstock.errors import (
    DedupFull,
    KeyDisabled,
    KeyUnavailable,
    QuotaReached,
    SignatureMissing,
    TooManyWaiting,
)
from penstock.publishing.errors import SubscriptionMissing, TokenUnknown, TopicMissing
from penstock.wire.service import Fault

_VALIDATION_NAMESPACE = "com.amazon.coral.validate"
_SHAPES: dict[str, tuple[str, int]] = {
    "InvalidParameterException": ("InvalidParameter", 400),
    "InvalidParameterValueException": ("ParameterValueInvalid", 400),
    "AuthorizationErrorException": ("AuthorizationError", 403),
    "NotFoundException": ("NotFound", 404),
    "ResourceNotFoundException": ("ResourceNotFound", 404),
    "InvalidStateException": ("InvalidState", 400),
    "BatchEntryIdsNotDistinctException": ("BatchEntryIdsNotDistinct", 400),
    "BatchRequestTooLongException": ("BatchRequestTooLong", 400),
    "EmptyBatchRequestException": ("EmptyBatchRequest", 400),
    "InvalidBatchEntryIdException": ("InvalidBatchEntryId", 400),
    "TooManyEntriesInBatchRequestException": ("TooManyEntriesInBatchRequest", 400),
    "EndpointDisabledException": ("EndpointDisabled", 400),
    "PlatformApplicationDisabledException": ("PlatformApplicationDisabled", 400),
    "OptedOutException": ("OptedOut", 400),
    "UserErrorException": ("UserError", 400),
    "TagLimitExceededException": ("TagLimitExceeded", 400),
    "TopicLimitExceededException": ("TopicLimitExceeded", 403),
    "SubscriptionLimitExceededException": ("SubscriptionLimitExceeded", 403),
    "FilterPolicyLimitExceededException": ("FilterPolicyLimitExceeded", 403),
    "ThrottledException": ("Throttled", 429),
    "KMSDisabledException": ("KMSDisabled", 400),
    "KMSNotFoundException": ("KMSNotFound", 400),
}


class AttributeInvalid(Exception):
    """An attribute of a topic or subscription cannot be set. The text is what SNS says after "Invalid parameter: ".

    Creating the topic or the subscription with it has a few words more."""


def sns_fault(shape: str, message: str) -> Fault:
    code, status = _SHAPES[shape]
    return Fault(shape, code, status, message, modelled=True)


def invalid(text: str) -> Fault:
    return sns_fault("InvalidParameterException", f"Invalid parameter: {text}")


def invalid_attributes(text: str) -> Fault:
    return invalid(f"Attributes Reason: {text}")


def no_value(parameter: str) -> Fault:
    return invalid(f"{parameter} Reason: no value for required parameter")


def invalid_message_attribute(message: str) -> Fault:
    return sns_fault("InvalidParameterValueException", message)


def not_found(message: str) -> Fault:
    return sns_fault("NotFoundException", message)


def authorization_error(message: str) -> Fault:
    return sns_fault("AuthorizationErrorException", message)


def not_supported(action: str, where: str = "in this region") -> Fault:
    message = f"Operation ({action}) is not supported {where}"
    return Fault("InvalidAction", "InvalidAction", 400, message, modelled=False)


def validation_error(message: str) -> Fault:
    return Fault(
        "ValidationException",
        "ValidationError",
        400,
        message,
        modelled=False,
        namespace=_VALIDATION_NAMESPACE,
    )


def to_fault(error: Exception) -> Fault | None:
    match error:
        case SignatureMissing():
            text = "Request is missing Authentication Token"
            return Fault(
                "MissingAuthenticationToken", "MissingAuthenticationToken", 403, text, modelled=False
            )
        case AccessDenied():
            return authorization_error(str(error))
        case TopicMissing():
            return not_found("Topic does not exist")
        case SubscriptionMissing():
            return not_found("Subscription does not exist")
        case TokenUnknown():
            return invalid("Token")
        case AttributeInvalid():
            return invalid(str(error))
        case KeyUnavailable():
            return _key_fault(error)
        case DedupFull() | TooManyWaiting():
            return sns_fault("ThrottledException", "Rate exceeded")
        case QuotaReached():
            return _quota_fault(error)
    return None


def _quota_fault(error: QuotaReached) -> Fault:
    if error.what == "topics":
        return sns_fault("TopicLimitExceededException", "Topic limit exceeded")
    if error.what == "subscriptions":
        return sns_fault("SubscriptionLimitExceededException", "Subscription limit exceeded")
    if error.what == "filter policies":
        return sns_fault("FilterPolicyLimitExceededException", "Filter policy limit exceeded")
    return sns_fault("ThrottledException", f"The account may have {error.most} {error.what}, and no more.")


def _key_fault(error: KeyUnavailable) -> Fault:
    """SNS passes the texts of KMS on."""
    if isinstance(error, KeyDisabled):
        return sns_fault("KMSDisabledException", f"{error.key} is disabled.")
    if ":alias/" in error.key:
        return sns_fault("KMSNotFoundException", f"Alias {error.key} is not found.")
    return sns_fault("KMSNotFoundException", f"Key '{error.key}' does not exist")
