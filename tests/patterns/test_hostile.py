"""Texts that are made to take long: they are refused or read in a time that grows with their size."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from contextlib import suppress
from time import thread_time

import pytest

from penstock.errors import TooMuchWork
from penstock.patterns import (
    JsonTextError,
    Outcome,
    PatternError,
    PatternIndex,
    Subject,
    body_subject,
    compile_pattern,
    judge,
    matches,
    matching_steps,
)
from penstock.patterns.limits import WORK_MAX
from penstock.turns import Steps
from support.cpu import cost, unit_s
from support.rows import every_row

SIZE = 256 * 1024
_SHORT = '{"y":["x"]}'


def _filled(head: str, middle: str, tail: str, separator: str = ",") -> str:
    """Repeats the middle as often as there is room."""
    count = (SIZE - len(head) - len(tail)) // (len(middle) + len(separator))
    return head + separator.join([middle] * count) + tail


def _nested_ors(levels: int) -> str:
    policy = '{"z":["x"]}'
    for number in range(levels):
        policy = f'{{"a{number}":["x"],"$or":[{policy},{policy if number < 3 else _SHORT}]}}'
    return policy


_POLICIES = {
    "open arrays": "[" * SIZE,
    "arrays": "[" * (SIZE // 2) + "]" * (SIZE // 2),
    "open objects": '{"a":' * (SIZE // 5),
    "objects": '{"a":' * (SIZE // 6) + "1" + "}" * (SIZE // 6),
    "objects within the depth of JSON": '{"a":' * 900 + '["x"]' + "}" * 900,
    "ors within the depth of JSON": '{"$or":[' * 400 + '{"a":["x"]}' + "]}" * 400,
    "ors in ors": _nested_ors(12),
    "ors side by side": "{" + ",".join(
        f'"k{number}":{{"$or":[{{"a":["x"]}},{{"b":["x"]}}]}}' for number in range(5000)
    ) + "}",
    "branches": _filled('{"$or":[', '{"a":["x"]}', "]}"),
    "values": _filled('{"a":[', '"x"', "]}"),
    "names": "{" + ",".join(f'"k{number}":["x"]' for number in range(15_000)) + "}",
    "dots": '{"' + "a." * (SIZE // 2 - 10) + '":["x"]}',
    "refused values": _filled('{"a":[{"anything-but":[', '"x"', "]}]}"),
    "digits": '{"a":[' + "1" * (SIZE - 20) + "]}",
    "fine numbers": _filled('{"a":[{"anything-but":[', "0.1234567", "]}]}"),
    "stars": '{"a":[{"wildcard":"' + "*a" * (SIZE // 2 - 20) + '"}]}',
    "escapes": '{"a":[{"wildcard":"' + "\\\\*" * (SIZE // 3 - 20) + '"}]}',
    "open text": '{"a":["' + "\\u0041" * (SIZE // 6 - 2),
    "spaces": " " * SIZE,
    "as many values as there may be": json.dumps({"a": [{"anything-but": [f"{n:0120}" for n in range(1990)]}]}),
    "as many numbers as there may be": json.dumps({"a": [{"anything-but": [n / 1e5 for n in range(1990)]}]}),
    "stars in escapes": '{"a":[{"wildcard":"' + "\\\\\\\\*" * (SIZE // 5 - 20) + '"}]}',
    "a fault behind escapes": '{"a":[{"wildcard":"' + "\\\\*" * (SIZE // 3 - 20) + '**"}]}',
    "many members, and no JSON": _filled('{"a":[', '"x"', "}"),
}  # fmt: skip


@every_row("name", _POLICIES)
def test_a_policy_takes_no_longer_than_its_size(name: str) -> None:
    policy = _POLICIES[name]
    assert len(policy) <= SIZE + 10

    def compile_it() -> None:
        with suppress(PatternError, JsonTextError):
            compile_pattern(policy, nested=True)

    assert cost(compile_it, attempts=3) < 40  # half a millisecond each: it keeps the event loop for so long


def test_what_is_refused_of_these_and_why() -> None:
    for name, reason in {
        "objects within the depth of JSON": "Filter policy is too complex",
        "ors within the depth of JSON": "Filter policy is too complex",
        "ors in ors": "Filter policy can not have more than 5 keys",
        "ors side by side": "Filter policy can not have more than 5 keys",
        "dots": "Filter policy is too complex",
        "fine numbers": "Filter policy is too complex",
        "values": "Filter policy is too complex",
        "branches": "Filter policy can not have more than 5 keys",
        "names": "Filter policy can not have more than 5 keys",
        "refused values": "Filter policy is too complex",
        "stars in escapes": "Filter policy is too complex",
        "many members, and no JSON": "Filter policy is too complex",
    }.items():
        with pytest.raises(PatternError) as refused:
            compile_pattern(_POLICIES[name], nested=True)
        assert refused.value.reason == reason, name


_ELEMENTS = [{"a": f"x{number}", "b": f"y{number}"} for number in range(8000)]
_ABSENCES = '{"r":{' + ",".join(f'"{name}":["x",{{"exists":false}}]' for name in "abc") + "}}"


def _sets_of_fields(number: int) -> dict[str, str]:
    """Each field is absent, wanted or neither: 27 different elements."""
    return {name: "xy"[digit - 1] for at, name in enumerate("abc") if (digit := number // 3**at % 3)}


_BODIES: dict[str, tuple[str, str, bool]] = {
    # No element has both, so that all of them must be looked at.
    "elements": (
        '{"r":{"a":[{"prefix":"x"}],"b":["y"]}}',
        json.dumps({"r": [*_ELEMENTS, {"b": "y"}]}),
        False,
    ),
    "elements of elements": (
        '{"r":{"a":[{"prefix":"x"}],"b":["y"]}}',
        json.dumps({"r": [[[each, []]] for each in _ELEMENTS] + [[[{"b": "y"}]]]}),
        False,
    ),
    "all sets of fields": (
        _ABSENCES,
        json.dumps({"r": [list(map(_sets_of_fields, range(27)))] * 300}),
        True,
    ),
    "sets in many arrays": (
        '{"r":{"s":{"a":["x",{"exists":false}],"b":["x",{"exists":false}],"c":["x"]}}}',
        json.dumps({"r": [{"s": list(map(_sets_of_fields, range(1, 27)))} for _ in range(300)]}),
        True,
    ),
    "scalars": ('{"r":["no",{"numeric":[">",5]},{"suffix":"no"}]}', json.dumps({"r": ["x"] * 60_000}), False),
    "names": ('{"no":["x"]}', json.dumps({f"n{number}": 1 for number in range(25_000)}), False),
    "dots in names": (
        f'{{"{".".join("a" * 150)}":["x"]}}',
        json.dumps({".".join("a" * 130_000): "x"}),
        False,
    ),
    "depth": ('{"a":["x"]}', "[" * SIZE, False),
    "depth of objects": ('{"a":["x"]}', '{"a":' * (SIZE // 6) + "1" + "}" * (SIZE // 6), False),
    "wildcards": ('{"a":[{"wildcard":"*a*ab*b"}]}', json.dumps({"a": "a" * SIZE + "bb"}), True),
    "wildcard without an end": (
        '{"a":[{"wildcard":"*aab*aac*b"}]}',
        json.dumps({"a": "a" * SIZE + "b"}),
        False,
    ),
}


@every_row("name", _BODIES)
def test_a_body_takes_no_longer_than_its_size(name: str) -> None:
    policy, body, wanted = _BODIES[name]
    pattern = compile_pattern(policy, nested=True)
    assert matches(pattern, body_subject(body)) is wanted
    assert cost(lambda: matches(pattern, body_subject(body)), attempts=1) < 2000


def test_a_deep_body_is_invalid() -> None:
    pattern = compile_pattern('{"a":["x"]}', nested=True)
    deep = '{"a":"x","b":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert judge(pattern, body_subject(deep)) is Outcome.INVALID_BODY


def test_the_work_grows_with_the_number_of_elements() -> None:
    """Choices of elements would grow exponentially with it."""
    pattern = compile_pattern('{"r":{"a":["x"],"s":{"b":["y"],"t":{"c":["z"]}}}}', nested=True)

    def work(width: int) -> int:
        inner = [{"b": "y", "t": [{"c": "q"}] * width}] * width
        subject = body_subject(
            json.dumps({"r": [{"a": "x", "s": inner}] * width + [{"s": {"t": {"c": "z"}}}]})
        )
        assert not matches(pattern, subject)
        return subject.work

    assert 0 < work(10) < 5 * 10**3  # 1110 values
    assert work(20) < 10 * work(10)


def test_a_message_has_a_budget() -> None:
    """No pattern of many can hide in the work that the others make."""
    index: PatternIndex[int] = PatternIndex()
    for number in range(200):
        policy = f'{{"r":[{{"suffix":"no{number}"}},{{"anything-but":{{"wildcard":"x*"}}}}]}}'
        index.add(number, compile_pattern(policy, nested=True))
    with pytest.raises(TooMuchWork):
        index.matching(body_subject(json.dumps({"r": ["x"] * 50_000})))
    assert WORK_MAX < 200 * 50_000


@every_row("name", ["elements", "elements of elements", "sets in many arrays", "scalars", "names"])
def test_long_work_pauses(name: str) -> None:
    """The event loop does other things between the steps: none takes long, and a matching takes many."""
    policy, body, _ = _BODIES[name]
    pattern = compile_pattern(policy, nested=True)
    index: PatternIndex[int] = PatternIndex()
    index.add(1, pattern)
    for steps_of in (lambda subject: matching_steps(pattern, subject), index.matching_steps):
        steps = min(_longest_step_s(steps_of, body) for _ in range(3))
        assert steps < 20 * unit_s()


_LONG_TEXT_POLICIES = {
    "suffixes without case": [{"suffix": {"equals-ignore-case": f"q{number}"}} for number in range(150)],
    "refused without case": [{"anything-but": {"equals-ignore-case": "x" * 1000}}] * 150,
    "wildcards": [{"wildcard": f"*xxy*xxz{number}*"} for number in range(3)],
}


@every_row("name", _LONG_TEXT_POLICIES)
def test_a_long_text_does_not_make_the_steps_of_many_patterns_long(name: str) -> None:
    index: PatternIndex[int] = PatternIndex()
    pattern = compile_pattern(json.dumps({"a": _LONG_TEXT_POLICIES[name]}), nested=True)
    for number in range(20):
        index.add(number, pattern)
    body = json.dumps({"a": "x" * (SIZE - 100)})
    assert min(_longest_step_s(index.matching_steps, body) for _ in range(3)) < 20 * unit_s()


def _longest_step_s(steps_of: Callable[[Subject], Steps[object]], body: str) -> float:
    """The garbage of other tests is not collected meanwhile."""
    subject = body_subject(body)
    gc.disable()
    try:
        return _longest_of(steps_of(subject))
    finally:
        gc.enable()


def _longest_of(steps: Steps[object]) -> float:
    longest_s, count = 0.0, 0
    while True:
        began_s = thread_time()
        try:
            next(steps)
        except StopIteration:
            assert count > 5, "it pauses"
            return longest_s
        count += 1
        longest_s = max(longest_s, thread_time() - began_s)
