"""``penstock queue`` against an open server, a secured one, and one that looks like Amazon SQS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from support.command_line import COLOURS, CommandLine
from support.identities import allow, document
from support.texts import says

ARN = "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture(autouse=True)
def queues(penstock: CommandLine) -> Iterator[None]:
    """A queue with three messages, its dead-letter queue with one, and a FIFO queue."""
    penstock.done("queue", "create", "orders-dlq", "--retention", "14d")
    penstock.done(
        "queue", "create", "orders", "--dead-letter-queue", "orders-dlq", "--max-receives", "3",
        "--visibility", "2m", "--tag", "team=core",
    )  # fmt: skip
    penstock.done("queue", "create", "payments", "--fifo")
    for queue, count in (("orders", 3), ("orders-dlq", 1)):
        for number in range(count):
            penstock.sqs("SendMessage", queue, MessageBody=f"message {number}")
    penstock.sqs("ReceiveMessage", "orders")
    yield
    names = penstock.done("queue", "ls", "--names").split()
    penstock.done("queue", "delete", *names, "--yes")


# -- ls ----------------------------------------------------------------------------------------------------------


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_ls(penstock: CommandLine) -> None:
    heading, *queues = rows(penstock.done("queue", "ls"))
    assert heading == [
        "NAME", "KIND", "VISIBLE", "IN FLIGHT", "DELAYED", "OLDEST", "SENT/S", "RECEIVED/S", "DELETED/S",
        "DEAD LETTERS TO",
    ]  # fmt: skip
    assert [queue[:5] for queue in queues] == [
        ["orders", "standard", "2", "1", "0"],
        ["orders-dlq", "standard dlq", "1", "0", "0"],
        ["payments.fifo", "fifo", "0", "0", "0"],
    ]
    assert re.fullmatch(r"\d+s", queues[0][5]) and queues[0][9] == "orders-dlq"
    assert queues[2][5] == "-"


def test_ls_in_a_terminal_marks_dead_letters(penstock: CommandLine) -> None:
    code, output = penstock.in_terminal("queue", "ls")
    assert code == 0 and "\x1b[1mNAME" in output
    (dlq,) = [line for line in output.splitlines() if COLOURS.sub("", line).startswith("orders-dlq")]
    assert re.search(r"\x1b\[31m +1\x1b\[0m", dlq)
    assert "\x1b[31m" not in output.replace(dlq, "")
    assert "\x1b" not in penstock.done("queue", "ls")


def test_ls_as_json(penstock: CommandLine) -> None:
    orders, dlq, payments = penstock.json_lines("queue", "ls")
    assert (orders["visible"], orders["in_flight"], orders["max_receives"]) == (2, 1, 3)
    assert dlq["is_dead_letter_queue"] and payments["kind"] == "fifo"


def test_ls_of_internal_queues(penstock: CommandLine, amazon: CommandLine) -> None:
    nothing = penstock("queue", "ls", "--internal")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    says(nothing.stderr, "no work waits")
    assert penstock.json_lines("queue", "ls", "--internal") == []
    for arguments in (["orders"], ["--kind", "fifo"], ["--sort", "age"], ["--descending"], ["--names"]):
        refused = penstock("queue", "ls", "--internal", *arguments)
        assert refused.exit_code == 2
        says(refused.stderr, "--internal takes no")
    says(amazon("queue", "ls", "--internal").stderr, "needs Penstock")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["orders"], ["orders", "orders-dlq"]),
        (["o*s"], ["orders"]),
        (["*-dlq"], ["orders-dlq"]),
        (["pay?ents.fifo"], ["payments.fifo"]),
        (["--kind", "dlq"], ["orders-dlq"]),
        (["orders-*", "--kind", "dlq"], ["orders-dlq"]),
        (["--descending", "-n", "1"], ["payments.fifo"]),
        (["--kind", "fifo"], ["payments.fifo"]),
        (["--sort", "visible"], ["payments.fifo", "orders-dlq", "orders"]),
        (["--sort", "visible", "--descending", "--limit", "1"], ["orders"]),
        (["-n", "2"], ["orders", "orders-dlq"]),
        (["nothing"], []),
    ],
)
def test_ls_filters_and_sorts(
    penstock: CommandLine, amazon: CommandLine, arguments: list[str], names: list[str]
) -> None:
    for server in (penstock, amazon):
        assert [queue["name"] for queue in server.json_lines("queue", "ls", *arguments)] == names
        assert server.done("queue", "ls", "--names", *arguments).split() == names


def test_ls_of_amazon_shows_what_it_tells(amazon: CommandLine) -> None:
    heading, orders, *_ = rows(amazon.done("queue", "ls"))
    assert heading == ["NAME", "KIND", "VISIBLE", "IN FLIGHT", "DELAYED", "DEAD LETTERS TO"]
    assert orders == ["orders", "standard", "2", "1", "0", "orders-dlq"]
    says(amazon.failed("queue", "ls", "--sort", "age", code=2), "sorting", "age", "Penstock")


def test_ls_without_queues(as_root: CommandLine) -> None:
    result = as_root("queue", "ls")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no queues\n")
    assert as_root.done("queue", "ls", "--json") == ""


# -- show and stat -----------------------------------------------------------------------------------------------


def test_show(penstock: CommandLine) -> None:
    text = penstock.done("queue", "show", "orders")
    for line in (
        "Queue             orders (standard)",
        f"ARN               {ARN}orders",
        "Dead letters      to orders-dlq after 3 receives",
        "VisibilityTimeout              120 (2m)",
        "MessageRetentionPeriod         345600 (4d)",
        "DelaySeconds                   0",
        "team  core",
    ):
        assert line in text.splitlines()
    assert re.search(r"^Messages +2 visible, 1 in flight, 0 delayed; the oldest is \d+s old$", text, re.M)
    assert "Dead letters of   orders" in penstock.done("queue", "show", "orders-dlq").splitlines()


@pytest.mark.parametrize("server", ["penstock", "amazon"])
@pytest.mark.parametrize("form", ["orders", f"{ARN}orders", "{endpoint}/000000000000/orders"])
def test_a_queue_by_name_arn_and_url(server: str, form: str, request: pytest.FixtureRequest) -> None:
    command: CommandLine = request.getfixturevalue(server)
    facts = command.json("queue", "show", form.format(endpoint=command.endpoint))
    assert (facts["name"], facts["arn"]) == ("orders", f"{ARN}orders")
    assert (facts["visible"], facts["in_flight"], facts["delayed"]) == (2, 1, 0)
    assert (facts["dead_letter_queue"], facts["max_receives"]) == ("orders-dlq", 3)
    assert facts["attributes"]["VisibilityTimeout"] == "120"
    assert facts["tags"] == {"team": "core"} and facts["sources"] == []


def test_show_a_policy_indented(penstock: CommandLine, tmp_path: Path) -> None:
    policy = document(allow("sqs:SendMessage", Principal="*", Resource=f"{ARN}orders"))
    (tmp_path / "policy.json").write_text(json.dumps(policy) if not isinstance(policy, str) else policy)
    penstock.done("queue", "set", "orders", "--policy", str(tmp_path / "policy.json"))
    text = penstock.done("queue", "show", "orders")
    shown = json.loads(text.partition("\nPolicy\n")[2])
    assert shown["Statement"][0]["Action"] == "sqs:SendMessage"
    penstock.done("queue", "set", "orders", "--no-policy")
    assert "\nPolicy\n" not in penstock.done("queue", "show", "orders")


def test_no_colours_on_request(penstock: CommandLine) -> None:
    for arguments in (("queue", "ls"), ("queue", "show", "orders")):
        assert "\x1b" in penstock.in_terminal(*arguments)[1]
        assert "\x1b" not in penstock.in_terminal(*arguments, NO_COLOR="1")[1]


def test_stat(penstock: CommandLine, amazon: CommandLine) -> None:
    numbers = dict(line.split() for line in penstock.done("queue", "stat", "orders").splitlines())
    assert (numbers["visible"], numbers["in_flight"], numbers["delayed"]) == ("2", "1", "0")
    assert float(numbers["oldest_age_s"]) >= 0 and int(numbers["bytes"]) > 0
    assert penstock.done("queue", "stat", "orders", "visible") == "2\n"
    assert penstock.done("queue", "stat", "payments.fifo", "visible", "oldest_age_s") == "0 -\n"
    assert amazon.done("queue", "stat", "orders") == "visible 2\nin_flight 1\ndelayed 0\n"
    assert amazon.done("queue", "stat", "orders", "bytes") == "-\n"


def test_stat_goes_on(penstock: CommandLine) -> None:
    watch = (
        "queue",
        "stat",
        "orders",
        "visible",
        "in_flight",
        "--watch",
        "--interval",
        "1ms",
        "--count",
        "3",
    )
    heading, *lines = penstock.done(*watch).splitlines()
    assert heading == "time visible in_flight"
    assert [line.split()[1:] for line in lines] == [["2", "1"]] * 3
    assert [line["visible"] for line in penstock.json_lines(*watch)] == [2] * 3


def test_an_interrupted_watch_ends_with_130(penstock: CommandLine) -> None:
    process = penstock.spawn("queue", "stat", "orders", "visible", "--watch")
    process.expect(r"Z 2\r\n")
    process.sendintr()
    process.expect_exact("\r\n")
    process.wait()
    assert process.exitstatus == 130
    process.close()


# -- create and set ----------------------------------------------------------------------------------------------


def test_create(penstock: CommandLine) -> None:
    made = penstock.json(
        "queue", "create", "jobs", "--fifo", "--content-based-deduplication", "--delay", "5s", "--wait", "20s",
        "--retention", "1d", "--attribute", "MaximumMessageSize=65536", "-t", "a=1", "-t", "b=x=y",
    )  # fmt: skip
    assert made == {"name": "jobs.fifo", "url": f"{penstock.endpoint}/000000000000/jobs.fifo"}
    facts = penstock.json("queue", "show", "jobs.fifo")
    expected = {
        "FifoQueue": "true", "ContentBasedDeduplication": "true", "DelaySeconds": "5",
        "ReceiveMessageWaitTimeSeconds": "20", "MessageRetentionPeriod": "86400", "MaximumMessageSize": "65536",
    }  # fmt: skip
    assert expected.items() <= facts["attributes"].items()
    assert facts["tags"] == {"a": "1", "b": "x=y"}


def test_set(penstock: CommandLine, amazon: CommandLine) -> None:
    assert penstock.done(
        "queue", "set", "orders", "--visibility", "5m", "--tag", "x=1", "--untag", "team"
    ) == ("VisibilityTimeout  300\ntag x     1\ntag team  removed\n")
    facts = penstock.json("queue", "show", "orders")
    assert facts["attributes"]["VisibilityTimeout"] == "300" and facts["tags"] == {"x": "1"}
    amazon.done("queue", "set", "orders", "--max-receives", "9")
    facts = penstock.json("queue", "show", "orders")
    assert (facts["dead_letter_queue"], facts["max_receives"]) == ("orders-dlq", 9)
    changed = penstock.json("queue", "set", "orders", "--no-dead-letter-queue")
    assert changed["attributes"] == {"RedrivePolicy": ""}
    assert "dead_letter_queue" not in penstock.json("queue", "show", "orders")
    says(
        penstock.failed("queue", "set", "orders", "--max-receives", "9", code=2),
        "orders",
        "--dead-letter-queue",
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["create", "x", "--max-receives", "3"], "--dead-letter-queue --max-receives together"),
        (["create", "x", "--visibility", "soon"], '"soon" duration 30s'),
        (["create", "x", "--tag", "alone"], '"alone" "="'),
        (["create", "x", "--policy", "/nowhere"], "/nowhere not exist"),
        (["set", "orders"], "nothing attribute tag"),
        (
            ["set", "orders", "--no-dead-letter-queue", "--max-receives", "3"],
            "--no-dead-letter-queue neither",
        ),
        (["stat", "orders", "colour"], "'colour' not one"),
    ],
)
def test_wrong_usage(penstock: CommandLine, arguments: list[str], problem: str) -> None:
    result = penstock("queue", *arguments)
    assert result.exit_code == 2
    says(result.stderr, *problem.split())


def test_what_the_server_refuses(penstock: CommandLine, amazon: CommandLine) -> None:
    assert penstock.failed("queue", "create", "a b").startswith("InvalidParameterValue: ")
    assert "InvalidAttributeValue" in penstock.failed("queue", "set", "orders", "--delay", "1h")
    for server in (penstock, amazon):
        for command in ("show", "stat", "purge", "delete"):
            missing = server.failed("queue", command, "nothing")
            says(missing, 'no queue "nothing"', "default region", server.endpoint)
    create = ("queue", "create", "x", "--dead-letter-queue", "nothing", "--max-receives", "1")
    says(penstock.failed(*create), 'no queue "nothing"')


def test_regions_of_an_open_server(penstock: CommandLine) -> None:
    """AWS SDKs find a queue where a command has made it, also without keys."""
    created = penstock.done("queue", "create", "here", "--region", "eu-west-1").strip()
    assert created == f"{penstock.endpoint}/000000000000/here"
    with_keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
    for environment in ({"AWS_REGION": "eu-west-1"}, {"AWS_DEFAULT_REGION": "eu-west-1"}, with_keys):
        (queue,) = penstock.json_lines("queue", "ls", "here", **environment)
        assert (queue["region"], queue["account"]) == ("eu-west-1", "000000000000")
        assert penstock.json_lines("message", "ls", "here", **environment) == []
    assert penstock.json_lines("queue", "ls", "here", "--region", "ap-south-1") == []
    elsewhere = penstock.failed("message", "ls", "here", AWS_REGION="ap-south-1")
    says(elsewhere, 'no queue "here"', "ap-south-1", penstock.endpoint)
    assert 'invalid region "EU"' in penstock.failed("queue", "ls", "--region", "EU", code=2)
    assert penstock.done("queue", "delete", "here", "--region", "eu-west-1", "--yes")


# -- purge and delete --------------------------------------------------------------------------------------------


def test_purge_asks(penstock: CommandLine) -> None:
    code, output = penstock.in_terminal("queue", "purge", "orders", "orders-dlq", answer="n")
    assert code == 1
    assert (
        "Delete 3 messages of orders, 1 message of orders-dlq?" in output and "nothing was changed" in output
    )
    assert penstock.done("queue", "stat", "orders", "visible") == "2\n"
    code, output = penstock.in_terminal("queue", "purge", "orders", answer="y")
    assert code == 0 and "purged 3 messages of orders\n" in output
    assert penstock.done("queue", "stat", "orders", "visible", "in_flight") == "0 0\n"


def test_an_interrupted_question_changes_nothing(penstock: CommandLine) -> None:
    process = penstock.spawn("queue", "purge", "orders")
    process.expect(r"\[y/N\]: ")
    for _ in range(3):  # Python misses a signal that comes just before it begins to wait for a line
        process.sendintr()
        if process.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=10) == 0:
            break
    process.close()
    assert process.exitstatus == 130
    assert penstock.done("queue", "stat", "orders", "visible") == "2\n"


def test_purge_without_a_terminal_needs_yes(penstock: CommandLine, amazon: CommandLine) -> None:
    says(penstock.failed("queue", "purge", "orders", code=2), "Delete 3 messages", "orders", "--yes")
    assert amazon.json("queue", "purge", "orders", "--yes") == {
        "name": "orders", "purged": True, "visible": 2, "in_flight": 1, "delayed": 0,
    }  # fmt: skip


def test_delete(penstock: CommandLine) -> None:
    result = penstock("queue", "delete", "orders-dlq", "--yes")
    assert result.stdout == "deleted orders-dlq with 1 message\n"
    says(result.stderr, "orders-dlq", "dead-letter queue of orders")
    assert penstock.done("queue", "ls", "--names", "orders").split() == ["orders"]
    assert penstock.json("queue", "delete", "orders", "--yes")["deleted"]


def test_delete_of_a_queue_with_its_dead_letter_queue_warns_of_nothing(amazon: CommandLine) -> None:
    result = amazon("queue", "delete", "orders", "orders-dlq", "--yes")
    assert result.stdout.splitlines() == [
        "deleted orders with 3 messages",
        "deleted orders-dlq with 1 message",
    ]
    assert result.stderr == ""


# -- a secured server --------------------------------------------------------------------------------------------


def test_a_secured_server(as_root: CommandLine, as_guest: CommandLine) -> None:
    as_root.done("queue", "create", "secured")
    assert as_root.json("queue", "show", "secured")["visible"] == 0
    for arguments in (("create", "x"), ("set", "secured", "--delay", "1s")):
        assert as_guest.failed("queue", *arguments).startswith("AccessDenied")
    as_root.done("queue", "delete", "secured", "--yes")


def test_without_the_admin_api_sqs_is_asked(as_root: CommandLine, as_reader: CommandLine) -> None:
    as_root.done("queue", "create", "shared")
    result = as_reader("queue", "ls")
    assert rows(result.stdout)[1] == ["shared", "standard", "0", "0", "0", "-"]
    says(result.stderr, "penstock:ListQueues", "SQS")
    says(result.stderr, "penstock policy attach penstock-read-only --user reader")
    assert result.stderr.count("\n") == 1
    as_root.done("queue", "delete", "shared", "--yes")


def test_no_keys(as_root: CommandLine) -> None:
    anonymous = CommandLine(as_root.endpoint)
    for command in ("ls", "create"):
        problem = anonymous.failed("queue", command, "x")
        assert problem.startswith("AccessDenied")
        says(problem, "AWS_ACCESS_KEY_ID")


# -- scale -------------------------------------------------------------------------------------------------------


def test_scale(penstock: CommandLine) -> None:
    text = penstock.done("queue", "scale", "orders", "--latency", "5m")
    assert re.search(r"Messages +2 visible, 1 in flight", text)
    assert re.search(r"Suggested workers +1 for a latency of 5m", text)
    found = json.loads(penstock.done("queue", "scale", "orders", "--workers", "2", "--json"))
    assert (found["backlog"], found["in_flight"], found["suggested_workers"]) == (2, 1, 1)
    assert found["backlog_per_worker"] == 1
