"""The question that ``penstock policy test`` asks: a principal out of the file, a context out of texts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from penstock.auth.identity.book import Account, Book, Role, unique_id
from penstock.auth.identity.editing import Found
from penstock.auth.identity.principals import Principals
from penstock.auth.identity.sessions import Session
from penstock.auth.policy import Policy, PolicyInvalid, Question, Verdict, compile_policy, decide
from penstock.auth.policy.condition_keys import is_unknown
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.cli.failure import Failure
from penstock.names import Arn

_SESSION_NAME = "test"
_TAGS = {
    "aws:principaltag/": "principal_tags",
    "aws:resourcetag/": "resource_tags",
    "aws:requesttag/": "request_tags",
}
_PLAIN = {"aws:sourceip": "source_ip", "aws:sourcearn": "source_arn", "aws:sourceaccount": "source_account"}
_MOMENTS = {"aws:currenttime": "now_s", "aws:epochtime": "now_s", "aws:tokenissuetime": "issued_s"}


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
        parent_key="", parent_id="", issued_s=int(time.time()), expires_s=0, name=_SESSION_NAME,
    )  # fmt: skip
    return principals.session(session, "")


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
    asked: dict[str, Any] = {"now_s": time.time(), "keys": {}, **{tags: {} for tags in _TAGS.values()}}
    for key, value in context.items():
        _put(asked, key, value)
    issued_s = asked.pop("issued_s", principal.issued_s)
    tags = _overlaid(principal.tags, asked.pop("principal_tags"))
    tag_keys = asked.pop("tag_keys", ())
    return decide(
        Question(
            principal=msgspec.structs.replace(principal, issued_s=issued_s, tags=tags),
            action=action,
            resource=resource,
            resource_account=arn.account,
            resource_policy=policy,
            tag_keys=tuple(dict.fromkeys((*tag_keys, *asked["request_tags"]))),
            **asked,
        )
    )


def _overlaid(tags: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Conditions do not tell upper from lower case in a tag's name."""
    replaced = {name.lower() for name in given}
    return {name: value for name, value in tags.items() if name.lower() not in replaced} | dict(given)


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
    elif name in _MOMENTS:
        asked[_MOMENTS[name]] = _moment(key, value)
    elif name == "aws:tagkeys":
        asked["tag_keys"] = tuple(value.split(","))
    elif name == "sts:transitivetagkeys":
        asked["keys"][name] = tuple(value.split(","))
    elif is_unknown(key):
        raise Failure(f"--context {key}: no request has this key here")
    elif name.startswith("aws:"):
        raise Failure(f"--context {key}: that follows from who asks, and from --resource")
    else:
        asked["keys"][name] = value


def _moment(key: str, value: str) -> float:
    try:
        return float(value) if key.lower() == "aws:epochtime" else datetime.fromisoformat(value).timestamp()
    except ValueError:
        raise Failure(f'--context {key}="{value}" is not a time such as 2026-01-31T12:00:00Z') from None
