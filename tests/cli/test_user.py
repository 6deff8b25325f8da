"""``penstock user``, ``penstock role`` and ``penstock env``: what they write is what a server reads."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.identity_commands import HOME, SEND, IdentityCommands, new_key
from penstock.auth.errors import AuthenticationError
from penstock.auth.identity.file import read_file


@pytest.fixture
def commands(tmp_path: Path) -> IdentityCommands:
    return IdentityCommands(tmp_path)


# -- adding --------------------------------------------------------------------------------------------------


def test_the_first_user_creates_the_file_and_a_root_key(commands: IdentityCommands) -> None:
    result = commands("user", "add", "alice", "--policy", "sqs-full-access")
    assert f"created the root key {commands.key_path}" in result.stderr
    key, secret = new_key(result.stdout)
    for path in (commands.path, commands.key_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in commands.path.read_text()
    directory = commands.credentials().directory
    assert directory.secret(key, None) == secret
    alice = directory.principal(key, None)
    assert (alice.arn, len(alice.policies)) == (f"arn:aws:iam::{HOME}:user/alice", 1)


def test_an_error_creates_no_root_key(commands: IdentityCommands) -> None:
    commands.failed("user", "add", "alice", "--policy", "nonsense")
    assert not commands.key_path.exists() and not commands.path.exists()


def test_the_root_key_is_created_once(commands: IdentityCommands) -> None:
    commands.user("alice")
    before = commands.key_path.read_bytes()
    result = commands("user", "add", "bob")
    assert "created the root key" not in result.stderr
    assert commands.key_path.read_bytes() == before


def test_a_root_key_from_elsewhere_is_used(commands: IdentityCommands) -> None:
    commands.done("user", "add", "alice", PENSTOCK_ROOT_KEY=bytes(32).hex())
    assert not commands.key_path.exists()
    assert "no root key" in commands.failed("user", "add", "bob"), "a new one would not open alice's secret"
    printed = commands.done("env", "alice", PENSTOCK_ROOT_KEY=bytes(32).hex())
    assert "AWS_SECRET_ACCESS_KEY" in printed


@pytest.mark.parametrize("arguments", [["user", "add", "bob"], ["user", "rotate", "alice"]])
def test_another_root_key_than_that_of_the_file_is_refused(
    commands: IdentityCommands, arguments: list[str]
) -> None:
    key, secret = commands.user("alice")
    before = commands.path.read_text()
    assert commands.failed(*arguments, PENSTOCK_ROOT_KEY=bytes(32).hex()) == (
        f"the secret of access key {key} cannot be decrypted: it was encrypted with another root key, or changed "
        "since. "
        "Nothing was written: give the root key that encrypts the file; if it is lost, docs/authentication.md says "
        "how to start over"
    )
    assert commands.path.read_text() == before
    assert commands.credentials().directory.secret(key, None) == secret


def test_a_secret_that_was_written_by_hand_can_be_replaced(commands: IdentityCommands) -> None:
    commands.user("alice")
    text = commands.path.read_text()
    commands.path.write_text(re.sub(r'secret = ".*"', 'secret = "by hand"', text))
    key, secret = new_key(commands.done("user", "rotate", "alice"))
    commands.done("user", "rotate", "alice", "--finish")
    assert commands.credentials().directory.secret(key, None) == secret


def test_starting_over_after_the_root_key_was_lost(commands: IdentityCommands) -> None:
    """As docs/authentication.md tells it."""
    old, _ = commands.user("alice", "--policy", "sqs-send")
    root, _ = commands.user("root")
    commands.key_path.unlink()
    for name, key in (("alice", old), ("root", root)):
        commands.done("user", "rotate", name, "--retire", key)
    commands.done("key", "root", str(commands.key_path))
    alice = new_key(commands.done("user", "rotate", "alice"))
    commands.user("root")
    assert commands.credentials().directory.secret(alice[0], None) == alice[1]
    assert "sqs-send" in commands.done("user", "show", "alice")


def test_a_user_without_a_policy_gets_a_hint(commands: IdentityCommands) -> None:
    assert "alice has no policies yet" in commands("user", "add", "alice").stderr
    assert "may do nothing" not in commands("user", "add", "bob", "--policy", "sqs-send").stderr


def test_accounts_tags_and_policy_files(commands: IdentityCommands) -> None:
    send = commands.file("send.json", SEND)
    key, _ = commands.user(
        "alice", "--account", "111122223333", "--policy", send, "--tag", "team=a", "--tag", "x="
    )
    alice = commands.credentials().directory.principal(key, None)
    assert (alice.account, alice.tags) == ("111122223333", {"team": "a", "x": ""})
    assert alice.policies[0].name == "send"
    assert json.loads(commands.done("policy", "show", "send")) == json.loads(SEND)


def test_root(commands: IdentityCommands) -> None:
    key, secret = commands.user("root")
    directory = commands.credentials().directory
    assert directory.secret(key, None) == secret
    assert directory.principal(key, None).kind == "root"
    assert "has a key already: create another with penstock user rotate" in commands.failed(
        "user", "add", "root"
    )


def test_a_key_that_clients_already_have(commands: IdentityCommands) -> None:
    result = commands(
        "user", "add", "alice", "--key", "AKIAIOSFODNN7EXAMPLE", given="wJalr/XUtn+EXAMPLEKEY\n"
    )
    assert (result.exit_code, result.stdout) == (0, "added arn:aws:iam::000000000000:user/alice\n")
    assert "wJalr" not in commands.path.read_text()
    assert commands.credentials().directory.secret("AKIAIOSFODNN7EXAMPLE", None) == "wJalr/XUtn+EXAMPLEKEY"
    assert "sessions_since" in commands.path.read_text(), "it may have been here before"


@pytest.mark.parametrize(
    ("key", "secret", "line"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "", "no secret was given on standard input"),
        ("ASIAEXAMPLE", "x", "ASIAEXAMPLE is the key of a session: those are not stored in the file"),
        ("AKIA", "x y", "invalid secret: expected no spaces"),
        ("AKIA", "x\x1b[2J", "invalid secret: expected printable characters only"),
        ("AKIA", b"\xff\xfe", "the secret on standard input is not UTF-8 text"),
        ("A/B", "x", 'invalid access key "A/B": expected 4 to 128 letters and digits'),
    ],
)  # fmt: skip
def test_keys_that_cannot_be_imported(
    commands: IdentityCommands, key: str, secret: str | bytes, line: str
) -> None:
    result = commands("user", "add", "alice", "--key", key, given=secret)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [f"penstock: {line}"]
    assert not commands.path.exists() and not commands.key_path.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["user", "add", "alice"], f'user "alice" exists already in account {HOME}'),
        (
            ["user", "add", "a b"],
            'invalid name of a user, "a b": expected letters, digits and any of _+=,.@- , 64 at most',
        ),
        (["user", "add", "bob", "--account", "1"], 'invalid value "1" for --account: expected twelve digits'),
        (["user", "add", "bob", "--tag", "x"], 'invalid value "x" for --tag: expected KEY=VALUE'),
        (
            ["user", "add", "bob", "--policy", "nonsense"],
            'there is no policy "nonsense": see penstock policy list',
        ),
        (
            ["user", "add", "bob", "--policy", "/nowhere.json"],
            'cannot read "/nowhere.json": No such file or directory',
        ),
        (["user", "show", "bob"], 'there is no user "bob": see penstock user list'),
        (["user", "rotate", "alice", "--finish"], '"alice" has no older key to retire'),
        (["user", "rotate", "alice", "--retire", "AKIAX"], '"alice" has no key AKIAX'),
        (
            ["user", "rotate", "alice", "--finish", "--retire", "AKIAX"],
            "give one of --finish, --retire, --deactivate, --activate",
        ),
        (["user", "add", "bob", "--config", "/nowhere"],
         'cannot read the config file "/nowhere" (--config): No such file or directory'),
        (["user", "add", "bob", "--tag", "x=\udcff"], "an argument is not UTF-8 text: 'x=\\udcff'"),
        (["role", "add", "b", "--trust", "alice", "--tag", "\udcff=x"], "an argument is not UTF-8 text: '\\udcff=x'"),
        (["role", "show", "x"], 'there is no role "x": see penstock role list'),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_change_nothing(
    commands: IdentityCommands, arguments: list[str], line: str
) -> None:
    commands.user("alice")
    before = commands.path.read_text()
    assert commands.failed(*arguments) == line
    assert commands.path.read_text() == before


def test_a_file_that_others_may_read_is_refused(commands: IdentityCommands) -> None:
    commands.user("alice")
    commands.path.chmod(0o644)
    assert "other users have access to it: run chmod 6" in commands.failed("user", "list")


# -- looking -------------------------------------------------------------------------------------------------


def test_list_and_show_hold_no_secret(commands: IdentityCommands) -> None:
    key, secret = commands.user("alice", "--policy", "sqs-send", "--tag", "team=a")
    root, _ = commands.user("root")
    listed = [line.split() for line in commands.done("user", "list").splitlines()]
    assert listed == [
        ["NAME", "ACCOUNT", "KEYS", "POLICIES"],
        ["root", HOME, root, "everything"],
        ["alice", HOME, key, "sqs-send"],
    ]
    _, alice = map(json.loads, commands.done("user", "list", "--json").splitlines())
    assert alice == {
        "name": "alice",
        "account": HOME,
        "arn": f"arn:aws:iam::{HOME}:user/alice",
        "keys": [{"id": key, "active": True}],
        "policies": ["sqs-send"],
    }
    shown = commands.done("user", "show", "alice")
    for part in (f"arn:aws:iam::{HOME}:user/alice", f"{key} (active, ", "sqs-send", "team=a"):
        assert part in shown
    assert secret not in shown


def test_a_name_in_two_accounts_needs_the_account(commands: IdentityCommands) -> None:
    commands.user("alice")
    commands.user("alice", "--account", "111122223333")
    assert commands.failed("user", "show", "alice") == (
        f'user "alice" is in the accounts {HOME}, 111122223333: choose one with --account'
    )
    assert "111122223333:user/alice" in commands.done("user", "show", "alice", "--account", "111122223333")


# -- rotating ------------------------------------------------------------------------------------------------


def test_a_rotation_without_downtime(commands: IdentityCommands) -> None:
    credentials_before = commands.user("alice", "--policy", "sqs-send")
    credentials_after = new_key(commands.done("user", "rotate", "alice"))
    directory = commands.credentials().directory
    for key, secret in (credentials_before, credentials_after):
        assert directory.secret(key, None) == secret
    assert "has two keys" in commands.failed("user", "rotate", "alice")
    assert commands.done("user", "rotate", "alice", "--finish") == f"removed {credentials_before[0]}\n"
    directory = commands.credentials().directory
    assert directory.secret(credentials_after[0], None) == credentials_after[1]
    with pytest.raises(AuthenticationError):
        directory.secret(credentials_before[0], None)


def test_deactivating_activating_and_retiring_one_key(commands: IdentityCommands) -> None:
    key, secret = commands.user("alice")
    assert commands.done("user", "rotate", "alice", "--deactivate", key) == f"{key} is inactive\n"
    with pytest.raises(AuthenticationError):
        commands.credentials().directory.secret(key, None)
    assert (
        commands.failed("env", "alice") == '"alice" has no active key: create one with penstock user rotate'
    )
    commands.done("user", "rotate", "alice", "--activate", key)
    assert commands.credentials().directory.secret(key, None) == secret
    commands.done("user", "rotate", "alice", "--retire", key)
    assert key not in commands.path.read_text()


def test_activating_a_key_ends_its_earlier_sessions(commands: IdentityCommands) -> None:
    key, _ = commands.user("alice")
    commands.done("user", "rotate", "alice", "--activate", key)
    assert "sessions_since" not in commands.path.read_text(), "it was active: nothing has to end"
    commands.done("user", "rotate", "alice", "--deactivate", key)
    commands.done("user", "rotate", "alice", "--activate", key)
    since = read_file(commands.path).accounts[HOME].users["alice"].keys[0].sessions_since
    assert since is not None and since > datetime.now(UTC) - timedelta(seconds=60)
    assert read_file(commands.path).accounts[HOME].users["alice"].sessions_since is None, "of its other key"


def test_finishing_does_not_leave_an_inactive_key_alone(commands: IdentityCommands) -> None:
    commands.user("alice")
    key, _ = new_key(commands.done("user", "rotate", "alice"))
    commands.done("user", "rotate", "alice", "--deactivate", key)
    assert commands.failed("user", "rotate", "alice", "--finish") == (
        f"the newest key, {key}, is inactive: activate it first, or use --retire"
    )


def test_removing_a_user(commands: IdentityCommands) -> None:
    key, _ = commands.user("alice")
    assert commands.done("user", "remove", "alice") == f"removed arn:aws:iam::{HOME}:user/alice\n"
    assert key not in commands.path.read_text()
    commands.user("root")
    commands.done("user", "remove", "root")
    assert "accounts" not in commands.path.read_text()


@pytest.mark.parametrize("word", ["user", "role"])
def test_revoking_sessions(commands: IdentityCommands, word: str) -> None:
    commands.user("alice")
    commands.done("role", "add", "alice", "--trust", "alice")
    assert "sessions_since" not in commands.path.read_text()
    commands.done(word, "revoke", "alice")
    assert commands.path.read_text().count("sessions_since") == 1
    account = read_file(commands.path).accounts[HOME]
    since = account.users["alice"].sessions_since or account.roles["alice"].sessions_since
    assert since is not None and since > datetime.now(UTC), "servers do not know of it yet"
    assert "sessions since" in commands.done(word, "show", "alice")


# -- roles ---------------------------------------------------------------------------------------------------


def test_a_role(commands: IdentityCommands) -> None:
    arn = f"arn:aws:iam::{HOME}:role/worker"
    made = commands.done(
        "role", "add", "worker", "--trust", "alice", "--trust", "444455556666", "--external-id", "x-1",
        "--policy", "sqs-send", "--max-session", "7200", "--tag", "team=a",
    )  # fmt: skip
    assert made == f"{arn}\n"
    lines = commands.done("role", "show", "worker")
    trust = json.loads(lines[lines.index("{") :])
    assert trust["Statement"] == [
        {
            "Effect": "Allow",
            "Principal": {"AWS": [f"arn:aws:iam::{HOME}:user/alice", "arn:aws:iam::444455556666:root"]},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"sts:ExternalId": "x-1"}},
        }
    ]
    for part in (arn, "7200 s", "sqs-send", "team=a"):
        assert part in lines
    assert f"worker  {HOME}  7200 s" in commands.done("role", "list")
    commands.done("role", "remove", "worker")
    assert "worker" not in commands.path.read_text()


def test_session_tags_are_allowed_by_an_option(commands: IdentityCommands) -> None:
    commands.done("role", "add", "worker", "--trust", "alice", "--allow-tags")
    assert '"sts:TagSession"' in commands.done("role", "show", "worker")


def test_a_trust_policy_from_a_file(commands: IdentityCommands) -> None:
    trust = '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}}'
    file = commands.file("trust.json", trust)
    commands.done("role", "add", "worker", "--trust", file)
    assert trust in commands.done("role", "show", "worker")
    for more in (["--external-id", "x"], ["--allow-tags"], ["--trust", "alice"]):
        assert commands.failed("role", "add", "other", "--trust", file, *more) == (
            "a trust policy in a file is complete: give --trust once, and neither --external-id nor --allow-tags"
        )
    bad = commands.file("bad.json", SEND)
    assert f'"{bad}" is not a valid trust policy: ' in commands.failed("role", "add", "other", "--trust", bad)


# -- env -----------------------------------------------------------------------------------------------------


def test_env_is_for_a_shell(commands: IdentityCommands) -> None:
    key, secret = commands.user("alice")
    script = commands.done("env", "alice", PENSTOCK_PORT="4566", PENSTOCK_REGION="eu-west-1")
    names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"]
    shown = " ".join(f'"${name}"' for name in names)
    done = subprocess.run(
        ["sh", "-c", f"{script}\nprintf '%s\\n' {shown}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines() == [key, secret, "eu-west-1", "http://127.0.0.1:4566"]


@pytest.mark.parametrize(
    ("format_", "line"),
    [
        ("sh", "export AWS_ENDPOINT_URL='https://q.example.com/it'\"'\"'s'"),
        ("fish", r"set -gx AWS_ENDPOINT_URL 'https://q.example.com/it\'s'"),
        ("powershell", "$env:AWS_ENDPOINT_URL = 'https://q.example.com/it''s'"),
        ("dotenv", "AWS_ENDPOINT_URL=https://q.example.com/it's"),
    ],
)
def test_env_in_every_format(commands: IdentityCommands, format_: str, line: str) -> None:
    commands.user("alice")
    printed = commands.done("env", "alice", "--format", format_, "--url", "https://q.example.com/it's")
    assert printed.splitlines()[-1] == line
    if format_ == "sh":
        assert shlex.split(line) == ["export", "AWS_ENDPOINT_URL=https://q.example.com/it's"]


def test_env_as_json_takes_the_newest_active_key(commands: IdentityCommands) -> None:
    key, secret = commands.user("alice")
    newer, _ = new_key(commands.done("user", "rotate", "alice"))
    assert json.loads(commands.done("env", "alice", "--format", "json"))["AWS_ACCESS_KEY_ID"] == newer
    commands.done("user", "rotate", "alice", "--deactivate", newer)
    values = json.loads(
        commands.done("env", "alice", "--format", "json", PENSTOCK_PUBLIC_URL="https://q.example.com")
    )
    assert values == {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": "https://q.example.com",
    }


def test_env_needs_the_right_root_key(commands: IdentityCommands) -> None:
    commands.user("alice")
    line = commands.failed("env", "alice", PENSTOCK_ROOT_KEY=bytes(32).hex())
    assert line.endswith("cannot be decrypted: it was encrypted with another root key, or changed since")
    commands.key_path.unlink()
    assert commands.failed("env", "alice").startswith("there is no root key")
