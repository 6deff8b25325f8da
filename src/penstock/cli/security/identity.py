"""What the commands for users, roles and policies share: the credentials file, its root key, options and output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
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
from penstock.auth.identity.admin import Subject, attach, put_policy, remove
from penstock.auth.identity.file import changed_file, read_file
from penstock.auth.identity.model import (
    AccessKey,
    CredentialsContent,
    CredentialsError,
    PolicyHolder,
    all_keys,
)
from penstock.auth.policy import Kind, PolicyInvalid, compile_policy
from penstock.auth.secret_files import exists
from penstock.cli.failure import Failure
from penstock.cli.options import configured, with_these_settings
from penstock.cli.output import Output, json_option
from penstock.clock import real_utc
from penstock.names import in_partition, partition_of
from penstock.server.settings.config import Config

DEFAULT_FILE = Path("penstock-credentials.toml")
_SETTINGS = ("credentials", "root_key_file", "root_key_command")


class CredentialsFile:
    """The file that the settings name, or ``penstock-credentials.toml`` here, its root key, and where to print."""

    def __init__(self, config: Config, out: Output) -> None:
        self.config = config
        self.out = out
        self.path = config.credentials or DEFAULT_FILE

    def arn_of(self, subject: Subject) -> str:
        """The ARN as the server with these settings shows it."""
        return in_partition(partition_of(self.config.region), subject.arn)

    def read(self) -> CredentialsContent:
        return read_file(self.path)

    def changed(self) -> AbstractContextManager[CredentialsContent]:
        return changed_file(self.path)

    def root_key(self) -> RootKey:
        found = self._found()
        if found is None:
            raise Failure(
                f"there is no root key, and {self.path} is encrypted with one: give --root-key-file"
            )
        return found

    def root_key_for(self, content: CredentialsContent) -> RootKey:
        """The root key for another secret: the one that the existing secrets are encrypted with."""
        found = self.root_key()
        check_root_key(found, (each.key for each in all_keys(content)))
        return found

    def root_key_or_new(self, content: CredentialsContent) -> RootKey:
        # A new root key could not decrypt the secrets in the file.
        if self._found() is not None or any(all_keys(content)):
            return self.root_key_for(content)
        path = self.path.with_name(FILE_NAME)
        created = create_root_key_file(path)
        click.echo(
            f"penstock: created the root key {path}. Secrets are encrypted with it: keep a copy, away from the data",
            err=True,
        )
        return created

    def _found(self) -> RootKey | None:
        config = self.config
        return find_root_key(
            environ=os.environ, command=config.root_key_command, file=config.root_key_file, beside=self.path
        )


def with_file(function: Callable[..., None]) -> Callable[..., None]:
    """The flags for the credentials file and for JSON; the function gets a :class:`CredentialsFile` first."""

    @json_option
    @with_these_settings(*_SETTINGS)
    @wraps(function)
    def run(as_json: bool, **given: Any) -> None:
        flags = {name: given.pop(name) for name in ("config", *_SETTINGS)}
        _check_text(given)
        # This imports the whole server, which help texts do not need.
        from penstock.server.compose import declare_services

        declare_services()
        try:
            function(CredentialsFile(configured(flags), Output(as_json)), **given)
        except (CredentialsError, RootKeyError) as error:
            raise Failure(str(error)) from None

    return run


def _check_text(given: Mapping[str, object]) -> None:
    """Arguments can be any bytes; the file holds text."""
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
        help="The account, twelve digits.",
    )(function)


def _account(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not (text.isascii() and text.isdecimal() and len(text) == 12):
        raise Failure(f'invalid value "{text}" for --account: expected twelve digits')
    return text


def now() -> datetime:
    return real_utc().replace(microsecond=0)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``key=value`` texts of an option that can be given several times."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Failure(f'invalid value "{text}" for {option}: expected KEY=VALUE')
        found[key] = value
    return found


def equip(
    content: CredentialsContent, subject: Subject, policies: Iterable[str], tags: Sequence[str]
) -> None:
    """Give a new user or role its policies and tags."""
    for policy in policy_names(content, policies):
        attach(content, subject, policy)
    if tags:
        subject.holder.tags = pairs(tags, "--tag")


def change_tags(subject: Subject, tags: Sequence[str], untag: Iterable[str]) -> None:
    changed = {**subject.holder.tags, **pairs(tags, "--tag")}
    for key in untag:
        if changed.pop(key, None) is None:
            raise Failure(f'"{subject.name}" has no tag "{key}"')
    subject.holder.tags = changed


def holder_facts(holder: PolicyHolder) -> dict[str, object]:
    return {
        "id": holder.id or None,
        "created": None if holder.created is None else holder.created.isoformat(),
        "policies": [*holder.policies, *holder.inline],
        "tags": holder.tags,
        "sessions_since": None if holder.sessions_since is None else holder.sessions_since.isoformat(),
    }


def holder_rows(holder: PolicyHolder) -> list[tuple[str, str]]:
    rows = [("id", holder.id or "-"), ("created", day(holder.created))]
    rows += [("policy", name) for name in holder.policies]
    rows += [("inline policy", name) for name in holder.inline]
    rows += [("tag", f"{key}={value}") for key, value in holder.tags.items()]
    if holder.sessions_since is not None:
        rows.append(("sessions since", holder.sessions_since.isoformat()))
    return rows


def policy_names(content: CredentialsContent, given: Iterable[str]) -> Iterator[str]:
    """Policies by name. A JSON file becomes a policy in the credentials file, named like the file."""
    for each in given:
        path = Path(each)
        if path.suffix != ".json":
            yield each
            continue
        text = read_policy(path)
        if content.policies.get(path.stem, text) != text:
            raise Failure(f'there is another policy "{path.stem}": replace it with penstock policy set')
        put_policy(content, path.stem, text)
        yield path.stem


def read_policy(path: Path, kind: Kind = "identity") -> str:
    text = read_text(path)
    try:
        compile_policy(text, kind=kind)
    except PolicyInvalid as error:
        word = {"resource": "queue policy", "trust": "trust policy"}.get(kind, "policy")
        raise Failure(f'"{path}" is not a valid {word}: {error}') from None
    return text


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


def is_there(path: Path) -> bool:
    try:
        return exists(path)
    except OSError as error:
        raise Failure(f'cannot use "{path}": {error.strerror}') from None


def add_delete_and_revoke(
    group: click.Group,
    find: Callable[[CredentialsContent, str, str | None], Subject],
    *,
    delete_help: str,
    revoke_help: str,
) -> None:
    """Add the commands ``delete`` and ``revoke``, which users and roles share."""

    def with_example(help: str, command: str) -> str:
        return f"{help}\n\n\b\nExample:\n  penstock {group.name} {command} NAME"

    @group.command("delete", help=with_example(delete_help, "delete"))
    @click.argument("name")
    @account_option
    @with_file
    def remove_(file: CredentialsFile, name: str, account: str | None) -> None:
        with file.changed() as content:
            subject = find(content, name, account)
            remove(content, subject)
        file.out.result(f"removed {file.arn_of(subject)}", removed=file.arn_of(subject))

    @group.command("revoke", help=with_example(revoke_help, "revoke"))
    @click.argument("name")
    @account_option
    @with_file
    def revoke(file: CredentialsFile, name: str, account: str | None) -> None:
        with file.changed() as content:
            subject = find(content, name, account)
            subject.owner.end_sessions(now())
        since = subject.owner.sessions_since
        file.out.result(
            f"sessions of {file.arn_of(subject)} that began before {since} are refused",
            arn=file.arn_of(subject),
            sessions_since=None if since is None else since.isoformat(),
        )
