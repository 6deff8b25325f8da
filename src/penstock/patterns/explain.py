"""Why a message matches a pattern or not, in words, for people who test a filter."""

from __future__ import annotations

from typing import NamedTuple

from penstock.patterns.limits import PIECE
from penstock.patterns.matching import matching_steps
from penstock.patterns.pattern import EventPattern, Rule
from penstock.patterns.subject import FilterOutcome, FilterSubject
from penstock.patterns.terms import Kind, Term
from penstock.patterns.values import Value, json_text
from penstock.turns import Steps, finished, in_pieces

_SHOWN_VALUES_MAX = 20
_SHOWN_LENGTH_MAX = 200

_PROBLEMS = {
    FilterOutcome.NO_ATTRIBUTES: "The message has no attributes, so no filter policy on attributes matches it.",
    FilterOutcome.INVALID_ATTRIBUTES: "An attribute of type Number or String.Array is not JSON, so no filter policy "
    "on attributes matches the message.",
    FilterOutcome.INVALID_BODY: "The body is not a JSON object, so no filter policy on bodies matches it.",
    FilterOutcome.MISMATCH: "The body is an empty object, which no filter policy matches.",
}


class TermFinding(NamedTuple):
    """What one condition of one key finds in a message."""

    path: str
    condition: str  # as JSON
    found: tuple[str, ...]
    """The first values of the key, as JSON, each cut to a length that can be shown."""
    passed: bool
    reason: str


class Explanation(NamedTuple):
    outcome: FilterOutcome
    reason: str
    findings: tuple[TermFinding, ...]
    """They are in the order of the pattern. One condition of a key has to pass. None are made if no pattern could
    match."""


def explain(pattern: EventPattern, subject: FilterSubject) -> Explanation:
    """Raises TooMuchWork."""
    return finished(explaining_steps(pattern, subject))


def explaining_steps(pattern: EventPattern, subject: FilterSubject) -> Steps[Explanation]:
    """Does the same as :func:`explain`, in short steps."""
    if subject.problem is not None:
        return Explanation(subject.problem, _PROBLEMS[subject.problem], ())
    is_matched = yield from matching_steps(pattern, subject)
    by_rule: dict[Rule, list[TermFinding]] = {}
    for rule in pattern.rules:
        by_rule[rule] = yield from _findings(rule, subject)
    findings = tuple(finding for rule in pattern.rules for finding in by_rule[rule])
    if is_matched:
        reason = "Every key of the policy has a condition that passed."
        return Explanation(FilterOutcome.MATCHED, reason, findings)
    passed = {rule: any(each.passed for each in of) for rule, of in by_rule.items()}
    if any(all(passed[rule] for rule in branch) for branch in pattern.branches):
        reason = "Every key has a condition that passed, but not in the same element of an array."
    else:
        failed = dict.fromkeys(".".join(rule.path) for rule in pattern.rules if not passed[rule])
        reason = f"No condition passed for: {', '.join(failed)}."
    return Explanation(FilterOutcome.MISMATCH, reason, findings)


def _findings(rule: Rule, subject: FilterSubject) -> Steps[list[TermFinding]]:
    if rule.path not in subject.found:
        yield from subject.find(rule.path)
    found = subject.found[rule.path]
    values = [] if found is None else found.values
    subject.spend(len(values) * len(rule.terms))
    shown = tuple(json_text(value)[:_SHOWN_LENGTH_MAX] for value in values[:_SHOWN_VALUES_MAX])
    findings = []
    for term in rule.terms:
        passed, reason = yield from _verdict(term, values)
        findings.append(TermFinding(".".join(rule.path), term.text, shown, passed, reason))
    return findings


def _verdict(term: Term, values: list[Value]) -> Steps[tuple[bool, str]]:
    if term.kind is Kind.ABSENT:
        return (False, "it is present") if values else (True, "it is absent")
    if not values:
        return False, "it is absent"
    for piece in in_pieces(values, PIECE):
        for value in piece:
            if term.holds(value):
                return True, f"{json_text(value)[:_SHOWN_LENGTH_MAX]} matches"
        yield
    if len(values) == 1:
        return False, f"{json_text(values[0])[:_SHOWN_LENGTH_MAX]} does not match"
    return False, f"none of {len(values)} values matches"
