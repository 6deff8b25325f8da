"""The errors of the framework beneath every AWS service: the same shapes, codes and statuses for each."""

from __future__ import annotations

from penstock.errors import (
    DataRefused,
    NotOwned,
    StoreAway,
    StoreBroken,
    StoreError,
    StoreFull,
    StoreUnknown,
    Unreachable,
)
from penstock.wire.service import Fault


def invalid_parameter(message: str) -> Fault:
    return _fault("InvalidParameterValueException", "InvalidParameterValue", 400, message)


def missing_parameter(name: str) -> Fault:
    message = f"The request must contain the parameter {name}."
    return _fault("MissingRequiredParameterException", "MissingParameter", 400, message)


def malformed_input(message: str) -> Fault:
    return _fault("SerializationException", "MalformedInput", 400, message)


def invalid_action(message: str) -> Fault:
    return _fault("UnknownOperationException", "InvalidAction", 400, message)


def no_such_path(message: str) -> Fault:
    return _fault("UnknownOperationException", "InvalidAction", 404, message)


def access_denied(message: str) -> Fault:
    return _fault("AccessDeniedException", "AccessDenied", 403, message)


def unknown_client(message: str) -> Fault:
    return _fault("UnrecognizedClientException", "InvalidClientTokenId", 403, message)


def expired_token() -> Fault:
    message = "The security token included in the request is expired"
    return _fault("ExpiredTokenException", "ExpiredToken", 403, message)


def wrong_signature(message: str) -> Fault:
    return _fault("InvalidSignatureException", "SignatureDoesNotMatch", 403, message)


def wrong_service(name: str) -> Fault:
    return wrong_signature(f"Credential should be scoped to correct service: '{name}'.")


def incomplete_signature(message: str) -> Fault:
    return _fault("IncompleteSignatureException", "IncompleteSignature", 400, message)


def request_throttled() -> Fault:
    # 403 as SQS has it: SDKs repeat the request for this code only with this status.
    return _fault("RequestThrottled", "RequestThrottled", 403, "Request is throttled.")


def internal_error() -> Fault:
    message = "We encountered an internal error. Please try again."
    return _fault("InternalFailure", "InternalError", 500, message)


def service_unavailable(message: str) -> Fault:
    return _fault("ServiceUnavailableException", "ServiceUnavailable", 503, message)


def store_fault(error: StoreError | NotOwned) -> Fault:
    """Every SDK repeats a request that got 503; the words say whether anything was changed.

    Repeating does not help where the data of the request itself cannot be stored: that is 400."""
    if isinstance(error, NotOwned):
        return service_unavailable("The queue is being moved to another server. Nothing was changed.")
    if isinstance(error, DataRefused):
        return invalid_parameter("The request has a value that cannot be stored. Nothing was changed.")
    if isinstance(error, StoreAway):
        return service_unavailable("The database cannot be reached. Nothing was changed.")
    if isinstance(error, StoreFull):
        return service_unavailable("The disk that holds the data is full. Nothing was changed.")
    if isinstance(error, Unreachable):
        return service_unavailable(str(error) or "Another node does not answer. Try again.")
    if isinstance(error, (StoreUnknown, StoreBroken)):
        return service_unavailable("It is not known whether the change was stored: it may have been.")
    return service_unavailable("The change could not be stored. Nothing was changed.")


def _fault(shape: str, code: str, status: int, message: str) -> Fault:
    return Fault(shape, code, status, message, modelled=False)
