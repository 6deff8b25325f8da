"""The credentials file as text: TOML to a book, and a book to TOML.

Writing makes the whole text anew. Comments at the top are kept; further down they are not.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from penstock.auth.identity.book import ROOT, Account, Book, CredentialsError, Holder, Role, User, all_keys
from penstock.names import is_account
from penstock.toml_text import toml_key, toml_string

_PREAMBLE = """\
# The credentials of this broker. Made by `penstock user`, `penstock role` and `penstock policy`; it can be edited
# by hand, and a running broker takes changes up by itself. Secrets are sealed with the root key.
"""

_NAME = re.compile(r"[\w+=,.@-]+", re.ASCII)
_TOP_COMMENTS = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*")
_LITERAL = re.compile(r"(?:(?!''')[^\x00-\x08\x0b-\x1f\x7f])*")

T = TypeVar("T", bound=msgspec.Struct)


# -- reading -------------------------------------------------------------------------------------------------


def read_book(text: str) -> Book:
    """Raises CredentialsError, without the name of the file."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CredentialsError(f"it is not valid TOML: {' '.join(str(error).split())}") from None
    if "version" not in table:  # such as an empty file, which would quietly let nobody in
        raise CredentialsError('it does not say "version = 1": was it cut off?')
    accounts = _take_tables(table, "accounts", "the file")
    book = _read(table, Book, "the file")
    for name in book.policies:
        check_name(name, "policy")
    for number, account in accounts.items():
        book.accounts[number] = _account(number, account)
    _check_keys(book)
    return book


def _account(number: str, table: dict[str, Any]) -> Account:
    if not is_account(number):
        raise CredentialsError(f'account "{number}" is not twelve digits')
    where = f"account {number}"
    users = _take_tables(table, "users", where)
    roles = _take_tables(table, "roles", where)
    account = _read(table, Account, where)
    account.users = {name: _holder(name, users[name], User, where) for name in users}
    account.roles = {name: _holder(name, roles[name], Role, where) for name in roles}
    return account


H = TypeVar("H", bound=Holder)


def _holder(name: str, table: dict[str, Any], kind: type[H], where: str) -> H:
    word = kind.__name__.lower()
    check_name(name, word)
    return _read(table, kind, f'{word} "{name}" of {where}')


def check_name(name: str, word: str) -> None:
    """AWS's rules for the names of users, roles and policies."""
    length_max = 128 if word == "policy" else 64
    if not _NAME.fullmatch(name) or len(name) > length_max:
        allowed = f"letters, digits and any of _+=,.@- , {length_max} at most"
        raise CredentialsError(f'{word} "{name}": a name has {allowed}')
    if word == "user" and name == ROOT:
        raise CredentialsError("a user cannot be called root: that is the account itself")


def _take_tables(table: dict[str, Any], name: str, where: str) -> dict[str, dict[str, Any]]:
    found = table.pop(name, {})
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise CredentialsError(f"{name} of {where} must be tables")
    return found


def _read(table: dict[str, Any], kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{where}: {error}") from None


def _check_keys(book: Book) -> None:
    seen = set[str]()
    for key, _, _ in all_keys(book):
        if key.id in seen:
            raise CredentialsError(f"the access key {key.id} is there twice")
        seen.add(key.id)


# -- writing -------------------------------------------------------------------------------------------------


def written(book: Book, before: str = "") -> str:
    """The text of the file. ``before`` is what it said until now: the comments at its top are kept."""
    found = _TOP_COMMENTS.match(before)
    preamble = (found[0] if found else "").strip("\n") or _PREAMBLE.strip("\n")
    table = msgspec.to_builtins(book, builtin_types=(datetime,))
    return "\n".join([preamble, "", f"version = {book.version}", *_table(table, ())]) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """The lines of a table: its values first, then the tables below, each under its header."""
    below = {name: value for name, value in table.items() if _is_below(name, value)}
    for name, value in table.items():
        if name not in below:
            yield f"{toml_key(name)} = {_value(value)}"
    for name, value in below.items():
        inner = (*path, name)
        header = ".".join(map(toml_key, inner))
        for each in value if isinstance(value, list) else [value]:
            lines = list(_table(each, inner))
            if isinstance(value, list):
                yield from ("", f"[[{header}]]")
            elif not lines or lines[0]:  # a table with nothing but tables below needs no header of its own
                yield from ("", f"[{header}]")
            yield from lines


def _is_below(name: str, value: object) -> bool:
    if isinstance(value, dict):
        return name != "tags"
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return f"{{ {', '.join(f'{toml_key(name)} = {_value(each)}' for name, each in value.items())} }}"
    return str(value)


def _text(text: str) -> str:
    if "\n" in text and _LITERAL.fullmatch(text) and not text.endswith("'"):
        return f"'''\n{text}'''"
    return toml_string(text)
