"""From the QueueUrl of a request to the queue it means.

Rule 1: the host does not matter: whoever reached us by another name gets the same queue. One exception, which
is Amazon's: a host of Amazon's that names another region, together with another account, is an
InvalidAddress.
Rule 2: a bare queue name, or ElasticMQ's older form ``http://host/queue/NAME``, is as good as a URL; the caller's own
account and region are understood.
Rule 3: what no queue can be called is not there, and no policy is asked about it.
Rule 4: on an open server another account's queues are not there. On a secured one the account's policies decide
who may come (:mod:`penstock.services.sqs.access`): every way to a queue leads through here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.errors import QueueMissing
from penstock.names import QueueName
from penstock.services.sqs.access import NO_TAGS, Tagging, permitted_queue
from penstock.services.sqs.faults import sqs_fault
from penstock.services.sqs.validation import can_be_queue
from penstock.wire.call import Call

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue

_URL_LENGTH_MAX = 1024
_URL = re.compile(
    r"(?P<origin>https?://(?P<host>\[[^]/]*\]|[^/:]*)(?::\d+)?)?/(?:[^?#]*/)?(?P<account>[^/?#]+)/(?P<name>[^/?#]+)"
)
_AMAZON_HOST = re.compile(
    r"(?:sqs\.(?P<region>[a-z0-9-]+)|(?P<legacy>[a-z0-9-]+)\.queue|queue)\.amazonaws\.com(?:\.cn)?"
)


def held_queue(broker: Broker, url: str | None, call: Call, asked: Tagging = NO_TAGS) -> LiveQueue:
    name = queue_asked_for(url, call)
    if call.principal is not None:
        return permitted_queue(broker, name, call, asked)
    if name.account != call.space.account:
        raise QueueMissing
    return broker.find(name)


def queue_asked_for(url: str | None, call: Call) -> QueueName:
    if not url or len(url) > _URL_LENGTH_MAX:
        raise QueueMissing
    return queue_named_by(url, call.space.account, call.space.region)


@lru_cache(maxsize=4096)
def queue_named_by(url: str, account: str, region: str) -> QueueName:
    """The queue that a URL names, for a caller of that account and region. It need not be there."""
    if "/" not in url:
        return _possible(QueueName(account, region, url))
    found = _URL.fullmatch(url)
    if found is None:
        raise QueueMissing
    if found["account"] == "queue":
        return _possible(QueueName(account, region, found["name"]))
    if found["account"] != account:
        amazon = _AMAZON_HOST.fullmatch(found["host"] or "")
        if amazon and (amazon["region"] or amazon["legacy"] or "us-east-1") != region:
            message = f"The address {found['origin']}/ is not valid for this endpoint."
            raise sqs_fault("InvalidAddress", message)
    return _possible(QueueName(found["account"], region, found["name"]))


def _possible(name: QueueName) -> QueueName:
    if not can_be_queue(name.account, name.name):
        raise QueueMissing
    return name
