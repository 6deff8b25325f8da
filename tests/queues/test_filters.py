"""Filters of messages: each condition, what is refused, and how long a regular expression may take."""

from __future__ import annotations

from threading import Thread
from time import thread_time
from typing import NamedTuple

import msgspec
import pytest

from penstock.errors import FilterInvalid, FilterTooSlow
from penstock.queues.filters import MessageFilter, RegexBudget
from penstock.queues.messages import Attribute, Content, State
from penstock.store.changes import EntryRow

NOW = 1_000_000
SOURCE = "arn:aws:sqs:eu-west-1:000000000000:orders"


class Message(NamedTuple):
    row: EntryRow
    content: Content | None
    state: State = State.READY


def message(body: str = "hello", state: State = State.READY, **row: object) -> Message:
    plain = EntryRow(1, 1, 1, None, NOW - 10_000, 0, 2, 0, 0, None, None)
    attributes = {"kind": Attribute("String", "new"), "raw": Attribute("Binary", b"\x00\x01")}
    return Message(plain._replace(**row), Content("id-1", body, "me", 0, attributes), state)  # type: ignore[arg-type]


def matches(looked_at: Message, **conditions: object) -> bool:
    wanted = msgspec.convert(conditions, MessageFilter)
    wanted.check()
    return wanted.matches(looked_at, NOW, RegexBudget(1.0, thread_time))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, True),
        ({"state": "visible"}, True),
        ({"state": "in_flight"}, False),
        ({"body": "ell"}, True),
        ({"body": "Ell"}, False),
        ({"regex": "^h.*o$"}, True),
        ({"regex": "(?i)HELLO"}, True),
        ({"regex": "^ello"}, False),
        ({"attribute": ["kind"]}, True),
        ({"attribute": ["kind=new", "raw=AAE="]}, True),
        ({"attribute": ["kind=new", "raw=AAA="]}, False),
        ({"attribute": ["other"]}, False),
        ({"group": "g"}, False),
        ({"id": ["id-0", "id-1"]}, True),
        ({"id": ["id-0"]}, False),
        ({"source": "orders"}, False),
        ({"older_than_s": 10}, True),
        ({"older_than_s": 10.5}, False),
        ({"younger_than_s": 10}, True),
        ({"younger_than_s": 9.9}, False),
        ({"receives_min": 2, "receives_max": 2}, True),
        ({"receives_min": 3}, False),
        ({"receives_max": 1}, False),
        ({"receives_max": 0}, False),
        ({"body": "ell", "receives_min": 3}, False),
        ({"json": "$.a"}, False),
    ],
)
def test_conditions(conditions: dict[str, object], expected: bool) -> None:
    assert matches(message(), **conditions) is expected


def test_group_source_and_state() -> None:
    dead = message(state=State.DELAYED, group="g", source=SOURCE)
    assert matches(dead, group="g", source="orders", state="delayed")
    assert matches(dead, source=SOURCE)
    assert not matches(dead, source="order")
    assert not matches(dead, group="G")


def test_a_content_that_cannot_be_read_matches_no_condition_on_it() -> None:
    unreadable = message()._replace(content=None)
    assert matches(unreadable, receives_min=1)
    assert not matches(unreadable, body="")


DOCUMENT = (
    '{"order": {"id": "x", "total": 10, "paid": true, "note": null, "a b": 1, "*": 2},'
    ' "items": [{"sku": "A"}, {"sku": "B", "tags": ["t"]}], "zero": 0, "ratio": 0.5}'
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("$", True),
        ("$.order", True),
        ("$.order.missing", False),
        ("$.order.note", True),
        ('$.order.id = "x"', True),
        ('$.order.id="x"', True),
        ('$.order.id == "x"', True),
        ('$.order.id != "x"', False),
        ('$.order.id != "y"', True),
        ('$.order.missing != "y"', False),
        ("$.order.id = 1", False),
        ("$.order.id != 1", True),
        ("$.order.id > 1", False),
        ('$.order.id > "a"', True),
        ("$.order.total >= 10", True),
        ("$.order.total > 10", False),
        ("$.order.total < 10.5", True),
        ("$.order.total <= 9", False),
        ("$.order.paid = true", True),
        ("$.order.paid = 1", False),
        ("$.order.paid > false", False),
        ("$.order.note = null", True),
        ("$.zero = false", False),
        ("$.zero = 0.0", True),
        ("$.ratio = 0.5", True),
        ('$.order["a b"] = 1', True),
        ('$.order["*"] = 2', True),
        ("$.order.* = 10", True),
        ('$.items[0].sku = "A"', True),
        ('$.items[-1].sku = "B"', True),
        ("$.items[2]", False),
        ("$.items[-3]", False),
        ('$.items[*].sku = "B"', True),
        ('$.items[*].sku = "C"', False),
        ("$.items[*].tags[*]", True),
        ("$.order[0]", False),
        ("$.items.sku", False),
        ('$.items[0] = {"sku": "A"}', True),
    ],
)
def test_json_conditions(condition: str, expected: bool) -> None:
    assert matches(message(DOCUMENT), json=condition) is expected


@pytest.mark.parametrize("body", ["", "hello", "{", "[" * 100_000, '{"a": 1} x', "\ud800"])
def test_a_body_that_is_not_json_does_not_match(body: str) -> None:
    assert not matches(message(body), json="$")


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ({"state": "hidden"}, "write visible, delayed or in_flight"),
        ({"older_than_s": -1}, "write a number of seconds"),
        ({"older_than_s": float("inf")}, "write a number of seconds"),
        ({"younger_than_s": float("nan")}, "write a number of seconds"),
        ({"receives_min": -1}, "write a number of receives"),
        ({"attribute": ["=x"]}, "write the name"),
        ({"attribute": ["x"] * 11}, "at most 10"),
        ({"attribute": ["x" * 1001]}, "attribute: write at most 1000 characters"),
        ({"id": ["x" * 1001]}, "id: write at most 1000 characters"),
        ({"body": "x" * 1001}, "body: write at most 1000 characters"),
        ({"json": "$.a = 1" + 1_000_000 * " " + "1"}, "json: write at most 1000 characters"),
        ({"json": "order.id"}, "begins with \\$"),
        ({"json": "$.order id"}, "write for example"),
        ({"json": "$."}, "write for example"),
        ({"json": "$.a[x]"}, "write for example"),
        ({"json": "$.a = x"}, "in double quotes"),
        ({"json": "$.a = "}, "in double quotes"),
        ({"json": "$.a = 'x'"}, "in double quotes"),
        ({"json": '$.a = "x" and'}, "in double quotes"),
        ({"regex": "("}, "missing \\)"),
        ({"regex": "a{3,1}"}, "min repeat greater"),
        ({"regex": "a" * 1001}, "at most 1000 characters"),
        ({"regex": "(?x)a b"}, "the flag x"),
        ({"regex": "(?R)b"}, "without recursion"),
        ({"regex": r"\\\\(?1)(a)"}, "without recursion"),
        ({"regex": "(?P<n>(?&n)a)"}, "without recursion"),
        ({"regex": "(?P<n>(?P>n)a)"}, "without recursion"),
        ({"regex": "(?ix:a b)"}, "the flag x"),
        ({"regex": "(?u)(?a)b"}, "mutually incompatible"),
        ({"regex": "(?V0)(?V1)b"}, "mutually incompatible"),
    ],
)
def test_what_is_wrong_says_what_to_write(conditions: dict[str, object], text: str) -> None:
    with pytest.raises(FilterInvalid, match=text):
        matches(message(), **conditions)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:x{9999}){9999}",
        "(?:(?:(?:x{99}){99}){99})",
        "(" * 30 + "a+" + ")+" * 30,
        "(a?){1000}" * 90,
        "(" * 20 + "a+" + ")+[(]" * 20,
        "(?:a?){65000}",
    ],
)
def test_a_pattern_that_would_need_gigabytes_is_refused(pattern: str) -> None:
    with pytest.raises(FilterInvalid, match="repeats too much"):
        matches(message(), regex=pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\(?1\)?",
        r"(?i)x(?=y)",
        r"\d{4}-\d{2}-\d{2}",
        r"(foo|bar)+\s*(baz)?",
        r'"id":\s*"[0-9a-f-]{36}"',
        r"a{1,9999}",
    ],
)
def test_usual_patterns_are_accepted(pattern: str) -> None:
    MessageFilter(regex=pattern).check()


def test_a_slow_regular_expression_is_ended() -> None:
    slow = MessageFilter(regex=r"^(a|aa)+$")
    budget = RegexBudget(0.05, thread_time)
    hopeless = message("a" * 200 + "b")
    with pytest.raises(FilterTooSlow, match="takes too long"):
        slow.matches(hopeless, NOW, budget)
    with pytest.raises(FilterTooSlow):
        slow.matches(message("a"), NOW, budget)  # the budget of the request is used up


def test_other_threads_run_during_a_slow_search() -> None:
    budget, hopeless = RegexBudget(0.3, thread_time), message("a" * 200 + "b")

    def search() -> None:
        with pytest.raises(FilterTooSlow):
            MessageFilter(regex=r"^(a|aa)+$").matches(hopeless, NOW, budget)

    searching = Thread(target=search)
    searching.start()
    turns = 0
    while searching.is_alive():
        turns += 1
    assert turns > 1000


def test_searches_of_a_request_share_one_budget() -> None:
    ticks = iter(range(100))
    budget = RegexBudget(2.5, lambda: next(ticks))  # each search takes a second
    wanted = MessageFilter(regex="l+")
    assert [wanted.matches(message(), NOW, budget) for _ in range(3)] == [True] * 3
    with pytest.raises(FilterTooSlow):
        wanted.matches(message(), NOW, budget)


def test_a_filter_is_stored_without_what_it_leaves_open() -> None:
    stored = msgspec.json.encode(MessageFilter(body="x", id=("1",)))
    assert stored == b'{"body":"x","id":["1"]}'
    assert msgspec.json.decode(stored, type=MessageFilter) == MessageFilter(body="x", id=("1",))
