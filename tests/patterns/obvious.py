"""A slow matcher, written from the rules alone: it tries every choice of elements of arrays, one after another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any, NamedTuple

from .messages import Attributes

Rule = tuple[str, list[Any]]  # the path with dots, and the terms


class World(NamedTuple):
    """What is visible when some arrays have a chosen element. Leaves are paths with values."""

    firm: list[tuple[str, Any]]  # in no array without a chosen element
    loose: list[tuple[str, Any]]


def matches_body(policy: str, text: str) -> bool:
    try:
        body = json.loads(text, parse_float=Decimal)
    except ValueError:
        return False
    if not isinstance(body, dict) or not body:
        return False
    return any(
        any(_holds(rules, world) for world in _worlds(body, "", rules))
        for rules in _branches(json.loads(policy, parse_float=Decimal), "")
    )


def matches_attributes(policy: str, attributes: Attributes) -> bool:
    leaves: list[tuple[str, Any]] = []
    for name, (kind, text) in attributes.items():
        if kind == "Number":
            leaves.append((name, json.loads(text or "", parse_float=Decimal)))
        elif kind == "String.Array":
            leaves += [(name, value) for value in json.loads(text or "", parse_float=Decimal)]
        else:
            leaves.append((name, text))
    world = World(leaves, [])
    return bool(attributes) and any(
        _holds(rules, world) for rules in _branches(json.loads(policy, parse_float=Decimal), "")
    )


def _branches(policy: dict[str, Any], path: str) -> Iterator[list[Rule]]:
    choices: list[list[list[Rule]]] = []
    for name, wanted in policy.items():
        inner = f"{path}.{name}".lstrip(".")
        if name == "$or":
            choices.append([rules for branch in wanted for rules in _branches(branch, path)])
        elif isinstance(wanted, dict):
            choices.append(list(_branches(wanted, inner)))
        else:
            choices.append([[(inner, wanted)]])
    for chosen in product(*choices):
        yield [rule for rules in chosen for rule in rules]


def _worlds(node: Any, path: str, rules: list[Rule]) -> Iterator[World]:
    if isinstance(node, dict):
        members = [list(_worlds(value, f"{path}.{name}".lstrip("."), rules)) for name, value in node.items()]
        yield from map(_together, product(*members))
    elif isinstance(node, list):
        inner = [each for each in node if isinstance(each, dict | list)]
        scalars = World([(path, each) for each in node if not isinstance(each, dict | list)], [])
        unchosen = [leaf for each in inner for leaf in _leaves(each, path)]
        yield _together((scalars, World([], unchosen)))
        for each in inner:
            for world in _worlds(each, path, rules):
                if any(_is_wanted(leaf, rules) for leaf in world.firm):
                    yield _together((scalars, world))
    else:
        yield World([(path, node)], [])


def _together(worlds: tuple[World, ...]) -> World:
    return World(
        [leaf for each in worlds for leaf in each.firm], [leaf for each in worlds for leaf in each.loose]
    )


def _leaves(node: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(node, dict):
        return [leaf for name, value in node.items() for leaf in _leaves(value, f"{path}.{name}".lstrip("."))]
    if isinstance(node, list):
        return [leaf for value in node for leaf in _leaves(value, path)]
    return [(path, node)]


def _is_wanted(leaf: tuple[str, Any], rules: list[Rule]) -> bool:
    path, value = leaf
    return any(wanted == path and any(_is(term, value) for term in terms) for wanted, terms in rules)


def _holds(rules: list[Rule], world: World) -> bool:
    for path, terms in rules:
        if any(_is_wanted(leaf, [(path, terms)]) for leaf in world.firm):
            continue
        if {"exists": False} in terms and path not in {name for name, _ in world.firm + world.loose}:
            continue
        return False
    return True


def _is(term: Any, value: Any) -> bool:
    if not isinstance(term, dict):
        return _same(term, value)
    [(kind, wanted)] = term.items()
    text = value if isinstance(value, str) else None
    match kind:
        case "exists":
            return bool(wanted)
        case "numeric":
            return _is_number(value) and _is_in(wanted, value)
        case "anything-but":
            if isinstance(wanted, dict):
                [(like, texts)] = wanted.items()
                return not any(_is({like: each}, value) for each in _listed(texts))
            return not any(_same(each, value) for each in _listed(wanted))
        case "cidr":
            try:
                return ip_address(text or "") in ip_network(wanted, strict=False)
            except ValueError:
                return False
    if text is None:
        return False
    if isinstance(wanted, dict):
        wanted, text = wanted["equals-ignore-case"].casefold(), text.casefold()
    match kind:
        case "prefix":
            return bool(text.startswith(wanted))
        case "suffix":
            return bool(text.endswith(wanted))
        case "equals-ignore-case":
            return bool(text.casefold() == wanted.casefold())
    assert kind == "wildcard"
    return re.fullmatch(_regex(wanted), text, re.DOTALL) is not None


def _regex(wildcard: str) -> str:
    parts = re.findall(r"\\.|\*|[^\\*]", wildcard, re.DOTALL)
    return "".join(".*" if part == "*" else re.escape(part[-1]) for part in parts)


def _listed(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(one == other)
    return type(one) is type(other) and bool(one == other)


def _is_in(wanted: list[Any], value: Any) -> bool:
    pairs = zip(wanted[::2], wanted[1::2], strict=True)
    return all(
        {
            "=": value == number,
            "<": value < number,
            "<=": value <= number,
            ">": value > number,
            ">=": value >= number,
        }[operator]
        for operator, number in pairs
    )
