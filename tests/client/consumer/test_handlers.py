"""Functions that handle messages: their annotations, threads, and return values."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from penstock.client.codec import DecodeError, JsonCodec
from penstock.client.consumer.claims import Claim
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.handlers import Handler, HandlerFunction, batch_outcomes
from penstock.client.structs import Message, MessageAttribute

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE")


@dataclass
class Order:
    number: int


@dataclass
class Bill:
    total: float


def message(body: str, **attributes: str) -> Message:
    values = {name: MessageAttribute("String", string_value=value) for name, value in attributes.items()}
    return Message("id", "handle", body, message_attributes=values)


def plain(value):  # type: ignore[no-untyped-def]
    return value


def raw(value: Message) -> Message:
    return value


def text(value: str) -> str:
    return value


def order(value: Order, context: MessageContext) -> Order:
    return value


def orders(values: list[Order]) -> list[Order]:
    return values


class Service:
    def method(self, value: Order) -> Order:
        return value

    async def __call__(self, value: Order) -> Order:
        return value


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, message('{"number": 1}')),
        (raw, message('{"number": 1}')),
        (text, '{"number": 1}'),
        (order, Order(1)),
        (Service().method, Order(1)),
        (Service(), Order(1)),
        (partial(order, context=None), Order(1)),  # type: ignore[arg-type]
    ],
)
def test_the_annotation_says_what_a_body_is_read_as(function: HandlerFunction, expected: object) -> None:
    assert Handler(function, JsonCodec()).decode(message('{"number": 1}')) == expected


def test_a_list_of_it_in_a_batch() -> None:
    handler = Handler(orders, JsonCodec(), is_batch=True)
    assert handler.decode(message('{"number": 1}')) == Order(1)


def test_an_attribute_selects_the_type() -> None:
    def either(value: Order | Bill) -> None: ...

    either.__annotations__["value"] = Order | Bill
    handler = Handler(either, JsonCodec(type_attribute="type"))
    assert handler.decode(message('{"total": 1.5}', type="Bill")) == Bill(1.5)
    with pytest.raises(DecodeError):
        handler.decode(message("{}", type="Letter"))


def nothing() -> None: ...
def three(a: str, b: str, c: str) -> None: ...
def keyword(a: str, *, b: str) -> None: ...
def unknown(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "is_batch", "problem"),
    [
        (nothing, False, "not a handler"),
        (three, False, "not a handler"),
        (keyword, False, "needs keyword arguments"),
        (unknown, False, "types in a module"),
        (order, True, "first parameter.* list"),
    ],
)
def test_other_functions_are_refused(function: HandlerFunction, is_batch: bool, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Handler(function, JsonCodec(), is_batch=is_batch)


@pytest.mark.parametrize(
    ("function", "is_async"), [(order, False), (Service(), True), (Service().method, False)]
)
def test_which_functions_are_async(function: HandlerFunction, is_async: bool) -> None:
    assert Handler(function, JsonCodec()).is_async == is_async


def test_a_sync_handler_runs_in_a_thread_with_the_variables_of_its_caller() -> None:
    seen: list[Any] = []

    def handle(value: str, context: MessageContext) -> str:
        seen.append((threading.current_thread() is threading.main_thread(), VARIABLE.get(), context.attempt))
        return value.upper()

    async def story() -> Any:
        VARIABLE.set("inherited")
        claim = Claim(message("x"), 0, 30, 60, 15)
        context = MessageContext("q", "w", [claim], ["x"], 30, lambda claim, seconds: None)
        assert context.lease_lost is context.claim_lost, "the name of the version before"
        with ThreadPoolExecutor(1) as pool:
            return await Handler(handle, JsonCodec()).call(["x"], context, pool)

    assert asyncio.run(story()) == "X"
    assert seen == [(False, "inherited", 1)]


def test_outcomes_of_a_batch() -> None:
    error = ValueError()
    assert batch_outcomes(None, 2) == [None, None]
    assert batch_outcomes([1, error], 2) == [None, error]
    assert batch_outcomes((error, error), 2) == [error, error]
    results: list[object] = [[error], {}, "ab", 0, False, iter([])]
    for wrong in results:
        with pytest.raises(TypeError, match=r"None.* list of 2 elements"):
            batch_outcomes(wrong, 2)
