"""Conversion of other servers' configurations: the result loads, and what is left out is named with its reason."""

from __future__ import annotations

import builtins
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import main
from penstock.migrate.elasticmq import read_elasticmq
from penstock.migrate.goaws import read_goaws
from penstock.migrate.hocon import HoconError, read_hocon
from penstock.migrate.plan import ImportFailure, Plan, PlannedQueue, PlannedTopic
from penstock.migrate.write import write_config
from penstock.server.settings.config import Config
from penstock.server.settings.load import load_config
from support.rows import every_row
from support.texts import says

ELASTICMQ = """
include classpath("application.conf")

// What is the outside visible address
node-address {
    protocol = http
    host = "*"
    port = 9324
    context-path = ""
}
rest-sqs {
    enabled = true
    bind-port = 9325
    bind-hostname = "0.0.0.0"
    sqs-limits = strict
}
generate-node-address = false
queues {
    queue1 {
        defaultVisibilityTimeout = 10 seconds
        delay = 5 seconds
        receiveMessageWait = 0 seconds
        deadLettersQueue {
            name = "queue1-dead-letters"
            maxReceiveCount = 3 // from 1 to 1000
        }
        tags { team = shop, "cost centre" = "4 711" }
    }
    queue1-dead-letters { }
    "payments.fifo" { fifo = true, contentBasedDeduplication = true }
}
aws { region = eu-west-1, accountId = 000000000123 }
"""

GOAWS = """
Local:
  Host: goaws.com
  Port: 4100
  Region: eu-west-1
  AccountId: "100010001000"
  QueueAttributeDefaults:
    VisibilityTimeout: 45
    MaximumMessageSize: 262144
  Queues:
    - Name: one
    - Name: two
      ReceiveMessageWaitTimeSeconds: 20
      VisibilityTimeout: 10
      RedrivePolicy: '{"maxReceiveCount": "7", "deadLetterTargetArn":"arn:aws:sqs:eu-west-1:100010001000:two-dead"}'
    - Name: two-dead
  Topics:
    - Name: news
      Subscriptions:
        - QueueName: readers
          Raw: true
          FilterPolicy: '{"kind": ["sport"]}'
        - QueueName: one
        - Protocol: https
          EndPoint: https://example.com/hook
    - Name: empty
Dev:
  Port: 9002
"""


def imported(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["import-config", str(file), *arguments])


def elasticmq(text: str, tmp_path: Path) -> tuple[Config, str]:
    return _round_trip(read_elasticmq(text), tmp_path)


def goaws(text: str, tmp_path: Path, environment: str | None = None) -> tuple[Config, str]:
    return _round_trip(read_goaws(text, environment), tmp_path)


def _round_trip(plan: Plan, tmp_path: Path) -> tuple[Config, str]:
    text = write_config(plan, "somewhere")
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    return load_config({"config": str(file)}, {}), " ".join(text.replace("\n# ", " ").split())


def queue(config: Config, name: str) -> dict[str, Any]:
    (found,) = [queue for queue in config.queues if queue.name == name]
    return found.attributes | {"dead_letter": found.dead_letter, "tags": found.tags}


# -- ElasticMQ -----------------------------------------------------------------------------------------------


def test_an_elasticmq_file(tmp_path: Path) -> None:
    config, text = elasticmq(ELASTICMQ, tmp_path)
    assert (config.host, config.port, config.public_url) == ("0.0.0.0", 9325, None)
    assert (config.account, config.region) == ("000000000123", "eu-west-1")
    assert queue(config, "queue1") == {
        "VisibilityTimeout": "10",
        "DelaySeconds": "5",
        "ReceiveMessageWaitTimeSeconds": "0",
        "dead_letter": ("queue1-dead-letters", 3),
        "tags": {"team": "shop", "cost centre": "4 711"},
    }
    assert queue(config, "queue1-dead-letters") == {"dead_letter": None, "tags": {}}
    assert queue(config, "payments.fifo")["ContentBasedDeduplication"] == "true"
    says(text, 'include classpath("application.conf")', "not read")
    assert text.count("left out") == 0


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("copyTo = audit", "copyTo = audit left out"),
        ("moveTo = audit", "moveTo = audit left out"),
        ("delay = 16 minutes", "DelaySeconds = 960 left out"),
        ("delay = soon", "delay = soon left out duration"),
        ("delay = 1500 ms", "delay = 1500 ms rounded up"),
        ("delay = 30", "delay = 30 milliseconds rounded up"),
        ("tags { \"a*\" = b }", 'tag "a*" left out'),
        ("tags { a = [] }", 'tag "a" left out text'),
        ("colour = red", "colour = red left out"),
        ("contentBasedDeduplication = true", "contentBasedDeduplication left out FIFO"),
        ("deadLettersQueue { name = gone, maxReceiveCount = 3 }", "gone left out no queue"),
        ("deadLettersQueue { name = b, maxReceiveCount = 1001 }", 'dead-letter queue "b" 1001'),
        ("deadLettersQueue { name = \"c.fifo\", maxReceiveCount = 3 }", "dead-letter queue FIFO"),
        ("deadLettersQueue { name = b }", "deadLettersQueue = {name = b} left out"),
    ],
)  # fmt: skip
def test_what_is_left_out_of_a_queue_is_noted_beside_it(body: str, note: str, tmp_path: Path) -> None:
    config, text = elasticmq(f'queues {{ a {{ {body} }}, b {{}}, "c.fifo" {{}} }}', tmp_path)
    says(text.partition("[queues.a]")[2].partition("[queues.b]")[0], *note.split())
    assert [queue.name for queue in config.queues] == ["a", "b", "c.fifo"]
    assert queue(config, "a")["dead_letter"] is None


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("queues { \"a b\" {} }", 'queue "a b" left out alphanumeric'),
        ("queues { a = 3 }", 'queue "a" left out object'),
        ("queues = none", "queues = none left out"),
        ("rest-sqs.bind-port = 99999", "rest-sqs.bind-port = 99999 left out port integer"),
        ("rest-sqs.sqs-limits = relaxed", "rest-sqs.sqs-limits limits SQS"),
        ("rest-stats { enabled = true }", "rest-stats left out /admin/v1/queues /metrics"),
        ("messages-storage { enabled = true }", "messages-storage always stored"),
        ("aws.accountId = 12", "aws.accountId = 12 left out account twelve digits"),
        ("akka.loglevel = DEBUG", "akka left out"),
        ("node-address.host = localhost", "node-address queue URLs public_url"),
        ("queues {}", "listened every interface"),
    ],
)  # fmt: skip
def test_what_is_left_out_otherwise_is_noted_at_the_top(text: str, note: str, tmp_path: Path) -> None:
    config, text = elasticmq(text, tmp_path)
    says(text, *note.split())
    assert config.queues == ()


def test_a_node_address_becomes_the_public_url(tmp_path: Path) -> None:
    node = 'node-address { protocol = https, host = queues.example.com, port = 8443, context-path = "sqs" }'
    assert elasticmq(node, tmp_path)[0].public_url == "https://queues.example.com:8443/sqs"
    assert elasticmq(f"{node}\ngenerate-node-address = true", tmp_path)[0].public_url is None


def test_a_fifo_queue_gets_the_suffix_that_sqs_requires(tmp_path: Path) -> None:
    text = (
        "queues { a { fifo = true, deadLettersQueue { name = b, maxReceiveCount = 2 } }, b { fifo = true } }"
    )
    config, text = elasticmq(text, tmp_path)
    assert queue(config, "a.fifo")["dead_letter"] == ("b.fifo", 2)
    says(text, 'called "a"', ".fifo")
    config, text = elasticmq('queues { a { fifo = true }, "a.fifo" { delay = 1 s } }', tmp_path)
    assert queue(config, "a.fifo")["DelaySeconds"] == "1"
    says(text, 'queue "a"', "left out", '"a.fifo"')


# -- HOCON ---------------------------------------------------------------------------------------------------


@every_row(
    ("text", "value"),
    [
        ("a = 1", {"a": "1"}),
        ("{ a : 1 }", {"a": "1"}),
        ("a = 1, b = 2\nc = 3", {"a": "1", "b": "2", "c": "3"}),
        ("a.b.c = 1\na.b.d = 2", {"a": {"b": {"c": "1", "d": "2"}}}),
        ('"a.b".c = 1', {"a.b": {"c": "1"}}),
        ("a { b = 1 }\na { c = 2 }", {"a": {"b": "1", "c": "2"}}),
        ("a = { b = 1 }\na = 2", {"a": "2"}),
        ("a = 10 seconds # why\nb = x // y", {"a": "10 seconds", "b": "x"}),
        ('a = "q \\"\\u00e9\\" \\ud83d\\ude00"', {"a": 'q "é" 😀'}),
        ('a = "x" y "z"', {"a": "x y z"}),
        ('a = """raw "text" \\n"""', {"a": 'raw "text" \\n'}),
        ("a = [1, two\n three, [4], {b = 5},]", {"a": ["1", "two", "three", ["4"], {"b": "5"}]}),
        ("a = null\nb = 007", {"a": None, "b": "007"}),
        ("\ufeff# only a comment", {}),
        ("", {}),
    ],
)
def test_hocon_is_read(text: str, value: dict[str, Any]) -> None:
    assert read_hocon(text).root == value


@every_row(
    ("text", "why"),
    [
        ("a = 1\nb = ${a}", "line 2: substitutions not supported"),
        ("a += 1", "line 1: += not supported"),
        ("a = {} {}", "line 1: concatenated"),
        ("a {\n b = 1\n", "line 3: object not closed"),
        ("a = [1", "line 1: array not closed"),
        ("a = 1 }", 'line 1: unmatched "}"'),
        ("a = \"b", "line 1: quoted not closed"),
        ("a", 'line 1: no value "a"'),
        ("a =", "line 1: value expected"),
        ("= 1", "line 1: key expected"),
        ("a = \"\\ud800\"", "line 1: surrogate"),
        ("a = *", "line 1: value expected"),
        ("a { " * 40, "line 1: nested"),
        ("a." * 40 + "b = 1", "line 1: nested"),
        ("a = " + "[" * 40, "line 1: nested"),
    ],
)  # fmt: skip
def test_unsupported_hocon_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(HoconError) as caught:
        read_hocon(text)
    says(str(caught.value), *why.split())


@given(st.text(alphabet='ab.${}[]=:,+"\\/# \n*0', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_elasticmq(text)
    except ImportFailure as failure:
        assert "\n" not in str(failure)


# -- GoAWS ---------------------------------------------------------------------------------------------------


def test_a_goaws_file(tmp_path: Path) -> None:
    config, text = goaws(GOAWS, tmp_path)
    assert (config.port, config.account, config.region) == (4100, "100010001000", "eu-west-1")
    defaults = {"VisibilityTimeout": "45", "MaximumMessageSize": "262144"}
    nothing_more: dict[str, Any] = {"dead_letter": None, "tags": {}}
    assert (
        queue(config, "one")
        == queue(config, "two-dead")
        == queue(config, "readers")
        == defaults | nothing_more
    )
    assert queue(config, "two") == {
        "VisibilityTimeout": "10",
        "MaximumMessageSize": "262144",
        "ReceiveMessageWaitTimeSeconds": "20",
        "dead_letter": ("two-dead", 7),
        "tags": {},
    }
    news, empty = config.topics
    assert (news.name, empty.name, empty.subscriptions) == ("news", "empty", ())
    assert [each.shown for each in news.subscriptions] == [
        "queue readers", "queue one", "https https://example.com/hook",
    ]  # fmt: skip
    assert [each.attributes for each in news.subscriptions] == [
        {"RawMessageDelivery": "true", "FilterPolicy": '{"kind": ["sport"]}'}, {}, {},
    ]  # fmt: skip
    says(text, "Host = goaws.com", "left out", 'environment "Local"')


def test_an_environment_is_chosen(tmp_path: Path) -> None:
    assert goaws(GOAWS, tmp_path, "Dev")[0].port == 9002
    assert goaws("Only: {SqsPort: 9324, SnsPort: 9292}", tmp_path)[0].port == 9324


def test_aliases_are_followed(tmp_path: Path) -> None:
    text = "Local: {Port: 4100, Queues: [&a {Name: a, VisibilityTimeout: 5}, {<<: *a, Name: b}]}"
    config, _ = goaws(text, tmp_path)
    assert queue(config, "a") == queue(config, "b")
    assert queue(config, "a")["VisibilityTimeout"] == "5"


TOO_LARGE = "aliases large nested"


def bomb(levels: int, width: int, seed: str = "x") -> str:
    """An environment where each level names the one before this many times."""
    lines = [f"  l0: &l0 {seed}"]
    for level in range(1, levels + 1):
        lines.append(f"  l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * width)}]")
    return "\n".join(["Local:", *lines])


@every_row(
    ("text", "environment", "why"),
    [
        (GOAWS, "Test", 'no environment "Test" --environment Dev Local'),
        ("A: {}\nB: {}", None, "several environments --environment A B"),
        ("- a", None, "no environments"),
        ("", None, "no environments"),
        ("a: [", None, "not YAML"),
        ("a: !!python/object:os.system {}", None, "not YAML"),
        ("[" * 2000, None, "not YAML"),
        (bomb(levels=9, width=9), None, TOO_LARGE),
        (bomb(levels=40, width=1), None, TOO_LARGE),
        (bomb(levels=1, width=1000, seed="x" * 10_000), None, TOO_LARGE),
        ("Local: &a {Queues: [*a]}", None, TOO_LARGE),
    ],
)  # fmt: skip
def test_a_goaws_file_that_cannot_be_read(text: str, environment: str | None, why: str) -> None:
    with pytest.raises(ImportFailure) as caught:
        read_goaws(text, environment)
    says(str(caught.value), *why.split())


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ("{Name: a, VisibilityTimeout: 50000}", "VisibilityTimeout = 50000 left out"),
        ("{Name: a, RedrivePolicy: '{'}", "RedrivePolicy = { left out"),
        (
            "{Name: a, RedrivePolicy: '{\"maxReceiveCount\": 1}'}",
            "RedrivePolicy left out deadLetterTargetArn",
        ),
        ("{Name: a, Colour: red}", "Colour = red left out"),
        ("{Name: a b}", 'queue "a b" left out'),
        ("{VisibilityTimeout: 1}", "Queues left out no Name"),
        ("nothing", "Queues left out no Name"),
    ],
)
def test_what_a_goaws_queue_cannot_carry_over(entry: str, note: str, tmp_path: Path) -> None:
    says(goaws(f"Local: {{Port: 4100, Queues: [{entry}]}}", tmp_path)[1], *note.split())


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ("{Name: a b}", 'topic "a b" left out letters'),
        ("{Name: t, Colour: red}", "Colour = red left out"),
        ("{Name: t, Subscriptions: [{Raw: true}]}", "subscription left out QueueName EndPoint"),
        ("{Name: t, Subscriptions: [{Protocol: ftp, EndPoint: x}]}", 'subscription "x" left out ftp'),
        ("{Name: t, Subscriptions: [{QueueName: a b}]}", 'subscription "a b" left out'),
        ("{Name: t, Subscriptions: [{QueueName: q}, {QueueName: q}]}", 'subscription "q" left out two'),
        ("{Name: t, Subscriptions: [{QueueName: q, FilterPolicy: '{\"a\": 1}'}]}", 'filter "q" left out'),
    ],
)
def test_what_a_goaws_topic_cannot_carry_over(entry: str, note: str, tmp_path: Path) -> None:
    says(goaws(f"Local: {{Port: 4100, Topics: [{entry}]}}", tmp_path)[1], *note.split())


def test_without_pyyaml_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def without_yaml(name: str, *rest: Any, **more: Any) -> Any:
        if name == "yaml":
            raise ImportError
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    file = tmp_path / "goaws.yaml"
    file.write_text(GOAWS)
    done = imported(file)
    assert (done.exit_code, done.stdout) == (2, "")
    says(done.stderr, "PyYAML", "pip install 'penstock-mq[import]'")


# -- TOML, and the command -----------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_can_be_written(note: str, value: str) -> None:
    plan = Plan(settings={"region": value}, notes=[note])
    plan.queues["a"] = PlannedQueue("a", tags={value: value}, notes=[note])
    plan.topics["b"] = PlannedTopic("b", tags={value: value}, subscriptions=[{"filter": value}], notes=[note])
    read = tomllib.loads(write_config(plan, note))
    assert read["region"] == value
    assert read["queues"]["a"]["tags"] == read["topics"]["b"]["tags"] == {value: value}
    assert read["topics"]["b"]["subscriptions"] == [{"filter": value}]


def test_it_goes_to_standard_output_or_to_a_new_file(tmp_path: Path) -> None:
    file, output = tmp_path / "elasticmq.conf", tmp_path / "penstock.toml"
    file.write_text(ELASTICMQ)
    done = imported(file)
    assert done.exit_code == 0
    assert done.stderr.count("\n") == 1
    says(done.stderr, "3 queues", "1 note")
    assert done.stdout.startswith("# ")
    says(done.stdout.splitlines()[0], "elasticmq.conf", "penstock import-config")
    assert imported(file, "--output", str(output)).stdout == ""
    assert output.read_text() == done.stdout
    again = imported(file, "--output", str(output))
    assert again.exit_code == 2
    assert again.stderr.count("\n") == 1
    says(again.stderr, f'"{output}"', "exists already")


@pytest.mark.parametrize(
    ("name", "content", "arguments", "why"),
    [
        ("a.txt", b"", [], "--from elasticmq goaws localstack"),
        ("a.conf", b"a = ${b}", [], "line 1: substitutions"),
        ("a.conf", b"\xff", [], "not UTF-8"),
        ("a.conf", b"#" * (1024 * 1024 + 1), [], "larger 1 MB"),
        ("a.conf", b"", ["--environment", "Dev"], "--environment GoAWS"),
        ("a.conf", None, [], "No such file or directory"),
        ("a.txt", b"x: {}", ["--from", "goaws", "--output", "/nowhere/x"], "write /nowhere/x No such"),
    ],
)
def test_an_error_is_one_line(
    name: str, content: bytes | None, arguments: list[str], why: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    done = imported(file, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock: ") and done.stderr.count("\n") == 1
    says(done.stderr, *why.split())
