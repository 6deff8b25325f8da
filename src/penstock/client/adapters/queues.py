"""What queues of task frameworks have in common: they are created where they are missing, with a dead-letter queue,
and a message can be delayed for longer than SQS delays one.

SQS: a delay is at most 15 minutes. A message that is due later says so in an attribute. A consumer that receives it
too early sends it again with another delay, and then deletes it: a crash in between can only double it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.client.client import Client
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.middleware import CallNext
from penstock.client.errors import QueueDoesNotExist
from penstock.client.limits import DELAY_S_MAX
from penstock.client.structs import AttributeValue
from penstock.client.sync import SyncClient

_DUE = "PenstockDueAt"  # message attribute: seconds since 1970
_DEAD_LETTERS = "-dead-letters"
_RECEIVES_MAX = 10


def ensure_queue(client: SyncClient, name: str) -> str:
    """Returns the URL of a queue. If it is missing, it is created, with a dead-letter queue; one that exists is not
    changed.

    Raises ApiError or Unavailable."""
    try:
        return client.get_queue_url(name)
    except QueueDoesNotExist:
        stem, ending = (name[:-5], ".fifo") if name.endswith(".fifo") else (name, "")
        kind = {"FifoQueue": True} if ending else {}
        dead_letters = client.create_queue(f"{stem}{_DEAD_LETTERS}{ending}", kind)
        arn = client.get_queue_attributes(dead_letters, ["QueueArn"])["QueueArn"]
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": _RECEIVES_MAX}
        return client.create_queue(name, {**kind, "RedrivePolicy": policy})


class UsedQueues:
    """The URLs of queues by name, for asyncio. A queue that is missing is created when it is first used."""

    def __init__(self, client_options: Mapping[str, Any]) -> None:
        self._client_options = client_options
        self._urls: dict[str, str] = {}

    async def url(self, name: str) -> str:
        """Raises ApiError or Unavailable."""
        if name not in self._urls:
            self._urls[name] = await asyncio.to_thread(self._ensure, name)
        return self._urls[name]

    def _ensure(self, name: str) -> str:
        with SyncClient(**self._client_options) as client:
            return ensure_queue(client, name)


def delay_options(
    seconds: float, attributes: Mapping[str, AttributeValue] | None = None, *, now: float | None = None
) -> dict[str, Any]:
    """Returns parameters of ``send_message`` for a delay of any length. Raises ValueError if it is not a number."""
    if not math.isfinite(seconds):
        raise ValueError(f"invalid delay {seconds}: expected seconds")
    given = dict(attributes or {})
    if seconds <= 0:
        return {"message_attributes": given or None}
    if seconds > DELAY_S_MAX:
        given[_DUE] = (time.time() if now is None else now) + seconds
    return {"message_attributes": given or None, "delay_seconds": min(math.ceil(seconds), DELAY_S_MAX)}


class DelayEarlyMessages:
    """A middleware of consumers: messages that are not due yet are sent again. ``client`` returns what sends them."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def __call__(self, context: MessageContext, call_next: CallNext) -> Any:
        due, now = context.attribute(_DUE), time.time()
        if due is None or due <= now:
            return await call_next()
        message = context.message
        attributes = {name: value for name, value in message.message_attributes.items() if name != _DUE}
        options = delay_options(due - now, attributes, now=now)
        return await self._client().send_message(context.queue, message.body, **options)
