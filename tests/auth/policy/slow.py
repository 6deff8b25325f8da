"""A second evaluator: slow, obvious, and written from IAM's documentation alone. It shares no code with the first.

It reads the JSON again for each question, tries every way through a pattern, and knows nothing of levels or caches.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

from penstock.auth.policy import Question

Json = dict[str, Any]

OWNER_ONLY = {
    "sqs:addpermission",
    "sqs:cancelmessagemovetask",
    "sqs:createqueue",
    "sqs:deletequeue",
    "sqs:listmessagemovetasks",
    "sqs:listqueues",
    "sqs:listqueuetags",
    "sqs:removepermission",
    "sqs:setqueueattributes",
    "sqs:startmessagemovetask",
    "sqs:tagqueue",
    "sqs:untagqueue",
}
REPAIRS = {
    "sqs:getqueueattributes",
    "sqs:getqueueurl",
    "sqs:listqueues",
    "sqs:removepermission",
    "sqs:setqueueattributes",
}


class Documents(NamedTuple):
    identity: list[Json]
    session: Json | None
    resource: Json | None


def slow_decide(question: Question, documents: Documents) -> str:
    """``allow``, ``deny KIND`` for an explicit deny there, ``no KIND`` if there is no allow where one is needed."""
    who = question.principal
    action = question.action.lower().removesuffix("batch")
    own = who.kind != "anonymous" and who.account == question.resource_account
    session = [documents.session] if documents.session else []
    resource = [documents.resource] if documents.resource else []

    def said(effect: str, policies: list[Json], naming: Callable[[Json], bool]) -> bool:
        return any(
            statement["Effect"] == effect
            and naming(statement)
            and applies(statement, policy, action, question)
            for policy in policies
            for statement in as_list(policy["Statement"])
        )

    def anyone(_: Json) -> bool:
        return True

    def names_caller(statement: Json) -> bool:
        return bool(levels(statement, question))

    if said("Deny", documents.identity, anyone):
        return "deny identity"
    if said("Deny", session, anyone):
        return "deny session"
    is_repair = own and who.kind == "root" and action in REPAIRS
    if not is_repair and said("Deny", resource, names_caller):
        return "deny resource"
    if own and who.kind == "root":
        return "allow"

    by_identity = said("Allow", documents.identity, anyone)
    by_session = not session or said("Allow", session, anyone)
    by_resource = said("Allow", resource, names_caller)
    if not own:
        if action in OWNER_ONLY or not by_resource:
            return "no resource"
        if who.kind in ("root", "anonymous"):
            return "allow"
        if not by_identity:
            return "no identity"
        return "allow" if by_session else "no session"

    if said("Allow", resource, lambda statement: "self" in levels(statement, question)):
        return "allow"
    if by_identity or said("Allow", resource, lambda statement: "wide" in levels(statement, question)):
        return "allow" if by_session else "no session"
    return "no identity"


def levels(statement: Json, question: Question) -> set[str]:
    """Returns the ways in which the statement's Principal is the caller."""
    who = question.principal
    listed = statement["Principal"] if "Principal" in statement else statement["NotPrincipal"]
    names = ["*"] if listed == "*" else as_list(listed.get("AWS", []))
    root = f"arn:aws:iam::{who.account}:root"
    names_account = who.account in names or root in names
    if "NotPrincipal" in statement:
        wanted = [] if who.kind == "root" else [who.arn]
        wanted += [who.role_arn] if who.role_arn else []
        spared = "*" in names or (names_account and all(name in names for name in wanted))
        return set() if spared else {"self"}
    found = set()
    if (who.arn != "*" and who.arn in names) or (who.kind == "root" and names_account):
        found.add("self")
    if "*" in names or (who.role_arn and who.role_arn in names):
        found.add("wide")
    if names_account:
        found.add("account")
    return found


def applies(statement: Json, policy: Json, action: str, question: Question) -> bool:
    newer = policy.get("Version") == "2012-10-17"
    if "Action" in statement:
        if not any(like(plain(name.lower()), action) for name in as_list(statement["Action"])):
            return False
    elif any(like(plain(name.lower()), action) for name in as_list(statement["NotAction"])):
        return False

    def covers(text: str) -> bool:
        head, tail = after_fifth_colon(text)
        filled = expand(tail, question) if newer else plain(tail)
        return filled is not None and like(plain(head) + filled, question.resource)

    if "Resource" in statement:
        if not any(covers(text) for text in as_list(statement["Resource"])):
            return False
    elif "NotResource" in statement and any(covers(text) for text in as_list(statement["NotResource"])):
        return False
    return all(
        holds(operator, key, [str(value) for value in as_list(values)], newer, statement["Effect"], question)
        for operator, keys in statement.get("Condition", {}).items()
        for key, values in keys.items()
    )


def holds(operator: str, key: str, values: list[str], newer: bool, effect: str, question: Question) -> bool:
    actual = context(key, question)
    if operator == "Null":
        return (actual == []) == (values == ["true"])
    name = operator.split(":")[-1].removesuffix("IfExists")
    positive = name.replace("Not", "")
    negated = positive != name
    may_lack_a_value = newer and positive.startswith(("String", "Arn"))
    if (
        negated
        and effect == "Allow"
        and may_lack_a_value
        and None in [expand(value, question) for value in values]
    ):
        return False
    if not actual:
        if operator.endswith("IfExists") or operator.startswith("ForAllValues:"):
            return True
        return negated and not operator.startswith("ForAnyValue:")
    results = [any(compare(positive, value, each, newer, question) for value in values) for each in actual]
    if operator.startswith("ForAllValues:"):
        return all(result != negated for result in results)
    if operator.startswith("ForAnyValue:"):
        return any(result != negated for result in results)
    return any(results) != negated


def compare(operator: str, wanted: str, actual: str, newer: bool, question: Question) -> bool:
    if operator.startswith(("String", "Arn")):
        filled = expand(wanted, question) if newer else plain(wanted)
        if filled is None:
            return False
        if operator == "StringLike":
            return like(filled, actual)
        if operator.startswith("Arn"):
            theirs, ours = split_arn(filled), actual.split(":", 5)
            if filled == [("*", True)]:
                return len(ours) == 6
            return len(theirs) == len(ours) == 6 and all(map(like, theirs, ours))
        text = "".join(character for character, _ in filled)
        if operator == "StringEqualsIgnoreCase":
            return text.lower() == actual.lower()
        return text == actual
    if operator == "IpAddress":
        return ip_address(actual) in ip_network(wanted, strict=False)
    if operator == "Bool":
        return wanted.lower() == actual.lower()
    if operator == "BinaryEquals":
        return wanted == actual
    if operator.startswith("Date"):
        one, two = seconds(actual), seconds(wanted)
    else:
        try:
            one, two = Fraction(actual), Fraction(wanted)
        except ValueError:
            return False
    relation = operator.removeprefix("Date").removeprefix("Numeric")
    return {
        "Equals": one == two,
        "LessThan": one < two,
        "LessThanEquals": one <= two,
        "GreaterThan": one > two,
        "GreaterThanEquals": one >= two,
    }[relation]


def seconds(text: str) -> Fraction:
    if text.isdigit():
        return Fraction(text)
    return Fraction(datetime.fromisoformat(text).timestamp())


def context(key: str, question: Question) -> list[str]:
    """The values of a key in the request; none if it is missing."""
    who = question.principal
    name = key.lower()
    for prefix, tags in (
        ("aws:principaltag/", who.tags),
        ("aws:resourcetag/", question.resource_tags),
        ("aws:requesttag/", question.request_tags),
    ):
        if name.startswith(prefix):
            return [value for tag, value in tags.items() if tag.lower() == name[len(prefix) :]]
    types = {"anonymous": "Anonymous", "root": "Account", "user": "User"}
    values: dict[str, Any] = {
        "aws:principalarn": None if who.kind == "anonymous" else who.role_arn or who.arn,
        "aws:principalaccount": who.account,
        "aws:principaltype": "AssumedRole" if who.role_arn else types.get(who.kind, "User"),
        "aws:principalisawsservice": "false",
        "aws:viaawsservice": "false",
        "aws:userid": who.id,
        "aws:username": who.name,
        "aws:resourceaccount": question.resource_account,
        "aws:requestedregion": question.resource.split(":")[3],
        "aws:sourcearn": question.source_arn,
        "aws:sourceaccount": question.source_account,
        "aws:sourceip": question.source_ip,
        "aws:securetransport": str(question.secure).lower(),
        "aws:currenttime": datetime.fromtimestamp(int(question.now_s), UTC).isoformat(),
        "aws:epochtime": str(int(question.now_s)),
        "aws:tokenissuetime": who.issued_s and datetime.fromtimestamp(int(who.issued_s), UTC).isoformat(),
    }
    if name == "aws:tagkeys":
        return list(question.tag_keys)
    value = values[name] if name in values else question.keys.get(name)
    if isinstance(value, tuple):
        return list(value)
    return [value] if value else []


Characters = list[tuple[str, bool]]
"""Each character of a pattern, and whether it is a wildcard."""


def plain(text: str) -> Characters:
    return [(character, character in "*?") for character in text]


def expand(text: str, question: Question) -> Characters | None:
    """Returns the text with its variables filled in; None if one has no value."""
    if "${" not in text:
        return plain(text)
    start = text.index("${")
    if "}" not in text[start:]:
        return plain(text)
    end = text.index("}", start)
    inside = text[start + 2 : end]
    rest = expand(text[end + 1 :], question)
    if inside in ("*", "?", "$"):
        value = inside
    else:
        key, _, default = inside.partition(",")
        found = context(key.strip(), question)
        if key.strip().lower() == "aws:tagkeys" or not found:
            if not default.strip():
                return None
            value = default.strip().strip("'")
        else:
            value = found[0]
    if rest is None:
        return None
    return plain(text[:start]) + [(character, False) for character in value] + rest


def like(pattern: Characters, text: str) -> bool:
    @cache
    def fits(at: int, place: int) -> bool:
        if at == len(pattern):
            return place == len(text)
        character, wild = pattern[at]
        if wild and character == "*":
            return fits(at + 1, place) or (place < len(text) and fits(at, place + 1))
        return place < len(text) and (wild or character == text[place]) and fits(at + 1, place + 1)

    return fits(0, 0)


def split_arn(pattern: Characters) -> list[Characters]:
    parts: list[Characters] = [[]]
    for character in pattern:
        if character[0] == ":" and len(parts) < 6:
            parts.append([])
        else:
            parts[-1].append(character)
    return parts


def after_fifth_colon(text: str) -> tuple[str, str]:
    parts = text.split(":", 5)
    if len(parts) < 6:
        return text, ""
    return ":".join(parts[:5]) + ":", parts[5]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
