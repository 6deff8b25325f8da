"""The state of a metric alarm: CloudWatch's two tables of missing data, reasons, and properties of all rules."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.alarms import (
    PERIODS_BEYOND,
    AlarmPoint,
    AlarmRule,
    AlarmState,
    Comparison,
    Judgement,
    Missing,
    judge,
)
from support.rows import every_row

END_S = 1_765_977_840  # 2025-12-17 13:24
STATES: tuple[AlarmState, ...] = get_args(AlarmState)
TREATMENTS: tuple[Missing, ...] = get_args(Missing)


def rule(to_alarm: int | None = None, periods: int = 1, **other: Any) -> AlarmRule:
    members: dict[str, Any] = {
        "period_s": 60,
        "comparison": "GreaterThanThreshold",
        "threshold": 1.0,
        **other,
    }
    return AlarmRule(periods=periods, to_alarm=to_alarm, **members)


def points(text: str, period_s: int = 60) -> list[AlarmPoint]:
    """``0 - X``: below the threshold, missing, breaching; the newest last."""
    slots = text.split()
    first_s = END_S - len(slots) * period_s
    values = {"0": 0.0, "X": 2.0}
    return [
        AlarmPoint(first_s + at * period_s, values[slot], 1.0)
        for at, slot in enumerate(slots)
        if slot in values
    ]


# CloudWatch's user guide, "Configuring how alarms treat missing data": two tables of five rows each.
TABLE = [
    ("0 - X - X", 3, ("OK", "OK", "OK", "OK")),
    ("0 - - - -", 3, ("OK", "OK", "OK", "OK")),
    ("- - - - -", 3, ("INSUFFICIENT_DATA", "keep", "ALARM", "OK")),
    ("0 X X - X", 3, ("ALARM", "ALARM", "ALARM", "ALARM")),
    ("- - X - -", 3, ("ALARM", "keep", "ALARM", "OK")),
    ("0 - X - X", 2, ("ALARM", "ALARM", "ALARM", "ALARM")),
    ("0 0 X 0 X", 2, ("ALARM", "ALARM", "ALARM", "ALARM")),
    ("0 - X - -", 2, ("OK", "OK", "ALARM", "OK")),
    ("- - - - 0", 2, ("OK", "OK", "ALARM", "OK")),
    ("- - - X -", 2, ("ALARM", "keep", "ALARM", "OK")),
]
ORDER: tuple[Missing, ...] = ("missing", "ignore", "breaching", "notBreaching")
ROWS = [
    pytest.param(slots, to_alarm, missing, expected, id=f"{slots} {to_alarm}/3 {missing}")
    for slots, to_alarm, states in TABLE
    for missing, expected in zip(ORDER, states, strict=True)
]


@every_row("before", STATES)
@every_row(("slots", "to_alarm", "missing", "expected"), ROWS)
def test_the_tables_of_missing_data(
    slots: str, to_alarm: int, missing: Missing, expected: str, before: AlarmState
) -> None:
    found = judge(rule(to_alarm, 3, missing=missing), points(slots), before, END_S)
    assert found.state == (before if expected == "keep" else expected)


@pytest.mark.parametrize("slots", ["- - - - X", "- - - X -"])
def test_breaching_points_that_may_still_be_followed_by_others_do_not_alarm_yet(slots: str) -> None:
    assert judge(rule(3, 3), points(slots), "OK", END_S).state == "OK"


@pytest.mark.parametrize(
    ("comparison", "breaching"),
    [
        ("GreaterThanOrEqualToThreshold", (False, True, True)),
        ("GreaterThanThreshold", (False, False, True)),
        ("LessThanThreshold", (True, False, False)),
        ("LessThanOrEqualToThreshold", (True, True, False)),
    ],
)
def test_every_comparison(comparison: Comparison, breaching: tuple[bool, ...]) -> None:
    for value, breaches in zip((0.5, 1.0, 1.5), breaching, strict=True):
        found = judge(rule(comparison=comparison), [AlarmPoint(END_S - 60, value)], "OK", END_S)
        assert (found.state == "ALARM") == breaches


def reason(slots: str, before: AlarmState = "OK", **members: Any) -> str:
    return judge(rule(**members), points(slots), before, END_S).reason


def test_reasons() -> None:
    at = "(17/12/25 13:23:00)"
    assert reason("X") == f"Threshold Crossed: 1 datapoint [2.0 {at}] was greater than the threshold (1.0)."
    assert (
        reason("0") == f"Threshold Crossed: 1 datapoint [0.0 {at}] was not greater than the threshold (1.0)."
    )
    assert reason("X X", periods=2) == (
        f"Threshold Crossed: 2 datapoints [2.0 {at}, 2.0 (17/12/25 13:22:00)] were greater than the threshold (1.0)."
    )
    assert reason("X", to_alarm=1) == (
        f"Threshold Crossed: 1 out of the last 1 datapoints [2.0 {at}] was greater than the threshold (1.0) "
        "(minimum 1 datapoint for OK -> ALARM transition)."
    )
    assert reason("0 0 0", "ALARM", to_alarm=2, periods=3).endswith(
        "were not greater than the threshold (1.0) (minimum 2 datapoints for ALARM -> OK transition)."
    )
    assert reason("- -", periods=2, missing="breaching") == (
        "Threshold Crossed: no datapoints were received for 2 periods and 2 missing datapoints were treated as "
        "[Breaching]."
    )
    assert reason("-", missing="notBreaching") == (
        "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint was treated as "
        "[NonBreaching]."
    )
    assert reason("X -", periods=2, missing="breaching") == (
        "Threshold Crossed: 1 datapoint [2.0 (17/12/25 13:22:00)] was greater than the threshold (1.0) and "
        "1 missing datapoint was treated as [Breaching]."
    )
    assert reason("-") == "Insufficient Data: 1 datapoint was unknown."
    assert reason("- - -", periods=3) == "Insufficient Data: 3 datapoints were unknown."


def test_periods_without_a_value_are_named() -> None:
    found = judge(rule(periods=3), points("- X - 0 -"), "OK", END_S)
    assert [point.at_s for point in found.evaluated] == [END_S - 120, END_S - 240]
    assert found.missing_at_s == [END_S - 60]


@pytest.mark.parametrize(("percentile", "enough"), [(99.0, 1000), (50.0, 20), (10.0, 100), (100.0, 10)])
def test_a_percentile_of_few_samples_keeps_the_state(percentile: float, enough: int) -> None:
    ignoring = rule(ignore_few_samples_of=percentile)
    for state in STATES:
        few = judge(ignoring, [AlarmPoint(END_S - 60, 2.0, enough * 0.9)], state, END_S)
        assert few.state == state
    many = judge(ignoring, [AlarmPoint(END_S - 60, 2.0, enough * 1.01)], "OK", END_S)
    assert many.state == "ALARM"


@st.composite
def cases(draw: st.DrawFn) -> tuple[AlarmRule, list[AlarmPoint], AlarmState]:
    periods = draw(st.integers(1, 6))
    to_alarm = draw(st.none() | st.integers(1, periods))
    period_s = draw(st.sampled_from([10, 60, 300]))
    made = rule(
        to_alarm, periods, period_s=period_s, missing=draw(st.sampled_from(TREATMENTS)),
        comparison=draw(st.sampled_from(get_args(Comparison))),
    )  # fmt: skip
    slots = draw(st.lists(st.sampled_from("0-X"), min_size=periods + 2, max_size=periods + 2))
    return made, points(" ".join(slots), period_s), draw(st.sampled_from(STATES))


def judged(case: tuple[AlarmRule, list[AlarmPoint], AlarmState], **other: Any) -> Judgement:
    made, values, before = case
    members = {name: getattr(made, name) for name in made.__struct_fields__}
    return judge(AlarmRule(**members | other), values, before, END_S)


@given(cases())
def test_a_state_that_changes_has_a_reason(case: tuple[AlarmRule, list[AlarmPoint], AlarmState]) -> None:
    found = judged(case)
    assert found.state in STATES
    if found.state != case[2]:
        assert found.reason.endswith(".")
        assert len(found.reason) <= 1023 or len(found.evaluated) > 10
    assert len(found.evaluated) + len(found.missing_at_s) <= case[0].periods
    assert len({*(point.at_s for point in found.evaluated), *found.missing_at_s}) == len(
        found.evaluated
    ) + len(found.missing_at_s)


@given(cases())
def test_enough_points_decide_alone(case: tuple[AlarmRule, list[AlarmPoint], AlarmState]) -> None:
    """Neither what missing ones stand for nor the state before plays a part."""
    made, values, _ = case
    if len(values) >= made.periods:
        outcomes = {
            judge(made, values, before, END_S).state for before in STATES
        } | {judged(case, missing=missing).state for missing in TREATMENTS}  # fmt: skip
        breaching = sum(made.breaches(point.value) for point in values[-made.periods :])
        assert outcomes == {"ALARM" if breaching >= (made.to_alarm or made.periods) else "OK"}


@given(cases())
def test_what_missing_points_stand_for_is_in_order(
    case: tuple[AlarmRule, list[AlarmPoint], AlarmState],
) -> None:
    """If it alarms although missing ones do not breach, it alarms whatever they stand for."""
    if judged(case, missing="notBreaching").state == "ALARM":
        assert {judged(case, missing=missing).state for missing in TREATMENTS} == {"ALARM"}
    if judged(case, missing="breaching").state == "OK":
        assert judged(case, missing="notBreaching").state == "OK"


@given(cases())
def test_a_state_is_stable(case: tuple[AlarmRule, list[AlarmPoint], AlarmState]) -> None:
    made, values, _ = case
    state = judged(case).state
    assert judge(made, values, state, END_S).state == state


def test_the_range_is_longer_than_what_counts() -> None:
    assert rule(periods=3).range_s == 60 * (3 + PERIODS_BEYOND)
