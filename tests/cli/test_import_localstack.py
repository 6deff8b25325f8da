"""Init scripts of LocalStack: plain commands become declared queues and topics, and other lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import main
from penstock.migrate.localstack import read_localstack
from penstock.migrate.plan import ImportFailure, Plan
from penstock.migrate.shell import read_commands
from penstock.migrate.write import write_config
from penstock.server.settings.config import Config
from penstock.server.settings.load import load_config
from support.rows import every_row
from support.texts import says

SCRIPT = r"""#!/bin/bash
set -euo pipefail   # as usual
export AWS_DEFAULT_REGION=eu-west-1
ACCOUNT=000000000000
echo "creating queues"
awslocal sqs create-queue --queue-name orders-dead > /dev/null 2>&1
awslocal sqs create-queue --queue-name "orders" \
    --attributes '{
        "VisibilityTimeout": "60",
        "RedrivePolicy":
            "{\"deadLetterTargetArn\":\"arn:aws:sqs:eu-west-1:000000000000:orders-dead\",\"maxReceiveCount\":\"5\"}"
    }' --tags team=shop,stage=dev
aws --endpoint-url=http://localhost:4566 sqs create-queue --queue-name invoices.fifo \
    --attributes FifoQueue=true,DelaySeconds=5

TOPIC_ARN=$(awslocal sns create-topic --name news --output text --query 'TopicArn')
awslocal sns create-topic --name alerts --attributes DisplayName=Alerts --tags Key=team,Value=core
QUEUE_URL=$(awslocal sqs get-queue-url --queue-name orders | jq -r .QueueUrl)
QUEUE_ARN=$(awslocal sqs get-queue-attributes --queue-url "$QUEUE_URL" --attribute-names QueueArn \
    --query Attributes.QueueArn --output text)
SUBSCRIPTION=$(awslocal sns subscribe --topic-arn "$TOPIC_ARN" --protocol sqs --notification-endpoint "$QUEUE_ARN" \
    --attributes RawMessageDelivery=true --output text)
awslocal sns set-subscription-attributes --subscription-arn "$SUBSCRIPTION" \
    --attribute-name FilterPolicy --attribute-value '{"$or": [{"a": [1]}, {"b": [2]}]}' && echo done
awslocal sns subscribe --topic-arn "arn:aws:sns:eu-west-1:${ACCOUNT}:alerts" --protocol email-json \
    --notification-endpoint oncall@example.com
awslocal sns subscribe --topic-arn arn:aws:sns:eu-west-1:000000000000:alerts --protocol http \
    --notification-endpoint "http://${HOOK_HOST:-hooks}/alerts"
awslocal sqs list-queues
"""


def converted(text: str, tmp_path: Path) -> tuple[Plan, Config, str]:
    plan = read_localstack(text)
    written = write_config(plan, "script")
    file = tmp_path / "penstock.toml"
    file.write_text(written)
    return plan, load_config({"config": str(file)}, {}), " ".join(written.replace("\n# ", " ").split())


def test_a_script(tmp_path: Path) -> None:
    plan, config, _ = converted(SCRIPT, tmp_path)
    assert plan.losses == 0, plan.notes
    assert config.region == "eu-west-1"
    queues = {queue.name: queue for queue in config.queues}
    assert sorted(queues) == ["invoices.fifo", "orders", "orders-dead"]
    assert queues["orders"].attributes == {"VisibilityTimeout": "60"}
    assert queues["orders"].dead_letter == ("orders-dead", 5)
    assert queues["orders"].tags == {"team": "shop", "stage": "dev"}
    assert queues["invoices.fifo"].attributes == {"FifoQueue": "true", "DelaySeconds": "5"}
    news, alerts = config.topics
    assert alerts.attributes == {"DisplayName": "Alerts"} and alerts.tags == {"team": "core"}
    (orders,) = news.subscriptions
    assert orders.subscriber == ("sqs", "orders")
    assert orders.attributes == {
        "RawMessageDelivery": "true", "FilterPolicy": '{"$or": [{"a": [1]}, {"b": [2]}]}',
    }  # fmt: skip
    assert [each.subscriber for each in alerts.subscriptions] == [
        ("email-json", "oncall@example.com"), ("http", "http://hooks/alerts"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("awslocal s3 mb s3://bucket", "line 1 left out no s3"),
        ("awslocal sqs purge-queue --queue-url x", "line 1 left out purge-queue"),
        ("awslocal sqs create-queue --queue-name $NAME", "line 1 left out $NAME not known"),
        ("awslocal sqs create-queue", "line 1 left out --queue-name"),
        ("awslocal sqs create-queue --queue-name q --attributes file://a.json", "left out file://a.json plain"),
        ("awslocal sqs create-queue --queue-name q --attributes '{'", "left out JSON not valid"),
        ("awslocal sqs create-queue --queue-name q --region eu-west-1; awslocal sqs create-queue --queue-name r "
         "--region us-west-2", "line 1 left out one region eu-west-1"),
        ("awslocal sns subscribe --topic-arn arn:aws:sns:us-east-1:000000000000:t --protocol sqs "
         "--notification-endpoint x", "line 1 left out makes no topic"),
        ("create_queue orders", "line 1 left out not a command awslocal create_queue orders"),
        ("for q in a b; do awslocal sqs create-queue --queue-name $q; done", "line 1 left out loops"),
        ("\nif true\nthen\n  awslocal sqs create-queue --queue-name a\nfi", "lines 2 to 5 left out conditions"),
        ("make() {\n awslocal sqs create-queue --queue-name $1\n}", "lines 1 to 3 left out functions"),
        ("while true\ndo echo x", "lines 1 to 2 left out loops"),
        ("cat <<END\nEND", "line 1 left out here documents"),
        ("X=$(curl http://x); awslocal sqs create-queue --queue-name $X", "$X not known"),
        ('echo "', "line 1 left out quote not closed"),
        ("awslocal sqs create-queue --queue-name 'a b'", 'queue "a b" left out'),
        ("awslocal sqs create-queue --queue-name a --attributes Colour=red", "Colour = red left out"),
        ("awslocal sns create-topic --name t --attributes Colour=red", "Colour = red left out unknown"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_noted(line: str, note: str, tmp_path: Path) -> None:
    plan, _, text = converted(line, tmp_path)
    assert plan.losses
    says(text, *note.split())


@every_row(
    "line",
    [
        "# awslocal sqs create-queue --queue-name a",
        "echo 'awslocal sqs create-queue --queue-name a'",
        "sleep 1; awslocal sqs list-queues | grep a",
        "export A=b; local C",
        "",
    ],
)
def test_what_makes_nothing_is_no_note(line: str) -> None:
    plan = read_localstack(line)
    assert (plan.notes, plan.queues) == ([], {})


def test_a_queue_that_a_topic_does_not_own_stays_an_arn(tmp_path: Path) -> None:
    text = (
        "awslocal sns create-topic --name t\n"
        "awslocal sns subscribe --topic-arn arn:aws:sns:us-east-1:000000000000:t --protocol sqs "
        "--notification-endpoint arn:aws:sqs:us-east-1:111111111111:q"
    )
    (topic,) = converted(text, tmp_path)[1].topics
    assert topic.subscriptions[0].subscriber == ("sqs", "arn:aws:sqs:us-east-1:111111111111:q")


def test_the_command_knows_scripts_by_their_ending(tmp_path: Path) -> None:
    file = tmp_path / "ready.sh"
    file.write_text("awslocal sns create-topic --name news")
    done = CliRunner().invoke(main, ["import-config", str(file)])
    assert done.exit_code == 0, done.output
    says(done.stdout, "[topics.news]")
    says(done.stderr, "0 queues", "1 topic", "0 notes")


# -- the shell ---------------------------------------------------------------------------------------------------


@every_row(
    ("text", "read"),
    [
        ("a b", [["a", "b"]]),
        ("a 'b c' \"d e\"", [["a", "b c", "d e"]]),
        ('a\\ b "c\\"d" \'e\\f\'', [["a b", 'c"d', "e\\f"]]),
        ("a \\\n b", [["a", "b"]]),
        ('"a\\\nb"', [["ab"]]),
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a#b # c", [["a#b"]]),
        ("a > file 2>&1 b", [["a", "b"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a '$b' $", [["a", "$b", "$"]]),
        ("a\r\nb", [["a"], ["b"]]),
    ],
)
def test_words_of_a_shell(text: str, read: list[list[str]]) -> None:
    assert [[("".join(map(str, word))) for word in each.words] for each in read_commands(text)] == read


@given(st.text(alphabet="ab$(){}'\"`\\ \n;|&<>#=-1*", max_size=60))
def test_any_script_is_read(text: str) -> None:
    """Nothing hangs or fails, whatever is in a script."""
    try:
        read_localstack(f"awslocal {text}\n{text}")
    except ImportFailure as failure:
        assert "\n" not in str(failure)


def test_a_deeply_nested_substitution_is_not_followed() -> None:
    plan = read_localstack("A=" + "$(awslocal " * 50 + ")" * 50)
    assert len(plan.notes) == 1


def test_a_long_script_takes_no_time_that_grows_with_its_square() -> None:
    text = "awslocal sqs create-queue --queue-name a # comment\n" * 8000
    assert len(text) < 1024 * 1024
    assert list(read_localstack(text).queues) == ["a"]
