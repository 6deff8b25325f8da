"""CreateQueue, GetQueueUrl, ListQueues, DeleteQueue, PurgeQueue, Get- and SetQueueAttributes,
ListDeadLetterSourceQueues.

An answer that leans on a queue's being there waits until its creation is durable: ``broker.settled()``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import QueueMissing
from penstock.names import QueueName, queue_url
from penstock.queues.messages import Counts
from penstock.queues.settings import QueueSettings
from penstock.services.sqs.access import check_listing, check_new_queue, permitted_queue
from penstock.services.sqs.attributes import (
    COUNTED,
    READABLE,
    different_attribute,
    shown_queue,
    wants_fifo,
    with_attributes,
)
from penstock.services.sqs.faults import sqs_fault, unknown_attribute
from penstock.services.sqs.operations import (
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
from penstock.services.sqs.paging import check_max_results, page, read_token
from penstock.services.sqs.queue_urls import held_queue
from penstock.services.sqs.redrive import check_redrive
from penstock.services.sqs.tags import check_tags, merged
from penstock.services.sqs.validation import can_be_queue, check_queue_name, given_queue_name
from penstock.wire.call import Call
from penstock.wire.faults import invalid_parameter, missing_parameter
from penstock.wire.registry import Fault

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue


async def create_queue(
    broker: Broker, name: QueueName, attributes: Mapping[str, str], tags: dict[str, str]
) -> LiveQueue:
    """The queue of that name: made now, or found with the same values for the given attributes."""
    existing = _existing(broker, name)
    if existing is None:
        return await _create(broker, name, attributes, tags)
    _check_same_type(name, attributes)
    wanted = with_attributes(existing.settings, attributes, name, new=False)
    different = different_attribute(existing.settings, wanted, attributes)
    if different is not None:
        raise sqs_fault(
            "QueueNameExists",
            f"A queue already exists with the same name and a different value for attribute {different}",
        )
    await broker.settled()
    return existing


def _existing(broker: Broker, name: QueueName) -> LiveQueue | None:
    try:
        return broker.find(name)
    except QueueMissing:
        return None


async def _create(
    broker: Broker, name: QueueName, attributes: Mapping[str, str], tags: dict[str, str]
) -> LiveQueue:
    fifo = _check_new_name(name, attributes)
    settings = with_attributes(QueueSettings(fifo=fifo), attributes, name, new=True)
    if settings.redrive is not None:
        check_redrive(broker, settings.redrive, attributes["RedrivePolicy"], name, fifo=fifo)
    return await broker.create(name, settings, merged({}, tags, name.name))


def _check_new_name(name: QueueName, attributes: Mapping[str, str]) -> bool:
    """Whether the name and attributes are those of a FIFO queue; they have to agree."""
    fifo = wants_fifo(attributes)
    check_queue_name(name.name, fifo=fifo)
    return fifo


def _check_same_type(name: QueueName, attributes: Mapping[str, str]) -> None:
    # SQS: a request without attributes finds the queue, whatever it is.
    if "FifoQueue" in attributes:
        _check_new_name(name, attributes)


def _reconfigured(broker: Broker, queue: LiveQueue, attributes: Mapping[str, str]) -> QueueSettings:
    settings = with_attributes(queue.settings, attributes, queue.name, new=False)
    if settings.redrive is not None and "RedrivePolicy" in attributes:
        check_redrive(
            broker, settings.redrive, attributes["RedrivePolicy"], queue.name, fifo=queue.settings.fifo
        )
    return settings


async def create_queue_action(broker: Broker, request: CreateQueueRequest, call: Call) -> CreateQueueResult:
    space = call.space
    name = QueueName(space.account, space.region, given_queue_name(request.QueueName))
    attributes, tags = request.Attributes or {}, request.tags or {}
    # A policy is asked only about what can be a queue and what can be its tags: callers choose neither's length.
    if not can_be_queue(name.account, name.name):
        _check_new_name(name, attributes)
    check_tags(tags, name.name)
    check_new_queue(broker, name, call, tags)
    queue = await create_queue(broker, name, attributes, tags)
    return CreateQueueResult(QueueUrl=queue_url(call.base_url, queue.name))


async def get_queue_url(broker: Broker, request: GetQueueUrlRequest, call: Call) -> GetQueueUrlResult:
    owner = request.QueueOwnerAWSAccountId or call.space.account
    name = QueueName(owner, call.space.region, given_queue_name(request.QueueName))
    queue = (
        _own_queue(broker, name, call) if owner == call.space.account else _strange_queue(broker, name, call)
    )
    await broker.settled()
    return GetQueueUrlResult(QueueUrl=queue_url(call.base_url, queue.name))


def _own_queue(broker: Broker, name: QueueName, call: Call) -> LiveQueue:
    if not can_be_queue(name.account, name.name):
        raise QueueMissing
    return broker.find(name) if call.principal is None else permitted_queue(broker, name, call)


def _strange_queue(broker: Broker, name: QueueName, call: Call) -> LiveQueue:
    """Another account's. SQS does not tell a stranger whether the queue is there."""
    try:
        if call.principal is not None and can_be_queue(name.account, name.name):
            return permitted_queue(broker, name, call)
    except (Fault, QueueMissing):
        pass
    raise sqs_fault(
        "QueueDoesNotExist", "The specified queue does not exist or you do not have access to it."
    )


async def list_queues(broker: Broker, request: ListQueuesRequest, call: Call) -> ListQueuesResult:
    check_listing(call)
    check_max_results(request.MaxResults, request.NextToken)
    prefix = request.QueueNamePrefix or ""
    binding = ["ListQueues", call.space.account, call.space.region, prefix]
    token = None
    if request.NextToken is not None:
        token = read_token(request.NextToken)
        if token is None:
            raise invalid_parameter("Invalid NextToken value.")
        if token.request != binding:
            raise invalid_parameter(
                "Invalid NextToken value. If you are passing in NextToken, "
                "you must not change the other request parameters."
            )
    found, following = page(broker.names(call.space, prefix), binding, request.MaxResults, token)
    await broker.settled()
    return ListQueuesResult(QueueUrls=_urls(found, call), NextToken=following)


async def list_dead_letter_source_queues(
    broker: Broker, request: ListDeadLetterSourceQueuesRequest, call: Call
) -> ListDeadLetterSourceQueuesResult:
    queue = held_queue(broker, request.QueueUrl, call)
    check_max_results(request.MaxResults, request.NextToken)
    binding = ["ListDeadLetterSourceQueues", queue.name.arn]
    token = None
    if request.NextToken is not None:
        token = read_token(request.NextToken)
        if token is None or token.request != binding:
            raise invalid_parameter("Invalid or expired next token.")
    found, following = page(broker.sources_of(queue.name), binding, request.MaxResults, token)
    await broker.settled()
    return ListDeadLetterSourceQueuesResult(queueUrls=_urls(found, call), NextToken=following)


def _urls(names: list[QueueName], call: Call) -> list[str] | None:
    return [queue_url(call.base_url, name) for name in names] or None


async def delete_queue(broker: Broker, request: DeleteQueueRequest, call: Call) -> None:
    await broker.drop(held_queue(broker, request.QueueUrl, call))


async def purge_queue(broker: Broker, request: PurgeQueueRequest, call: Call) -> None:
    await broker.purge(held_queue(broker, request.QueueUrl, call))


async def get_queue_attributes(
    broker: Broker, request: GetQueueAttributesRequest, call: Call
) -> GetQueueAttributesResult:
    queue = held_queue(broker, request.QueueUrl, call)
    names = request.AttributeNames or []
    for name in names:
        if name not in READABLE:
            raise unknown_attribute(name)
    counted = "All" in names or not COUNTED.isdisjoint(names)
    counts = await broker.counts(queue) if counted else Counts()
    await broker.settled()
    shown = shown_queue(queue, counts)
    if "All" not in names:
        shown = {name: shown[name] for name in names if name in shown}
    return GetQueueAttributesResult(Attributes=shown or None)


async def set_queue_attributes(broker: Broker, request: SetQueueAttributesRequest, call: Call) -> None:
    queue = held_queue(broker, request.QueueUrl, call)
    if not request.Attributes:
        raise missing_parameter("Attribute.Name")
    await broker.configure(queue, _reconfigured(broker, queue, request.Attributes))
