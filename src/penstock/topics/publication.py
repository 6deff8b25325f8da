"""A message as it is published, and what a subscriber of one protocol gets of it."""

from __future__ import annotations

import msgspec

from penstock.queues.messages import Attribute

DEFAULT = "default"  # the entry of a structured message for protocols that have none


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """A valid message for a topic, as its publisher gave it."""

    message: str
    subject: str | None = None
    by_protocol: dict[str, str] | None = None
    """The texts of a message with MessageStructure=json by protocol, DEFAULT among them."""
    attributes: dict[str, Attribute] | None = None
    group: str | None = None
    dedup_id: str | None = None
    trace: str | None = None

    def text_for(self, protocol: str) -> str:
        if self.by_protocol is None:
            return self.message
        # SNS: an empty text of a protocol counts.
        text = self.by_protocol.get(protocol)
        return self.by_protocol[DEFAULT] if text is None else text


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one subscriber is told: a publication after its text was chosen, with its ids. It can be stored."""

    message_id: str
    topic_arn: str
    subscription_arn: str
    text: str
    published_ms: int
    base_url: str  # links in it begin with it
    subject: str | None = None
    sequence: str | None = None  # FIFO topics
    attributes: dict[str, tuple[str, str]] | None = None  # name -> type and value; bytes are in base64
    signature: str = ""  # base64; empty: it is not signed
    signature_version: str = "1"
    certificate_url: str = ""
    group: str | None = None
    dedup_id: str | None = None
    is_replayed: bool = False
    trace: str | None = None
