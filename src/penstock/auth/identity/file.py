"""The credentials file: TOML that only its owner may read, and that is never half written.

Every change writes the whole text. Comments at the top of the file are kept; comments further down are not.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.auth.identity.model import (
    ROOT,
    Account,
    CredentialsContent,
    CredentialsError,
    CredentialsUnreadable,
    PolicyHolder,
    Role,
    User,
    all_keys,
)
from penstock.auth.identity.principals import check_content
from penstock.auth.secret_files import NotPrivate, change_lock, exists, read_private, replace_file
from penstock.names import is_account
from penstock.toml_text import toml_key, toml_string

_PREAMBLE = """\
# The credentials of this broker. Written by `penstock user`, `penstock role` and `penstock policy`; it can be edited
# by hand, and a running broker reads changes by itself. Secrets are encrypted with the root key.
"""

_NAME = re.compile(r"[\w+=,.@-]+", re.ASCII)
_TOP_COMMENTS = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*")
_LITERAL = re.compile(r"(?:(?!''')[^\x00-\x08\x0b-\x1f\x7f])*")

T = TypeVar("T", bound=msgspec.Struct)


# -- the file ------------------------------------------------------------------------------------------------


def read_file(path: Path) -> CredentialsContent:
    """Raises CredentialsError."""
    with errors_about(path):
        return parse_credentials(read_text(path))


@contextmanager
def changed_file(path: Path) -> Iterator[CredentialsContent]:
    """The content to change; it is written when the block ends without an error. A missing file is created.

    Raises CredentialsError."""
    with ExitStack() as stack:
        with errors_about(path):
            stack.enter_context(change_lock(path))
            text = read_text(path) if exists(path) else None
            content = CredentialsContent() if text is None else parse_credentials(text)
        yield content
        with errors_about(path):
            replace_file(path, checked_text(content, text or ""))


def read_text(path: Path) -> str:
    try:
        return read_private(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CredentialsError("it is not UTF-8 text") from None


def checked_text(content: CredentialsContent, before: str) -> bytes:
    """Returns the content of the file. Raises CredentialsError for content that a server would refuse."""
    after = written(content, before)
    check_content(parse_credentials(after))
    return after.encode()


@contextmanager
def errors_about(path: Path) -> Iterator[None]:
    try:
        yield
    except (CredentialsError, NotPrivate) as error:
        raise CredentialsError(f"cannot use the credentials file {path}: {error}") from None
    except OSError as error:
        if isinstance(error, FileNotFoundError) and os.path.isdir(path.parent):
            raise CredentialsUnreadable(no_file(path)) from None
        raise CredentialsUnreadable(f"cannot use the credentials file {path}: {error.strerror}") from None


def no_file(path: Path) -> str:
    return (
        f"there is no credentials file {path}: create it with penstock user create, or correct --credentials"
    )


# -- reading -------------------------------------------------------------------------------------------------


def parse_credentials(text: str) -> CredentialsContent:
    """Raises CredentialsError, without the name of the file."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CredentialsError(f"it is not valid TOML: {' '.join(str(error).split())}") from None
    if "version" not in table:  # an empty file would refuse every request without a reason
        raise CredentialsError('it has no line "version = 1": was it truncated?')
    accounts = _take_tables(table, "accounts", "the file")
    content = _read(table, CredentialsContent, "the file")
    for name in content.policies:
        check_name(name, "policy")
    for number, account in accounts.items():
        content.accounts[number] = _account(number, account)
    _check_keys(content)
    return content


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


H = TypeVar("H", bound=PolicyHolder)


def _holder(name: str, table: dict[str, Any], kind: type[H], where: str) -> H:
    word = kind.__name__.lower()
    check_name(name, word)
    return _read(table, kind, f'{word} "{name}" of {where}')


def check_name(name: str, word: str) -> None:
    """AWS's rules for the names of users, roles and policies."""
    length_max = 128 if word == "policy" else 64
    if not _NAME.fullmatch(name) or len(name) > length_max:
        expected = f"letters, digits and any of _+=,.@- , {length_max} at most"
        raise CredentialsError(f'invalid name of a {word}, "{name}": expected {expected}')
    if word == "user" and name == ROOT:
        raise CredentialsError("a user cannot be named root: that is the account itself")


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


def _check_keys(content: CredentialsContent) -> None:
    seen = set[str]()
    for key, _, _ in all_keys(content):
        if key.id in seen:
            raise CredentialsError(f"the access key {key.id} is listed twice")
        seen.add(key.id)


# -- writing -------------------------------------------------------------------------------------------------


def written(content: CredentialsContent, before: str = "") -> str:
    """The text of the file. The comments at the top of ``before``, its present text, are kept."""
    found = _TOP_COMMENTS.match(before)
    preamble = (found[0] if found else "").strip("\n") or _PREAMBLE.strip("\n")
    table = msgspec.to_builtins(content, builtin_types=(datetime,))
    return "\n".join([preamble, "", f"version = {content.version}", *_table(table, ())]) + "\n"


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
