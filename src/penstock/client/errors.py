"""What can go wrong: the server refuses a request, or there is no answer that can be used."""

from __future__ import annotations

_THROTTLED = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "SlowDown",
        "TransactionInProgressException",
        "ProvisionedThroughputExceededException",
        "KmsThrottled",
        "KMS.ThrottlingException",
        "KMSThrottling",
    }
)
_UNKNOWN_KEYS = frozenset(
    {
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "IncompleteSignature",
        "IncompleteSignatureException",
    }
)
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})


class ApiError(Exception):
    """The server refused a request.

    For example:

        try:
            await client.purge_queue("orders")
        except ApiError as error:
            log.error("%s: %s", error.code, error.message)
    """

    def __init__(self, code: str, message: str, status: int, request_id: str = "") -> None:
        """Describe what the server refused.

        :param code: The error code of SQS or of the admin API.
        :param message: The text of the server.
        :param status: The HTTP status.
        :param request_id: The id of the request, for the logs of the server. Empty by default.
        """
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def is_denied(self) -> bool:
        """Whether the caller lacks a permission."""
        # SNS: its own code for what other services call AccessDenied.
        return self.code.startswith("AccessDenied") or self.code == "AuthorizationError"

    @property
    def is_unauthenticated(self) -> bool:
        """Whether the server does not know the keys, or the signature is wrong."""
        return self.code in _UNKNOWN_KEYS

    @property
    def is_missing_queue(self) -> bool:
        """Whether the queue does not exist. The admin API and the protocols of SQS have different codes for it."""
        return self.code.endswith(("NonExistentQueue", "QueueDoesNotExist"))

    @property
    def is_missing_topic(self) -> bool:
        """Whether the topic or the subscription does not exist. SNS has one code for both, and one for their tags."""
        return self.status == 404 and self.code in ("NotFound", "ResourceNotFound")

    @property
    def is_invalid_receipt_handle(self) -> bool:
        """Whether the receipt handle is malformed, of another queue, or no longer valid: the message was deleted,
        received again, or is visible again."""
        return self.code.endswith(("ReceiptHandleIsInvalid", "MessageNotInflight"))

    @property
    def is_throttled(self) -> bool:
        """Whether there were too many requests: the same one succeeds later."""
        return self.status == 429 or self.code in _THROTTLED

    @property
    def is_expired_token(self) -> bool:
        """Whether the keys are temporary ones whose time is over."""
        return self.code in _EXPIRED


class QueueDoesNotExist(ApiError):
    """There is no queue of this name or URL, in this region and for these keys."""


class TopicDoesNotExist(ApiError):
    """There is no topic, or no subscription, of this ARN or name."""


class Forbidden(ApiError):
    """The signature is wrong, or the caller lacks a permission."""


class Throttled(ApiError):
    """Too many requests: the same one succeeds later."""


class InvalidReceiptHandle(ApiError):
    """The receipt handle is of another queue, or no longer valid."""


class Unavailable(Exception):
    """The server cannot be reached, or the peer is not an SQS server."""


class ChecksumMismatch(Exception):
    """What the server has stored or returned is not what was sent: the MD5 differs."""


class NotWritten(Exception):
    """What was downloaded cannot be written: an error of this machine, not of the server."""


def api_error(code: str, message: str, status: int, request_id: str) -> ApiError:
    """Returns the error of the class that fits the code."""
    plain = ApiError(code, message, status, request_id)
    if plain.is_missing_queue:
        kind: type[ApiError] = QueueDoesNotExist
    elif plain.is_missing_topic:
        kind = TopicDoesNotExist
    elif plain.is_throttled:
        kind = Throttled
    elif plain.is_invalid_receipt_handle:
        kind = InvalidReceiptHandle
    elif status == 403:
        kind = Forbidden
    else:
        return plain
    return kind(code, message, status, request_id)


def is_final(error: Exception) -> bool:
    """Whether the same request gets the same answer again."""
    return isinstance(error, ApiError) and 400 <= error.status < 500 and not error.is_throttled
