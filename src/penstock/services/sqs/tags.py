"""TagQueue, UntagQueue, ListQueueTags.

Tags are looked at before any policy is: its conditions compare them, and must not be given what is no tag.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.services.sqs.access import Tagging
from penstock.services.sqs.operations import (
    ListQueueTagsRequest,
    ListQueueTagsResult,
    TagQueueRequest,
    UntagQueueRequest,
)
from penstock.services.sqs.queue_urls import held_queue, queue_asked_for
from penstock.services.sqs.validation import is_legal
from penstock.wire.call import Call
from penstock.wire.faults import invalid_parameter, missing_parameter

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

TAGS_MAX = 50
_KEY_LENGTH_MAX = 128
_VALUE_LENGTH_MAX = 256
_TEXT = re.compile(r"[\w\s.:/=+\-@]*")
_SYMBOLS = "may only contain unicode letters, digits, whitespace, or one of these symbols: _ . : / = + - @"


async def tag_queue(broker: Broker, request: TagQueueRequest, call: Call) -> None:
    given = request.Tags or {}
    check_tags(given, queue_asked_for(request.QueueUrl, call).name)
    queue = held_queue(broker, request.QueueUrl, call, Tagging(given, given.keys()))
    if not request.Tags:
        raise missing_parameter("Tags")
    await broker.tag(queue, merged(queue.tags, request.Tags, queue.name.name))


async def untag_queue(broker: Broker, request: UntagQueueRequest, call: Call) -> None:
    name = queue_asked_for(request.QueueUrl, call).name
    gone = frozenset(request.TagKeys or [""])
    if len(gone) > TAGS_MAX:
        raise invalid_parameter(f"Too many tag keys given for queue {name}.")
    for key in gone:
        _check_key_length(key)
    queue = held_queue(broker, request.QueueUrl, call, Tagging(keys=gone))
    await broker.tag(queue, {key: value for key, value in queue.tags.items() if key not in gone})


async def list_queue_tags(broker: Broker, request: ListQueueTagsRequest, call: Call) -> ListQueueTagsResult:
    queue = held_queue(broker, request.QueueUrl, call)
    await broker.settled()
    return ListQueueTagsResult(Tags=queue.tags or None)


def merged(tags: dict[str, str], added: dict[str, str], queue: str) -> dict[str, str]:
    """``tags`` with ``added`` over them, all found valid."""
    check_tags(added, queue)
    both = {**tags, **added}
    _check_count(both, queue)
    return both


def check_tags(tags: Mapping[str, str], queue: str) -> None:
    _check_count(tags, queue)
    for key, value in tags.items():
        _check_key_length(key)
        if not _is_clean(key):
            raise invalid_parameter(f"Tag keys {_SYMBOLS}")
        if key.lower().startswith("aws:"):
            raise invalid_parameter("Tag keys must not begin with 'aws:'. This prefix is reserved.")
        if len(value) > _VALUE_LENGTH_MAX:
            raise invalid_parameter("Tag values must be between 0 and 256 characters in length.")
        if not _is_clean(value):
            raise invalid_parameter(f"Tag values {_SYMBOLS}")


def _check_count(tags: Mapping[str, str], queue: str) -> None:
    if len(tags) > TAGS_MAX:
        raise invalid_parameter(f"Too many tags added for queue {queue}.")


def _check_key_length(key: str) -> None:
    if not 1 <= len(key) <= _KEY_LENGTH_MAX:
        raise invalid_parameter("Tag keys must be between 1 and 128 characters in length.")


def _is_clean(text: str) -> bool:
    return _TEXT.fullmatch(text) is not None and is_legal(text)
