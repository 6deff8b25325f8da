"""A message of a topic as a test sees it, and how that reads in a failure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SHOWN_MAX = 20
_BODY_SHOWN_MAX = 200


@dataclass(frozen=True)
class PublicationSnapshot:
    """A message that was published to a topic, and what its filters decided."""

    id: str
    """The id of the message."""
    topic: str
    """The name of the topic."""
    body: str
    """The text of the message, as it was published."""
    bodies: Mapping[str, str] = field(default_factory=dict)
    """The texts by protocol of a message with a structure. Empty by default."""
    subject: str | None = None
    """The subject. None by default."""
    attributes: Mapping[str, str | bytes] = field(default_factory=dict)
    """Its message attributes. Empty by default."""
    group: str | None = None
    """Its message group. None by default."""
    chosen: tuple[str, ...] = ()
    """The endpoints of the subscriptions that get it: ARNs of queues, and URLs. Empty by default."""
    filtered_out: Mapping[str, str] = field(default_factory=dict)
    """The endpoints whose filters did not choose it, and why. Empty by default."""

    def text_for(self, protocol: str) -> str:
        """The text that subscribers of a protocol get.

        :param protocol: The protocol, such as ``sqs``.
        :returns: The text of the protocol, or the default.
        """
        return self.bodies.get(protocol, self.bodies.get("default", self.body))

    def fate(self, endpoint: str, *, is_there: bool) -> str:
        """Say what became of the message at one endpoint.

        :param endpoint: The ARN of a queue, or a URL.
        :param is_there: Whether the message arrived.
        :returns: A text for people.
        """
        if is_there:
            return "delivered"
        if endpoint in self.filtered_out:
            return f"filtered out: {self.filtered_out[endpoint]}"
        if endpoint in self.chosen:
            return "not filtered out, but not delivered (yet): look at the policy of the queue, or at the endpoint"
        return "it was not subscribed"

    def __str__(self) -> str:
        body = repr(self.body)
        if len(body) > _BODY_SHOWN_MAX:
            body = f"{body[:_BODY_SHOWN_MAX]}… ({len(self.body):,} characters)"
        more = "" if self.subject is None else f"  subject={self.subject!r}"
        more += "" if self.group is None else f"  group={self.group}"
        more += f"  attributes={dict(self.attributes)}" if self.attributes else ""
        return f"{body}{more}"


def table(topic: str, fates: Sequence[tuple[PublicationSnapshot, str]]) -> str:
    """Shows the messages of a topic and what became of each, for the text of a failure."""
    if not fates:
        return f'topic "{topic}": nothing was ever published to it'
    lines = [f'topic "{topic}": {len(fates)} published']
    if len(fates) > _SHOWN_MAX:
        lines.append(f"  ({len(fates) - _SHOWN_MAX} before these are not shown)")
    for publication, fate in fates[-_SHOWN_MAX:]:
        lines.append(f"  {publication}")
        lines += textwrap.indent(fate, "    ").splitlines() if fate else []
    return "\n".join(lines)
