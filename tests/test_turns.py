"""Long work in turns: what is short is done at once, what is long pauses, and nobody has more than their share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter

import pytest

from penstock.errors import ClientGone, TooManyWaiting, TooMuchWork
from penstock.promise import Promise, start
from penstock.turns import TURN_S, Steps, Turns, finished, in_pieces


class Loop:
    """Does what is due, one turn after the other."""

    def __init__(self) -> None:
        self.due: deque[Callable[[], None]] = deque()
        self.turns = Turns(self.due.append)

    def turn(self) -> bool:
        if self.due:
            self.due.popleft()()
        return bool(self.due)

    def run(self) -> int:
        """How many turns there were until nothing was left."""
        count = 0
        while self.due:
            self.due.popleft()()
            count += 1
        return count


def long_steps(turns: int, said: list[str] | None = None, name: str = "") -> Steps[str]:
    """Each step takes as long as a turn."""
    for _ in range(turns):
        ends_s = perf_counter() + TURN_S
        while perf_counter() < ends_s:
            pass
        if said is not None:
            said.append(name)
        yield
    return f"{name} is done"


def test_short_work_is_done_at_once() -> None:
    loop = Loop()

    def short() -> Steps[int]:
        yield
        return 7

    assert start(loop.turns.run(short())).result() == 7
    assert loop.run() == 1, "a new turn of the loop begins"


def test_much_short_work_pauses_too() -> None:
    loop = Loop()
    done: list[int] = []

    async def request() -> None:
        for number in range(50):
            await loop.turns.run(long_steps(1))
            done.append(number)

    outcome = start(request())
    assert len(done) <= 1
    loop.run()
    assert outcome.done and len(done) == 50


def test_long_work_pauses_and_accounts_take_turns() -> None:
    loop = Loop()
    said: list[str] = []
    done = [start(loop.turns.run(long_steps(3, said, name), name[0])) for name in ("a1", "a2", "b1")]
    assert said == ["a1"] and len(loop.due) == 2, "the others wait: one piece in each turn of the loop"
    loop.run()
    assert [each.result() for each in done] == ["a1 is done", "a2 is done", "b1 is done"]
    firsts = [said.index("b1"), [each for each in said if each != "a1"].index("b1")]
    assert firsts[0] <= 2, "an account does not wait for all that another has to do"


def test_an_error_of_the_work_reaches_the_one_who_waits() -> None:
    loop = Loop()

    def wrong() -> Steps[None]:
        yield from long_steps(2)
        raise ValueError("wrong")

    outcome = start(loop.turns.run(wrong()))
    loop.run()
    with pytest.raises(ValueError, match="wrong"):
        outcome.result()


def test_work_beyond_its_budget_of_time_ends() -> None:
    loop = Loop()
    seconds: list[float] = []

    async def request() -> None:
        async with loop.turns.alone("a", budget_s=5 * TURN_S) as work:
            try:
                await work.do(long_steps(1000))
            finally:
                seconds.append(work.seconds)

    outcome = start(request())
    assert loop.run() < 100
    with pytest.raises(TooMuchWork):
        outcome.result()
    assert 5 * TURN_S < seconds[0] < 50 * TURN_S


def test_one_request_of_an_account_computes_at_a_time() -> None:
    loop = Loop()
    begun: list[str] = []
    gates = {name: Promise[None]() for name in ("a1", "a2", "b1")}

    async def request(name: str) -> None:
        async with loop.turns.alone(name[0]):
            begun.append(name)
            await gates[name]

    first, second, _ = [start(request(name)) for name in ("a1", "a2", "b1")]
    assert begun == ["a1", "b1"]
    gates["a1"].resolve(None)
    assert first.done and begun == ["a1", "b1", "a2"]
    gates["a2"].resolve(None)
    second.result()
    start(request("a1")).result()


def test_only_so_many_requests_of_an_account_wait() -> None:
    loop = Loop()
    gate = Promise[None]()

    async def request() -> None:
        async with loop.turns.alone("a"):
            await gate

    outcomes = [start(request()) for _ in range(30)]
    refused = [each for each in outcomes if each.done]
    assert 0 < len(refused) < 30
    for each in refused:
        with pytest.raises(TooManyWaiting):
            each.result()
    gate.resolve(None)
    for each in outcomes:
        if each not in refused:
            each.result()


def test_requests_of_clients_that_are_gone_leave_their_places() -> None:
    loop = Loop()
    gone: set[str] = set()
    gates = {name: Promise[None]() for name in ("first", "living")}

    async def request(name: str) -> str:
        async with loop.turns.alone("a", is_gone=lambda: name in gone):
            if name in gates:
                await gates[name]
            return name

    first = start(request("first"))
    names = [f"dead {number}" for number in range(19)]
    dead, waits = [start(request(name)) for name in names], start(request("waits"))
    with pytest.raises(TooManyWaiting):
        start(request("refused")).result()
    gone.update(names[1:])
    living = start(request("living"))
    assert [each.done for each in dead] == [False] + [True] * 18, "they made room"
    gone.add(names[0])
    gates["first"].resolve(None)
    assert (first.result(), waits.result()) == ("first", "waits") and not living.done
    for each in dead:
        with pytest.raises(ClientGone):
            each.result()
    gates["living"].resolve(None)
    assert living.result() == "living"


def test_work_ends_when_its_client_is_gone() -> None:
    loop = Loop()
    gone = False
    said: list[str] = []

    async def request(*names: str) -> None:
        async with loop.turns.alone("a", is_gone=lambda: gone) as work:
            for name in names:
                await work.do(long_steps(3, said, name))

    outcome = start(request("a1", "a2"))
    while "a2" not in said and not outcome.done:
        loop.turn()
    gone = True
    after = len(said)
    loop.run()
    with pytest.raises(ClientGone):
        outcome.result()
    assert len(said) <= after + 1
    gone = False
    following = start(request("a3"))
    loop.run()
    following.result()


def test_without_a_loop_work_is_done_at_once() -> None:
    assert start(Turns().run(long_steps(3, name="it"))).result() == "it is done"
    assert finished(long_steps(1, name="it")) == "it is done"


def test_pieces() -> None:
    assert list(in_pieces(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_pieces([], 2)) == []


def test_of_all_that_pause_one_goes_on_in_each_turn_of_the_loop() -> None:
    due: list[Callable[[], None]] = []
    turns, done = Turns(), list[str]()

    async def work(name: str) -> None:
        for number in range(2):
            await turns.pause(due.append)
            done.append(f"{name}{number}")

    for name in "abc":
        start(work(name))
    for gone_on in range(1, 7):
        (callback,) = due
        due.clear()
        callback()
        assert len(done) == gone_on
    assert not due and done == ["a0", "b0", "c0", "a1", "b1", "c1"]
