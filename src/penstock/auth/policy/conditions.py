"""Conditions: one operator, one key, some values.

A condition is true if any of its values matches, or for a negated operator (StringNotEquals) if none does. A value
that cannot be compared makes the condition of an Allow false and that of a Deny true (``NotComparable``).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.auth.policy.condition_keys import Reader, reader
from penstock.auth.policy.document import Condition, PolicyInvalid
from penstock.auth.policy.operators import OPERATORS, Family, Test
from penstock.auth.policy.question import Question
from penstock.auth.policy.variables import template
from penstock.auth.policy.wildcards import LENGTH_MAX, NotComparable

QuestionTest = Callable[[Question], bool]


def compile_condition(condition: Condition, *, allows: bool, has_variables: bool) -> QuestionTest:
    every, name, if_exists = _take_apart(condition.operator)
    read = reader(condition.key)
    if name == "null":
        if every is not None or if_exists:
            raise PolicyInvalid(f"{condition.operator} is not a condition operator: use Null alone")
        return _null(read, condition)
    if name not in OPERATORS:
        raise PolicyInvalid(f"{condition.operator} is not a condition operator")
    family, negated = OPERATORS[name]
    tests = [family.test(value, has_variables) for value in condition.values]
    matches = tests[0] if len(tests) == 1 else _any_of(tuple(tests))
    # IAM: without the key an operator is false, a negated one true, and one with IfExists true.
    if every is None:
        holds = _plain(read, matches, negated, if_missing=negated or if_exists)
    else:
        # IAM: ForAnyValue is false without the key, ForAllValues true.
        holds = _each(read, matches, negated, if_missing=every or if_exists, quantifier=all if every else any)
    if negated and allows:
        # A variable without a value cannot be compared, and must not make an Allow apply.
        return _only_with_values(holds, condition, family, has_variables)
    return holds


def _take_apart(operator: str) -> tuple[bool | None, str, bool]:
    """Whether every value must match (None: there is no prefix), the operator in lower case, whether IfExists."""
    prefix, colon, name = operator.lower().rpartition(":")
    every = {"forallvalues:": True, "foranyvalue:": False, "": None}.get(prefix + colon, ...)
    if every is ...:
        raise PolicyInvalid(f"{operator} is not a condition operator")
    return every, name.removesuffix("ifexists"), name.endswith("ifexists")


def _null(read: Reader, condition: Condition) -> QuestionTest:
    wanted = {value.lower() for value in condition.values}
    if not wanted <= {"true", "false"}:
        raise PolicyInvalid("invalid value for Null: expected true or false")
    return lambda question: ("true" if read(question) is None else "false") in wanted


def _any_of(tests: tuple[Test, ...]) -> Test:
    def matches(question: Question, value: str) -> bool:
        for test in tests:  # noqa: SIM110 (a loop is faster than a generator)
            if test(question, value):
                return True
        return False

    return matches


def _short(value: str) -> str:
    if len(value) > LENGTH_MAX:
        raise NotComparable
    return value


def _plain(read: Reader, matches: Test, negated: bool, *, if_missing: bool) -> QuestionTest:
    def holds(question: Question) -> bool:
        value = read(question)
        if value is None:
            return if_missing
        if isinstance(value, str):
            return matches(question, _short(value)) is not negated
        return any(matches(question, _short(each)) for each in value) is not negated

    return holds


def _each(
    read: Reader, matches: Test, negated: bool, *, if_missing: bool, quantifier: Callable[..., bool]
) -> QuestionTest:
    def holds(question: Question) -> bool:
        value = read(question)
        if value is None:
            return if_missing
        values = (value,) if isinstance(value, str) else value
        return quantifier(matches(question, _short(each)) is not negated for each in values)

    return holds


def _only_with_values(
    holds: QuestionTest, condition: Condition, family: Family, has_variables: bool
) -> QuestionTest:
    if not family.takes_variables:
        return holds
    templates = [template(value, wildcards=False, variables=has_variables) for value in condition.values]
    open_ones = [each for each in templates if each.fixed is None]
    if not open_ones:
        return holds
    return lambda question: all(each.fill(question) is not None for each in open_ones) and holds(question)
