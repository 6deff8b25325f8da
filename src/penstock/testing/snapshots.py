"""A queue as a test sees it: all messages that are or were in it, and how that reads in a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.inspection import MessageView
    from penstock.broker.live_queue import LiveQueue
    from penstock.queues.messages import Content
    from penstock.testing.known_messages import KnownMessages

MessageState = Literal["visible", "delayed", "in flight", "deleted", "expired", "purged", "moved"]

_STATES: tuple[MessageState, ...] = ("visible", "delayed", "in flight")  # by the number of State
_PRESENT = frozenset(_STATES)
_SHOWN_MAX = 20
_BODY_SHOWN_MAX = 200
_PAGE = 1000


@dataclass(frozen=True)
class MessageSnapshot:
    """A message of a queue at one moment."""

    id: str
    """The id of the message."""
    body: str
    """The text of the message."""
    state: MessageState
    """Its state. ``moved``: to another queue, as dead letters are."""
    received: int
    """How often it was received from this queue."""
    sent: bool
    """Whether it was sent to this queue. Otherwise it was moved to it."""
    attributes: dict[str, str | bytes] = field(default_factory=dict)
    """Its message attributes. Empty by default."""
    group: str | None = None
    """Its message group. None by default."""
    source: str | None = None
    """The name of the queue that a dead letter was received from too often. None by default."""

    @property
    def is_there(self) -> bool:
        """Whether the message is in the queue, in any state."""
        return self.state in _PRESENT

    def __str__(self) -> str:
        body = repr(self.body)
        if len(body) > _BODY_SHOWN_MAX:
            body = f"{body[:_BODY_SHOWN_MAX]}… ({len(self.body):,} characters)"
        more = "" if self.sent else "  not sent here" if self.source is None else f"  from {self.source}"
        more += "" if self.group is None else f"  group={self.group}"
        more += f"  attributes={self.attributes}" if self.attributes else ""
        return f"{self.state:<9}  {self.received:>8}  {body}{more}"


@dataclass(frozen=True)
class QueueSnapshot:
    """A queue at one moment, with all messages that are or were in it. Its text shows them as a table."""

    name: str
    """The name of the queue."""
    messages: list[MessageSnapshot]
    """All messages that are or were in the queue, in the order of their arrival."""
    dead_letter_queue: str | None = None
    """The name of its dead-letter queue. None by default."""
    forgotten: int = 0
    """How many messages came before these, of which nothing is known any more. 0 by default."""

    @property
    def present(self) -> list[MessageSnapshot]:
        """The messages that are in the queue: visible, delayed or in flight."""
        return [message for message in self.messages if message.is_there]

    def __str__(self) -> str:
        counts = Counter(message.state for message in self.messages)
        gone = sum(not message.is_there for message in self.messages)
        lines = [f'queue "{self.name}": ' + ", ".join(f"{counts[state]} {state}" for state in _STATES)]
        lines[0] += f", {gone} gone" if gone else ""
        if self.dead_letter_queue is not None:
            lines[0] += f"; its dead letters go to {self.dead_letter_queue}"
        if self.forgotten:
            lines.append(f"  ({self.forgotten} before these were forgotten)")
        if not self.messages:
            return f"{lines[0]}; no message was ever in it" if not self.forgotten else "\n".join(lines)
        lines.append("  state      received  body")
        lines += [f"  {message}" for message in self.messages[-_SHOWN_MAX:]]
        if len(self.messages) > _SHOWN_MAX:
            lines.append(f"  ({len(self.messages) - _SHOWN_MAX} before these are not shown)")
        return "\n".join(lines)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


async def snapshot_of(queue: LiveQueue, broker: Broker, known: KnownMessages) -> QueueSnapshot:
    """Makes a snapshot of a queue, on the loop of the broker."""
    from penstock.queues.messages import decode_content

    views = {view.row.seq: view async for view in _views(queue, broker)}
    # From here on nothing happens: messages that left or came while the pages were read are known.
    messages: list[MessageSnapshot] = []
    for message in known.of_queue(queue.id):
        view = views.pop(message.seq, None)
        facts: dict[str, Any] = {"received": message.received, "sent": message.sent}
        if message.ended is not None:
            content = decode_content(message.content)
            messages.append(_snapshot(content, state=message.ended, group=message.group, **facts))
        elif view is not None:
            messages.append(_present(view, **facts))
    older = [
        _present(view, received=view.row.receives, sent=view.row.source is None) for view in views.values()
    ]
    redrive = queue.settings.redrive
    return QueueSnapshot(
        queue.name.name,
        older + messages,
        None if redrive is None else redrive.target.name,
        known.forgotten(queue.id),
    )


async def _views(queue: LiveQueue, broker: Broker) -> AsyncIterator[MessageView]:
    from penstock.queues.filters import MessageFilter

    after: str | None = None
    while True:
        page = await broker.partition_of(queue).inspection.list(
            queue, MessageFilter(), after=after, limit=_PAGE
        )
        for view in page.messages:
            yield view
        if (after := page.next) is None:
            return


def _present(view: MessageView, **facts: Any) -> MessageSnapshot:
    assert view.content is not None, "nothing is encrypted"
    row = view.row
    source = None if row.source is None else row.source.rpartition(":")[2]
    return _snapshot(view.content, state=_STATES[view.state], group=row.group, source=source, **facts)


def _snapshot(content: Content, **facts: Any) -> MessageSnapshot:
    attributes = {name: attribute.value for name, attribute in (content.attributes or {}).items()}
    return MessageSnapshot(id=content.id, body=content.body, attributes=attributes, **facts)
