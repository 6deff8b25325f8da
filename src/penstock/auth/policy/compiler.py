"""From a policy's text to a Policy that answers quickly."""

from __future__ import annotations

from penstock.auth.policy.caching import SizedCache
from penstock.auth.policy.condition_keys import is_unknown
from penstock.auth.policy.conditions import Holds, compile_condition
from penstock.auth.policy.document import Document, Kind, Listed, PolicyInvalid, StatementText, read_document
from penstock.auth.policy.principals import DIRECT, NOBODY, Means, compile_principals
from penstock.auth.policy.question import Question, Verdict
from penstock.auth.policy.statements import Policy, Reach, Statement
from penstock.auth.policy.templates import Template, template
from penstock.auth.policy.wildcards import Match, NotComparable, any_of, matcher, pattern, tokens
from penstock.auth.principal import Principal

_CACHED_CHARACTERS_MAX = 2 * 1024 * 1024  # thousands of usual policies; as many of the worst kind take 250 MB

_KINDS: dict[Kind, str] = {
    "identity": "an identity-based policy",
    "resource": "a resource-based policy",
    "session": "a session policy",
    "trust": "a role trust policy",
}


def compile_policy(text: str, *, kind: Kind, name: str = "") -> Policy:
    """Raises PolicyInvalid. ``name`` is how verdicts speak of it, besides its kind."""
    return _compiled((text, kind, name))  # a queue's is compiled again only when it changes


def _compile_anew(asked: tuple[str, Kind, str]) -> Policy:
    text, kind, name = asked
    document = read_document(text, kind)
    label = f"{kind}:{name}" if name else kind
    statements = []
    for place, statement in enumerate(document.statements, 1):
        try:
            statements.append(_compile(statement, kind, label, document.has_variables))
        except PolicyInvalid as error:
            raise PolicyInvalid(f"statement {place}: {error}") from error
    return Policy(kind, name, tuple(statements), _unknown_keys(document))


_compiled = SizedCache(_compile_anew, lambda asked: len(asked[0]), _CACHED_CHARACTERS_MAX)


def _unknown_keys(document: Document) -> tuple[str, ...]:
    keys = (condition.key for statement in document.statements for condition in statement.conditions)
    return tuple(dict.fromkeys(key for key in keys if is_unknown(key)))


def _compile(statement: StatementText, kind: Kind, label: str, has_variables: bool) -> Statement:
    source = _KINDS[kind]
    said = f"allowed by {source}" if statement.allows else f"with an explicit deny in {source}"
    resources, covers = _resources(statement.resources, kind, has_variables)
    means = _everybody if statement.principals is None else compile_principals(statement.principals)
    conditions = [
        compile_condition(condition, allows=statement.allows, has_variables=has_variables)
        for condition in statement.conditions
    ]
    return Statement(
        allows=statement.allows,
        actions=_actions(statement.actions),
        resources=resources,
        reach=_reach(
            means, tuple(conditions if covers is None else [covers, *conditions]), allows=statement.allows
        ),
        verdict=Verdict(statement.allows, said, label, statement.name),
        is_fixed=not conditions and covers is None,
    )


def _actions(listed: Listed) -> Match:
    for action in listed.values:
        if action != "*" and ":" not in action:
            raise PolicyInvalid(f'{action} is no action: it lacks the service, as in "sqs:{action}"')
    matches = any_of(pattern(action.lower()) for action in listed.values)
    return (lambda action: not matches(action)) if listed.negated else matches


def _reach(means: Means, conditions: tuple[Holds, ...], *, allows: bool) -> Reach:
    def reach(question: Question) -> int:
        closeness = means(question.principal)
        if closeness:
            for holds in conditions:
                try:
                    if not holds(question):
                        return NOBODY
                except NotComparable:
                    if allows:
                        return NOBODY
        return closeness

    return reach


def _everybody(_: Principal) -> int:
    return DIRECT  # an identity's policy is only asked about that identity


def _resources(listed: Listed | None, kind: Kind, has_variables: bool) -> tuple[Match, Holds | None]:
    """Which resources it can be about at all; and, if that depends on variables, whether this one is."""
    if listed is None:
        return (lambda _: True), None
    templates = [_resource(text, kind, has_variables) for text in listed.values]
    fixed = any_of(matcher(each.fixed) for each in templates if each.fixed is not None)
    open_ones = tuple(each for each in templates if each.fixed is None)
    negated = listed.negated
    if negated:
        possible: Match = lambda resource: not fixed(resource)  # noqa: E731
    else:
        possible = any_of(matcher(each.loosest) for each in templates)
    if not open_ones:
        return possible, None

    def covers(question: Question) -> bool:
        if fixed(question.resource):
            return not negated
        for each in open_ones:
            filled = each.fill(question)
            if filled is not None and matcher(filled)(question.resource):
                return not negated
        return negated

    return possible, covers


def _resource(text: str, kind: Kind, has_variables: bool) -> Template:
    """IAM: variables stand behind the fifth colon only. In a queue's policy SQS takes any text, ARN or not."""
    place, colons = 0, 0
    while colons < 5 and place < len(text):
        colons += text[place] == ":"
        place += 1
    head, tail = text[:place], text[place:]
    if kind != "resource":
        if text != "*" and not text.startswith("arn:"):
            raise PolicyInvalid(f'{text} is no resource: it must be an ARN or "*"')
        if has_variables and "${" in head:
            raise PolicyInvalid(f"{text} has a variable before its fifth colon")
    return Template(tokens(head) + template(tail, wildcards=True, variables=has_variables).parts)
