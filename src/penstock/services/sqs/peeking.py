"""LocalStack's page of all messages of a queue, ``/_aws/sqs/messages``: a ReceiveMessage that changes nothing.

Tools that people have already read it, and so do clients of AWS with that address as their endpoint. Of the request
only the queue counts, and whether delayed messages and those in flight are shown; all attributes are returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from types import MappingProxyType
from typing import Annotated

import msgspec

from penstock.broker.inspection import MessageView
from penstock.queues.filters import MessageFilter
from penstock.queues.messages import Content, Received, State, sequence_of
from penstock.services.sqs import SERVICE
from penstock.services.sqs.message_attributes import to_wire
from penstock.services.sqs.receiving import SYSTEM_ATTRIBUTES
from penstock.services.sqs.resources import Sqs, queue_of_url
from penstock.services.sqs.sending import md5_of_attributes
from penstock.services.sqs.structs import MessageAttributeValue, OnQueue, SqsStruct
from penstock.wire.faults import invalid_parameter
from penstock.wire.service import Action, AuditRule, Call, Service
from penstock.wire.shapes import Flat

_MESSAGES_MAX, _BYTES_MAX = 1000, 4 * 1024 * 1024  # writing them as XML keeps the loop busy
_NO_HANDLE = "SQS/BACKDOOR/ACCESS"  # LocalStack: it is good for nothing


class PeekRequest(OnQueue):
    ShowInvisible: str | None = None
    ShowDelayed: str | None = None


class PeekedMessage(SqsStruct):
    """Where LocalStack writes JSON of this, it has the names of its XML."""

    MessageId: str
    ReceiptHandle: str
    MD5OfBody: str
    Body: str
    Attributes: Annotated[dict[str, str] | None, Flat("Attribute", json="Attribute")] = None
    MD5OfMessageAttributes: str | None = None
    MessageAttributes: Annotated[
        dict[str, MessageAttributeValue] | None, Flat("MessageAttribute", json="MessageAttribute")
    ] = None


class PeekResult(SqsStruct):
    Messages: Annotated[list[PeekedMessage] | None, Flat("Message", json="Message")] = None


async def peek(sqs: Sqs, request: PeekRequest, call: Call) -> PeekResult | None:
    """The first messages, up to a bound. LocalStack: no result at all if there is none."""
    queue = call.resource.queue
    shown = {State.READY}
    if _is_set(request.ShowInvisible, "ShowInvisible"):
        shown.add(State.IN_FLIGHT)
    if _is_set(request.ShowDelayed, "ShowDelayed"):
        shown.add(State.DELAYED)
    which = MessageFilter(state="visible") if len(shown) == 1 else MessageFilter()
    found: list[PeekedMessage] = []
    after, size = None, 0
    while len(found) < _MESSAGES_MAX and size < _BYTES_MAX:
        limit = _MESSAGES_MAX - len(found)
        page = await sqs.broker.partition_of(queue).inspection.list(queue, which, after=after, limit=limit)
        for view in page.messages:
            if view.content is not None and view.state in shown:
                found.append(_peeked(view, view.content, fifo=queue.settings.fifo))
                size += view.row.size
        after = page.next
        if after is None:
            break
    return PeekResult(Messages=found) if found else None


def _is_set(value: str | None, name: str) -> bool:
    wanted = (value or "false").lower()
    if wanted not in ("true", "false"):
        raise invalid_parameter(f"Invalid value of {name}: expected true or false.")
    return wanted == "true"


def _peeked(view: MessageView, content: Content, *, fifo: bool) -> PeekedMessage:
    row = view.row
    sequence = sequence_of(row.position) if fifo else None
    received = Received(
        content, _NO_HANDLE, row.receives, row.first_received_ms, row.group, sequence, row.source
    )
    system = {name: read(received) for name, read in SYSTEM_ATTRIBUTES.items()}
    system["IsVisible"] = "true" if view.state is State.READY else "false"
    system["IsDelayed"] = "true" if view.state is State.DELAYED else "false"
    attributes = content.attributes or {}
    return PeekedMessage(
        MessageId=content.id,
        ReceiptHandle=_NO_HANDLE,
        MD5OfBody=md5(content.body.encode(), usedforsecurity=False).hexdigest(),
        Body=content.body,
        Attributes={name: value for name, value in system.items() if value is not None},
        MD5OfMessageAttributes=md5_of_attributes(attributes) if attributes else None,
        MessageAttributes=to_wire(attributes) if attributes else None,
    )


_PEEK = Action(
    "ReceiveMessage", PeekRequest, PeekResult, peek, queue_of_url, "penstock:ListMessages",
    grantable=True, read_only=True,
    audit=AuditRule(None, ("QueueUrl",)),
)  # fmt: skip

_ROWS: Mapping[str, Action] = MappingProxyType({_PEEK.name: _PEEK})

PEEKING: Service = msgspec.structs.replace(SERVICE, actions=_ROWS)
"""SQS with one action, at an address of its own."""
