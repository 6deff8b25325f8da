"""Condition keys: how each is read from the question. Their names are not case-sensitive.

A key that is not listed here belongs to one service (:mod:`penstock.auth.policy.vocabulary`), and is read from
``Question.keys``. Otherwise it is missing, as
it is on AWS where the request has no such property (an organisation, a VPC).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.auth.policy.question import Question
from penstock.auth.policy.wildcards import NotComparable
from penstock.clock import iso_time

Value = str | tuple[str, ...] | None
"""A text; several for multivalued keys; None if the request has no such key."""

Reader = Callable[[Question], Value]


def _principal_arn(question: Question) -> Value:
    principal = question.principal
    if principal.kind in ("anonymous", "service"):
        return None
    return principal.role_arn or principal.arn  # IAM: for a session this is the role's ARN


def _principal_type(question: Question) -> Value:
    principal = question.principal
    if principal.role_arn is not None:
        return "AssumedRole"
    return {"anonymous": "Anonymous", "root": "Account", "service": "Service"}.get(principal.kind, "User")


def _service_name(question: Question) -> Value:
    return question.principal.id if question.principal.kind == "service" else None


def _current_time(question: Question) -> Value:
    return iso_time(question.now_s)


def _token_issue_time(question: Question) -> Value:
    issued_s = question.principal.issued_s
    return None if issued_s is None else iso_time(issued_s)


def _requested_region(question: Question) -> Value:
    parts = question.resource.split(":", 4)
    return parts[3] or None if len(parts) == 5 else None


_READERS: dict[str, Reader] = {
    "aws:principalarn": _principal_arn,
    "aws:principalaccount": lambda question: question.principal.account or None,
    "aws:principaltype": _principal_type,
    "aws:principalisawsservice": lambda question: "false" if _service_name(question) is None else "true",
    "aws:principalservicename": _service_name,
    "aws:viaawsservice": lambda _: "false",
    "aws:userid": lambda question: question.principal.id,
    "aws:username": lambda question: question.principal.name,
    "aws:resourceaccount": lambda question: question.resource_account or None,
    "aws:requestedregion": _requested_region,
    "aws:sourcearn": lambda question: question.source_arn or None,
    "aws:sourceaccount": lambda question: question.source_account or None,
    "aws:sourceowner": lambda question: question.source_account or None,  # its former name
    "aws:sourceip": lambda question: question.source_ip or None,
    "aws:securetransport": lambda question: "true" if question.secure else "false",
    "aws:currenttime": _current_time,
    "aws:tokenissuetime": _token_issue_time,
    "aws:epochtime": lambda question: str(int(question.now_s)),
    "aws:tagkeys": lambda question: question.tag_keys or None,
}

_TAGS: dict[str, Callable[[Question], Mapping[str, str]]] = {
    "aws:principaltag": lambda question: question.principal.tags,
    "aws:resourcetag": lambda question: question.resource_tags,
    "aws:requesttag": lambda question: question.request_tags,
}


def is_of_every_request(name: str) -> bool:
    """Whether a key, in lower case, does not belong to one service."""
    family, slash, _ = name.partition("/")
    return name in _READERS or bool(slash and family in _TAGS)


def reader(key: str) -> Reader:
    name = key.lower()
    if name in _READERS:
        return _READERS[name]
    family, slash, _ = name.partition("/")
    if slash and family in _TAGS:
        return _tag(_TAGS[family], key[len(family) + 1 :])
    return lambda question: question.keys.get(name)


def _tag(tags_of: Callable[[Question], Mapping[str, str]], name: str) -> Reader:
    folded = name.lower()

    def read(question: Question) -> Value:
        tags = tags_of(question)
        if not tags:
            return None
        # IAM ignores the case of a tag's key, SQS does not: one tag must not hide another from a condition.
        found = {value for key, value in tags.items() if key.lower() == folded}
        if len(found) > 1:
            raise NotComparable
        return found.pop() if found else None

    return read
