"""Functions that handle messages: what they expect by their annotations, and what their return value means."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, get_args, get_origin

from penstock.client.codec import Codec
from penstock.client.consumer.context import MessageContext
from penstock.client.structs import Message

HandlerFunction = Callable[..., Any]


class Handler:
    """``def handle(value)`` or ``def handle(value, context)``, sync or async.

    The annotation of the first parameter says what a body is read as; without one, or with ``Message``, it is the
    message as it was received. The handler of a batch has a list of that."""

    def __init__(self, function: HandlerFunction, codec: Codec, *, is_batch: bool = False) -> None:
        """Raises TypeError for a function that cannot be called so."""
        self.name: str = getattr(function, "__qualname__", type(function).__qualname__)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - of an object with this method
        )
        self._function = function
        self._codec = codec
        self._is_batch = is_batch
        self._expected, self._with_context = _signature(function, self.name, is_batch=is_batch)

    def decode(self, message: Message) -> Any:
        """Raises DecodeError."""
        if self._expected is Message:
            return message
        return self._codec.decode(message.body, self._expected, message.text_attributes)

    async def call(self, values: list[Any], context: MessageContext, pool: Executor) -> Any:
        """``values``: one, or those of a batch."""
        arguments: list[Any] = [values if self._is_batch else values[0]]
        if self._with_context:
            arguments.append(context)
        if self.is_async:
            return await self._function(*arguments)
        run = partial(copy_context().run, self._function, *arguments)
        return await asyncio.get_running_loop().run_in_executor(pool, run)


def _signature(function: HandlerFunction, name: str, *, is_batch: bool) -> tuple[Any, bool]:
    """What the body is read as, and whether the function takes a context."""
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(
            f"the annotations of {name} cannot be read ({error}): define the types in a module, before the handler"
        ) from None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [each for each in signature.parameters.values() if each.kind in kinds]
    needed = [each for each in signature.parameters.values() if each.default is inspect.Parameter.empty]
    if not parameters or len([each for each in needed if each in parameters]) > 2:
        raise TypeError(
            f"{name}{signature} is not a handler: expected one parameter, or two with the context"
        )
    if any(each.kind is inspect.Parameter.KEYWORD_ONLY for each in needed):
        raise TypeError(f"{name}{signature} is not a handler: it needs keyword arguments")
    annotation = parameters[0].annotation
    if is_batch:
        annotation = _element(annotation, name)
    expected = Message if annotation is inspect.Parameter.empty else annotation
    return expected, len(parameters) > 1


def _element(annotation: Any, name: str) -> Any:
    """``Order`` for ``list[Order]``."""
    if annotation in (inspect.Parameter.empty, list):
        return inspect.Parameter.empty
    if get_origin(annotation) in (list, Sequence) and len(get_args(annotation)) == 1:
        return get_args(annotation)[0]
    raise TypeError(f"{name} handles batches: annotate its first parameter as a list, such as list[Order]")


def batch_outcomes(returned: Any, count: int) -> list[BaseException | None]:
    """Returns for each message of a batch its error, or None. Raises TypeError for another value."""
    if returned is None:
        return [None] * count
    if isinstance(returned, list | tuple) and len(returned) == count:
        return [each if isinstance(each, BaseException) else None for each in returned]
    raise TypeError(
        f"the handler of a batch returned {type(returned).__name__}: expected None if all messages are done, or a "
        f"list of {count} elements, an exception for each message that failed"
    )
