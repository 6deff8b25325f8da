"""CreateQueue, GetQueueUrl, ListQueues, DeleteQueue, PurgeQueue, GetQueueAttributes, SetQueueAttributes,
ListDeadLetterSourceQueues.

A response that depends on a queue waits until the creation of the queue is durable: ``broker.settled``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from penstock.auth.authorize import authorize
from penstock.broker.other_shards import NamesQuestion, SourcesQuestion
from penstock.errors import QueueMissing
from penstock.names import QueueName
from penstock.queues.messages import Counts
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.attributes import (
    COUNTED,
    READABLE,
    different_attribute,
    shown_queue,
    wants_fifo,
    with_attributes,
)
from penstock.services.sqs.faults import queue_not_accessible, sqs_fault, unknown_attribute
from penstock.services.sqs.limits import LIST_RESULTS_MAX
from penstock.services.sqs.redrive import check_redrive
from penstock.services.sqs.resources import (
    AbsentQueue,
    QueueResource,
    Sqs,
    can_exist,
    queue_resource,
    queue_url,
)
from penstock.services.sqs.structs import (
    CreateQueueRequest,
    CreateQueueResult,
    DeleteQueueRequest,
    GetQueueAttributesRequest,
    GetQueueAttributesResult,
    GetQueueUrlRequest,
    GetQueueUrlResult,
    ListDeadLetterSourceQueuesRequest,
    ListDeadLetterSourceQueuesResult,
    ListQueuesRequest,
    ListQueuesResult,
    PurgeQueueRequest,
    SetQueueAttributesRequest,
)
from penstock.services.sqs.tags import check_tags
from penstock.services.sqs.validation import check_queue_name, given_queue_name
from penstock.wire.faults import invalid_parameter, missing_parameter
from penstock.wire.service import Call

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue


def new_queue(sqs: Sqs, request: CreateQueueRequest, call: Call) -> QueueResource | AbsentQueue:
    """Only a possible name and valid tags are shown to the policies: callers choose the length of both."""
    name = QueueName(call.space.account, call.space.region, given_queue_name(request.QueueName))
    tags = request.tags or {}
    if not can_exist(name):
        _check_new_name(name, request.Attributes or {})
    check_tags(tags, name.name)
    return queue_resource(sqs, name, request_tags=tags, tag_keys=tuple(tags))


async def create_queue(sqs: Sqs, request: CreateQueueRequest, call: Call) -> CreateQueueResult:
    resource: QueueResource | AbsentQueue = call.resource
    attributes, tags = request.Attributes or {}, request.tags or {}
    if tags:
        authorize(call, sqs.actions["TagQueue"], resource)
    if isinstance(resource, AbsentQueue):
        name = resource.name
        fifo = _check_new_name(name, attributes)
        settings = with_attributes(QueueSettings(fifo=fifo), attributes, name, new=True)
        if settings.redrive is not None:
            await check_redrive(sqs.broker, settings.redrive, attributes["RedrivePolicy"], name, fifo=fifo)
        # Another request may have created it while other shards were asked.
        _check_same(await sqs.broker.create(name, settings, tags), attributes)
    else:
        queue: LiveQueue = call.resource.queue
        name = queue.name
        _check_same(queue, attributes)
        await queue.shard.settled()
    return CreateQueueResult(QueueUrl=queue_url(call.base_url, name))


def _check_same(queue: LiveQueue, attributes: Mapping[str, str]) -> None:
    """SQS: creating a queue again finds it, if the given attributes have their current values."""
    if "FifoQueue" in attributes:
        _check_new_name(queue.name, attributes)
    wanted = with_attributes(queue.settings, attributes, queue.name, new=False)
    different = different_attribute(queue.settings, wanted, attributes)
    if different is not None:
        raise sqs_fault(
            "QueueNameExists",
            f"A queue already exists with the same name and a different value for attribute {different}",
        )


def _check_new_name(name: QueueName, attributes: Mapping[str, str]) -> bool:
    """Whether it is a FIFO queue. Name and attributes have to agree."""
    fifo = wants_fifo(attributes)
    check_queue_name(name.name, fifo=fifo)
    return fifo


def queue_by_name(sqs: Sqs, request: GetQueueUrlRequest, call: Call) -> QueueResource | AbsentQueue:
    owner = request.QueueOwnerAWSAccountId or call.space.account
    name = QueueName(owner, call.space.region, given_queue_name(request.QueueName))
    if owner == call.space.account:
        if not can_exist(name):
            raise QueueMissing
        found = queue_resource(sqs, name)
        if isinstance(found, AbsentQueue):
            sqs.missed(name)
        return found
    # SQS: a caller of another account without permission does not learn whether the queue exists.
    if call.principal is None or not can_exist(name):
        raise queue_not_accessible()
    return queue_resource(sqs, name, missing=queue_not_accessible(), is_hidden=True)


async def get_queue_url(sqs: Sqs, request: GetQueueUrlRequest, call: Call) -> GetQueueUrlResult:
    queue = call.resource.queue
    await queue.shard.settled()
    return GetQueueUrlResult(QueueUrl=queue_url(call.base_url, queue.name))


def all_queues(sqs: Sqs, request: ListQueuesRequest, call: Call) -> AbsentQueue:
    return AbsentQueue(QueueName(call.space.account, call.space.region, "*"), QueueMissing())


async def list_queues(sqs: Sqs, request: ListQueuesRequest, call: Call) -> ListQueuesResult:
    _check_max_results(request.MaxResults, request.NextToken)
    prefix = request.QueueNamePrefix or ""
    listed = ["ListQueues", call.space.account, call.space.region, prefix]
    token = None
    if request.NextToken is not None:
        token = read_token(request.NextToken)
        if token is None:
            raise invalid_parameter("Invalid NextToken value.")
        if token.listed != listed:
            raise invalid_parameter(
                "Invalid NextToken value. If you are passing in NextToken, "
                "you must not change the other request parameters."
            )
    names_max = _names_max(request.MaxResults)
    after = token.after if token else ""
    names = await sqs.broker.ask(NamesQuestion(call.space, prefix, after=after, names_max=names_max))
    found, following = _page(names, listed, request.MaxResults)
    return ListQueuesResult(QueueUrls=_urls(found, call), NextToken=following)


async def list_dead_letter_source_queues(
    sqs: Sqs, request: ListDeadLetterSourceQueuesRequest, call: Call
) -> ListDeadLetterSourceQueuesResult:
    queue = call.resource.queue
    _check_max_results(request.MaxResults, request.NextToken)
    listed = ["ListDeadLetterSourceQueues", queue.name.arn]
    token = None
    if request.NextToken is not None:
        token = read_token(request.NextToken)
        if token is None or token.listed != listed:
            raise invalid_parameter("Invalid or expired next token.")
    names_max = _names_max(request.MaxResults)
    after = token.after if token else ""
    names = await sqs.broker.ask(SourcesQuestion(queue.name, after=after, names_max=names_max))
    found, following = _page(names, listed, request.MaxResults)
    return ListDeadLetterSourceQueuesResult(queueUrls=_urls(found, call), NextToken=following)


class _Token(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Names the list and the last item of a page. The size of a page may change from one to the next."""

    listed: list[str]
    after: str


def read_token(text: str) -> _Token | None:
    """The token in ``text``, or None if it is not one."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=_Token)
    except (ValueError, RecursionError):
        return None


def _check_max_results(max_results: int | None, token: str | None) -> None:
    if max_results is not None and not 1 <= max_results <= LIST_RESULTS_MAX:
        raise invalid_parameter(
            "Value for parameter MaxResults is invalid. "
            f"Reason: MaxResults must be an integer between 1 and {LIST_RESULTS_MAX}."
        )
    if token is not None and max_results is None:
        raise invalid_parameter("MaxResults is a mandatory parameter when you provide a value for NextToken.")


def _names_max(max_results: int | None) -> int:
    """One more than a page, to see whether there is another one."""
    return (max_results or LIST_RESULTS_MAX) + 1


def _page(
    names: list[QueueName], listed: list[str], max_results: int | None
) -> tuple[list[QueueName], str | None]:
    """A page of sorted names, and the token of the next one. SQS: there are no tokens without MaxResults."""
    found = names[: _names_max(max_results) - 1]
    if max_results is None or len(found) == len(names):
        return found, None
    following = _Token(listed, found[-1].name)
    return found, base64.urlsafe_b64encode(msgspec.json.encode(following)).decode()


def _urls(names: list[QueueName], call: Call) -> list[str] | None:
    return [queue_url(call.base_url, name) for name in names] or None


async def delete_queue(sqs: Sqs, request: DeleteQueueRequest, call: Call) -> None:
    await sqs.broker.drop(call.resource.queue)


async def purge_queue(sqs: Sqs, request: PurgeQueueRequest, call: Call) -> None:
    await sqs.broker.purge(call.resource.queue)


async def get_queue_attributes(
    sqs: Sqs, request: GetQueueAttributesRequest, call: Call
) -> GetQueueAttributesResult:
    queue = call.resource.queue
    names = request.AttributeNames or []
    for name in names:
        if name not in READABLE:
            raise unknown_attribute(name)
    counted = "All" in names or not COUNTED.isdisjoint(names)
    counts = await queue.counts(is_use=True) if counted else Counts()
    await queue.shard.settled()
    shown = shown_queue(queue, counts)
    if "All" not in names:
        shown = {name: shown[name] for name in names if name in shown}
    return GetQueueAttributesResult(Attributes=shown or None)


async def set_queue_attributes(sqs: Sqs, request: SetQueueAttributesRequest, call: Call) -> None:
    queue = call.resource.queue
    if not request.Attributes:
        raise missing_parameter("Attribute.Name")
    settings = with_attributes(queue.settings, request.Attributes, queue.name, new=False)
    if settings.redrive is not None and "RedrivePolicy" in request.Attributes:
        text = request.Attributes["RedrivePolicy"]
        await check_redrive(sqs.broker, settings.redrive, text, queue.name, fifo=settings.fifo)
        # Another request may have changed the queue while another shard was asked.
        settings = with_attributes(queue.settings, request.Attributes, queue.name, new=False)
    await sqs.broker.configure(queue, settings)
