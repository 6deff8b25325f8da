"""Changes of the credentials file under a running server."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from penstock.auth.errors import AuthenticationError
from penstock.auth.identity import Credentials, CredentialsError, credentials
from penstock.auth.identity.admin import add_role, find_user, put_policy, trust_document
from penstock.auth.identity.file import changed_file, read_file
from penstock.auth.identity.model import CredentialsContent
from penstock.testing.clock import ManualClock
from support.identities import HOME, ROOT_KEY, THEN, Accounts, allow, document
from support.texts import says


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path)


def test_a_file_that_did_not_change_is_not_read_again(accounts: Accounts) -> None:
    accounts.user("alice")
    before = accounts.credentials.directory
    assert accounts.credentials.reload() == ""
    assert accounts.credentials.directory is before
    assert accounts.credentials.reload(requested=True) == "credentials reloaded: nothing changed"


def test_a_reload_logs_counts_without_secrets(accounts: Accounts, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="penstock.auth")
    accounts.user("alice")
    key = accounts.keys["alice"]
    assert caplog.messages[-1] == "credentials reloaded: 1 account added, 1 user added, 1 active key added"

    def more(content: CredentialsContent) -> None:
        find_user(content, "alice", None).keys[0].status = "inactive"
        add_role(content, HOME, "worker", trust_document(["alice"], HOME, None), 3600, THEN)
        put_policy(content, "none", '{"Statement": {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}}')

    assert accounts.change(more) == (
        "credentials reloaded: 1 role added, 1 active key removed, 1 policy added"
    )
    assert accounts.secrets[key] not in caplog.text
    retagged = accounts.change(lambda content: find_user(content, "alice", None).holder.tags.update(a="b"))
    assert retagged == "credentials reloaded: 1 user changed"


def test_many_changes_are_counted(accounts: Accounts) -> None:
    def many(content: CredentialsContent) -> None:
        for number in range(20):
            put_policy(
                content, f"p{number}", '{"Statement": {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}}'
            )

    assert accounts.change(many) == "credentials reloaded: 20 policies added"


@pytest.mark.parametrize("damage", ["cut", "readable", "gone", "key"])
def test_a_bad_file_changes_nothing_and_is_logged_once(
    accounts: Accounts, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = accounts.user("alice")
    directory, text = accounts.credentials.directory, accounts.path.read_text()
    match damage:
        case "cut":
            accounts.path.write_text(text[:-20])
        case "readable":
            accounts.path.chmod(0o644)
        case "gone":
            accounts.path.unlink()
        case "key":
            accounts.path.write_text(text.replace(key, "AKIAOTHER"))
    caplog.clear()
    line = accounts.reload()
    says(line, "no" if damage == "gone" else "cannot", str(accounts.path), "old credentials", "in force")
    assert accounts.reload() == ""
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert accounts.credentials.directory is directory
    assert directory.secret(key, None) == accounts.secrets[key]

    accounts.path.touch()
    accounts.path.chmod(0o600)
    accounts.path.write_text(text)
    says(accounts.reload(), "reloaded", "nothing changed")
    accounts.clock.advance(3_600_000)
    assert accounts.reload() == ""


def test_a_file_that_becomes_unreadable_is_logged_every_minute(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accounts.user("alice")

    def forbidden(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbidden)
    accounts.path.touch()
    caplog.clear()
    line = accounts.reload()
    says(line, str(accounts.path), "Permission denied", "old credentials", "in force")
    for _ in range(3):
        accounts.clock.advance(59_999)
        assert accounts.reload() == ""
        accounts.clock.advance(1)
        assert accounts.reload() == line
    assert [(record.levelname, record.message) for record in caplog.records] == [("ERROR", line)] * 4
    monkeypatch.undo()
    assert accounts.credentials.reload(requested=True) == "credentials reloaded: nothing changed"
    accounts.clock.advance(60_000)
    assert accounts.reload() == ""


@pytest.mark.parametrize("asked", [False, True])
def test_a_revocation_that_could_not_be_read_at_first_is_not_lost(
    accounts: Accounts, asked: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = accounts.user("alice")
    with changed_file(accounts.path) as content:
        find_user(content, "alice", None).keys[0].status = "inactive"

    def exhausted(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    accounts.credentials.reload()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", exhausted)
        caplog.clear()
        for _ in range(5):
            accounts.credentials.reload(requested=asked)
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == (5 if asked else 1), "each requested reload is logged, others once"
        assert accounts.credentials.directory.secret(key, None)
    assert accounts.credentials.reload() == "credentials reloaded: 1 active key removed"
    with pytest.raises(AuthenticationError):
        accounts.credentials.directory.secret(key, None)


def test_a_restored_file_ends_the_error(accounts: Accounts, tmp_path: Path) -> None:
    accounts.user("alice")
    beside = tmp_path / "beside"
    accounts.path.rename(beside)
    says(accounts.reload(), "no credentials file")
    beside.rename(accounts.path)
    says(accounts.reload(), "reloaded", "nothing changed")
    accounts.clock.advance(60_000)
    assert accounts.reload() == ""


def test_a_file_without_an_active_key_logs_a_warning(
    accounts: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    Credentials(accounts.path, ROOT_KEY, accounts.clock)
    (said,) = caplog.messages
    says(said, "no access key", "refused")
    accounts.user("alice")
    caplog.clear()
    Credentials(accounts.path, ROOT_KEY, accounts.clock)
    assert caplog.messages == []
    accounts.change(lambda content: setattr(find_user(content, "alice", None).keys[0], "status", "inactive"))
    assert said in [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_a_file_is_not_read_while_it_is_being_written(accounts: Accounts) -> None:
    """Its beginning makes sense, and lacks what is denied at its end."""
    key = accounts.user("alice", "sqs-full-access")
    before = accounts.credentials.directory
    text = accounts.path.read_text()
    deny = document({"Effect": "Deny", "Action": "sqs:*", "Resource": "*"})
    with accounts.path.open("a") as file:
        for part in ("\n", f"[accounts.{HOME}.users.bob]\n", "", f"[accounts.{HOME}.users.alice.inline]\n"):
            file.write(part)
            file.flush()
            if part:
                assert accounts.credentials.reload() == ""
        file.write(f"none = '''{deny}'''\n")
    assert accounts.credentials.reload() == ""
    assert accounts.credentials.directory is before
    assert accounts.credentials.reload() == ("credentials reloaded: 1 user added, 1 user changed")
    alice = accounts.credentials.directory.principal(key, None)
    assert [policy.name for policy in alice.policies] == ["sqs-full-access", "none"]
    assert text in accounts.path.read_text()


@pytest.mark.parametrize("asked", [False, True])
def test_a_file_that_changes_while_it_is_read_is_not_used(
    accounts: Accounts, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.user("alice")
    before = accounts.credentials.directory

    def slow(path: Path) -> CredentialsContent:
        content = read_file(path)
        with path.open("a") as file:
            file.write("# more\n")
        return content

    with accounts.path.open("a") as file:
        file.write(f"[accounts.{HOME}.users.bob]\n")
    accounts.credentials.reload()
    monkeypatch.setattr(credentials, "read_file", slow)
    says(accounts.credentials.reload(requested=asked), "when it is complete")
    assert accounts.credentials.directory is before
    monkeypatch.undo()
    assert accounts.credentials.reload() == "credentials reloaded: 1 user added"


def test_a_pipe_in_place_of_the_file_does_not_block_the_server(accounts: Accounts) -> None:
    accounts.user("alice")
    text = accounts.path.read_text()
    accounts.path.unlink()
    os.mkfifo(accounts.path, 0o600)
    says(accounts.reload(), "not a regular file")
    accounts.path.unlink()
    accounts.path.touch(0o600)
    accounts.path.write_text(text.replace("alice", "carol"))
    assert "1 user added" in accounts.reload()


def test_conditions_on_unknown_keys_are_logged_once(
    accounts: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    def odd(key: str) -> str:
        return document(allow("sqs:*", Resource="*", Condition={"StringEquals": {key: "x"}}))

    accounts.user("alice", odd("aws:SourceVpc"), odd("aws:UserName"), odd("s3:prefix"))
    (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    says(said, '"alice-0"', "aws:SourceVpc", "never present")
    assert "aws:UserName" not in said
    caplog.clear()
    condition = {"StringEquals": {"sts:ExternalID": "x", "sts:Exernal": "y"}}
    accounts.role("worker", document(allow("sts:AssumeRole", Principal="*", Condition=condition)))
    (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    says(said, 'trust policy of role "worker"', "sts:Exernal", "never present")
    caplog.clear()
    Credentials(accounts.path, ROOT_KEY, accounts.clock)
    assert said in caplog.text and "sts:Exernal" in caplog.text, "a server that starts says all of it"


def test_a_change_of_the_same_size_and_time_is_seen(accounts: Accounts) -> None:
    accounts.user("alice")
    found = accounts.path.stat()
    beside = accounts.path.with_suffix(".new")
    beside.write_text(accounts.path.read_text().replace("alice", "carol"))
    beside.chmod(0o600)
    os.utime(beside, ns=(found.st_atime_ns, found.st_mtime_ns))
    beside.replace(accounts.path)
    assert accounts.reload().startswith("credentials reloaded: 1 user added")


def test_a_server_does_not_start_with_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(CredentialsError) as raised:
        Credentials(path, ROOT_KEY, ManualClock())
    says(str(raised.value), f"no credentials file {path}", "penstock user create", "--credentials")
