"""Changes of the credentials file under a running server."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from identities import HOME, ROOT_KEY, THEN, Town
from penstock.auth.identity import Credentials, CredentialsError
from penstock.auth.identity.book import Book
from penstock.auth.identity.editing import add_role, find_user, put_policy, trust_document
from penstock.clock import ManualClock


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def test_a_file_that_did_not_change_is_not_read_again(town: Town) -> None:
    town.user("alice")
    before = town.credentials.directory
    assert town.credentials.reload() == ""
    assert town.credentials.directory is before
    assert town.credentials.reload(asked=True) == "credentials read again: nothing changed"


def test_what_changed_is_told_without_secrets(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock.auth")
    town.user("alice")
    key = town.keys["alice"]
    assert caplog.messages[-1] == f"credentials read again: user {HOME}/alice added, active key {key} added"

    def more(book: Book) -> None:
        find_user(book, "alice", None).keys[0].status = "inactive"
        add_role(book, HOME, "worker", trust_document(["alice"], HOME, None), 3600, THEN)
        put_policy(book, "none", '{"Statement": {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}}')

    assert town.change(more) == (
        f"credentials read again: role {HOME}/worker added, active key {key} removed, policy none added"
    )
    assert town.secrets[key] not in caplog.text
    retagged = town.change(lambda book: find_user(book, "alice", None).holder.tags.update(a="b"))
    assert retagged == "credentials read again: policies, tags or settings changed"


def test_many_changes_are_told_in_short(town: Town) -> None:
    def many(book: Book) -> None:
        for number in range(20):
            put_policy(
                book, f"p{number}", '{"Statement": {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}}'
            )

    assert town.change(many).endswith(", and 12 more")


@pytest.mark.parametrize("damage", ["cut", "readable", "gone", "key"])
def test_a_bad_file_changes_nothing_and_is_told_once(
    town: Town, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = town.user("alice")
    directory, text = town.credentials.directory, town.path.read_text()
    match damage:
        case "cut":
            town.path.write_text(text[:-20])
        case "readable":
            town.path.chmod(0o644)
        case "gone":
            town.path.unlink()
        case "key":
            town.path.write_text(text.replace(key, "AKIAOTHER"))
    caplog.clear()
    line = town.credentials.reload()
    assert line.startswith(f"cannot use the credentials file {town.path}: ")
    assert line.endswith("; the credentials stay as they were")
    assert town.credentials.reload() == ""
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert town.credentials.directory is directory
    assert directory.secret(key, None) == town.secrets[key]

    town.path.touch()
    town.path.chmod(0o600)
    town.path.write_text(text)
    assert town.credentials.reload() == "credentials read again: nothing changed"


def test_a_change_of_the_same_size_and_time_is_seen(town: Town) -> None:
    town.user("alice")
    found = town.path.stat()
    beside = town.path.with_suffix(".new")
    beside.write_text(town.path.read_text().replace("alice", "carol"))
    beside.chmod(0o600)
    os.utime(beside, ns=(found.st_atime_ns, found.st_mtime_ns))
    beside.replace(town.path)
    assert town.credentials.reload().startswith(f"credentials read again: user {HOME}/carol added")


def test_a_server_does_not_start_with_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(CredentialsError) as raised:
        Credentials(path, ROOT_KEY, ManualClock())
    assert str(raised.value) == f"cannot use the credentials file {path}: No such file or directory"
