"""What the commands about users, roles and policies share: the credentials file, the root key, and how they fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from penstock.auth.encryption.root_key import (
    FILE_NAME,
    RootKey,
    RootKeyError,
    create_root_key_file,
    find_root_key,
)
from penstock.auth.identity.access_keys import check_root_key
from penstock.auth.identity.book import AccessKey, Book, CredentialsError, Holder, all_keys
from penstock.auth.identity.editing import Found, attach, put_policy
from penstock.auth.identity.file import changed_file, read_file
from penstock.cli.failure import Failure
from penstock.cli.options import configured, with_these_settings
from penstock.server.settings.config import Config

DEFAULT_FILE = Path("penstock-credentials.toml")
_SETTINGS = ("credentials", "root_key_file", "root_key_command")


class CredentialsFile:
    """The file that the settings name, or ``penstock-credentials.toml`` here; and its root key."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.path = config.credentials or DEFAULT_FILE

    def read(self) -> Book:
        return read_file(self.path)

    def changed(self) -> AbstractContextManager[Book]:
        return changed_file(self.path)

    def root_key(self) -> RootKey:
        found = self._found()
        if found is None:
            raise Failure(f"there is no root key, and {self.path} is sealed with one: give --root-key-file")
        return found

    def root_key_for(self, book: Book) -> RootKey:
        """To seal another secret with. It must be the one that the others were sealed with."""
        found = self.root_key()
        check_root_key(found, (each.key for each in all_keys(book)))
        return found

    def root_key_or_new(self, book: Book) -> RootKey:
        if self._found() is not None or any(
            all_keys(book)
        ):  # a new one would not open the keys that are there
            return self.root_key_for(book)
        path = self.path.with_name(FILE_NAME)
        made = create_root_key_file(path)
        click.echo(
            f"penstock: made the root key {path}. Secrets are sealed with it: keep a copy, away from the data",
            err=True,
        )
        return made

    def _found(self) -> RootKey | None:
        config = self.config
        return find_root_key(
            environ=os.environ, command=config.root_key_command, file=config.root_key_file, beside=self.path
        )


def with_file(function: Callable[..., None]) -> Callable[..., None]:
    """The flags for the credentials file; the function gets a :class:`CredentialsFile` first."""

    @with_these_settings(*_SETTINGS)
    @wraps(function)
    def run(**given: Any) -> None:
        flags = {name: given.pop(name) for name in ("config", *_SETTINGS)}
        _check_text(given)
        try:
            function(CredentialsFile(configured(flags)), **given)
        except (CredentialsError, RootKeyError) as error:
            raise Failure(str(error)) from None

    return run


def _check_text(given: Mapping[str, object]) -> None:
    """Arguments can be any bytes; what goes into the file is text."""
    for value in given.values():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and _is_broken(text):
                raise Failure(f"an argument is not UTF-8 text: {text!a}")


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def account_option(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--account",
        metavar="DIGITS",
        callback=_account,
        help="Whose account, twelve digits.",
    )(function)


def _account(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not (text.isascii() and text.isdecimal() and len(text) == 12):
        raise Failure(f'--account "{text}" is not twelve digits')
    return text


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``key=value`` texts of an option that can be given several times."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Failure(f'{option} "{text}" is not KEY=VALUE')
        found[key] = value
    return found


def equip(book: Book, found: Found, policies: Iterable[str], tags: Sequence[str]) -> None:
    """Give a new user or role what it was added with."""
    for policy in policy_names(book, policies):
        attach(book, found, policy)
    if tags:
        found.holder.tags = pairs(tags, "--tag")


def holder_rows(holder: Holder) -> list[tuple[str, str]]:
    rows = [("id", holder.id or "-"), ("created", day(holder.created))]
    rows += [("policy", name) for name in holder.policies]
    rows += [("inline policy", name) for name in holder.inline]
    rows += [("tag", f"{key}={value}") for key, value in holder.tags.items()]
    if holder.sessions_since is not None:
        rows.append(("sessions since", holder.sessions_since.isoformat()))
    return rows


def policy_names(book: Book, given: Iterable[str]) -> Iterator[str]:
    """Policies by name. A file with JSON becomes a policy of the book, named as the file."""
    for each in given:
        path = Path(each)
        if path.suffix != ".json":
            yield each
            continue
        text = read_text(path)
        if book.policies.get(path.stem, text) != text:
            raise Failure(f'there is another policy "{path.stem}": change it with penstock policy put')
        put_policy(book, path.stem, text)
        yield path.stem


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f'cannot read "{path}": {error.strerror}') from None
    except UnicodeDecodeError:
        raise Failure(f'cannot read "{path}": it is not UTF-8 text') from None


def table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def day(moment: datetime | None) -> str:
    return "-" if moment is None else moment.date().isoformat()


def shown_key(key: AccessKey) -> str:
    return f"{key.id} ({key.status}, {day(key.created)})"
