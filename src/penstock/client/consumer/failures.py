"""What follows a failure: it is reported, the application is notified, and the message is retried or given up."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from random import random
from typing import Any

from penstock.client.backoffs import spread
from penstock.client.consumer.claims import Claim
from penstock.client.consumer.context import MessageContext, attempt_of
from penstock.client.consumer.giving_up import DeadLetters, FailureReports, GaveUp
from penstock.client.consumer.retry import Retry, RetryPolicy
from penstock.client.consumer.settings import ConsumerSettings
from penstock.client.consumer.settling import REQUEST_ERRORS, Settling

log = logging.getLogger("penstock.worker")

OnError = Callable[[BaseException, MessageContext], Any]


class Failures:
    def __init__(
        self,
        settings: ConsumerSettings,
        settling: Settling,
        dead_letters: DeadLetters,
        reports: FailureReports | None,
        on_error: OnError | None,
    ) -> None:
        self._settings = settings
        self._settling = settling
        self._dead_letters = dead_letters
        self._reports = reports
        self._on_error = on_error

    async def settle(self, claim: Claim, error: BaseException, context: MessageContext) -> None:
        """The message failed with this error."""
        if self._reports is not None and not (isinstance(error, Retry) and error.is_silent):
            await self._reports.send(claim.message, error)
        await self._notify(error, context)
        pause_s = self._pause_s(claim, error, context)
        if pause_s is None:
            await self._give_up(claim, context)
        else:
            await self._settling.hide(claim, pause_s, asyncio.get_running_loop().time())

    async def _notify(self, error: BaseException, context: MessageContext) -> None:
        if self._on_error is None:
            return
        try:
            result = self._on_error(error, context)
            if inspect.isawaitable(result):
                await result
        except Exception:
            context.logger.exception("on_error failed")

    def _pause_s(self, claim: Claim, error: BaseException, context: MessageContext) -> float | None:
        attempt = attempt_of(claim.message)
        try:
            return self._settings.retry.pause_s(error, attempt, random())
        except Exception:  # of a function of the application
            context.logger.exception("the retry policy failed")
            return RetryPolicy().pause_s(Retry(), attempt, random())

    async def _give_up(self, claim: Claim, context: MessageContext) -> None:
        if self._settings.delete_on_give_up:
            if await self._settling.delete(claim):
                context.logger.warning("gave a message up: deleted")
            return
        now = asyncio.get_running_loop().time()
        try:
            outcome = await self._dead_letters.move(claim, now)
        except REQUEST_ERRORS as request_error:
            context.logger.warning(
                "cannot move a message to the dead-letter queue, it is retried: %s", request_error
            )
        else:
            if outcome is GaveUp.MOVED:
                context.logger.warning("gave a message up: moved to the dead-letter queue")
            if outcome is not GaveUp.IMPOSSIBLE:
                return
            context.logger.error(
                "cannot give a message up, it is retried: the queue has no dead-letter queue"
            )
        pause_s = self._pause_s(claim, Retry(), context)
        if pause_s is None:  # attempts are over
            pause_s = spread(RetryPolicy().backoff, attempt_of(claim.message), random())
        await self._settling.hide(claim, pause_s, now)
