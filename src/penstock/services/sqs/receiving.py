"""What a receive returns of each message: the attributes that were asked for, and digests of those."""

from __future__ import annotations

from collections.abc import Callable

from penstock.queues.messages import Received
from penstock.services.sqs.checksums import md5_of_attributes, md5_of_body
from penstock.services.sqs.message_attributes import TRACE_HEADER, to_wire
from penstock.services.sqs.operations import Message, ReceiveMessageRequest
from penstock.services.sqs.outgoing import sequence_number
from penstock.wire.faults import invalid_parameter

_NAMES_LENGTH_MAX = 16 * 1024

_SYSTEM_ATTRIBUTES: dict[str, Callable[[Received], str | None]] = {
    "SenderId": lambda received: received.content.sender,
    "SentTimestamp": lambda received: str(received.content.sent_ms),
    "ApproximateReceiveCount": lambda received: str(received.receives),
    "ApproximateFirstReceiveTimestamp": lambda received: str(received.first_received_ms),
    TRACE_HEADER: lambda received: received.content.trace,
    "MessageGroupId": lambda received: received.group,
    "MessageDeduplicationId": lambda received: received.content.dedup_id,
    "SequenceNumber": lambda received: sequence_number(received.sequence),
    "DeadLetterQueueSourceArn": lambda received: received.source,
}
_ALL_SYSTEM = tuple(_SYSTEM_ATTRIBUTES)


class AttributeSelection:
    """Which attributes one ReceiveMessage asks for.

    A receive may wait for long, and a list of thousands of names takes hundreds of kilobytes: only the known names of
    system attributes are kept, and the names of user attributes as one string.
    """

    __slots__ = ("_system", "_user")

    def __init__(self, request: ReceiveMessageRequest) -> None:
        """Takes the lists out of the request."""
        # SQS: the old list and the new one mean the same, and add up.
        self._system = _known(request.AttributeNames, "AttributeNames") | _known(
            request.MessageSystemAttributeNames, "MessageSystemAttributeNames"
        )
        names = _bounded(request.MessageAttributeNames, "MessageAttributeNames")
        self._user = "\n".join(name for name in names if "\n" not in name)  # no attribute has such a name
        request.AttributeNames = request.MessageSystemAttributeNames = request.MessageAttributeNames = None

    def of(self, received: list[Received]) -> list[Message]:
        matches = _name_filter(self._user.split("\n")) if self._user else None
        return [self._message(each, matches) for each in received]

    def _message(self, received: Received, matches: Callable[[str], bool] | None) -> Message:
        content = received.content
        message = Message(
            MessageId=content.id,
            ReceiptHandle=received.handle,
            MD5OfBody=md5_of_body(content.body),
            Body=content.body,
        )
        if self._system:
            values = {
                name: _SYSTEM_ATTRIBUTES[name](received) for name in _ALL_SYSTEM if name in self._system
            }
            message.Attributes = {name: value for name, value in values.items() if value is not None} or None
        if matches is not None and content.attributes:
            shown = {name: value for name, value in content.attributes.items() if matches(name)}
            if shown:
                message.MD5OfMessageAttributes = md5_of_attributes(shown)
                message.MessageAttributes = to_wire(shown)
        return message


def _known(names: list[str] | None, member: str) -> frozenset[str]:
    if not names:
        return frozenset()
    _bounded(names, member)
    return frozenset(_ALL_SYSTEM) if "All" in names else frozenset(_ALL_SYSTEM).intersection(names)


def _bounded(names: list[str] | None, member: str) -> list[str]:
    if names and sum(map(len, names)) > _NAMES_LENGTH_MAX:
        raise invalid_parameter(f"The names in {member} are longer than {_NAMES_LENGTH_MAX} in all.")
    return names or []


def _name_filter(names: list[str]) -> Callable[[str], bool]:
    """Which user attributes match. SQS: a name that cannot exist matches nothing."""
    if not {"All", "*", ".*"}.isdisjoint(names):
        return lambda _: True
    exact = frozenset(names)
    prefixes = tuple(name[:-2] for name in exact if name.endswith(".*"))
    return lambda name: name in exact or name.startswith(prefixes)
