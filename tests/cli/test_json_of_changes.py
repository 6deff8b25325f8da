"""What commands that change something print with --json, for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.identity_commands import HOME, QUEUE, IdentityCommands
from penstock.cli import main
from support.identities import allow, document


@pytest.fixture
def commands(tmp_path: Path) -> IdentityCommands:
    return IdentityCommands(tmp_path)


def facts(commands: IdentityCommands, *arguments: str) -> Any:
    return json.loads(commands.done(*arguments, "--json"))


def test_a_user(commands: IdentityCommands) -> None:
    arn = f"arn:aws:iam::{HOME}:user/alice"
    added = facts(commands, "user", "create", "alice", "--policy", "sqs-send", "--tag", "team=orders")
    assert added["arn"] == arn
    assert commands.done("env", "alice").count(added["secret_key"]) == 1
    second = facts(commands, "user", "rotate", "alice")["access_key"]
    shown = facts(commands, "user", "show", "alice")
    assert [key["id"] for key in shown["keys"]] == [added["access_key"], second]
    assert (shown["policies"], shown["tags"]) == (["sqs-send"], {"team": "orders"})
    finished = facts(commands, "user", "rotate", "alice", "--finish")
    assert finished["keys"] == [{"id": second, "active": True}]
    assert facts(commands, "env", "alice")["AWS_ACCESS_KEY_ID"] == second
    revoked = facts(commands, "user", "revoke", "alice")
    assert revoked == {
        "arn": arn,
        "sessions_since": facts(commands, "user", "show", "alice")["sessions_since"],
    }
    assert facts(commands, "user", "delete", "alice") == {"removed": arn}
    assert commands.done("user", "ls", "--json") == ""


def test_a_key_that_clients_already_have_is_not_printed(commands: IdentityCommands) -> None:
    result = commands(
        "user", "create", "old", "--key", "AKIAIOSFODNN7EXAMPLE", "--json", given="a-secret-of-theirs\n"
    )
    assert json.loads(result.stdout) == {
        "arn": f"arn:aws:iam::{HOME}:user/old",
        "access_key": "AKIAIOSFODNN7EXAMPLE",
    }


def test_a_role(commands: IdentityCommands) -> None:
    commands.user("alice")
    arn = f"arn:aws:iam::{HOME}:role/worker"
    assert facts(commands, "role", "create", "worker", "--trust", "alice", "--policy", "sqs-receive") == {
        "arn": arn
    }
    shown = facts(commands, "role", "show", "worker")
    assert (shown["arn"], shown["max_session_s"], shown["policies"]) == (arn, 3600, ["sqs-receive"])
    assert shown["trust"]["Statement"][0]["Principal"] == {"AWS": [f"arn:aws:iam::{HOME}:user/alice"]}


def test_policies(commands: IdentityCommands) -> None:
    commands.user("alice")
    path = commands.file("orders.json", document(allow("sqs:SendMessage", Resource=QUEUE)))
    question = (
        "policy",
        "test",
        "--user",
        "alice",
        "--action",
        "sqs:SendMessage",
        "--resource",
        QUEUE,
        "--json",
    )
    denied = commands(*question)
    assert (denied.exit_code, json.loads(denied.stdout)["allowed"]) == (1, False)
    assert facts(commands, "policy", "set", "orders", path)["name"] == "orders"
    arn = f"arn:aws:iam::{HOME}:user/alice"
    attached = facts(commands, "policy", "attach", "orders", "--user", "alice")
    assert attached == {"policy": "orders", "attached_to": arn}
    allowed = json.loads(commands.done(*question))
    assert (allowed["allowed"], allowed["policy"]) == (True, "identity:orders")
    assert facts(commands, "policy", "show", "orders") == json.loads(Path(path).read_text())
    detached = facts(commands, "policy", "detach", "orders", "--user", "alice")
    assert detached == {"policy": "orders", "detached_from": arn}
    assert facts(commands, "policy", "delete", "orders") == {"removed": "orders"}


def test_a_certificate(tmp_path: Path) -> None:
    made = json.loads(CliRunner().invoke(main, ["cert", "--out", str(tmp_path), "--json"]).stdout)
    assert "BEGIN CERTIFICATE" in Path(made["certificate"]).read_text()
    assert "localhost" in made["names"]


def test_an_imported_configuration(tmp_path: Path) -> None:
    source = tmp_path / "elasticmq.conf"
    source.write_text("queues { orders { } }\n")
    printed = json.loads(CliRunner().invoke(main, ["import-config", str(source), "--json"]).stdout)
    assert (printed["queues"], "orders" in printed["config"]) == (1, True)
