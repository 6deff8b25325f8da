"""What the actions of the toy service take, do and answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from penstock.auth.authorize import AccessDenied, Resource, authorize_send
from penstock.broker.other_shards import DefinitionQuestion
from penstock.errors import QueueMissing, SignatureMissing
from penstock.names import QueueName
from penstock.wire.faults import access_denied, invalid_parameter
from penstock.wire.service import NO_MEMBERS, Call, Fault

from .topics import PostRequest, ShardTopics, TopicMissing, TopicName, TopicsQuestion

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

NAMES_MAX = 100  # of one answer
_NAME = re.compile("[A-Za-z0-9_-]{1,80}")


class Toy:
    """What the handlers need."""

    def __init__(self, broker: Broker, post: PostRequest) -> None:
        """Must be made before the first shard of the broker is opened."""
        self.broker = broker
        broker.extend(lambda partition: ShardTopics(partition, post), [TopicsQuestion])

    def at(self, name: TopicName) -> ShardTopics:
        """Where a topic is. Raises NotOwned: then the request is passed on."""
        partition = self.broker.partition(name.home.shard(self.broker.shards))
        partition.shard.check_not_ended()
        return partition.part(ShardTopics)


class CreateTopicRequest(msgspec.Struct):
    Name: str


class CreateTopicResult(msgspec.Struct):
    TopicArn: str


class ListTopicsRequest(msgspec.Struct):
    After: str = ""  # the last name that was listed before


class ListTopicsResult(msgspec.Struct):
    Names: list[str]


class OnTopic(msgspec.Struct):
    TopicArn: str


class SubscribeRequest(OnTopic):
    Endpoint: str


class ListSubscriptionsResult(msgspec.Struct):
    Endpoints: list[str]


class PublishRequest(OnTopic):
    Message: str


class TopicResource(Resource, kw_only=True):
    name: TopicName
    topics: ShardTopics  # of its shard


def _resource(toy: Toy, name: TopicName, keys: Mapping[str, str] = NO_MEMBERS) -> TopicResource:
    return TopicResource(name.arn, name.space.account, keys=keys, name=name, topics=toy.at(name))


def named_topic(toy: Toy, request: CreateTopicRequest, call: Call) -> TopicResource:
    if not _NAME.fullmatch(request.Name):
        raise invalid_parameter("Invalid value of Name: expected 1 to 80 letters, digits, - and _.")
    return _resource(toy, TopicName(call.space, request.Name))


def all_topics(toy: Toy, request: ListTopicsRequest, call: Call) -> Resource:
    return Resource(TopicName(call.space, "*").arn, call.space.account)


def topic_of_arn(toy: Toy, request: OnTopic, call: Call) -> TopicResource:
    return _resource(toy, _topic_name(request, call))


def topic_of_subscription(toy: Toy, request: SubscribeRequest, call: Call) -> TopicResource:
    return _resource(toy, _topic_name(request, call), {"toy:endpoint": request.Endpoint})


def _topic_name(request: OnTopic, call: Call) -> TopicName:
    name = TopicName.parse(request.TopicArn)
    if name is None:
        raise invalid_parameter("Invalid value of TopicArn.")
    if call.principal is None and name.space.account != call.space.account:
        raise TopicMissing  # on an open server there are no topics of other accounts
    return name


async def create_topic(toy: Toy, request: CreateTopicRequest, call: Call) -> CreateTopicResult:
    await call.resource.topics.create(call.resource.name)
    return CreateTopicResult(TopicArn=call.resource.arn)


async def list_topics(toy: Toy, request: ListTopicsRequest, call: Call) -> ListTopicsResult:
    return ListTopicsResult(Names=await toy.broker.ask(TopicsQuestion(call.space, request.After, NAMES_MAX)))


async def subscribe(toy: Toy, request: SubscribeRequest, call: Call) -> None:
    endpoint, queue = request.Endpoint, QueueName.of_arn(request.Endpoint)
    if queue is not None:
        await _check_queue(toy, queue, call)
    elif not endpoint.startswith(("http://", "https://")):
        raise invalid_parameter("Invalid value of Endpoint: expected the ARN of a queue, or a URL.")
    await call.resource.topics.subscribe(call.resource.name, endpoint)


async def _check_queue(toy: Toy, queue: QueueName, call: Call) -> None:
    """Who subscribes a queue has to be allowed to send to it."""
    record = await toy.broker.ask(DefinitionQuestion(queue))
    if record is None:
        raise QueueMissing
    authorize_send(call, Resource(queue.arn, queue.account, record.settings.policy, record.tags))


async def list_subscriptions(toy: Toy, request: OnTopic, call: Call) -> ListSubscriptionsResult:
    return ListSubscriptionsResult(Endpoints=await call.resource.topics.endpoints(call.resource.name))


async def publish(toy: Toy, request: PublishRequest, call: Call) -> None:
    await call.resource.topics.publish(call.resource.name, request.Message)


def to_fault(error: Exception) -> Fault | None:
    match error:
        case TopicMissing():
            return Fault("TopicNotFound", "TopicNotFound", 404, "There is no such topic.", modelled=True)
        case QueueMissing():
            return invalid_parameter("Invalid value of Endpoint: there is no such queue.")
        case SignatureMissing() | AccessDenied():
            return access_denied("Not your topic.")
    return None
