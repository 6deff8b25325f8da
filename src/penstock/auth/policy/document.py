"""Policy documents: JSON text to statements, with every part in its place. What the parts mean is compiled elsewhere.

Rule 1: what is not understood is refused, never skipped: a misspelt ``Conditions`` would open the door.
Rule 2: a key that stands twice is refused, as JSON keeps only the last one.
Rule 3: which parts a statement needs depends on where the policy hangs: see ``_PARTS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

Kind = Literal["identity", "resource", "session", "trust"]
"""Of a user or role; of a queue; of a session that AssumeRole narrowed; of a role: who may assume it."""

BYTES_MAX = 20_480  # the largest that IAM takes anywhere
_VERSIONS = ("2012-10-17", "2008-10-17")

_PARTS: dict[str, tuple[str, ...]] = {
    "identity": ("Action", "Resource"),
    "session": ("Action", "Resource"),
    "resource": ("Principal", "Action", "Resource"),
    "trust": ("Principal", "Action"),  # the resource is the role itself
}


class PolicyInvalid(Exception):
    """One sentence for whoever wrote the policy."""


class Listed(NamedTuple):
    """The values of one part; ``negated`` if it was written as ``NotAction`` and the like."""

    values: tuple[str, ...]
    negated: bool


class Condition(NamedTuple):
    operator: str
    key: str
    values: tuple[str, ...]


class StatementText(NamedTuple):
    name: str  # its Sid, or its place: "#2"
    allows: bool
    principals: Listed | None  # of "AWS"; the others are nobody here
    actions: Listed
    resources: Listed | None
    conditions: tuple[Condition, ...]
    principals_count: int


class Document(NamedTuple):
    has_variables: bool  # the newer version of the language: ${aws:username}
    statements: tuple[StatementText, ...]


def read_document(text: str, kind: Kind) -> Document:
    document = _load(text)
    unknown = document.keys() - {"Version", "Id", "Statement"}
    if unknown:
        raise PolicyInvalid(f"a policy has no part {_names(unknown)}")
    version = document.get("Version", "2008-10-17")
    if version not in _VERSIONS:
        raise PolicyInvalid(f"Version must be one of {', '.join(_VERSIONS)}")
    if not isinstance(document.get("Id", ""), str):
        raise PolicyInvalid("Id must be a text")
    listed = document.get("Statement")
    if isinstance(listed, dict):
        listed = [listed]
    if not isinstance(listed, list) or not listed:
        raise PolicyInvalid("Statement must be a statement or a list of them")
    statements = tuple(_statement(each, place, kind) for place, each in enumerate(listed, 1))
    # In a queue's policy a Sid may be used twice: SQS has always taken that.
    if kind != "resource" and len({statement.name for statement in statements}) < len(statements):
        raise PolicyInvalid("each Sid may stand only once in a policy")
    return Document(version == "2012-10-17", statements)


def editable_document(text: str) -> dict[str, Any]:
    """The document to be changed and written again: what is not changed then still means the same."""
    document = _load(text, partial(_as_written, int), partial(_as_written, float))
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, escaped
        raise PolicyInvalid("a policy must be made of characters") from error
    return document


def _as_written(number: type[int] | type[float], text: str) -> int | float | str:
    """A number that would be written otherwise (1e999, 1.10) becomes the text that conditions take it for anyway."""
    value = number(text)
    return value if repr(value) == text else text


def _load(
    text: str, parse_int: Callable[[str], Any] = str, parse_float: Callable[[str], Any] = str
) -> dict[str, Any]:
    if len(text.encode(errors="replace")) > BYTES_MAX:
        raise PolicyInvalid(f"a policy has {BYTES_MAX} bytes at most")
    try:
        # Numbers stay the text that they are: they are compared as numbers only where an operator says so.
        document = json.loads(
            text,
            object_pairs_hook=_each_once,
            parse_int=parse_int,
            parse_float=parse_float,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as error:
        raise PolicyInvalid("a policy must be valid JSON") from error
    if not isinstance(document, dict):
        raise PolicyInvalid("a policy must be a JSON object")
    return document


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise PolicyInvalid(f"{key} stands twice")
        found[key] = value
    return found


def _no_number(text: str) -> None:
    raise PolicyInvalid(f"{text} is no number")


def _statement(statement: Any, place: int, kind: Kind) -> StatementText:
    where = f"statement {place}"
    if not isinstance(statement, dict):
        raise PolicyInvalid(f"{where} must be a JSON object")
    needed = _PARTS[kind]
    known = {"Sid", "Effect", "Condition", *needed, *(f"Not{part}" for part in needed)}
    unknown = statement.keys() - known
    if unknown:
        raise PolicyInvalid(f"{where}: there is no {_names(unknown)} in a policy of this kind")
    sid = statement.get("Sid", "")
    if not isinstance(sid, str):
        raise PolicyInvalid(f"{where}: Sid must be a text")
    effect = statement.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise PolicyInvalid(f"{where}: Effect must be Allow or Deny")
    principals, count = None, 0
    if "Principal" in needed:
        principals, count = _principals(statement, where)
        if principals.negated and effect == "Allow":
            raise PolicyInvalid(f"{where}: NotPrincipal goes with Deny only")
    return StatementText(
        name=sid or f"#{place}",
        allows=effect == "Allow",
        principals=principals,
        actions=_listed(statement, "Action", where),
        resources=_listed(statement, "Resource", where) if "Resource" in needed else None,
        conditions=tuple(_conditions(statement.get("Condition", {}), where)),
        principals_count=count,
    )


def _either(statement: dict[str, Any], part: str, where: str) -> tuple[Any, bool]:
    negated = f"Not{part}" in statement
    if (part in statement) == negated:
        raise PolicyInvalid(f"{where} needs {part} or Not{part}, one of them")
    return statement[f"Not{part}" if negated else part], negated


def _listed(statement: dict[str, Any], part: str, where: str) -> Listed:
    value, negated = _either(statement, part, where)
    return Listed(_texts(value, f"{where}: {part}"), negated)


def _principals(statement: dict[str, Any], where: str) -> tuple[Listed, int]:
    """Whom the statement names, and how many in all: services and the like count, but nobody here is one."""
    value, negated = _either(statement, "Principal", where)
    if value == "*":
        value = {"AWS": "*"}
    if not isinstance(value, dict) or not value:
        raise PolicyInvalid(f'{where}: Principal must be "*" or an object such as {{"AWS": "..."}}')
    unknown = value.keys() - {"AWS", "Service", "Federated", "CanonicalUser"}
    if unknown:
        raise PolicyInvalid(f"{where}: {_names(unknown)} is no type of principal")
    named = {of: _texts(names, f"{where}: Principal") for of, names in value.items()}
    return Listed(named.get("AWS", ()), negated), sum(map(len, named.values()))


def _conditions(block: Any, where: str) -> list[Condition]:
    if not isinstance(block, dict) or not all(isinstance(keys, dict) for keys in block.values()):
        raise PolicyInvalid(f"{where}: Condition must be an object of operators, each with an object of keys")
    return [
        Condition(operator, key, _texts(values, f"{where}: {key}", may_be_empty=True))
        for operator, keys in block.items()
        for key, values in keys.items()
    ]


def _texts(value: Any, where: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not values and not may_be_empty:
        raise PolicyInvalid(f"{where} must not be empty")
    return tuple(_text(each, where) for each in values)


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise PolicyInvalid(f"{where} must be a text or a list of texts")
    return value


def _names(names: Any) -> str:
    return ", ".join(sorted(map(str, names)))
