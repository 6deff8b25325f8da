"""Coroutines that run without a task: what they may await, and that each ends exactly once."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from penstock.promise import Promise, run, run_detached, start


def test_a_coroutine_goes_on_when_its_promise_is_resolved() -> None:
    promise: Promise[int] = Promise()
    ends: list[Any] = []

    async def twice() -> int:
        return 2 * await promise

    run(twice(), lambda *end: ends.append(end))
    assert ends == []
    promise.resolve(21)
    assert ends == [(42, None)]


def test_a_promise_is_set_once() -> None:
    promise: Promise[int] = Promise()
    promise.resolve(1)
    attempts: list[Callable[[], None]] = [lambda: promise.resolve(2), lambda: promise.fail(LookupError())]
    for again in attempts:
        with pytest.raises(AssertionError):
            again()
    assert promise.result() == 1


def test_an_error_of_a_promise_is_raised_where_it_is_awaited() -> None:
    promise: Promise[int] = Promise()

    async def careful() -> str:
        try:
            await promise
        except LookupError:
            return "caught"
        return "missed"

    ended = start(careful())
    promise.fail(LookupError())
    assert ended.result() == "caught"


def test_promises_and_futures_are_awaited_in_any_order() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        first, third = Promise[int](), Promise[int]()
        second: asyncio.Future[int] = loop.create_future()

        async def handler() -> list[int]:
            return [
                await first,
                await second,
                await third,
                await asyncio.create_task(asyncio.sleep(0, 4)),
                await asyncio.to_thread(lambda: 5),
            ]

        ended = start(handler())
        loop.call_soon(first.resolve, 1)
        loop.call_later(0.001, second.set_result, 2)
        loop.call_later(0.002, third.resolve, 3)
        is_done = asyncio.Event()
        ended.on_done(lambda _: is_done.set())
        await asyncio.wait_for(is_done.wait(), 5)
        return ended.result()

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("error", [LookupError(), asyncio.CancelledError()])
def test_the_error_of_a_future_is_raised_in_the_coroutine(error: BaseException) -> None:
    async def main() -> BaseException | None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def handler() -> int:
            return await future

        ends: list[BaseException | None] = []
        run(handler(), lambda _, error: ends.append(error))
        if isinstance(error, Exception):
            future.set_exception(error)
        else:
            future.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (end,) = ends
        return end

    assert isinstance(asyncio.run(main()), type(error))


class Foreign:
    """Something that another event loop could await."""

    def __await__(self) -> Generator[Foreign, None, None]:
        yield self


@pytest.mark.parametrize("foreign", [Foreign, lambda: asyncio.sleep(0)])
def test_awaiting_anything_else_raises_in_the_coroutine(foreign: Any) -> None:
    promise: Promise[None] = Promise()
    caught: list[TypeError] = []

    async def handler(strange: Awaitable[None]) -> str:
        await promise
        try:
            await strange
        except TypeError as error:
            caught.append(error)
            raise
        return "unreachable"

    ends: list[Any] = []
    run(handler(foreign()), lambda *end: ends.append(end))
    promise.resolve(None)
    assert ends == [(None, caught[0])]
    assert "cannot await" in str(caught[0])


def test_a_coroutine_may_go_on_after_such_an_error() -> None:
    promise: Promise[str] = Promise()

    async def handler() -> str:
        try:
            await Foreign()
        except TypeError:
            return await promise
        return "unreachable"

    ended = start(handler())
    promise.resolve("went on")
    assert ended.result() == "went on"


def test_an_error_in_one_callback_does_not_reach_the_others(caplog: pytest.LogCaptureFixture) -> None:
    promise: Promise[int] = Promise()
    seen: list[int] = []
    promise.on_done(lambda _: 1 // 0)  # type: ignore[arg-type]
    promise.on_done(lambda done: seen.append(done.result()))
    with caplog.at_level(logging.ERROR):
        promise.resolve(7)
    assert seen == [7]
    assert "callback" in caplog.text


def test_the_error_of_detached_work_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise LookupError("lost")

    with caplog.at_level(logging.ERROR):
        run_detached(fail())
    assert "background work failed" in caplog.text and "lost" in caplog.text


def test_a_coroutine_that_ended_leaves_no_reference_cycle() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        promise: Promise[int] = Promise()

        async def wait(promise: Promise[int]) -> int:
            return await promise

        run(wait(promise), lambda *_: None)
        promise.resolve(1)
        del promise
        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()
