"""Each message once: one contract for all stores of keys, and what is done with keys around a handler."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client.consumer.fake_queue import NO_ANSWER, FakeQueue, Started, run
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.idempotency import Busy, Finished, Idempotency, IdempotencyStore
from penstock.client.consumer.idempotency_stores import MemoryKeys, RedisKeys, SqliteKeys
from penstock.client.consumer.retry import Constant, RetryPolicy


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(30)


Story = Callable[[IdempotencyStore, Callable[[float], Any]], Any]


@pytest.fixture(params=["memory", "sqlite", "redis"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story with a store, and with a function that lets time pass."""
    if request.param == "redis":
        port = request.getfixturevalue("redis_port")

        async def with_redis(story: Story) -> None:
            import redis.asyncio

            async def later(seconds: float) -> None:
                await asyncio.sleep(seconds)

            async with redis.asyncio.Redis(port=port) as client:
                await client.flushall()
                await story(RedisKeys(client), later)

        return lambda story: asyncio.run(with_redis(story))
    clock = Clock()
    store = (
        MemoryKeys(clock=clock) if request.param == "memory" else SqliteKeys(tmp_path / "keys", clock=clock)
    )

    async def with_clock(story: Story) -> None:
        async def later(seconds: float) -> None:
            clock.now_s += seconds

        await story(store, later)

    return lambda story: asyncio.run(with_clock(story))


def test_one_owner_at_a_time(play: Callable[[Story], None]) -> None:
    async def story(store: IdempotencyStore, later: Callable[[float], Any]) -> None:
        assert await store.begin("k", "a", 60) is None
        busy = await store.begin("k", "b", 60)
        assert isinstance(busy, Busy) and 50 < busy.for_s <= 60
        assert await store.begin("other", "b", 60) is None

    play(story)


def test_what_is_done_stays_done_for_a_while(play: Callable[[Story], None]) -> None:
    async def story(store: IdempotencyStore, later: Callable[[float], Any]) -> None:
        for result in (None, b'{"a": 1}'):
            await store.begin(str(result), "a", 60)
            await store.finish(str(result), "a", result, 1.0)
            assert await store.begin(str(result), "b", 60) == Finished(result)
        await later(1.1)
        assert await store.begin("None", "b", 60) is None

    play(story)


def test_a_lease_ends_unless_it_is_renewed(play: Callable[[Story], None]) -> None:
    async def story(store: IdempotencyStore, later: Callable[[float], Any]) -> None:
        await store.begin("k", "a", 1.0)
        assert await store.renew("k", "a", 2.0)
        await later(1.2)
        assert isinstance(await store.begin("k", "b", 60), Busy)
        await later(1.2)
        assert await store.begin("k", "b", 60) is None
        assert not await store.renew("k", "a", 60)

    play(story)


def test_what_failed_can_begin_again_at_once(play: Callable[[Story], None]) -> None:
    async def story(store: IdempotencyStore, later: Callable[[float], Any]) -> None:
        await store.begin("k", "a", 60)
        await store.release("k", "a")
        assert await store.begin("k", "b", 60) is None

    play(story)


def test_a_former_owner_changes_nothing(play: Callable[[Story], None]) -> None:
    async def story(store: IdempotencyStore, later: Callable[[float], Any]) -> None:
        await store.begin("k", "a", 0.5)
        await later(0.6)
        await store.begin("k", "b", 60)
        await store.finish("k", "a", b"1", 60)
        await store.release("k", "a")
        assert isinstance(await store.begin("k", "c", 60), Busy)
        await store.finish("k", "b", b"2", 60)
        assert await store.begin("k", "c", 60) == Finished(b"2")

    play(story)


def test_memory_is_bounded() -> None:
    async def story() -> None:
        clock = Clock()
        store = MemoryKeys(keys_max=100, clock=clock)
        for number in range(1000):
            await store.begin(str(number), "a", 60)
            await store.finish(str(number), "a", None, 10 if number < 990 else 1000)
        assert len(store._keys) == 100
        clock.now_s += 500
        await store.begin("new", "a", 60)
        assert len(store._keys) == 11, "what is over is forgotten"

    asyncio.run(story())


def test_a_file_is_bounded_and_shared(tmp_path: Path) -> None:
    async def story() -> None:
        clock = Clock()
        store, other = (SqliteKeys(tmp_path / "keys", clock=clock) for _ in range(2))
        for number in range(50):
            await store.begin(str(number), "a", 60)
        assert isinstance(await other.begin("7", "b", 60), Busy)
        clock.now_s += 100
        for number in range(10):
            await other.begin(f"new{number}", "b", 60)
        rows = store._database.execute("SELECT count(*) FROM idempotency_keys").fetchone()
        assert rows == (10,), "what is over is forgotten"
        store.close()
        other.close()

    asyncio.run(story())


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteKeys(tmp_path / "keys")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"keys": 0o600, "keys-wal": 0o600, "keys-shm": 0o600}
    store.close()


def test_a_link_or_a_pipe_is_not_used_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(sqlite3.OperationalError, match="not a regular file"):
            SqliteKeys(tmp_path / name)
    assert not (tmp_path / "elsewhere").exists()


def test_keys_of_sqlite_can_be_in_memory() -> None:
    SqliteKeys(":memory:").close()


# -- around a handler ----------------------------------------------------------------------------------------


class Order(msgspec.Struct):
    number: int


def by_number(context: MessageContext) -> str:
    return str(context.value.number)


def loop_clock() -> float:
    return asyncio.get_running_loop().time()


def test_a_second_delivery_is_not_handled() -> None:
    async def story() -> None:
        queue, handled, results = FakeQueue(), list[int](), list[Any]()
        queue.put('{"number": 1}', '{"number": 2}', '{"number": 1}')

        async def handle(order: Order) -> dict[str, int]:
            handled.append(order.number)
            return {"twice": order.number * 2}

        async def note(context: MessageContext, call_next: Any) -> Any:
            result = await call_next()
            results.append((result, context.is_duplicate))
            return result

        keys = Idempotency(MemoryKeys(clock=loop_clock), key=by_number)
        async with Started(queue, handle, middleware=[note, keys], concurrency=1):
            await queue.empty()
        assert handled == [1, 2]
        assert results == [({"twice": 2}, False), ({"twice": 4}, False), ({"twice": 2}, True)]

    run(story())


def test_a_failure_does_not_count() -> None:
    async def story() -> None:
        queue, attempts = FakeQueue(), 0
        queue.put("x")

        async def handle(body: str) -> None:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise ValueError

        keys = Idempotency(MemoryKeys(clock=loop_clock))
        async with Started(queue, handle, middleware=[keys], retry=RetryPolicy(Constant(1))):
            await queue.empty()
        assert attempts == 3

    run(story())


def test_a_delivery_waits_while_another_one_is_handled() -> None:
    async def story() -> None:
        queue, running, most, handled = FakeQueue(is_penstock=True), 0, 0, 0
        queue.put('{"number": 1}', '{"number": 1}')

        async def handle(order: Order) -> None:
            nonlocal running, most, handled
            handled += 1
            running += 1
            most = max(most, running)
            await asyncio.sleep(100)
            running -= 1

        keys = Idempotency(MemoryKeys(clock=loop_clock), key=by_number)
        async with Started(queue, handle, middleware=[keys]):
            await queue.empty()
        assert (most, handled) == (1, 1), "the lease of the key was renewed"
        assert queue.reports == [], "that is no failure"

    run(story())


def test_after_a_crash_the_key_is_free_before_the_message_comes_back() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=30), 0
        store = MemoryKeys(clock=loop_clock)
        queue.put("x")
        assert await store.begin(f"orders/{queue.stored[0].id}", "a worker that dies", 15) is None
        queue.stored[0].visible_at = asyncio.get_running_loop().time() + 15.001
        queue.stored[0].receives = 1

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1

        async with Started(queue, handle, middleware=[Idempotency(store)]):
            await queue.empty()
        assert handled == 1 and queue.done("hide") == []

    run(story())


def test_a_handler_that_lost_its_message_has_not_done_it() -> None:
    async def story() -> None:
        queue, attempts = FakeQueue(visibility_s=10), 0
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                queue.failing["change_message_visibility_batch"] = NO_ANSWER
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    return  # early

        async with Started(queue, handle, middleware=[Idempotency(MemoryKeys(clock=loop_clock))]):
            await queue.empty()
        assert attempts == 2

    run(story())


class Broken(MemoryKeys):
    def __init__(self) -> None:
        super().__init__(clock=loop_clock)
        self.broken = {"begin", "renew", "finish", "release"}

    def __getattribute__(self, name: str) -> Any:
        if name in ("begin", "renew", "finish", "release") and name in self.broken:
            raise OSError("the store is away")
        return super().__getattribute__(name)


def test_without_its_store_nothing_is_handled_and_nothing_is_lost() -> None:
    async def story() -> None:
        queue, handled, store = FakeQueue(), list[str](), Broken()
        queue.put("x")

        async def handle(body: str) -> None:
            handled.append(body)
            await asyncio.sleep(60)

        async with Started(queue, handle, middleware=[Idempotency(store)], retry=RetryPolicy(Constant(5))):
            await asyncio.sleep(60)
            assert not handled
            store.broken.discard("begin")
            await queue.empty()
        assert len(handled) == 1, "the work was done, although that could not be noted"

    run(story())


@pytest.mark.parametrize(("result", "text"), [(object(), "cannot be JSON"), ("x" * 100_000, "too large")])
def test_a_result_that_cannot_be_kept(result: object, text: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        queue, handled = FakeQueue(), 0
        queue.put('{"number": 1}', '{"number": 1}')

        async def handle(order: Order) -> object:
            nonlocal handled
            handled += 1
            return result

        keys = Idempotency(MemoryKeys(clock=loop_clock), key=by_number)
        async with Started(queue, handle, middleware=[keys], concurrency=1):
            await queue.empty()
        assert handled == 1

    with caplog.at_level(logging.WARNING, "penstock.worker"):
        run(story())
    assert text in caplog.text
