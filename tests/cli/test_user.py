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
from support.texts import says


@pytest.fixture
def commands(tmp_path: Path) -> IdentityCommands:
    return IdentityCommands(tmp_path)


# -- adding --------------------------------------------------------------------------------------------------


def test_the_first_user_creates_the_file_and_a_root_key(commands: IdentityCommands) -> None:
    result = commands("user", "create", "alice", "--policy", "sqs-full-access")
    says(result.stderr, "root key", str(commands.key_path))
    key, secret = new_key(result.stdout)
    for path in (commands.path, commands.key_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in commands.path.read_text()
    directory = commands.credentials().directory
    assert directory.secret(key, None) == secret
    alice = directory.principal(key, None)
    assert (alice.arn, len(alice.policies)) == (f"arn:aws:iam::{HOME}:user/alice", 1)


def test_an_error_creates_no_root_key(commands: IdentityCommands) -> None:
    commands.failed("user", "create", "alice", "--policy", "nonsense")
    assert not commands.key_path.exists() and not commands.path.exists()


def test_the_root_key_is_created_once(commands: IdentityCommands) -> None:
    commands.user("alice")
    before = commands.key_path.read_bytes()
    result = commands("user", "create", "bob")
    assert str(commands.key_path) not in result.stderr
    assert commands.key_path.read_bytes() == before


def test_a_root_key_from_elsewhere_is_used(commands: IdentityCommands) -> None:
    commands.done("user", "create", "alice", PENSTOCK_ROOT_KEY=bytes(32).hex())
    assert not commands.key_path.exists()
    assert "no root key" in commands.failed("user", "create", "bob"), (
        "a new one would not open alice's secret"
    )
    printed = commands.done("env", "alice", PENSTOCK_ROOT_KEY=bytes(32).hex())
    assert "AWS_SECRET_ACCESS_KEY" in printed


@pytest.mark.parametrize("arguments", [["user", "create", "bob"], ["user", "rotate", "alice"]])
def test_another_root_key_than_that_of_the_file_is_refused(
    commands: IdentityCommands, arguments: list[str]
) -> None:
    key, secret = commands.user("alice")
    before = commands.path.read_text()
    line = commands.failed(*arguments, PENSTOCK_ROOT_KEY=bytes(32).hex())
    says(line, key, "another root key", "Nothing was written", "docs/authentication.md")
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
    """The steps are those of docs/authentication.md."""
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
    says(commands("user", "create", "alice").stderr, "alice", "no policies")
    assert "no policies" not in commands("user", "create", "bob", "--policy", "sqs-send").stderr


def test_accounts_tags_and_policy_files(commands: IdentityCommands) -> None:
    send = commands.file("send.json", SEND)
    key, _ = commands.user(
        "alice", "--account", "111122223333", "--policy", send, "--tag", "team=a", "--tag", "x="
    )
    alice = commands.credentials().directory.principal(key, None)
    assert (alice.account, alice.tags) == ("111122223333", {"team": "a", "x": ""})
    assert alice.policies[0].name == "send"
    assert json.loads(commands.done("policy", "show", "send")) == json.loads(SEND)


def test_tags_are_changed(commands: IdentityCommands) -> None:
    commands.user("alice", "--tag", "team=orders", "--tag", "stage=test", "--policy", "sqs-send")
    arn = f"arn:aws:iam::{HOME}:user/alice"
    said = commands.done(
        "user", "set", "alice", "--tag", "team=billing", "--tag", "site=a", "--untag", "stage"
    )
    assert said == f"changed {arn}\n"
    shown = json.loads(commands.done("user", "show", "alice", "--json"))
    assert (shown["tags"], shown["policies"]) == ({"team": "billing", "site": "a"}, ["sqs-send"])
    assert json.loads(commands.done("user", "set", "alice", "--untag", "site", "--json")) == {
        **shown, "tags": {"team": "billing"},
    }  # fmt: skip
    assert 'no tag "none"' in commands.failed("user", "set", "alice", "--tag", "a=b", "--untag", "none")
    assert 'no user "bob"' in commands.failed("user", "set", "bob", "--tag", "a=b")
    assert "KEY=VALUE" in commands.failed("user", "set", "alice", "--tag", "a")
    result = commands("user", "set", "alice")
    assert result.exit_code == 2
    says(result.stderr, "nothing to change", "--tag", "--untag")
    assert json.loads(commands.done("user", "show", "alice", "--json"))["tags"] == {"team": "billing"}


def test_a_role_is_changed(commands: IdentityCommands) -> None:
    for user in "alice", "bob":
        commands.user(user)
    commands.done(
        "role", "create", "worker", "--trust", "alice", "--tag", "team=orders", "--policy", "sqs-send"
    )
    before = json.loads(commands.done("role", "show", "worker", "--json"))
    assert json.loads(commands.done("role", "set", "worker", "--max-session", "7200", "--json")) == {
        **before, "max_session_s": 7200,
    }  # fmt: skip
    said = commands.done("role", "set", "worker", "--trust", "bob", "--external-id", "7F3K", "--allow-tags")
    assert said == f"changed {before['arn']}\n"
    commands.done("role", "set", "worker", "--tag", "stage=prod", "--untag", "team")
    after = json.loads(commands.done("role", "show", "worker", "--json"))
    (statement,) = after["trust"]["Statement"]
    assert statement["Principal"] == {"AWS": [f"arn:aws:iam::{HOME}:user/bob"]}
    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert statement["Condition"] == {"StringEquals": {"sts:ExternalId": "7F3K"}}
    assert after == {**before, "max_session_s": 7200, "tags": {"stage": "prod"}, "trust": after["trust"]}
    trust = commands.file("trust.json", json.dumps(before["trust"]))
    assert (
        json.loads(commands.done("role", "set", "worker", "--trust", trust, "--json"))["trust"]
        == before["trust"]
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "nothing to change"),
        (["--external-id", "x"], "--trust"),
        (["--allow-tags"], "--trust"),
        (["--untag", "none"], 'no tag "none"'),
        (["--max-session", "1"], "3600"),
    ],
)
def test_a_role_is_not_changed(commands: IdentityCommands, arguments: list[str], problem: str) -> None:
    commands.user("alice")
    commands.done("role", "create", "worker", "--trust", "alice")
    before = commands.done("role", "show", "worker", "--json")
    result = commands("role", "set", "worker", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    says(result.stderr, problem)
    assert commands.done("role", "show", "worker", "--json") == before


def test_root(commands: IdentityCommands) -> None:
    key, secret = commands.user("root")
    directory = commands.credentials().directory
    assert directory.secret(key, None) == secret
    assert directory.principal(key, None).kind == "root"
    says(commands.failed("user", "create", "root"), "key already", "penstock user rotate")


def test_a_key_that_clients_already_have(commands: IdentityCommands) -> None:
    result = commands(
        "user", "create", "alice", "--key", "AKIAIOSFODNN7EXAMPLE", given="wJalr/XUtn+EXAMPLEKEY\n"
    )
    assert (result.exit_code, result.stdout) == (0, "added arn:aws:iam::000000000000:user/alice\n")
    assert "wJalr" not in commands.path.read_text()
    assert commands.credentials().directory.secret("AKIAIOSFODNN7EXAMPLE", None) == "wJalr/XUtn+EXAMPLEKEY"
    assert "sessions_since" in commands.path.read_text(), "it may have been here before"


@pytest.mark.parametrize(
    ("key", "secret", "words"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "", "no secret standard input"),
        ("ASIAEXAMPLE", "x", "ASIAEXAMPLE session"),
        ("AKIA", "x y", "invalid secret spaces"),
        ("AKIA", "x\x1b[2J", "invalid secret printable"),
        ("AKIA", b"\xff\xfe", "secret standard input not UTF-8"),
        ("A/B", "x", 'invalid access key "A/B" 4 128 letters digits'),
    ],
)  # fmt: skip
def test_keys_that_cannot_be_imported(
    commands: IdentityCommands, key: str, secret: str | bytes, words: str
) -> None:
    result = commands("user", "create", "alice", "--key", key, given=secret)
    assert result.exit_code == 2
    assert result.stderr.startswith("penstock: ") and result.stderr.count("\n") == 1
    says(result.stderr, *words.split())
    assert not commands.path.exists() and not commands.key_path.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["user", "create", "alice"], f'"alice" exists already {HOME}'),
        (["user", "create", "a b"], 'invalid name user "a b" letters digits _+=,.@- 64'),
        (["user", "create", "bob", "--account", "1"], 'invalid "1" --account twelve digits'),
        (["user", "create", "bob", "--tag", "x"], 'invalid "x" --tag KEY=VALUE'),
        (["user", "create", "bob", "--policy", "nonsense"], 'no policy "nonsense" penstock ls'),
        (["user", "create", "bob", "--policy", "/nowhere.json"], "/nowhere.json No such file"),
        (["user", "show", "bob"], 'no user "bob" penstock ls'),
        (["user", "rotate", "alice", "--finish"], '"alice" no older key'),
        (["user", "rotate", "alice", "--retire", "AKIAX"], '"alice" no key AKIAX'),
        (
            ["user", "rotate", "alice", "--finish", "--retire", "AKIAX"],
            "one --finish --retire --deactivate --activate",
        ),
        (["user", "create", "bob", "--config", "/nowhere"], "config file /nowhere --config No such file"),
        (["user", "create", "bob", "--tag", "x=\udcff"], "argument UTF-8 'x=\\udcff'"),
        (["role", "create", "b", "--trust", "alice", "--tag", "\udcff=x"], "argument UTF-8 '\\udcff=x'"),
        (["role", "show", "x"], 'no role "x" penstock ls'),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_change_nothing(
    commands: IdentityCommands, arguments: list[str], words: str
) -> None:
    commands.user("alice")
    before = commands.path.read_text()
    says(commands.failed(*arguments), *words.split())
    assert commands.path.read_text() == before


def test_a_file_that_others_may_read_is_refused(commands: IdentityCommands) -> None:
    commands.user("alice")
    commands.path.chmod(0o644)
    assert re.search(f"{commands.path}.*chmod 6", commands.failed("user", "ls"))


# -- looking -------------------------------------------------------------------------------------------------


def test_list_and_show_hold_no_secret(commands: IdentityCommands) -> None:
    key, secret = commands.user("alice", "--policy", "sqs-send", "--tag", "team=a")
    root, _ = commands.user("root")
    listed = [line.split() for line in commands.done("user", "ls").splitlines()]
    assert listed == [
        ["NAME", "ACCOUNT", "KEYS", "POLICIES"],
        ["root", HOME, root, "everything"],
        ["alice", HOME, key, "sqs-send"],
    ]
    _, alice = map(json.loads, commands.done("user", "ls", "--json").splitlines())
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
    says(commands.failed("user", "show", "alice"), '"alice"', HOME, "111122223333", "--account")
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
    says(commands.failed("env", "alice"), '"alice"', "no active key", "penstock user rotate")
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
    says(commands.failed("user", "rotate", "alice", "--finish"), key, "inactive", "--retire")


def test_removing_a_user(commands: IdentityCommands) -> None:
    key, _ = commands.user("alice")
    assert commands.done("user", "delete", "alice") == f"removed arn:aws:iam::{HOME}:user/alice\n"
    assert key not in commands.path.read_text()
    commands.user("root")
    commands.done("user", "delete", "root")
    assert "accounts" not in commands.path.read_text()


@pytest.mark.parametrize("word", ["user", "role"])
def test_revoking_sessions(commands: IdentityCommands, word: str) -> None:
    commands.user("alice")
    commands.done("role", "create", "alice", "--trust", "alice")
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
        "role", "create", "worker", "--trust", "alice", "--trust", "444455556666", "--external-id", "x-1",
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
    assert f"worker  {HOME}  7200 s" in commands.done("role", "ls")
    commands.done("role", "delete", "worker")
    assert "worker" not in commands.path.read_text()


def test_session_tags_are_allowed_by_an_option(commands: IdentityCommands) -> None:
    commands.done("role", "create", "worker", "--trust", "alice", "--allow-tags")
    assert '"sts:TagSession"' in commands.done("role", "show", "worker")


def test_a_trust_policy_from_a_file(commands: IdentityCommands) -> None:
    trust = '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}}'
    file = commands.file("trust.json", trust)
    commands.done("role", "create", "worker", "--trust", file)
    assert trust in commands.done("role", "show", "worker")
    for more in (["--external-id", "x"], ["--allow-tags"], ["--trust", "alice"]):
        refused = commands.failed("role", "create", "other", "--trust", file, *more)
        says(refused, "--trust once", "--external-id", "--allow-tags")
    bad = commands.file("bad.json", SEND)
    says(commands.failed("role", "create", "other", "--trust", bad), f'"{bad}"', "not a valid trust policy")


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
    says(line, "another root key")
    commands.key_path.unlink()
    says(commands.failed("env", "alice"), "no root key")
