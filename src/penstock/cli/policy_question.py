"""The question that ``penstock policy test`` asks: a principal out of the file, a context out of texts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.auth.identity.book import Account, Book, Role, unique_id
from penstock.auth.identity.editing import Found
from penstock.auth.identity.principals import Principals
from penstock.auth.identity.sessions import Session
from penstock.auth.policy import Policy, PolicyInvalid, Question, Verdict, compile_policy, decide
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.cli.failure import Failure
from penstock.names import Arn

_SESSION_NAME = "test"
_NOT_REVOKED_S = 2**53
_TAGS = {"aws:resourcetag/": "resource_tags", "aws:requesttag/": "request_tags"}
_PLAIN = {"aws:sourceip": "source_ip", "aws:sourcearn": "source_arn", "aws:sourceaccount": "source_account"}


def principal_of(book: Book, found: Found | None) -> Principal:
    if found is None:
        return ANONYMOUS
    principals = Principals(book)
    if isinstance(found.owner, Account):
        return principals.root(found.account, "")
    if not isinstance(found.owner, Role):
        return principals.user(found.account, found.name, "")
    session = Session(
        kind="role", account=found.account, owner=found.name, owner_id=unique_id(found.owner, found.arn),
        parent_key="", issued_s=_NOT_REVOKED_S, expires_s=0, name=_SESSION_NAME,
    )  # fmt: skip
    principal = principals.session(session, "", principals.root(found.account, ""))
    assert principal is not None, "the role was found in this book"
    return principal


def resource_policy(text: str, path: Path) -> Policy:
    try:
        return compile_policy(text, kind="resource")
    except PolicyInvalid as error:
        raise Failure(f'"{path}" is no policy of a queue: {error}') from None


def ask(
    principal: Principal, action: str, resource: str, policy: Policy | None, context: Mapping[str, str]
) -> Verdict:
    arn = Arn.parse(resource)
    if arn is None:
        raise Failure(
            f'--resource "{resource}" is not an ARN such as arn:aws:sqs:us-east-1:000000000000:orders'
        )
    asked: dict[str, Any] = {"now_s": time.time(), "resource_tags": {}, "request_tags": {}, "keys": {}}
    for key, value in context.items():
        _put(asked, key, value)
    return decide(
        Question(
            principal=principal, action=action, resource=resource, resource_account=arn.account,
            resource_policy=policy, tag_keys=tuple(asked["request_tags"]), **asked,
        )
    )  # fmt: skip


def _put(asked: dict[str, Any], key: str, value: str) -> None:
    name = key.lower()
    for prefix, tags in _TAGS.items():
        if name.startswith(prefix):
            asked[tags][key[len(prefix) :]] = value
            return
    if name in _PLAIN:
        asked[_PLAIN[name]] = value
    elif name == "aws:securetransport":
        asked["secure"] = value.lower() == "true"
    elif name in ("aws:currenttime", "aws:epochtime"):
        asked["now_s"] = _moment(key, value)
    else:
        asked["keys"][name] = value


def _moment(key: str, value: str) -> float:
    try:
        return float(value) if key.lower() == "aws:epochtime" else datetime.fromisoformat(value).timestamp()
    except ValueError:
        raise Failure(f'--context {key}="{value}" is not a time such as 2026-01-31T12:00:00Z') from None
