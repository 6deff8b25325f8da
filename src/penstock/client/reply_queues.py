"""Queues for responses: one real queue for each process, and any number of virtual ones on it.

They are made as AWS's Temporary Queue Client makes them, so that programs with either one can answer each other, and
each cleans up after the other. A virtual queue is a name after the URL of its host queue, ``https://…/host#name``,
and a message for it is one in the host queue with the name as a message attribute.

A host queue carries a heartbeat in its tags. Any process deletes one whose heartbeat has stopped.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import NamedTuple
from uuid import uuid4

from penstock.client.client import Client
from penstock.client.consumer.settings import default_worker_name
from penstock.client.errors import ApiError, QueueDoesNotExist, Unavailable

QUEUE_PREFIX = "__RequesterClientQueues__"
VIRTUAL_NAME = "__AmazonSQSVirtualQueuesClient.QueueName"  # message attribute
_HEARTBEAT_TAG = "__AmazonSQSIdleQueueDeletingClient.LastHeartbeatTimestamp"  # in milliseconds
_IDLE_TAG = "__IdleQueueRetentionPeriodSeconds"
_PROCESS_TAG = "Process"
_RETENTION_S = 300
_BEATS = 5  # while a queue that is not used is kept
_log = logging.getLogger(__name__)


class VirtualQueue(NamedTuple):
    host_url: str
    name: str | None

    @classmethod
    def of(cls, url: str) -> VirtualQueue:
        host, mark, name = url.partition("#")
        return cls(host, name if mark else None)

    @property
    def url(self) -> str:
        return self.host_url if self.name is None else f"{self.host_url}#{self.name}"


def is_abandoned(tags: Mapping[str, str], now_ms: int) -> bool:
    """Whether its process has stopped sending heartbeats; never if the queue does not say how long to wait."""
    try:
        idle_s = int(tags[_IDLE_TAG])
        return now_ms - int(tags.get(_HEARTBEAT_TAG, 0)) > idle_s * 1000
    except (KeyError, ValueError):
        return False


class ReplyQueue:
    """The host queue of this process. ``url`` is None before it is created, and after someone deleted it."""

    def __init__(self, client: Client, prefix: str, idle_s: float) -> None:
        self._client = client
        self._prefix = prefix
        self._idle_s = idle_s
        self._creating = asyncio.Lock()
        self.url: str | None = None

    async def ensure(self) -> str:
        """The URL of the reply queue, which is created if there is none."""
        async with self._creating:
            if self.url is None:
                self.url = await self._client.create_queue(
                    f"{self._prefix}{uuid4().hex}",
                    {"MessageRetentionPeriod": _RETENTION_S},
                    {
                        _IDLE_TAG: str(round(self._idle_s)),
                        _HEARTBEAT_TAG: str(_now_ms()),
                        _PROCESS_TAG: default_worker_name(),
                    },
                )
            return self.url

    def forget(self, url: str) -> None:
        """Forget the queue, which was deleted."""
        if self.url == url:
            self.url = None

    async def beat(self) -> None:
        """Send heartbeats, for ever."""
        while True:
            await asyncio.sleep(self._idle_s / _BEATS)
            if self.url is None:
                continue
            try:
                await self._client.tag_queue(self.url, {_HEARTBEAT_TAG: str(_now_ms())})
            except QueueDoesNotExist:
                pass  # those who receive from it notice
            except (ApiError, Unavailable) as error:
                _log.warning("cannot send a heartbeat to the reply queue: %s", error)

    async def delete(self) -> None:
        url, self.url = self.url, None
        if url is not None:
            try:
                await self._client.delete_queue(url)
            except (ApiError, Unavailable) as error:
                _log.warning("cannot delete the reply queue, which others will do: %s", error)


async def delete_abandoned(
    client: Client, prefix: str = QUEUE_PREFIX, *, but: ReplyQueue | None = None
) -> int:
    """Delete the reply queues of processes that have died. Returns how many were deleted. Raises ApiError and
    Unavailable."""
    deleted = 0
    async for page in client.list_queue_pages(prefix):
        for url in page.queue_urls:
            if but is not None and url == but.url:
                continue
            try:
                if is_abandoned(await client.list_queue_tags(url), _now_ms()):
                    await client.delete_queue(url)
                    deleted += 1
            except QueueDoesNotExist:
                pass  # another process was first
    return deleted


async def sweep(client: Client, prefix: str, period_s: float, own: ReplyQueue) -> None:
    """Delete abandoned queues from time to time, for ever; not all processes at the same time."""
    while True:
        await asyncio.sleep(period_s * random.uniform(0.5, 1.5))
        try:
            if deleted := await delete_abandoned(client, prefix, but=own):
                _log.info("deleted %d reply queues of processes that have died", deleted)
        except (ApiError, Unavailable) as error:
            _log.warning("cannot look for abandoned reply queues: %s", error)


def _now_ms() -> int:
    return round(time.time() * 1000)
