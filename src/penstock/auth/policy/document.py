"""Parses policy documents: JSON text to statements. What their parts mean is compiled in ``compiler``.

Unknown and repeated names are refused, never skipped: a misspelt ``Conditions`` would allow too much.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

Kind = Literal["identity", "resource", "session", "trust"]
"""What a policy is for: a user or role; a queue; a session (AssumeRole's Policy); saying who may assume a role."""

BYTES_MAX = 20_480  # the largest that IAM accepts anywhere
RESOURCE_BYTES_MAX = 30_720  # of a resource: of a topic
_VERSIONS = ("2012-10-17", "2008-10-17")

_PARTS: dict[str, tuple[str, ...]] = {
    "identity": ("Action", "Resource"),
    "session": ("Action", "Resource"),
    "resource": ("Principal", "Action", "Resource"),
    "trust": ("Principal", "Action"),  # the resource is the role itself
}


class PolicyInvalid(Exception):
    """One sentence for the author of the policy."""


class PrincipalInvalid(PolicyInvalid):
    """A principal is not one that there could be."""


class Listed(NamedTuple):
    """The values of one part; ``negated`` if it was written as ``NotAction``, ``NotResource`` or ``NotPrincipal``."""

    values: tuple[str, ...]
    negated: bool


class Condition(NamedTuple):
    operator: str
    key: str
    values: tuple[str, ...]


class StatementText(NamedTuple):
    name: str  # its Sid, or its place: "#2"
    allows: bool
    principals: Listed | None  # accounts, users, roles and sessions ("AWS")
    services: tuple[str, ...]
    actions: Listed
    resources: Listed | None
    conditions: tuple[Condition, ...]
    principals_count: int


class Document(NamedTuple):
    has_variables: bool  # the newer version of the language: ${aws:username}
    statements: tuple[StatementText, ...]


def read_document(text: str, kind: Kind) -> Document:
    document = _load(text, bytes_max=RESOURCE_BYTES_MAX if kind == "resource" else BYTES_MAX)
    unknown = document.keys() - {"Version", "Id", "Statement"}
    if unknown:
        raise PolicyInvalid(f"unknown element {_names(unknown)}: expected Version, Id and Statement")
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
    # SQS: in a queue's policy a Sid may be used twice.
    if kind != "resource" and len({statement.name for statement in statements}) < len(statements):
        raise PolicyInvalid("each Sid may be used only once in a policy")
    return Document(version == "2012-10-17", statements)


def editable_document(text: str) -> dict[str, Any]:
    """The document to be changed and written again: parts that are not changed keep their meaning."""
    document = _load(
        text, partial(_as_written, int), partial(_as_written, float), bytes_max=RESOURCE_BYTES_MAX
    )
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, escaped
        raise PolicyInvalid("a policy must be valid Unicode") from error
    return document


def _as_written(number: type[int] | type[float], text: str) -> int | float | str:
    """A number that would be written differently (1e999, 1.10) becomes text, which conditions treat alike."""
    value = number(text)
    return value if repr(value) == text else text


def _load(
    text: str,
    parse_int: Callable[[str], Any] = str,
    parse_float: Callable[[str], Any] = str,
    *,
    bytes_max: int,
) -> dict[str, Any]:
    if len(text.encode(errors="replace")) > bytes_max:
        raise PolicyInvalid(f"a policy has {bytes_max} bytes at most")
    try:
        # Numbers stay text: they are compared as numbers only by the operators for numbers.
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
            raise PolicyInvalid(f"{key} is repeated")
        found[key] = value
    return found


def _no_number(text: str) -> None:
    raise PolicyInvalid(f"{text} is not a number")


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
    principals: Listed | None = None
    services: tuple[str, ...] = ()
    count = 0
    if "Principal" in needed:
        principals, services, count = _principals(statement, where)
        if principals.negated and effect == "Allow":
            raise PolicyInvalid(f"{where}: NotPrincipal is allowed with Deny only")
    return StatementText(
        name=sid or f"#{place}",
        allows=effect == "Allow",
        principals=principals,
        services=services,
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


def _principals(statement: dict[str, Any], where: str) -> tuple[Listed, tuple[str, ...], int]:
    """The principals of type AWS, the services, and how many principals of any type are named."""
    value, negated = _either(statement, "Principal", where)
    if value == "*":
        value = {"AWS": "*"}
    if not isinstance(value, dict) or not value:
        raise PolicyInvalid(f'{where}: Principal must be "*" or an object such as {{"AWS": "..."}}')
    unknown = value.keys() - {"AWS", "Service", "Federated", "CanonicalUser"}
    if unknown:
        raise PolicyInvalid(f"{where}: {_names(unknown)} is not a type of principal")
    named = {of: _texts(names, f"{where}: Principal") for of, names in value.items()}
    count = sum(map(len, named.values()))
    return Listed(named.get("AWS", ()), negated), named.get("Service", ()), count


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
