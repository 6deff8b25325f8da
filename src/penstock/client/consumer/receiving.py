"""Receives the messages of one queue, one request after the other, and pauses while the server cannot answer."""

from __future__ import annotations

import asyncio
import logging
from random import random

from penstock.backoff import backoff
from penstock.client.client import Client
from penstock.client.consumer.settings import ConsumerSettings
from penstock.client.consumer.settling import REQUEST_ERRORS
from penstock.client.errors import ChecksumMismatch, Forbidden, QueueDoesNotExist, is_final
from penstock.client.structs import Message

log = logging.getLogger("penstock.worker")

_VISIBILITY_S = 30  # if the queue may not be asked
_PAUSE_S, _PAUSE_S_MAX = 0.5, 30.0
_QUICK_S = 0.5  # an empty answer to a long poll that comes sooner is followed by a pause, too
_LAST_ANSWER_S = 0.05  # within this a busy queue answers a receive that is to be aborted


class CannotStart(Exception):
    """The queue cannot be consumed. The text says what to do."""


class Receiver:
    def __init__(self, client: Client, queue: str, settings: ConsumerSettings) -> None:
        self._client = client
        self._queue = queue
        self._settings = settings
        self._visibility_s = _VISIBILITY_S
        self._failures = 0
        self._closed = asyncio.Event()
        self._aborted = asyncio.Event()

    def close(self) -> None:
        """No more messages are wanted: the receive under way is aborted, and pauses end."""
        self._closed.set()
        self.abort()

    def abort(self) -> None:
        """End the receive under way, if there is one."""
        self._aborted.set()

    async def visibility_s(self) -> int | None:
        """How long messages will be hidden; None if it was closed before there was an answer. Waits for the server.
        Raises CannotStart."""
        if self._settings.visibility_timeout is not None:
            self._visibility_s = self._settings.visibility_timeout
            return self._visibility_s
        while not self._closed.is_set():
            try:
                found = await self._client.get_queue_attributes(self._queue, ["VisibilityTimeout"])
            except QueueDoesNotExist as error:
                text = f'there is no queue "{self._queue}" ({error}): create it, or check endpoint and region'
                raise CannotStart(text) from None
            except REQUEST_ERRORS as error:
                if isinstance(error, Forbidden) and error.is_denied:
                    return self._visibility_s
                if is_final(error):
                    raise CannotStart(f'the queue "{self._queue}" cannot be used: {error}') from None
                await self._pause_after(error, "waiting for the server")
            else:
                self._failures = 0
                self._visibility_s = int(found.get("VisibilityTimeout", _VISIBILITY_S))
                if not self._visibility_s:
                    text = f'the visibility timeout of the queue "{self._queue}" is 0: give the handler one'
                    raise CannotStart(text)
                return self._visibility_s
        return None

    async def receive(self, count: int) -> list[Message] | None:
        """Receives up to ``count`` messages. Returns None if it was aborted or the server cannot answer."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        try:
            messages = await self._ask(count)
        except (*REQUEST_ERRORS, ChecksumMismatch) as error:
            await self._pause_after(error, "cannot receive messages: trying again")
            return None
        if self._failures:
            log.info("receiving messages again", extra={"queue": self._queue})
            self._failures = 0
        if messages is not None and not messages:
            if self._settings.poll_interval_s:
                await self._pause(self._settings.poll_interval_s)
            elif loop.time() - asked_at < _QUICK_S:
                await self._pause(_QUICK_S)  # a server that stops, or a proxy that does not wait
        return messages

    async def _ask(self, count: int) -> list[Message] | None:
        receive = asyncio.create_task(
            self._client.receive_message(
                self._queue,
                max_number_of_messages=count,
                wait_time_seconds=self._settings.wait_time_seconds,
                visibility_timeout=self._visibility_s,
                message_attribute_names=["All"],
                message_system_attribute_names=["All"],
            )
        )
        self._aborted.clear()
        aborted = asyncio.create_task(self._aborted.wait())
        try:
            await asyncio.wait([receive, aborted], return_when=asyncio.FIRST_COMPLETED)
            if not receive.done():
                # Messages of an answer that is on its way would be hidden for nothing.
                await asyncio.wait([receive], timeout=_LAST_ANSWER_S)
        finally:
            aborted.cancel()
            receive.cancel()
        try:
            return await receive
        except asyncio.CancelledError:
            if receive.cancelled():
                return None
            raise

    async def _pause_after(self, error: Exception, text: str) -> None:
        """Log the error and wait, longer each time."""
        self._failures += 1
        level = logging.ERROR if is_final(error) else logging.WARNING
        log.log(level, text, extra={"queue": self._queue, "reason": str(error)})
        await self._pause(backoff(self._failures, _PAUSE_S, _PAUSE_S_MAX))

    async def _pause(self, seconds: float) -> None:
        """Wait for about this long, or until it is closed."""
        try:
            async with asyncio.timeout(seconds * (1 - random() / 4)):
                await self._closed.wait()
        except TimeoutError:
            pass
