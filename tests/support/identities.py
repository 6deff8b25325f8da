"""Accounts with users and roles for tests of authentication and authorization, with a clock that tests set."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.identity import Credentials
from penstock.auth.identity.admin import add_key, add_role, add_user, attach, put_policy
from penstock.auth.identity.file import changed_file
from penstock.auth.identity.model import CredentialsContent
from penstock.auth.principal import Principal
from penstock.testing.clock import ManualClock

HOME, ABROAD = "111122223333", "444455556666"
ROOT_KEY = RootKey(bytes(range(32)))
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(action: str | list[str], **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, **more}


class Accounts:
    """A credentials file, and the credentials of a server that reads it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "credentials.toml"
        self.clock = ManualClock(1_770_000_000_000)
        self.keys: dict[str, str] = {}  # the first access key of each user
        self.secrets: dict[str, str] = {}  # by access key
        with changed_file(self.path):
            pass
        self.credentials = Credentials(self.path, ROOT_KEY, self.clock)

    def change(self, edit: Callable[[CredentialsContent], object]) -> str:
        with changed_file(self.path) as content:
            edit(content)
        return self.reload()

    def reload(self) -> str:
        """Twice, as a server does: at the first look a changed file may still be being written."""
        return self.credentials.reload() or self.credentials.reload()

    def user(self, name: str, *policies: str, account: str = HOME, tags: dict[str, str] | None = None) -> str:
        """Add a user. Policies are names, or documents. Returns the access key."""

        def edit(content: CredentialsContent) -> None:
            subject = add_user(content, account, name, THEN)
            key = add_key(subject, ROOT_KEY, THEN)
            self.secrets[key.id] = key.secret
            self.keys[name] = key.id
            self._attach(content, subject, policies)
            if tags:
                subject.holder.tags = tags

        self.change(edit)
        return self.keys[name]

    def role(
        self, name: str, trust: str, *policies: str, account: str = HOME, max_session_s: int = 3600
    ) -> str:
        def edit(content: CredentialsContent) -> None:
            subject = add_role(content, account, name, trust, max_session_s, THEN)
            self._attach(content, subject, policies)

        self.change(edit)
        return f"arn:aws:iam::{account}:role/{name}"

    def principal(self, name: str) -> Principal:
        return self.credentials.directory.principal(self.keys[name], None)

    @staticmethod
    def _attach(content: CredentialsContent, subject: Any, policies: tuple[str, ...]) -> None:
        for number, policy in enumerate(policies):
            if policy.startswith("{"):
                name = f"{subject.name}-{number}"
                put_policy(content, name, policy)
                attach(content, subject, name)
            else:
                attach(content, subject, policy)
