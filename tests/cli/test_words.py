"""One word for one thing: former spellings, commands that moved into the shell, and hints for mistyped words."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from penstock.cli import SHELL_COMMANDS, main
from penstock.cli.groups import FORMER_WORDS, VERBS, CommandGroup
from penstock.cli.shell.interactive import HELP
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


# Commands that a group has under these words. For every other verb the group itself says what a user should know.
HAS = {
    "cluster": "ls show",
    "context": "ls show create set delete",
    "dlq": "ls show",
    "key": "ls show create",
    "message": "ls show set delete",
    "policy": "ls show create set delete",
    "queue": "ls show create set delete",
    "redrive": "ls show",
    "role": "ls show create set delete",
    "task": "ls show",
    "test": "",
    "topic": "ls show create set delete",
    "user": "ls show create set delete",
}


def commands() -> dict[str, click.Command]:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def groups() -> dict[str, CommandGroup]:
    return {name: command for name, command in commands().items() if isinstance(command, CommandGroup)}


def test_every_group_is_one_that_knows_the_verbs() -> None:
    assert {name for name, command in commands().items() if isinstance(command, click.Group)} == set(groups())


def test_every_group_has_each_verb_or_says_why_not() -> None:
    assert {name: {verb for verb in VERBS if verb in group.commands} for name, group in groups().items()} == {
        name: set(verbs.split()) for name, verbs in HAS.items()
    }
    without = {name: set(VERBS) - set(group.commands) for name, group in groups().items()}
    assert {name: set(group.missing) for name, group in groups().items()} == without


def test_a_verb_that_a_group_does_not_have_is_answered() -> None:
    for name, group in groups().items():
        for verb, reason in group.missing.items():
            former = [word for word, present in FORMER_WORDS.items() if present == verb]
            for word in (verb, *former):
                result = CliRunner().invoke(main, [name, word, "orders"])
                assert (result.exit_code, result.stdout) == (2, ""), (name, word)
                says(result.stderr, f'"penstock {name} {word}"', reason)


def test_what_is_named_in_place_of_a_verb_is_a_command() -> None:
    for name, group in groups().items():
        for instead in group.missing.values():
            assert instead.count('"') >= 2, (name, instead)
            for quoted in instead.split('"')[1::2]:
                assert_is_a_command(quoted)


def assert_is_a_command(text: str) -> None:
    word, *rest = text.split()
    assert word == "penstock", text
    if rest == ["--help"]:
        return
    assert rest[0] in commands(), text
    assert rest[0] not in groups() or rest[1] in groups()[rest[0]].commands, text


def test_an_alias_is_a_word_for_a_command_whose_help_names_it() -> None:
    assert {name: dict(group.aliases) for name, group in groups().items() if group.aliases} == {
        "message": {"edit": "set"}
    }
    group, context = groups()["message"], click.Context(main)
    assert group.get_command(context, "edit") is group.commands["set"]
    assert "edit" not in group.list_commands(context)
    says(CliRunner().invoke(main, ["message", "set", "--help"]).stdout, "Also: edit")
    assert CliRunner().invoke(main, ["queue", "edit", "orders"]).exit_code == 2


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
        for quoted in instead.split('"')[1::2]:
            assert_is_a_command(quoted)


def test_every_word_of_the_shell_is_answered_on_the_command_line() -> None:
    elsewhere = {name for name in HELP if name in commands()}
    assert elsewhere == {"dlq", "redrive"}, "groups of commands that the shell has short forms of"
    for name in {*HELP, "h", "?", "q", "exit"} - elsewhere - {"help"}:
        result = CliRunner().invoke(main, [name])
        assert (result.exit_code, result.stdout) == (2, ""), name
        says(result.stderr, f'"{name}"', "penstock shell")


def test_help_is_a_word_for_the_option() -> None:
    for words in ([], ["queue"], ["queue", "ls"], ["health"]):
        shown = CliRunner().invoke(main, [*words, "--help"])
        assert CliRunner().invoke(main, ["help", *words]).stdout == shown.stdout != ""
    result = CliRunner().invoke(main, ["help", "queu"])
    assert result.exit_code == 2
    says(result.stderr, "did you mean", '"queue"')


def test_neither_help_nor_completion_shows_the_words_of_the_shell() -> None:
    own = {*HELP, *SHELL_COMMANDS, "q", "exit", "help"} - {"dlq", "redrive"}
    for arguments in (["help"], ["--help"]):
        listed = CliRunner().invoke(main, arguments).stdout.partition("Server:")[2].splitlines()
        assert not own & {line.split()[0] for line in listed if line.strip()}
    completed = {item.value for item in main.shell_complete(click.Context(main), "")}
    assert "queue" in completed and not own & completed


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("queu ls", "queue"),
        ("servee", "serve"),
        ("queue shwo orders", "show"),
        ("user creat x", "create"),
        ("cluster statu", "status"),
        ("peek orders", "penstock message peek"),
        ("edit orders", "penstock message edit"),
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
