"""Queue URLs, and the queue that a request names by one, for the rows of :mod:`penstock.services.sqs.actions`.

On a secured server a queue that does not exist is a resource like any other, so that authorization comes
before the answer that it does not exist. On an open server the queues of other accounts do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from penstock.broker.other_shards import DefinitionQuestion
from penstock.cache import BoundedCache
from penstock.errors import QueueMissing
from penstock.names import QueueName, is_account, region_of_host
from penstock.services.sqs.faults import sqs_fault
from penstock.services.sqs.limits import QUEUE_URL_LENGTH_MAX
from penstock.services.sqs.structs import OnQueue
from penstock.services.sqs.validation import is_queue_name
from penstock.wire.service import Action, Call

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue
    from penstock.queues.settings import QueueRecord

_NOTHING: Mapping[str, Any] = MappingProxyType({})

_URL = re.compile(
    r"(?P<origin>https?://(?P<host>\[[^]/]*\]|[^/:]*)(?::\d+)?)?/(?:[^?#]*/)?(?P<account>[^/?#]+)/(?P<name>[^/?#]+)"
)
_AMAZON_HOST = re.compile(
    r"(?:sqs\.(?P<region>[a-z0-9-]+)|(?P<legacy>[a-z0-9-]+)\.queue|queue)\.amazonaws\.com(?:\.cn)?"
)
_names: BoundedCache[tuple[str, str, str, str], QueueName] = BoundedCache(4096)


class Sqs(msgspec.Struct, frozen=True):
    """What the handlers of SQS need."""

    broker: Broker
    actions: Mapping[str, Action] = _NOTHING  # the rows, for handlers that need further permissions
    host: str = ""  # of queue URLs, if it names the region: sqs.{region}.localhost
    missed: Callable[[QueueName], None] = lambda name: None  # called with a queue that does not exist


class QueueResource(msgspec.Struct):
    """A queue that exists."""

    # A record stands for a further queue of the request, in a shard of another process.
    queue: LiveQueue | QueueRecord
    request_tags: Mapping[str, str] = _NOTHING
    tag_keys: tuple[str, ...] = ()
    keys: Mapping[str, str] = _NOTHING
    is_hidden: bool = False  # a caller without permission gets the error of a missing queue

    @property
    def arn(self) -> str:
        return self.queue.arn

    @property
    def account(self) -> str:
        return self.queue.name.account

    @property
    def policy(self) -> str | None:
        return self.queue.settings.policy

    @property
    def tags(self) -> Mapping[str, str]:
        return self.queue.tags


class AbsentQueue(msgspec.Struct):
    """A queue that does not exist. A caller with permission gets ``error``."""

    name: QueueName
    error: Exception
    request_tags: Mapping[str, str] = _NOTHING
    tag_keys: tuple[str, ...] = ()
    keys: Mapping[str, str] = _NOTHING
    is_hidden: bool = False
    policy: None = None
    tags: Mapping[str, str] = _NOTHING

    @property
    def arn(self) -> str:
        return self.name.arn

    @property
    def account(self) -> str:
        return self.name.account

    @property
    def queue(self) -> NoReturn:
        raise self.error


def queue_of_url(sqs: Sqs, request: OnQueue, call: Call) -> QueueResource | AbsentQueue:
    """The resource of every action whose request has a QueueUrl."""
    space = call.space
    name = _names.get((request.QueueUrl or "", space.account, space.region, sqs.host))
    if name is None or name.account != space.account:
        name = queue_named(sqs, request.QueueUrl, call)
    queue = sqs.broker.by_name.get(name)
    if queue is not None:
        return QueueResource(queue)
    sqs.broker.check_owned(name)
    sqs.missed(name)
    if call.principal is None:
        raise QueueMissing
    return AbsentQueue(name, QueueMissing())


def queue_resource(
    sqs: Sqs,
    name: QueueName,
    *,
    missing: Exception | None = None,
    request_tags: Mapping[str, str] = _NOTHING,
    tag_keys: tuple[str, ...] = (),
    is_hidden: bool = False,
) -> QueueResource | AbsentQueue:
    """The queue of that name, with the tags that the request sets or removes, and the error if it is missing."""
    queue = sqs.broker.by_name.get(name)
    if queue is None:
        sqs.broker.check_owned(name)
        return AbsentQueue(name, missing or QueueMissing(), request_tags, tag_keys, is_hidden=is_hidden)
    return QueueResource(queue, request_tags, tag_keys, is_hidden=is_hidden)


async def queue_of_any_shard(
    sqs: Sqs, name: QueueName, *, missing: Exception | None = None
) -> QueueResource | AbsentQueue:
    """A further queue of a request, which need not belong to the process that serves the request."""
    queue = sqs.broker.by_name.get(name)
    if queue is not None:
        return QueueResource(queue)
    record = await sqs.broker.ask(DefinitionQuestion(name))
    return AbsentQueue(name, missing or QueueMissing()) if record is None else QueueResource(record)


def queue_named(sqs: Sqs, url: str | None, call: Call) -> QueueName:
    """The name in a queue URL; a bare name is the caller's own queue. Raises QueueMissing."""
    space = call.space
    key = (url or "", space.account, space.region, sqs.host)
    name = _names.get(key)
    if name is None:
        if len(key[0]) > QUEUE_URL_LENGTH_MAX:
            raise QueueMissing
        name = _names.put(key, read_url(*key))
    if call.principal is None and name.account != space.account:
        raise QueueMissing
    return name


def queue_url(base_url: str, queue: QueueName) -> str:
    return f"{base_url}/{queue.account}/{queue.name}"


def read_url(url: str, account: str, region: str, host_pattern: str = "") -> QueueName:
    """The name in a queue URL for a caller of that account and region."""
    if "/" not in url:
        return _possible(QueueName(account, region, url))
    found = _URL.fullmatch(url)
    if found is None:
        raise QueueMissing
    host, owner = found["host"] or "", found["account"]
    region = region_of_host(host, host_pattern) or region
    if owner == "queue":  # ElasticMQ's older URLs: http://host/queue/NAME
        return _possible(QueueName(account, region, found["name"]))
    if owner != account:
        # SQS: the host is not looked at, except for another region's and another account's together.
        amazon = _AMAZON_HOST.fullmatch(host)
        if amazon and (amazon["region"] or amazon["legacy"] or "us-east-1") != region:
            message = f"The address {found['origin']}/ is not valid for this endpoint."
            raise sqs_fault("InvalidAddress", message)
    return _possible(QueueName(owner, region, found["name"]))


def can_exist(name: QueueName) -> bool:
    return is_account(name.account) and is_queue_name(name.name)


def _possible(name: QueueName) -> QueueName:
    if not can_exist(name):
        raise QueueMissing
    return name
