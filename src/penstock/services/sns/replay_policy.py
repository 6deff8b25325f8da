"""Replay policies: from which time to which the archive of a FIFO topic is sent to a subscription again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from penstock.limits import SECOND
from penstock.patterns.errors import JsonTextError
from penstock.patterns.json_text import parse_json
from penstock.services.sns.faults import AttributeInvalid
from penstock.services.sns.limits import REPLAY_BYTES_MAX
from penstock.services.sns.topic_attributes import ARCHIVE, archive_begin_ms
from penstock.topics.records import Topic

_NAME = "ReplayPolicy"
_TYPE, _START, _END = "PointType", "StartingPoint", "EndingPoint"


def checked_replay(value: str, topic: Topic, now_ms: int) -> str:
    """The policy as it was given; empty if it ends the replay. Raises AttributeInvalid."""
    document = _document(value)
    if document == {}:
        return ""
    if not isinstance(document, dict) or not {_TYPE, _START} <= set(document) <= {_TYPE, _START, _END}:
        raise _invalid("JSON is missing required fields")
    if document[_TYPE] != "Timestamp":
        raise _invalid("Invalid PointType")
    if ARCHIVE not in topic.attributes:
        raise _invalid("Topic does not have an ArchivePolicy")
    start_ms = time_ms(document[_START])
    if start_ms is None or not archive_begin_ms(topic, now_ms) <= start_ms <= now_ms:
        raise _invalid("Invalid StartingPoint value")
    if _END in document:
        end_ms = time_ms(document[_END])
        if end_ms is None or end_ms < start_ms:
            raise _invalid("Invalid EndingPoint value")
    return value


def time_ms(text: Any) -> int | None:
    """The time that a point of a replay policy names; None if it is none. One without a zone is UTC."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
        return int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * SECOND)
    except (ValueError, OverflowError):
        return None


def _document(value: str) -> Any:
    try:
        if len(value) > REPLAY_BYTES_MAX:
            raise JsonTextError("too long")
        return parse_json(value)
    except JsonTextError:
        raise _invalid("Unable to parse JSON") from None


def _invalid(text: str) -> AttributeInvalid:
    return AttributeInvalid(f"{_NAME}: {text}")
