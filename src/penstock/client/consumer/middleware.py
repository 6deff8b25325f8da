"""What surrounds handlers: each middleware is called with the context and with what is inside of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.giving_up import reason_of
from penstock.client.consumer.retry import Retry

CallNext = Callable[[], Awaitable[Any]]
"""Calls what is inside of a middleware: the next one, or the handler. It returns what the handler returned, and
raises what the handler raised.

    async def without_test_orders(context: MessageContext, call_next: CallNext) -> Any:
        if context.attribute("test") is None:
            return await call_next()
        context.logger.info("skipped")

A middleware that does not call it skips the handler, and the message counts as handled.
"""

Middleware = Callable[[MessageContext, CallNext], Awaitable[Any]]
"""A function that surrounds each call of a handler. It gets the context, and a function that calls what is inside of
it.

    async def timed(context: MessageContext, call_next: CallNext) -> Any:
        started = time.monotonic()
        try:
            return await call_next()
        finally:
            context.logger.info("took %.1f s", time.monotonic() - started)

    app = Worker(middleware=[timed])

What it returns is the result of the call, and what it raises is its failure. An object with such a method
``__call__`` is a middleware, too, such as :class:`Metrics`.
"""


async def call_through(middleware: Sequence[Middleware], context: MessageContext, handler: CallNext) -> Any:
    """The first one is the outermost."""
    call_next = handler
    for each in reversed(middleware):
        call_next = partial(each, context, call_next)
    return await call_next()


async def log_handled(context: MessageContext, call_next: CallNext) -> Any:
    """Middleware that logs a line for each call: how long it took, or why it failed. Bodies are never logged.

    A worker uses it unless ``log_messages`` is False. A consumer uses it if it is given:

        consumer = Consumer(client, "orders", handle, middleware=[log_handled])

    :param context: The context of the message.
    :param call_next: The handler, or the next middleware.
    :returns: What the handler returned.
    """
    started = time.perf_counter()
    level, text, error = logging.INFO, "handled", None
    try:
        result = await call_next()
        if context.claim_lost.is_set():
            text = "interrupted"
        elif context.is_duplicate:
            text = "skipped: handled before"
        return result
    except Retry as retry:
        text = f"to be retried: {retry}"
        raise
    except Exception as caught:
        level, text, error = logging.WARNING, f"failed: {reason_of(caught)}", caught
        raise
    except BaseException:
        text = "interrupted"
        raise
    finally:
        about = {**(context.logger.extra or {}), "seconds": round(time.perf_counter() - started, 3)}
        if len(context.messages) > 1:
            about["messages"] = len(context.messages)
        context.logger.logger.log(level, text, exc_info=error, extra=about)
