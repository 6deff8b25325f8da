"""What surrounds handlers: each middleware is called with the context and with what is inside of it.

async def timed(context, call_next):
    started = time.monotonic()
    try:
        return await call_next()
    finally:
        context.logger.info("took %.1f s", time.monotonic() - started)
"""

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
Middleware = Callable[[MessageContext, CallNext], Awaitable[Any]]


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
