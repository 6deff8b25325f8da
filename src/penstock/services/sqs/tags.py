"""TagQueue, UntagQueue, ListQueueTags. Tags are validated before the conditions of a policy compare them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.services.sqs.limits import TAG_KEY_LENGTH_MAX, TAG_VALUE_LENGTH_MAX, TAGS_MAX
from penstock.services.sqs.resources import AbsentQueue, QueueResource, Sqs, queue_named, queue_resource
from penstock.services.sqs.structs import (
    ListQueueTagsRequest,
    ListQueueTagsResult,
    TagQueueRequest,
    UntagQueueRequest,
)
from penstock.services.sqs.validation import is_legal
from penstock.wire.faults import invalid_parameter, missing_parameter
from penstock.wire.service import Call

_TEXT = re.compile(r"[\w\s.:/=+\-@]*")
_SYMBOLS = "may only contain unicode letters, digits, whitespace, or one of these symbols: _ . : / = + - @"


def queue_to_tag(sqs: Sqs, request: TagQueueRequest, call: Call) -> QueueResource | AbsentQueue:
    name, tags = queue_named(sqs, request.QueueUrl, call), request.Tags or {}
    check_tags(tags, name.name)
    return queue_resource(sqs, name, request_tags=tags, tag_keys=tuple(tags))


async def tag_queue(sqs: Sqs, request: TagQueueRequest, call: Call) -> None:
    queue = call.resource.queue
    if not request.Tags:
        raise missing_parameter("Tags")
    await sqs.broker.tag(queue, merged(queue.tags, request.Tags, queue.name.name))


def queue_to_untag(sqs: Sqs, request: UntagQueueRequest, call: Call) -> QueueResource | AbsentQueue:
    name = queue_named(sqs, request.QueueUrl, call)
    keys = tuple(dict.fromkeys(request.TagKeys or [""]))
    if len(keys) > TAGS_MAX:
        raise invalid_parameter(f"Too many tag keys given for queue {name.name}.")
    for key in keys:
        _check_key_length(key)
    return queue_resource(sqs, name, tag_keys=keys)


async def untag_queue(sqs: Sqs, request: UntagQueueRequest, call: Call) -> None:
    queue, removed = call.resource.queue, call.resource.tag_keys
    await sqs.broker.tag(queue, {key: value for key, value in queue.tags.items() if key not in removed})


async def list_queue_tags(sqs: Sqs, request: ListQueueTagsRequest, call: Call) -> ListQueueTagsResult:
    queue = call.resource.queue
    await queue.shard.settled()
    return ListQueueTagsResult(Tags=queue.tags or None)


def merged(tags: dict[str, str], added: dict[str, str], queue: str) -> dict[str, str]:
    """``tags`` overwritten by ``added``. Raises Fault if they are invalid."""
    check_tags(added, queue)
    both = {**tags, **added}
    _check_count(both, queue)
    return both


def check_tags(tags: Mapping[str, str], queue: str) -> None:
    _check_count(tags, queue)
    for key, value in tags.items():
        _check_key_length(key)
        if not _is_valid(key):
            raise invalid_parameter(f"Tag keys {_SYMBOLS}")
        if key.lower().startswith("aws:"):
            raise invalid_parameter("Tag keys must not begin with 'aws:'. This prefix is reserved.")
        if len(value) > TAG_VALUE_LENGTH_MAX:
            raise invalid_parameter(
                f"Tag values must be between 0 and {TAG_VALUE_LENGTH_MAX} characters in length."
            )
        if not _is_valid(value):
            raise invalid_parameter(f"Tag values {_SYMBOLS}")


def _check_count(tags: Mapping[str, str], queue: str) -> None:
    if len(tags) > TAGS_MAX:
        raise invalid_parameter(f"Too many tags added for queue {queue}.")


def _check_key_length(key: str) -> None:
    if not 1 <= len(key) <= TAG_KEY_LENGTH_MAX:
        raise invalid_parameter(f"Tag keys must be between 1 and {TAG_KEY_LENGTH_MAX} characters in length.")


def _is_valid(text: str) -> bool:
    return _TEXT.fullmatch(text) is not None and is_legal(text)
