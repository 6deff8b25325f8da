"""What the archive of a FIFO topic keeps of a message, as the body of a message in an internal queue."""

from __future__ import annotations

import msgspec

from penstock.publishing.queue_jobs import queue_attributes, text_attributes
from penstock.topics.publication import Publication


class Archived(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A publication that was accepted. Its id and its number follow from those of the stored message, its group and
    its deduplication id are the message's."""

    message: str
    published_ms: int
    base_url: str
    subject: str | None = None
    by_protocol: dict[str, str] | None = None
    attributes: dict[str, tuple[str, str]] | None = None  # bytes are in base64
    trace: str | None = None

    def publication(self, group: str | None, dedup_id: str | None) -> Publication:
        return Publication(
            message=self.message,
            subject=self.subject,
            by_protocol=self.by_protocol,
            attributes=None if self.attributes is None else queue_attributes(self.attributes),
            group=group,
            dedup_id=dedup_id,
            trace=self.trace,
        )


_encode = msgspec.json.Encoder().encode
read_archived = msgspec.json.Decoder(Archived).decode


def archived(publication: Publication, published_ms: int, base_url: str) -> str:
    """The body under which a publication is archived."""
    record = Archived(
        message=publication.message,
        published_ms=published_ms,
        base_url=base_url,
        subject=publication.subject,
        by_protocol=publication.by_protocol,
        attributes=text_attributes(publication.attributes) if publication.attributes else None,
        trace=publication.trace,
    )
    return _encode(record).decode()
