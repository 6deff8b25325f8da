"""``penstock context``, and which server the other commands then use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.process import ServerProcess
from support.texts import says


@pytest.fixture
def home(tmp_path: Path) -> CommandLine:
    """Commands of a user with profiles and without contexts; no variable names a server."""
    config = tmp_path / "aws-config"
    config.write_text(
        "[profile ops]\naws_access_key_id = AKIAOPS\naws_secret_access_key = s\nregion = eu-west-1\n"
    )
    return CommandLine("", XDG_CONFIG_HOME=str(tmp_path), AWS_CONFIG_FILE=str(config))


def test_add_use_list_and_remove(home: CommandLine, tmp_path: Path) -> None:
    says(home("context", "ls").stderr, "no contexts", "penstock context create")
    added = home.done(
        "context", "create", "prod", "--endpoint-url", "https://q.example.com", "--profile", "ops"
    )
    says(added, "added", '"prod"', "used")
    assert (
        home.done("context", "create", "eu", "--endpoint-url", "aws", "--region", "eu-central-1")
        == 'added "eu"\n'
    )
    assert home.done("context", "ls").splitlines() == [
        "   NAME  ENDPOINT               REGION        PROFILE",
        "   eu    aws                    eu-central-1  -",
        "*  prod  https://q.example.com  -             ops",
    ]
    says(home.done("context", "use", "eu"), '"eu"', "used")
    assert home.json_lines("context", "ls") == [
        {"name": "eu", "current": True, "endpoint": "aws", "region": "eu-central-1"},
        {"name": "prod", "current": False, "endpoint": "https://q.example.com", "profile": "ops"},
    ]
    assert home.json("context", "use", "eu") == {"name": "eu", "current": True}
    says(home.done("context", "delete", "eu"), 'removed "eu"', "in use")
    assert home.done("context", "delete", "prod") == 'removed "prod"\n'
    assert json.loads((tmp_path / "penstock/contexts.json").read_text()) == {"current": None, "contexts": {}}


def test_show(home: CommandLine) -> None:
    says(home.failed("context", "show", code=2), "no context is in use", "penstock context use")
    home.done("context", "create", "prod", "--endpoint-url", "https://q.example.com", "--profile", "ops")
    home.done("context", "create", "eu", "--endpoint-url", "aws", "--region", "eu-central-1")
    assert home.done("context", "show").splitlines() == [
        "name      prod",
        "in use    yes",
        "endpoint  https://q.example.com",
        "profile   ops",
    ]
    eu = {"name": "eu", "current": False, "endpoint": "aws", "region": "eu-central-1"}
    assert home.json("context", "show", "eu") == eu == home.json_lines("context", "ls")[0]
    says(home.failed("context", "show", "none", code=2), 'no context "none"', "eu, prod")


def test_set_changes_what_is_given(home: CommandLine, tmp_path: Path) -> None:
    home.done("context", "create", "eu", "--endpoint-url", "aws", "--region", "eu-west-1")
    home.done("context", "create", "prod", "--endpoint-url", "https://q.example.com", "--use")
    before = home.json("context", "show", "prod")
    assert home.done("context", "set", "eu", "--profile", "ops") == 'changed "eu"\n'
    changed = {"name": "eu", "current": False, "endpoint": "aws", "profile": "ops"}
    assert home.json("context", "set", "eu", "--no-region") == changed
    (tmp_path / "ca.pem").write_text("")
    given = home.json(
        "context", "set", "eu", "--endpoint-url", "https://e", "--ca-file", str(tmp_path / "ca.pem")
    )
    assert given == {**changed, "endpoint": "https://e", "ca_file": str((tmp_path / "ca.pem").resolve())}
    assert home.json("context", "set", "eu", "--no-ca-file", "--no-profile", "--region", "eu-west-2") == {
        "name": "eu", "current": False, "endpoint": "https://e", "region": "eu-west-2",
    }  # fmt: skip
    assert home.json("context", "show") == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none", "--region", "eu-west-1"], 'no context "none"'),
        (["lab"], "nothing to change --endpoint-url"),
        (["lab", "--region", "eu-west-1", "--no-region"], "either --region or --no-region"),
        (["lab", "--endpoint-url", "lab:9324"], '"lab:9324" endpoint URL'),
        (["lab", "--profile", "none"], 'no profile "none"'),
    ],
)
def test_set_refuses(home: CommandLine, arguments: list[str], problem: str) -> None:
    home.done("context", "create", "lab", "--endpoint-url", "http://lab:9324")
    result = home("context", "set", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    says(result.stderr, *problem.split())
    assert home.json("context", "show") == {"name": "lab", "current": True, "endpoint": "http://lab:9324"}


def test_the_table_in_a_terminal(home: CommandLine) -> None:
    home.done("context", "create", "lab", "--endpoint-url", "http://lab:9324")
    code, output = home.in_terminal("context", "ls")
    assert code == 0 and "\x1b[1m   NAME" in output


def test_commands_use_the_context(home: CommandLine, broker: ServerProcess, penstock: CommandLine) -> None:
    penstock.done("queue", "create", "found")
    home.done("context", "create", "test", "--endpoint-url", broker.url)
    home.done("context", "create", "gone", "--endpoint-url", "http://127.0.0.1:1", "--use")
    assert "found" in home.done("queue", "ls", "--names", "--context", "test").split()
    assert "found" in home.done("queue", "ls", "--names", PENSTOCK_CONTEXT="test").split()
    assert "found" in home.done("queue", "ls", "--names", AWS_ENDPOINT_URL=broker.url).split()
    says(home.failed("queue", "ls"), "http://127.0.0.1:1", "Connection refused", "context gone", "running")
    assert "found" in home.done("queue", "ls", "--names", "--endpoint-url", broker.url).split()


def test_a_server_of_the_config_is_not_disturbed_by_the_variable(home: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("port = 1234\n")
    assert home("check", str(tmp_path / "penstock.toml"), PENSTOCK_CONTEXT="test").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["add", "x", "--endpoint-url", "localhost:9324"], '"localhost:9324" endpoint URL'),
        (["add", "x", "--endpoint-url", "aws", "--profile", "none"], 'no profile "none"'),
        (["add", "taken", "--endpoint-url", "aws"], '"taken" already --replace'),
        (["use", "none"], 'no context "none"'),
        (["rm", "none"], "taken"),
    ],
)
def test_errors(home: CommandLine, arguments: list[str], problem: str) -> None:
    home.done("context", "create", "taken", "--endpoint-url", "http://127.0.0.1:1")
    says(home.failed("context", *arguments, code=2), *problem.split())
    home.done("context", "create", "taken", "--endpoint-url", "http://127.0.0.1:2", "--replace")
    assert home.json_lines("context", "ls")[0]["endpoint"] == "http://127.0.0.1:2"


def test_unknown_contexts_and_profiles_of_a_command(home: CommandLine) -> None:
    says(home.failed("queue", "ls", "--context", "none", code=2), 'no context "none"')
    says(home.failed("queue", "ls", "--profile", "none", code=2), 'no profile "none"')
