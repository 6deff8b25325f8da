"""ReceiveMessage: what a receive may ask for, and what it returns of each message."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5

from penstock.broker.waiting import Ask
from penstock.errors import DecideAgain
from penstock.limits import SECOND
from penstock.queues.messages import Received
from penstock.services.sqs.limits import (
    RECEIVE_COUNT_MAX,
    RECEIVE_NAMES_LENGTH_MAX,
    VISIBILITY_S_MAX,
    WAIT_S_MAX,
)
from penstock.services.sqs.message_attributes import TRACE_HEADER, to_wire
from penstock.services.sqs.resources import Sqs
from penstock.services.sqs.sending import md5_of_attributes, sequence_number
from penstock.services.sqs.structs import Message, ReceiveMessageRequest, ReceiveMessageResult
from penstock.services.sqs.validation import check_id, check_range
from penstock.turns import Steps
from penstock.wire.faults import invalid_parameter
from penstock.wire.service import Call

SYSTEM_ATTRIBUTES: dict[str, Callable[[Received], str | None]] = {
    "SenderId": lambda received: received.content.sender,
    "SentTimestamp": lambda received: str(received.content.sent_ms),
    "ApproximateReceiveCount": lambda received: str(received.receives),
    "ApproximateFirstReceiveTimestamp": lambda received: str(received.first_received_ms),
    TRACE_HEADER: lambda received: received.content.trace,
    "MessageGroupId": lambda received: received.group,
    "MessageDeduplicationId": lambda received: received.content.dedup_id,
    "SequenceNumber": lambda received: (
        None if received.sequence is None else sequence_number(received.sequence)
    ),
    "DeadLetterQueueSourceArn": lambda received: received.source,
}
_LARGE = 512 * 1024  # characters of all bodies: their checksums alone take a millisecond
_ALL_SYSTEM = frozenset(SYSTEM_ATTRIBUTES)
_NO_SYSTEM: frozenset[str] = frozenset()


async def receive_message(sqs: Sqs, request: ReceiveMessageRequest, call: Call) -> ReceiveMessageResult:
    queue = call.resource.queue
    count, wait_s = request.MaxNumberOfMessages, request.WaitTimeSeconds
    visibility_s = request.VisibilityTimeout
    if count is not None:
        reason = f"Must be between 1 and {RECEIVE_COUNT_MAX}, if provided."
        check_range(count, 1, RECEIVE_COUNT_MAX, "MaxNumberOfMessages", reason)
    if visibility_s is not None:
        reason = f"Must be >= 0 and <= {VISIBILITY_S_MAX}, if provided."
        check_range(visibility_s, 0, VISIBILITY_S_MAX, "VisibilityTimeout", reason)
    if wait_s is not None:
        reason = f"Must be >= 0 and <= {WAIT_S_MAX}, if provided."
        check_range(wait_s, 0, WAIT_S_MAX, "WaitTimeSeconds", reason)
    selection = AttributeSelection(request)
    if not queue.settings.fifo:
        request.ReceiveRequestAttemptId = None  # SQS: a standard queue ignores it, whatever it says.
    elif request.ReceiveRequestAttemptId is not None:
        check_id(request.ReceiveRequestAttemptId, "ReceiveRequestAttemptId")
    try:
        received = await queue.receive(
            Ask(
                count or 1,
                None if visibility_s is None else visibility_s * SECOND,
                request.ReceiveRequestAttemptId,
                call.requester,
            ),
            call,
            None if wait_s is None else wait_s * SECOND,
        )
    except DecideAgain:
        selection.put_back(request)
        raise
    if call.traces is not None:
        call.traces += [each.content.trace for each in received if each.content.trace]
    size = 0
    for each in received:
        size += len(each.content.body)
    if size > _LARGE:
        call.is_large = True
        messages = await sqs.broker.turns.run(_in_steps(selection, received), queue.name.account)
    else:
        messages = selection.of(received)
    return ReceiveMessageResult(Messages=messages or None)


def _in_steps(selection: AttributeSelection, received: list[Received]) -> Steps[list[Message]]:
    messages: list[Message] = []
    for each in received:
        messages += selection.of([each])
        yield
    return messages


class AttributeSelection:
    """Which attributes one ReceiveMessage asks for.

    A receive may wait for long, and a list of thousands of names takes hundreds of kilobytes: only the
    known names of system attributes are kept, and the names of user attributes as one string.
    """

    __slots__ = ("_system", "_user")

    def __init__(self, request: ReceiveMessageRequest) -> None:
        """Takes the lists out of the request."""
        self._system, self._user = _NO_SYSTEM, ""
        # SQS: the old list and the new one mean the same, and add up.
        if request.AttributeNames:
            self._system |= _known(request.AttributeNames, "AttributeNames")
        if request.MessageSystemAttributeNames:
            self._system |= _known(request.MessageSystemAttributeNames, "MessageSystemAttributeNames")
        if request.MessageAttributeNames:
            _check_length(request.MessageAttributeNames, "MessageAttributeNames")
            # No attribute has a name with a line feed.
            self._user = "\n".join(name for name in request.MessageAttributeNames if "\n" not in name)
        request.AttributeNames = request.MessageSystemAttributeNames = request.MessageAttributeNames = None

    def put_back(self, request: ReceiveMessageRequest) -> None:
        """Let the request ask for the same again."""
        request.MessageSystemAttributeNames = list(self._system)
        request.MessageAttributeNames = self._user.split("\n") if self._user else None

    def of(self, received: list[Received]) -> list[Message]:
        matches = _name_filter(self._user.split("\n")) if self._user else None
        messages = []
        for each in received:
            content = each.content
            message = Message(
                MessageId=content.id,
                ReceiptHandle=each.handle,
                MD5OfBody=md5(content.body.encode(), usedforsecurity=False).hexdigest(),
                Body=content.body,
            )
            if self._system:
                message.Attributes = self._system_attributes(each) or None
            if matches is not None and content.attributes:
                shown = {name: value for name, value in content.attributes.items() if matches(name)}
                if shown:
                    message.MD5OfMessageAttributes = md5_of_attributes(shown)
                    message.MessageAttributes = to_wire(shown)
            messages.append(message)
        return messages

    def _system_attributes(self, received: Received) -> dict[str, str]:
        shown = {}
        for name, read in SYSTEM_ATTRIBUTES.items():
            if name in self._system and (value := read(received)) is not None:
                shown[name] = value
        return shown


def _known(names: list[str], member: str) -> frozenset[str]:
    _check_length(names, member)
    return _ALL_SYSTEM if "All" in names else _ALL_SYSTEM.intersection(names)


def _check_length(names: list[str], member: str) -> None:
    if sum(map(len, names)) > RECEIVE_NAMES_LENGTH_MAX:
        raise invalid_parameter(f"The names in {member} are longer than {RECEIVE_NAMES_LENGTH_MAX} in all.")


def _name_filter(names: list[str]) -> Callable[[str], bool]:
    """Which user attributes match. SQS: a name that cannot exist matches nothing."""
    if not {"All", "*", ".*"}.isdisjoint(names):
        return lambda _: True
    exact = frozenset(names)
    prefixes = tuple(name[:-2] for name in exact if name.endswith(".*"))
    return lambda name: name in exact or name.startswith(prefixes)
