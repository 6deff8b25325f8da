"""Whether a message matches a pattern."""

from __future__ import annotations

from penstock.patterns.elements import holds_in_elements
from penstock.patterns.limits import PIECE
from penstock.patterns.pattern import Branch, EventPattern, Rule
from penstock.patterns.subject import FilterOutcome, FilterSubject
from penstock.patterns.values import Value
from penstock.turns import Steps, finished, in_pieces


def matches(pattern: EventPattern, subject: FilterSubject) -> bool:
    """Raises TooMuchWork, as all of these functions do."""
    return subject.problem is None and finished(matching_steps(pattern, subject))


def judge(pattern: EventPattern, subject: FilterSubject) -> FilterOutcome:
    """Returns why the message is delivered or not."""
    if subject.problem is not None:
        return subject.problem
    return FilterOutcome.MATCHED if matches(pattern, subject) else FilterOutcome.MISMATCH


def matching_steps(pattern: EventPattern, subject: FilterSubject) -> Steps[bool]:
    """Does the same as :func:`matches`, in short steps, for a subject without a problem.

    A subject is looked at by one at a time, and its steps are done to the end.
    """
    for branch in pattern.branches:
        if (yield from _holds(branch, subject)):
            return True
    return False


def _holds(branch: Branch, subject: FilterSubject) -> Steps[bool]:
    in_elements = 0
    is_doubtful = False
    for rule in branch:
        try:
            found = subject.found[rule.path]
        except KeyError:
            found = yield from subject.find(rule.path)
        if found is None:
            if rule.wants_absence:
                continue
            return False
        values, places = found
        in_elements += places is not None
        is_short = len(values) <= rule.at_a_time
        if rule.any_holds(values) if is_short else (yield from _any_holds(rule, values, subject)):
            continue
        if not rule.wants_absence or places is None:
            return False
        is_doubtful = True  # the values may all be in elements that the other rules do not choose
    if in_elements < 2:
        return not is_doubtful  # there is nothing else that a value could not be chosen together with
    return (yield from holds_in_elements(branch, subject))


def _any_holds(rule: Rule, values: list[Value], subject: FilterSubject) -> Steps[bool]:
    for piece in in_pieces(values, rule.at_a_time):
        if len(values) > PIECE:
            subject.spend(len(piece) * rule.cost)
        if rule.any_holds(piece):
            return True
        yield
    return False
