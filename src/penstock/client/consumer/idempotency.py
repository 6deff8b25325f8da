"""Handles each message once, although a queue may deliver it more often: keys of what was done, in a store.

A key is in progress while its handler runs, for a time that is renewed, and done afterwards, with the result. A
delivery whose key is done is not handled; one whose key is in progress elsewhere comes back when that time ends. A
crash between the work of a handler and the note that it is done leaves the work to be repeated: what must not happen
twice in that case belongs in one transaction with the work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import msgspec

from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.middleware import CallNext
from penstock.client.consumer.retry import Retry
from penstock.client.queue_names import queue_name

log = logging.getLogger("penstock.worker")

_DAY_S = 86_400.0
_BUSY_S_MIN = 1.0
_RESULT_BYTES_MAX = 64 * 1024


class Busy(NamedTuple):
    """Another delivery is being handled. It keeps the key for at most ``for_s`` seconds, unless it renews it."""

    for_s: float


class Finished(NamedTuple):
    """An earlier delivery was handled. ``result``: JSON of what the handler returned."""

    result: bytes | None


class IdempotencyStore(Protocol):
    """Stores the keys of handled messages. Write a class with these methods to keep them elsewhere.

    ``owner`` is one call of a handler. All methods but ``begin`` change nothing for another owner.

        class MyKeys:
            async def begin(self, key: str, owner: str, busy_s: float) -> Busy | Finished | None: ...
            async def renew(self, key: str, owner: str, busy_s: float) -> bool: ...
            async def finish(self, key: str, owner: str, result: bytes | None, keep_s: float) -> None: ...
            async def release(self, key: str, owner: str) -> None: ...
    """

    async def begin(self, key: str, owner: str, busy_s: float) -> Busy | Finished | None:
        """Take a key, unless another call has it or has finished it.

        :param key: The key of the message.
        :param owner: The call.
        :param busy_s: How many seconds the key is the owner's.
        :returns: None if the key is the owner's now, else who has it or what the result was.
        """

    async def renew(self, key: str, owner: str, busy_s: float) -> bool:
        """Keep a key for longer.

        :param key: The key of the message.
        :param owner: The call.
        :param busy_s: How many seconds the key is the owner's from now on.
        :returns: False if the time had ended and another owner has the key.
        """

    async def finish(self, key: str, owner: str, result: bytes | None, keep_s: float) -> None:
        """Mark a key as done.

        :param key: The key of the message.
        :param owner: The call.
        :param result: JSON of what the handler returned, or None.
        :param keep_s: How many seconds the key is kept.
        """

    async def release(self, key: str, owner: str) -> None:
        """Give a key back that is not done: the next call may begin.

        :param key: The key of the message.
        :param owner: The call.
        """


class Idempotency:
    """Middleware that handles each message once, although it may be delivered several times.

    For example:

        @app.handler("orders", idempotency=Idempotency(SqliteKeys("keys.db")))
        async def handle(order: Order) -> None: ...
    """

    def __init__(
        self,
        store: IdempotencyStore,
        *,
        key: Callable[[MessageContext], str] | None = None,
        keep_s: float = 4 * _DAY_S,
    ) -> None:
        """Choose the store and the keys.

        :param store: Where keys are kept.
        :param key: What returns the key of a message: messages with the same key are the same one. By default the
            message id.
        :param keep_s: How many seconds a key is remembered after it was done. By default four days, as long as queues
            keep messages by default.
        """
        self._store = store
        self._key = key or _message_id
        self._keep_s = keep_s

    async def __call__(self, context: MessageContext, call_next: CallNext) -> Any:
        """Call the handler, or return the result of an earlier delivery.

        :param context: The context of the message.
        :param call_next: The handler, or the next middleware.
        :returns: What the handler returned; for a duplicate, what it returned before.
        :raises Retry: Another delivery is being handled now.
        """
        if not context.values:
            return await call_next()  # the body cannot be read, and no key be found
        key = f"{queue_name(context.queue)}/{self._key(context)}"
        owner = uuid4().hex
        # Half of the visibility timeout: after a crash the time ends before the message is delivered again.
        busy_s = max(_BUSY_S_MIN, context.visibility_timeout / 2)
        found = await self._store.begin(key, owner, busy_s)
        if isinstance(found, Finished):
            context.is_duplicate = True
            return None if found.result is None else msgspec.json.decode(found.result)
        if found is not None:
            raise Retry(after=max(1.0, found.for_s))
        renewing = asyncio.create_task(self._renew(key, owner, busy_s))
        try:
            result = await call_next()
        except BaseException:
            await self._release(key, owner, renewing)
            raise
        if context.claim_lost.is_set():  # it may have ended early for that reason
            await self._release(key, owner, renewing)
        else:
            renewing.cancel()
            await self._finish(key, owner, result)
        return result

    async def _renew(self, key: str, owner: str, busy_s: float) -> None:
        while True:
            await asyncio.sleep(busy_s / 3)
            try:
                if not await self._store.renew(key, owner, busy_s):
                    log.warning("another worker took a key over while its handler runs", extra={"key": key})
                    return
            except Exception as error:
                log.warning("cannot renew a key: trying again", extra={"key": key, "reason": str(error)})

    async def _finish(self, key: str, owner: str, result: Any) -> None:
        """The work is done, whatever happens here."""
        try:
            await self._store.finish(key, owner, _encoded(result, key), self._keep_s)
        except Exception as error:
            log.error("cannot note that a message is done", extra={"key": key, "reason": str(error)})

    async def _release(self, key: str, owner: str, renewing: asyncio.Task[None]) -> None:
        renewing.cancel()
        try:
            await asyncio.shield(self._store.release(key, owner))
        except Exception as error:
            log.warning(
                "cannot release a key: it is free when its time ends",
                extra={"key": key, "reason": str(error)},
            )


def _message_id(context: MessageContext) -> str:
    return context.message.message_id


def _encoded(result: Any, key: str) -> bytes | None:
    if result is None:
        return None
    try:
        encoded = msgspec.json.encode(result)
    except (TypeError, ValueError) as error:
        log.warning("a result is not kept: it cannot be JSON", extra={"key": key, "reason": str(error)})
        return None
    if len(encoded) > _RESULT_BYTES_MAX:
        about = {"key": key, "bytes": len(encoded), "bytes_max": _RESULT_BYTES_MAX}
        log.warning("a result is not kept: it is too large", extra=about)
        return None
    return encoded
