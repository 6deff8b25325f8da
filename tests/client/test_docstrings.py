"""Every public name for users is documented: the reference of the site is made of these docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import penstock.client
import penstock.testing
from penstock.client import IdempotencyStore

# What a store of keys does is documented once, by the protocol.
INHERITED = {name for name in vars(IdempotencyStore) if not name.startswith("_")}


def public() -> Iterator[tuple[str, Any]]:
    for package in (penstock.client, penstock.testing):
        for name in package.__all__:
            yield name, getattr(package, name)


def missing(name: str, text: str | None, parameters: list[str]) -> list[str]:
    """What is not documented of a callable."""
    if not text:
        return [f"{name} has no docstring"]
    return [f"{name}: {each}" for each in parameters if f":param {each}:" not in text]


def parameters_of(function: Any) -> list[str]:
    """Without the object itself, which methods of the blocking client call ``client``."""
    found = list(inspect.signature(function).parameters)
    return found[1:] if found[:1] in (["self"], ["client"]) else found


def fields_of(kind: type) -> list[str]:
    """Fields of a struct that have no docstring of their own."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return [
        node.target.id
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]


def missing_of_class(name: str, kind: type) -> list[str]:
    found = [] if kind.__doc__ else [f"{name} has no docstring"]
    constructor = vars(kind).get("__init__")
    is_written = isinstance(constructor, FunctionType) and "def __init__" in inspect.getsource(kind)
    if is_written and (parameters := parameters_of(constructor)):
        found += missing(f"{name}.__init__", constructor.__doc__, parameters)
    found += missing(name, kind.__doc__, fields_of(kind))
    members = {
        key: value
        for each in reversed(kind.__mro__)
        if each.__module__.startswith("penstock.")
        for key, value in vars(each).items()
    }
    for key, member in members.items():
        if (key.startswith("_") and key != "__call__") or (key in INHERITED and kind is not IdempotencyStore):
            continue
        if isinstance(member, property) and not member.__doc__:
            found.append(f"{name}.{key} has no docstring")
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType):
            found += missing(f"{name}.{key}", function.__doc__, parameters_of(function))
    return found


def test_every_public_name_says_what_it_does_and_names_its_parameters() -> None:
    found = []
    for name, value in public():
        if isinstance(value, type):
            found += missing_of_class(name, value)
        elif isinstance(value, FunctionType):
            found += missing(name, value.__doc__, parameters_of(value))
    assert not found, "\n".join(found)


def test_a_parameter_that_is_not_named_is_found() -> None:
    def send(body: str, *, delay: int = 0) -> None:
        """Send it.

        :param body: The text.
        """

    assert missing("send", send.__doc__, parameters_of(send)) == ["send: delay"]
    assert missing("send", None, []) == ["send has no docstring"]
