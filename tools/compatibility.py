"""Writes docs/compatibility.md from the tests: what no test uses is not listed. ``make docs`` runs it.

A suite uses an action or an attribute when the code of one of its tests names it: as the wire spells it
(``SendMessage``) or as a client's method does (``send_message``, ``sendMessage``, ``SendMessageCommand``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from monitoring import differences as cloudwatch_differences
from penstock.services.cloudwatch import ACTIONS as CLOUDWATCH_ACTIONS
from penstock.services.sns import ACTIONS as SNS_ACTIONS
from penstock.services.sns.topic_attributes import SETTABLE
from penstock.services.sqs import ACTIONS
from penstock.services.sqs.attributes import READABLE
from services.sns import differences as sns_differences

TESTS = Path(__file__).parent.parent / "tests"
PAGE = TESTS.parent / "docs" / "compatibility.md"


class Suite(NamedTuple):
    title: str
    files: Callable[[], Iterable[Path]]
    begins: str  # a pattern for the first line of a test, in this language


_OF_TOPICS = re.compile("sns|topic", re.IGNORECASE)


def _glob(*patterns: str) -> Callable[[], list[Path]]:
    return lambda: sorted(file for pattern in patterns for file in TESTS.glob(pattern))


def _without_topics(*patterns: str) -> Callable[[], list[Path]]:
    """Queues and topics have actions and attributes of the same names."""
    return lambda: [file for file in _glob(*patterns)() if not _OF_TOPICS.search(file.name)]


_PYTHON = r"^(?:async )?def test_|^    (?:async )?def test_"
SUITES = [
    Suite("boto3 and raw JSON", _without_topics("e2e/test_[!q]*.py", "e2e/test_queues.py"), _PYTHON),
    Suite(
        "error rows, both protocols",
        _glob("e2e/errors/*.py"),
        r"^\s*\*?\(?(?:parameter|missing|malformed|sqs|Row)\(",
    ),
    Suite("Query", _glob("e2e/test_query_*.py", "support/query_client.py"), _PYTHON),
    Suite("Python clients", _without_topics("clients/python/*.py", "clients/aio/*.py"), _PYTHON),
    Suite("JavaScript", _without_topics("clients/javascript/*.js"), r"^\s*(?:test|it)\("),
    Suite("Java", _without_topics("clients/java/src/**/*.java"), r"^\s*@Test"),
    Suite("Go", _without_topics("clients/go/*_test.go"), r"^func Test|t\.Run\("),
    Suite("Rust", _glob("clients/rust/**/*.rs"), r"#\[tokio::test"),
]

CLOUDWATCH_SUITES = [
    Suite(
        "boto3",
        _glob("monitoring/test_[!pr]*.py", "monitoring/test_reading.py", "e2e/test_cloudwatch.py"),
        _PYTHON,
    ),
    Suite("error rows", _glob("monitoring/test_requests.py"), r"^    \("),
    Suite("JSON, CBOR and Query", _glob("monitoring/test_protocols.py"), _PYTHON),
    Suite("permissions", _glob("monitoring/test_permissions.py"), r'^    "(?=[A-Z])'),
    Suite("Java", _glob("clients/java/src/**/CloudWatch*.java"), r"^\s*@Test"),
    Suite("Go", _glob("clients/go/cloudwatch_test.go"), r"^func Test|t\.Run\("),
]

SNS_SUITES = [
    Suite("JSON and Query", _glob("services/sns/test_[!dp]*.py", "services/sns/test_publish.py"), _PYTHON),
    Suite("permissions", _glob("services/sns/test_permissions.py"), _PYTHON),
    Suite("boto3", _glob("clients/python/test_topic*.py", "e2e/test_sns_*.py"), _PYTHON),
    Suite("Terraform, replayed", _glob("e2e/test_terraform_topics.py"), r"^    def |^def test_|^_[A-Z]"),
    Suite("AWS CLI", _glob("e2e/test_aws_cli_topics.py"), _PYTHON),
    Suite("JavaScript", _glob("clients/javascript/*sns*.test.js"), r"^\s*(?:test|it)\("),
    Suite("Java", _glob("clients/java/src/**/Sns*.java"), r"^class |^\s*@Test"),
    Suite("Go", _glob("clients/go/sns_test.go"), r"^func Test|t\.Run\("),
]

TOPIC_ATTRIBUTES = sorted(name for name in SETTABLE if "Feedback" not in name)
SUBSCRIPTION_ATTRIBUTES = [
    "DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy", "ReplayPolicy",
]  # fmt: skip

MESSAGE_ATTRIBUTES = [
    "AWSTraceHeader", "ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount", "DeadLetterQueueSourceArn",
    "MessageDeduplicationId", "MessageGroupId", "SenderId", "SentTimestamp", "SequenceNumber",
]  # fmt: skip


def spellings(name: str) -> re.Pattern[str]:
    """Matches a name as the wire, Python, JavaScript, Java, Go and Rust spell it."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    camel = name[0].lower() + name[1:]
    forms = {
        name,
        snake,
        snake.upper(),
        snake.replace("_", "-"),
        camel,
        f"{camel}Paginator",
        f"paginate{name}",
    }
    forms |= {f"{name}{kind}" for kind in ("Command", "Input", "Request")}
    return re.compile(
        rf"(?<![A-Za-z0-9_])(?:{'|'.join(sorted(forms, key=len, reverse=True))})(?![A-Za-z0-9_])"
    )


def tests_of(suite: Suite) -> list[str]:
    """The text of each test; helpers and fixtures before the first one are left out."""
    texts = []
    for file in suite.files():
        text = file.read_text(encoding="utf-8")
        starts = [match.start() for match in re.finditer(suite.begins, text, re.MULTILINE)]
        texts += [text[a:b] for a, b in pairwise([*starts, len(text)])]
    return texts


def table(title: str, names: Iterable[str], among: Iterable[Suite] = SUITES) -> str:
    suites = [(suite.title, tests_of(suite)) for suite in among]
    heads = [title, *(f"{name}" for name, _ in suites)]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + ":-:|" * len(suites)]
    for name in names:
        pattern = spellings(name)
        used = [any(pattern.search(text) for text in texts) for _, texts in suites]
        if any(used):
            lines.append(f"| `{name}` | " + " | ".join("✓" if each else "" for each in used) + " |")
    return "\n".join(lines)


def page() -> str:
    return f"""# Compatibility

Which actions and attributes of Amazon SQS, SNS and CloudWatch are supported, and which test suites use them with real
clients: a tick means that the code of a test names it. `tools/compatibility.py` writes this page; what no test uses
is not listed. `make test` runs the first columns, `make test-clients` the clients of other languages and versions.

## Actions

{table("action", sorted(ACTIONS))}

## Queue attributes

{table("attribute", sorted(READABLE - {"All"}))}

## Message system attributes

{table("attribute", MESSAGE_ATTRIBUTES)}

## SNS

All actions of SNS, for [topics](topics.md):

{table("action", sorted(SNS_ACTIONS), SNS_SUITES)}

Attributes of topics; those of delivery status logging are not listed:

{table("attribute", TOPIC_ATTRIBUTES, SNS_SUITES)}

Attributes of subscriptions:

{table("attribute", SUBSCRIPTION_ATTRIBUTES, SNS_SUITES)}

These requests are answered otherwise than by SNS:

{_differences(sns_differences)}

More [differences](topics.md#differences-from-amazon-sns) do not concern single requests.

## CloudWatch

Actions of the [CloudWatch API](cloudwatch.md):

{table("action", sorted(CLOUDWATCH_ACTIONS), CLOUDWATCH_SUITES)}

All other actions are refused with `InvalidAction`. These requests are answered otherwise than by CloudWatch:

{_differences(cloudwatch_differences)}

More [differences](cloudwatch.md#differences-from-cloudwatch) do not concern single requests.
"""


def _differences(of: ModuleType) -> str:
    rows = [f"| {each.what} | `{each.code}`: {each.text} |" for each in of.REFUSED]
    rows += [f"| {what} | {happens} |" for what, happens in of.ACCEPTED]
    return "\n".join(["| request | answer |", "|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
