"""``penstock policy``: what can be attached, to whom, and what the broker would decide."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.identity_commands import HOME, QUEUE, SEND, IdentityCommands
from penstock.auth.policy import compile_policy
from penstock.auth.policy.vocabulary import builtin_policies
from support.identities import allow, document
from support.texts import says


@pytest.fixture
def commands(tmp_path: Path) -> IdentityCommands:
    commands = IdentityCommands(tmp_path)
    commands.user("alice")
    return commands


@pytest.mark.parametrize("name", builtin_policies())
def test_every_built_in_policy_is_valid(commands: IdentityCommands, name: str) -> None:
    compile_policy(builtin_policies()[name], kind="identity")
    assert json.loads(commands.done("policy", "show", name)) == json.loads(builtin_policies()[name])


def test_attach_list_detach(commands: IdentityCommands) -> None:
    commands.done("role", "create", "worker", "--trust", "alice")
    attached = commands.done("policy", "attach", "sqs-send", "--user", "alice")
    says(attached, "sqs-send", "attached", f"arn:aws:iam::{HOME}:user/alice")
    commands.done("policy", "attach", commands.file("mine.json", SEND), "--role", "worker")
    listed = {line.split("  ")[0].strip(): line for line in commands.done("policy", "ls").splitlines()}
    assert listed["sqs-send"].split()[-1] == "alice"
    assert listed["mine"].split()[-2:] == ["custom", "worker"]
    assert listed["sqs-receive"].split()[-1] == "-"
    objects = [json.loads(line) for line in commands.done("policy", "ls", "--json").splitlines()]
    assert {"name": "mine", "kind": "custom", "attached_to": ["worker"]} in objects
    assert json.loads(commands.done("role", "ls", "--json")) == {
        "name": "worker", "account": HOME, "max_session_s": 3600, "policies": ["mine"],
    }  # fmt: skip
    commands.done("policy", "detach", "sqs-send", "--user", "alice")
    assert "sqs-send" not in commands.path.read_text()


def test_attaching_twice_has_no_further_effect(commands: IdentityCommands) -> None:
    for _ in range(2):
        commands.done("policy", "attach", "sqs-send", "--user", "alice")
    assert commands.path.read_text().count("sqs-send") == 1


def test_put_replaces_a_policy_for_all_its_users(commands: IdentityCommands) -> None:
    commands.done("policy", "set", "mine", commands.file("a.json", SEND))
    commands.done("policy", "attach", "mine", "--user", "alice")
    assert (
        commands(
            "policy", "test", "--user", "alice", "--action", "sqs:SendMessage", "--resource", QUEUE
        ).exit_code
        == 0
    )
    commands.done(
        "policy", "set", "mine", commands.file("b.json", document(allow("sqs:PurgeQueue", Resource="*")))
    )
    assert (
        commands(
            "policy", "test", "--user", "alice", "--action", "sqs:SendMessage", "--resource", QUEUE
        ).exit_code
        == 1
    )


def test_an_inline_policy_can_be_detached(commands: IdentityCommands) -> None:
    text = commands.path.read_text()
    table = f"[accounts.{HOME}.users.alice.inline]\nmine = '''{SEND}'''\n"
    commands.path.write_text(f"{text}\n{table}")
    assert "mine" in commands.done("user", "show", "alice")
    commands.done("policy", "detach", "mine", "--user", "alice")
    assert "mine" not in commands.path.read_text()


ASKED = ["test", "--user", "alice", "--action", "sqs:X", "--resource", QUEUE]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["attach", "sqs-send"], "either --user --role"),
        (["attach", "sqs-send", "--user", "alice", "--role", "x"], "either --user --role"),
        (["attach", "x", "--user", "alice"], 'no policy "x" penstock ls'),
        (["detach", "sqs-send", "--user", "alice"], '"sqs-send" not attached "alice"'),
        (["delete", "sqs-send"], 'no policy "sqs-send" file'),
        (["delete", "used"], '"used" attached alice detach'),
        (["show", "x"], 'no policy "x" penstock ls'),
        (
            ["test", "--anonymous", "--user", "alice", "--action", "sqs:X", "--resource", QUEUE],
            "one --user --role --anonymous",
        ),
        (
            ["test", "--user", "alice", "--action", "sqs:X", "--resource", "orders"],
            'invalid "orders" --resource arn:aws:sqs:REGION:ACCOUNT:QUEUE',
        ),
        (
            [*ASKED, "--context", "aws:CurrentTime=x"],
            'invalid "x" --context aws:CurrentTime time',
        ),
        (
            [*ASKED, "--context", "aws:PrincipalArn=x"],
            "aws:PrincipalArn --context caller --resource",
        ),
        (
            [*ASKED, "--context", "aws:SourceIP4=x"],
            "unknown aws:SourceIP4 --context",
        ),
        (
            [*ASKED, "--context", "aws:TagKeys=a", "--context", "aws:tagkeys=b"],
            "--context once",
        ),
    ],
)
def test_errors_are_one_line(commands: IdentityCommands, arguments: list[str], words: str) -> None:
    commands.done("policy", "attach", commands.file("used.json", SEND), "--user", "alice")
    says(commands.failed("policy", *arguments), *words.split())


def test_files_that_are_not_policies(commands: IdentityCommands) -> None:
    bad = commands.file("bad.json", "{}")
    says(commands.failed("policy", "set", "bad", bad), f'"{bad}"', "Statement")
    taken = commands.file("sqs-send.json", SEND)
    assert "built-in" in commands.failed("policy", "attach", taken, "--user", "alice")
    commands.done("policy", "set", "mine", commands.file("a.json", SEND))
    other = commands.file("mine.json", document(allow("sqs:*", Resource="*")))
    line = commands.failed("policy", "attach", other, "--user", "alice")
    says(line, 'another policy "mine"', "penstock policy set")


def test_a_policy_is_created_once_and_then_set(commands: IdentityCommands) -> None:
    send = commands.file("a.json", SEND)
    everything = commands.file("b.json", document(allow("sqs:*", Resource="*")))
    commands.done("policy", "create", "mine", send)
    says(commands.failed("policy", "create", "mine", everything), '"mine"', "penstock policy set")
    assert "sqs:*" not in commands.done("policy", "show", "mine")
    commands.done("policy", "set", "mine", everything)
    assert "sqs:*" in commands.done("policy", "show", "mine")


def test_a_policy_can_be_removed_when_it_is_not_attached(commands: IdentityCommands) -> None:
    commands.done("policy", "set", "mine", commands.file("a.json", SEND))
    commands.done("policy", "delete", "mine")
    assert "mine" not in commands.path.read_text()


def test_conditions_on_unknown_keys_are_reported(commands: IdentityCommands) -> None:
    condition = {"StringEquals": {"aws:SourceVpc": "vpc-1", "sqs:QueueColour": "red", "aws:UserName": "x"}}
    mine = commands.file("mine.json", document(allow("sqs:*", Resource="*", Condition=condition)))
    asked = ("test", "--user", "alice", "--action", "sqs:SendMessage", "--resource", QUEUE)
    for arguments in (("put", "mine", mine), ("attach", mine, "--user", "alice"), asked):
        (line,) = commands("policy", *arguments).stderr.splitlines()
        says(line, '"mine"', "aws:SourceVpc", "sqs:QueueColour", "never present")
        assert "aws:UserName" not in line
    statement = allow(
        "sqs:*", Principal="*", Resource="*", Condition={"Bool": {"aws:SecureTransprt": "true"}}
    )
    queue = commands.file("queue.json", document(statement))
    _, line = commands("policy", *asked, "--queue-policy", queue).stderr.splitlines()
    says(line, "policy of the queue", "aws:SecureTransprt", "never present")


# -- test ----------------------------------------------------------------------------------------------------


BEFORE_2027 = {"DateLessThan": {"aws:CurrentTime": "2027-01-01T00:00:00Z"}}


def decided(commands: IdentityCommands, *arguments: str) -> tuple[int, list[str]]:
    result = commands("policy", "test", "--resource", QUEUE, *arguments)
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, result.stdout.splitlines()


def test_the_deciding_statement_is_named(commands: IdentityCommands) -> None:
    deny = {"Sid": "NoPurge", "Effect": "Deny", "Action": "sqs:PurgeQueue", "Resource": "*"}
    commands.done(
        "policy",
        "attach",
        commands.file("mine.json", document(allow("sqs:*", Resource="*"), deny)),
        "--user",
        "alice",
    )
    assert decided(commands, "--user", "alice", "--action", "sqs:SendMessage") == (
        0,
        ["allowed: by an identity-based policy", "policy identity:mine, statement #1"],
    )
    assert decided(commands, "--user", "alice", "--action", "sqs:PurgeQueue") == (
        1,
        [
            "denied: with an explicit deny in an identity-based policy",
            "policy identity:mine, statement NoPurge",
        ],
    )


def test_no_policy_allows(commands: IdentityCommands) -> None:
    code, lines = decided(commands, "--user", "alice", "--action", "sqs:SendMessage")
    assert (code, lines) == (
        1,
        ["denied: because no identity-based policy allows the sqs:sendmessage action"],
    )


def test_root_and_roles_can_be_asked_for(commands: IdentityCommands) -> None:
    commands.user("root")
    commands.done("role", "create", "worker", "--trust", "alice", "--policy", "sqs-send")
    commands.done("role", "revoke", "worker")
    assert decided(commands, "--user", "root", "--action", "sqs:PurgeQueue")[0] == 0
    assert decided(commands, "--role", "worker", "--action", "sqs:SendMessage")[0] == 0
    assert decided(commands, "--role", "worker", "--action", "sqs:PurgeQueue")[0] == 1


def test_a_session_of_a_role_begins_now_or_as_the_context_says(commands: IdentityCommands) -> None:
    old = {"DateLessThan": {"aws:TokenIssueTime": "2026-01-01T00:00:00Z"}}
    deny = {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": old}
    commands.done("role", "create", "worker", "--trust", "alice", "--policy", "sqs-full-access",
                "--policy", commands.file("revoked.json", document(deny)))  # fmt: skip
    asked = ("--role", "worker", "--action", "sqs:SendMessage")
    assert decided(commands, *asked)[0] == 0
    assert decided(commands, *asked, "--context", "aws:TokenIssueTime=2025-12-31T23:59:59Z")[0] == 1


@pytest.mark.parametrize(
    ("condition", "context", "allowed"),
    [
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, ["aws:SourceIp=10.1.1.1"], True),
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, ["aws:SourceIp=192.0.2.1"], False),
        ({"Bool": {"aws:SecureTransport": "true"}}, ["aws:SecureTransport=true"], True),
        ({"Bool": {"aws:SecureTransport": "true"}}, [], False),
        (BEFORE_2027, ["aws:CurrentTime=2026-06-01T00:00:00Z"], True),
        (BEFORE_2027, ["aws:CurrentTime=2028-06-01T00:00:00Z"], False),
        ({"NumericLessThan": {"aws:EpochTime": "1000"}}, ["aws:EpochTime=999"], True),
        ({"StringEquals": {"aws:ResourceTag/Team": "a"}}, ["aws:ResourceTag/Team=a"], True),
        ({"StringEquals": {"aws:RequestTag/Team": "a"}}, ["aws:RequestTag/Team=b"], False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": "Team"}}, ["aws:RequestTag/Team=b"], True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}, ["aws:TagKeys=a,b"], True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}, ["aws:TagKeys=a,c"], False),
        ({"ForAnyValue:StringEquals": {"sts:TransitiveTagKeys": "b"}}, ["sts:TransitiveTagKeys=a,b"], True),
        ({"StringEquals": {"aws:PrincipalTag/Team": "a"}}, ["aws:PrincipalTag/team=a"], True),
        ({"StringEquals": {"aws:PrincipalTag/Team": "a"}}, ["aws:PrincipalTag/team=b"], False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:sns:*:*:t"}}, ["aws:SourceArn=arn:aws:sns:r:0:t"], True),
        ({"StringEquals": {"aws:SourceAccount": "1"}}, ["aws:SourceAccount=1"], True),
        ({"StringEquals": {"sts:ExternalId": "x"}}, ["sts:ExternalId=x"], True),
    ],
)  # fmt: skip
def test_conditions_see_the_context(
    commands: IdentityCommands, condition: object, context: list[str], allowed: bool
) -> None:
    statement = allow("sqs:SendMessage", Resource=QUEUE, Principal="*", Condition=condition)
    queue = commands.file("queue.json", document(statement))
    options = [part for each in context for part in ("--context", each)]
    code, lines = decided(
        commands, "--anonymous", "--action", "sqs:SendMessage", "--queue-policy", queue, *options
    )
    assert code == (0 if allowed else 1), lines
    if allowed:
        assert lines[1] == "policy resource, statement #1"
