"""Who may do what to which queue, on a secured server.

Rule 1: the question is asked before anything is told, even whether the queue is there.
Rule 2: a batch is many times the single action, and is allowed by it: SendMessageBatch needs sqs:SendMessage.
Rule 3: an answer that depends on nothing but the caller, the action and the queue's policy is remembered.
Rule 4: whoever moves messages out of a queue must be allowed to take them, and to send where they go.

On an open server (``call.principal`` is None) everybody may do everything, and nothing here is asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from penstock.auth.policy import (
    Policy,
    PolicyInvalid,
    Question,
    Verdict,
    compile_policy,
    decide,
    is_fixed,
    refusal,
)
from penstock.auth.principal import Principal
from penstock.errors import QueueMissing
from penstock.names import QueueName
from penstock.wire.call import Call
from penstock.wire.faults import access_denied

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue

_log = logging.getLogger("penstock.sqs")

_NOBODY = '{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}'
_SINGLE = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}
_SETTLED_MAX = 8192
_TO_TAKE_MESSAGES = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")


class Tagging(NamedTuple):
    """The tags that a request gives or takes away, for conditions on them."""

    tags: Mapping[str, str] = {}
    keys: Collection[str] = ()


NO_TAGS = Tagging()


def permitted_queue(broker: Broker, name: QueueName, call: Call, asked: Tagging = NO_TAGS) -> LiveQueue:
    """The queue, for what the request itself asks for."""
    queue = _find(broker, name)
    _check(call, _SINGLE.get(call.action, call.action), name, queue, asked)
    if queue is None:
        raise QueueMissing
    return queue


def check_new_queue(broker: Broker, name: QueueName, call: Call, tags: Mapping[str, str]) -> None:
    if call.principal is None:
        return
    queue, tagging = _find(broker, name), Tagging(tags, tags.keys())
    _check(call, "CreateQueue", name, queue, tagging)
    if tags:
        _check(call, "TagQueue", name, queue, tagging)


def check_listing(call: Call) -> None:
    if call.principal is not None:
        _check(call, "ListQueues", QueueName(call.space.account, call.space.region, "*"), None)


def check_taking(source: LiveQueue, call: Call) -> None:
    """Rule 4, for the queue that a move task empties. What the request itself asks for was checked before."""
    for action in _TO_TAKE_MESSAGES if call.principal is not None else ():
        _check(call, action, source.name, source)


def check_sending(broker: Broker, destinations: Collection[QueueName], call: Call) -> None:
    """Rule 4, for the queues that a move task fills."""
    for name in destinations if call.principal is not None else ():
        _check(call, "SendMessage", name, _find(broker, name))


def _find(broker: Broker, name: QueueName) -> LiveQueue | None:
    try:
        return broker.find(name)
    except QueueMissing:
        return None


class _Settled(NamedTuple):
    """A yes that holds at any time and from anywhere. It names the principal, whose id is part of the key: so long as
    it is remembered, nobody else can have that id."""

    principal: Principal
    resource: str
    verdict: Verdict


_settled: dict[tuple[int, str, QueueName, str | None], _Settled] = {}


def _check(
    call: Call, action: str, name: QueueName, queue: LiveQueue | None, asked: Tagging = NO_TAGS
) -> None:
    policy = queue.settings.policy if queue is not None else None
    key = (id(call.principal), action, name, policy)
    settled = _settled.get(key)
    if settled is not None:
        _, call.resource_arn, call.verdict = settled
        return
    question = Question(
        principal=call.principal,
        action=f"sqs:{action}",
        resource=name.arn,
        resource_account=name.account,
        resource_policy=None if policy is None else _compiled(policy),
        resource_tags=queue.tags if queue is not None else {},
        request_tags=asked.tags,
        tag_keys=tuple(asked.keys),
        source_ip=call.source_ip,
        secure=call.secure,
        now_s=time.time(),
    )
    verdict = decide(question)
    call.resource_arn, call.verdict = question.resource, verdict
    if not verdict.allowed:
        raise access_denied(refusal(question, verdict, address=f"{call.base_url}/"))
    if is_fixed(question) and question.principal.session_policy is None:
        # A session brings a policy of its own choosing: those are kept in one place only, where they are bounded.
        if len(_settled) >= _SETTLED_MAX:
            _settled.clear()
        _settled[key] = _Settled(call.principal, question.resource, verdict)


def _compiled(text: str) -> Policy:
    try:
        return compile_policy(text, kind="resource")
    except PolicyInvalid as error:
        return _closed(text, str(error))


@lru_cache(maxsize=64)
def _closed(text: str, why: str) -> Policy:
    """It was taken once, and cannot be read now: it may forbid anything. Root can still replace it."""
    _log.error("a queue's policy cannot be read, so it closes the queue to all but root: %s", why)
    return compile_policy(_NOBODY, kind="resource")
