"""Compiles policies: from text to statements that are found by action and resource and evaluated as closures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.auth.policy.conditions import QuestionTest, compile_condition
from penstock.auth.policy.document import Document, Kind, Listed, PolicyInvalid, StatementText, read_document
from penstock.auth.policy.principal_element import DIRECT, NONE, LevelOf, MatchLevel, compile_principals
from penstock.auth.policy.question import Question, Verdict
from penstock.auth.policy.variables import Template, template
from penstock.auth.policy.vocabulary import is_unknown
from penstock.auth.policy.wildcards import Match, NotComparable, any_of, matcher, pattern, tokens
from penstock.auth.principal import Principal
from penstock.cache import BoundedCache

_CACHED_CHARACTERS = 2 * 1024 * 1024  # thousands of usual policies; policies of the worst kind take 250 MB
_APPLICABLE_CACHED = 512  # actions on resources, for each policy
_RESOURCE_CACHED_MAX = 256  # characters: the ARN of a queue is shorter, and callers may name other things

_KINDS: dict[Kind, str] = {
    "identity": "an identity-based policy",
    "resource": "a resource-based policy",
    "session": "a session policy",
    "trust": "a role trust policy",
}


class Statement(NamedTuple):
    allows: bool
    actions: Match  # of an action in lower case
    resources: Match
    # Returns how directly it names the caller, if its conditions hold; else NONE.
    level: Callable[[Question], MatchLevel]
    verdict: Verdict  # the answer where it applies
    is_fixed: bool  # it depends on nothing but the caller, the action and the resource


class Applicable(NamedTuple):
    """The statements of a policy for one action on one resource."""

    allows: tuple[Statement, ...]
    denies: tuple[Statement, ...]
    is_fixed: bool  # all of them are


class Policy:
    __slots__ = ("_applicable", "_condition_keys", "kind", "name", "statements")

    def __init__(
        self, kind: Kind, name: str, statements: tuple[Statement, ...], condition_keys: tuple[str, ...] = ()
    ) -> None:
        self.kind = kind
        self.name = name
        self.statements = statements
        self._condition_keys = condition_keys
        self._applicable: BoundedCache[tuple[str, str], Applicable] = BoundedCache(_APPLICABLE_CACHED)

    def __repr__(self) -> str:
        return f"Policy({self.kind!r}, {self.name!r})"

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """Condition keys that no request here has: they count as missing."""
        return tuple(filter(is_unknown, self._condition_keys))

    def applicable(self, action: str, resource: str) -> Applicable:
        found = self._applicable.get((action, resource))
        if found is None:
            matching = [each for each in self.statements if each.actions(action) and each.resources(resource)]
            found = Applicable(
                allows=tuple(each for each in matching if each.allows),
                denies=tuple(each for each in matching if not each.allows),
                is_fixed=all(each.is_fixed for each in matching),
            )
            if len(resource) <= _RESOURCE_CACHED_MAX:
                self._applicable.put((action, resource), found)
        return found


_policies: BoundedCache[tuple[str, Kind, str], Policy] = BoundedCache(
    _CACHED_CHARACTERS, lambda key: 128 + len(key[0])
)


def compile_policy(text: str, *, kind: Kind, name: str = "") -> Policy:
    """Raises PolicyInvalid. Verdicts refer to the policy by its kind and ``name``."""
    key = text, kind, name
    return _policies.get(key) or _policies.put(key, _compile_policy(text, kind, name))


def _compile_policy(text: str, kind: Kind, name: str) -> Policy:
    document = read_document(text, kind)
    label = f"{kind}:{name}" if name else kind
    statements = []
    for place, statement in enumerate(document.statements, 1):
        try:
            statements.append(_compile_statement(statement, kind, label, document.has_variables))
        except PolicyInvalid as error:
            raise type(error)(f"statement {place}: {error}") from error
    return Policy(kind, name, tuple(statements), _condition_keys(document))


def _condition_keys(document: Document) -> tuple[str, ...]:
    keys = (condition.key for statement in document.statements for condition in statement.conditions)
    return tuple(dict.fromkeys(keys))


def _compile_statement(statement: StatementText, kind: Kind, label: str, has_variables: bool) -> Statement:
    source = _KINDS[kind]
    reason = f"allowed by {source}" if statement.allows else f"with an explicit deny in {source}"
    resources, covers = _resources(statement.resources, kind, has_variables)
    # The policy of an identity is only asked about that identity.
    principals = statement.principals
    level_of = _direct if principals is None else compile_principals(principals, statement.services)
    conditions = [
        compile_condition(condition, allows=statement.allows, has_variables=has_variables)
        for condition in statement.conditions
    ]
    return Statement(
        allows=statement.allows,
        actions=_actions(statement.actions),
        resources=resources,
        level=_level(
            level_of, tuple(conditions if covers is None else [covers, *conditions]), allows=statement.allows
        ),
        verdict=Verdict(statement.allows, reason, label, statement.name),
        is_fixed=not conditions and covers is None,
    )


def _direct(_: Principal) -> MatchLevel:
    return DIRECT


def _actions(listed: Listed) -> Match:
    for action in listed.values:
        if action != "*" and ":" not in action:
            raise PolicyInvalid(
                f'invalid action {action}: expected a service and an action, as in "sqs:{action}"'
            )
    matches = any_of(pattern(action.lower()) for action in listed.values)
    return (lambda action: not matches(action)) if listed.negated else matches


def _level(
    level_of: LevelOf, conditions: tuple[QuestionTest, ...], *, allows: bool
) -> Callable[[Question], MatchLevel]:
    def level(question: Question) -> MatchLevel:
        found = level_of(question.principal)
        if found:
            for holds in conditions:
                try:
                    if not holds(question):
                        return NONE
                except NotComparable:
                    if allows:
                        return NONE
        return found

    return level


def _resources(listed: Listed | None, kind: Kind, has_variables: bool) -> tuple[Match, QuestionTest | None]:
    """Which resources it can apply to at all; and, if that depends on variables, whether it applies to this one."""
    if listed is None:
        return (lambda _: True), None
    templates = [_resource(text, kind, has_variables) for text in listed.values]
    fixed = any_of(matcher(each.fixed) for each in templates if each.fixed is not None)
    variable = tuple(each for each in templates if each.fixed is None)
    negated = listed.negated
    if negated:
        possible: Match = lambda resource: not fixed(resource)  # noqa: E731
    else:
        possible = any_of(matcher(each.loosest) for each in templates)
    if not variable:
        return possible, None

    def covers(question: Question) -> bool:
        if fixed(question.resource):
            return not negated
        for each in variable:
            filled = each.fill(question)
            if filled is not None and matcher(filled)(question.resource):
                return not negated
        return negated

    return possible, covers


def _resource(text: str, kind: Kind, has_variables: bool) -> Template:
    """IAM: variables stand behind the fifth colon only. SQS: a queue's policy may name any text, ARN or not."""
    place, colons = 0, 0
    while colons < 5 and place < len(text):
        colons += text[place] == ":"
        place += 1
    head, tail = text[:place], text[place:]
    if kind != "resource":
        if text != "*" and not text.startswith("arn:"):
            raise PolicyInvalid(f'invalid resource {text}: expected an ARN or "*"')
        if has_variables and "${" in head:
            raise PolicyInvalid(f"{text} has a variable before its fifth colon")
    return Template(tokens(head) + template(tail, wildcards=True, variables=has_variables).parts)
