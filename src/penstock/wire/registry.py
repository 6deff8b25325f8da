"""What a face tells the wire: its operations, a pair of structs and a handler each, and its error words."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from penstock.wire.call import Call

Handler = Callable[[Any, Call], Coroutine[Any, None, Any]]
"""(request struct, call) -> response struct, or None for an action that answers with an empty body."""


_MESSAGE_MAX = 4096


def _bounded(message: str) -> str:
    """Some quote what was sent, which may be megabytes."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"


class Fault(Exception):
    """An error in the words of the wire.

    ``shape`` is the last part of ``__type``; ``code`` what older clients read (``x-amzn-query-error``, XML
    ``Code``), and ``query_message`` what they are told where the Query protocol has other words.
    """

    def __init__(
        self,
        shape: str,
        code: str,
        status: int,
        message: str,
        *,
        modelled: bool,
        query_message: str | None = None,
    ) -> None:
        message = _bounded(message)
        super().__init__(message)
        self.shape = shape
        self.code = code
        self.status = status
        self.message = message
        self.modelled = modelled  # in the service's own model, or one of the framework's errors
        self.query_message = message if query_message is None else _bounded(query_message)

    @property
    def sender_fault(self) -> bool:
        return self.status < 500

    @property
    def blame(self) -> str:
        return "Sender" if self.sender_fault else "Receiver"


class Operation(msgspec.Struct, frozen=True):
    name: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct] | None
    handler: Handler


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One AWS service as the wire sees it."""

    signing_name: str  # "sqs": the service in a signature's credential scope
    target_prefix: str  # "AmazonSQS": what stands before the action in X-Amz-Target
    shape_namespace: str  # "com.amazonaws.sqs": what stands before a modelled error's shape in __type
    xml_namespace: str  # of its answers in the Query protocol; empty if the service does not speak that
    operations: Mapping[str, Operation]
    to_fault: Callable[[Exception], Fault | None]  # a domain error in this service's words
