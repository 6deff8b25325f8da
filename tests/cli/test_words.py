"""One word for one thing: former spellings, commands that moved into the shell, and hints for mistyped words."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from penstock.cli import SHELL_COMMANDS, main
from penstock.cli.groups import FORMER_WORDS
from support.command_line import CommandLine
from support.texts import says

FORMER = {
    "user add": "create", "user list": "ls", "user remove": "delete",
    "role add": "create", "role list": "ls", "role remove": "delete",
    "policy list": "ls", "policy put": "set", "policy remove": "delete",
    "context add": "create", "context rm": "delete",
    "key list": "ls", "key reroot": "replace-root", "key reseal": "reencrypt",
    "message get": "show",
}  # fmt: skip


def groups() -> dict[str, click.Group]:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in found.items() if isinstance(command, click.Group)}


def test_former_spellings_work_and_are_not_shown() -> None:
    for spelling, word in FORMER.items():
        name, former = spelling.split()
        group, context = groups()[name], click.Context(main)
        assert group.get_command(context, former) is group.get_command(context, word) is not None, spelling
        assert former not in group.list_commands(context), spelling
        assert CliRunner().invoke(main, [name, former, "--help"]).exit_code == 0, spelling


def test_no_group_uses_a_former_word() -> None:
    used = {name: set(group.commands) & set(FORMER_WORDS) for name, group in groups().items()}
    assert {name: words for name, words in used.items() if words} == {}


def test_commands_of_the_shell_are_not_on_the_command_line() -> None:
    for name in SHELL_COMMANDS:
        assert name not in main.list_commands(click.Context(main))
        result = CliRunner().invoke(main, [name, "orders", "1"])
        assert (result.exit_code, result.stdout) == (2, "")
        says(result.stderr, name, "penstock shell", "penstock ")
    says(CliRunner().invoke(main, ["fail", "orders", "1"]).stderr, "penstock message fail")


@pytest.mark.parametrize("words", ["use orders", "id 1", "quit", "exit"])
def test_words_that_mean_something_in_the_shell_only(words: str) -> None:
    result = CliRunner().invoke(main, words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    says(result.stderr, f'"{words.split()[0]}"', '"penstock shell"')
    assert "did you mean" not in result.stderr


def test_what_an_error_names_instead_is_a_command() -> None:
    for instead in SHELL_COMMANDS.values():
        for words in (part.split() for part in instead.split('"')[1::2]):
            assert words[0] == "penstock" and words[2] in groups()[words[1]].commands, words


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("queu ls", "queue"),
        ("servee", "serve"),
        ("queue shwo orders", "show"),
        ("user creat x", "create"),
        ("cluster ls", "status"),
        ("cluster list", "status"),
    ],
)
def test_a_mistyped_command(typed: str, meant: str) -> None:
    result = CliRunner().invoke(main, typed.split())
    assert result.exit_code == 2
    says(result.stderr, "did you mean", f'"{meant}"')


def test_a_mistyped_queue(penstock: CommandLine) -> None:
    penstock.done("queue", "create", "mistyped-invoices")
    says(
        penstock.failed("queue", "show", "mistyped-invoice"), "no queue", 'did you mean "mistyped-invoices"?'
    )
    assert "did you mean" not in penstock.failed("message", "peek", "zzzzzz")
