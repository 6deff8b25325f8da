"""``penstock topic`` against an open server, a secured one, and one that looks like Amazon."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import pytest

from cli.conftest import signed_in
from penstock.cli.arguments import SUBSCRIBER, TOPIC, SubscriberArgument, TopicArgument
from penstock.cli.topics.facts import shown_endpoint
from penstock.client.topic_names import read_subscriber, topic_name
from support.command_line import CommandLine
from support.rows import every_row
from support.secured import Secured
from support.texts import says
from support.waiting import until

PARTNER = "222222222222"
TOPICS, QUEUES = "arn:aws:sns:us-east-1:000000000000:", "arn:aws:sqs:us-east-1:000000000000:"


@pytest.fixture(autouse=True)
def topics(penstock: CommandLine) -> Iterator[None]:
    """A topic with a queue that wants invoices, an empty one, and a FIFO topic with an archive."""
    for queue in ("billing", "undelivered"):
        penstock.done("queue", "create", queue)
    penstock.done("queue", "create", "ledger", "--fifo")
    penstock.done("topic", "create", "orders", "--display-name", "Orders", "--tag", "team=shop")
    penstock.done("topic", "create", "news")
    penstock.done("topic", "create", "payments", "--fifo", "--content-based-deduplication", "--archive", "30")
    penstock.done(
        "topic", "subscribe", "orders", "queue:billing", "--filter", '{"kind": ["invoice"]}', "--raw",
        "--dlq", "undelivered",
    )  # fmt: skip
    yield
    names = penstock.done("topic", "ls", "--names").split()
    for name in names:
        if name.endswith(".fifo"):
            penstock.done("topic", "set", name, "--no-archive")
    if names:
        penstock.done("topic", "delete", *names, "--yes")
    penstock.done("queue", "delete", *penstock.done("queue", "ls", "--names").split(), "--yes")
    penstock.done("topic", "outbox", "--delete-all", "--yes")


def rows(text: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def bodies(penstock: CommandLine, queue: str) -> list[str]:
    return [message["body"] for message in penstock.json_lines("message", "ls", queue, "--all")]


# -- looking -----------------------------------------------------------------------------------------------------


def test_ls(penstock: CommandLine) -> None:
    heading, *found = rows(penstock.done("topic", "ls"))
    assert heading == ["NAME", "KIND", "SUBSCRIPTIONS", "PENDING", "WAITING", "FAILING", "ARN"]
    assert found == [
        ["news", "standard", "0", "0", "0", "0", f"{TOPICS}news"],
        ["orders", "standard", "1", "0", "0", "0", f"{TOPICS}orders"],
        ["payments.fifo", "fifo", "0", "0", "0", "0", f"{TOPICS}payments.fifo"],
    ]
    assert penstock.json_lines("topic", "ls", "orders")[0]["display_name"] == "Orders"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["news", "orders", "payments.fifo"]),
        (["e"], ["news", "orders", "payments.fifo"]),
        (["pay"], ["payments.fifo"]),
        (["*s"], ["news", "orders"]),
        (["o*"], ["orders"]),
        (["--kind", "fifo"], ["payments.fifo"]),
        (["--kind", "standard", "-n", "1"], ["news"]),
        (["nothing"], []),
    ],
)
def test_ls_filters(
    penstock: CommandLine, amazon: CommandLine, arguments: list[str], names: list[str]
) -> None:
    for server in (penstock, amazon):
        assert [topic["name"] for topic in server.json_lines("topic", "ls", *arguments)] == names
        assert server.done("topic", "ls", "--names", *arguments).split() == names


def test_show(penstock: CommandLine, amazon: CommandLine) -> None:
    for server in (penstock, amazon):
        text = server.done("topic", "show", "orders")
        says(
            text, "orders (standard)", f"{TOPICS}orders", "1 confirmed", "queue:billing", "raw", "undelivered"
        )
        says(text, '{"kind":["invoice"]}', "DisplayName", "team", "the default policy (--policy shows it)")
        assert "__default_statement_ID" not in text
        says(server.done("topic", "show", "orders", "--policy"), "__default_statement_ID")
        facts = server.json("topic", "show", f"{TOPICS}orders")
        assert (facts["confirmed"], facts["tags"]) == (1, {"team": "shop"})
        (subscription,) = facts["subscriptions"]
        assert (subscription["state"], subscription["endpoint"]) == ("confirmed", f"{QUEUES}billing")


def test_show_has_a_policy_that_is_not_the_default_one(penstock: CommandLine, tmp_path: Path) -> None:
    policy = json.loads(penstock.json("topic", "show", "news")["attributes"]["Policy"])
    policy["Statement"][0]["Action"].remove("SNS:Publish")
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(policy))
    penstock.done("topic", "set", "news", "--policy", str(file))
    text = penstock.done("topic", "show", "news")
    says(text, "__default_statement_ID")
    assert "default policy" not in text


def test_a_topic_that_does_not_exist(penstock: CommandLine) -> None:
    says(penstock.failed("topic", "show", "ordesr"), 'no topic "ordesr"', 'did you mean "orders"?')
    for arguments in (
        ["publish", "gone", "x"],
        ["delete", "gone", "--yes"],
        ["subscribe", "gone", "queue:billing"],
    ):
        says(penstock.failed("topic", *arguments), 'no topic "gone"')


# -- changing ----------------------------------------------------------------------------------------------------


def test_create_is_idempotent_and_refuses_what_differs(penstock: CommandLine) -> None:
    assert penstock.done("topic", "create", "orders").strip() == f"{TOPICS}orders"
    assert penstock.json("topic", "create", "more", "--fifo") == {
        "name": "more.fifo",
        "arn": f"{TOPICS}more.fifo",
    }
    says(penstock.failed("topic", "create", "orders", "--display-name", "x"), "different attributes")


def test_set(penstock: CommandLine, tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(
        '{"http": {"defaultHealthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 2, "numRetries": 3}}}'
    )
    text = penstock.done(
        "topic", "set", "orders", "--display-name", "All orders", "--delivery-policy", str(policy),
        "--tag", "stage=test", "--untag", "team",
    )  # fmt: skip
    says(text, "DisplayName", "All orders", "tag stage", "removed")
    facts = penstock.json("topic", "show", "orders")
    assert facts["tags"] == {"stage": "test"} and facts["attributes"]["DisplayName"] == "All orders"
    assert json.loads(facts["attributes"]["DeliveryPolicy"])["http"]
    penstock.done("topic", "set", "orders", "--no-delivery-policy")
    assert "DeliveryPolicy" not in penstock.json("topic", "show", "orders")["attributes"]
    penstock.done("topic", "set", "payments.fifo", "--no-content-based-deduplication", "--no-archive")
    attributes = penstock.json("topic", "show", "payments.fifo")["attributes"]
    assert attributes["ContentBasedDeduplication"] == "false" and "ArchivePolicy" not in attributes


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["set", "orders"], "nothing to change"),
        (["set", "orders", "--archive", "3", "--no-archive"], "--no-archive --archive"),
        (["set-subscription", "orders", "queue:billing"], "nothing to change"),
        (["set-subscription", "orders", "queue:billing", "--dlq", "x", "--no-dlq"], "--no-dlq --dlq"),
        (["subscribe", "orders", "billing"], '"billing" queue:NAME mailto:ADDRESS'),
        (["subscribe", "orders", "https://example.com", "--allow"], "--allow queues"),
        (["subscribe", "orders", "queue:billing", "--email-json"], "--email-json mailto:ADDRESS"),
        (["confirm", "orders"], "token missing"),
        (["replay", "orders", "queue:billing", "--until", "1h"], "--until needs --since"),
        (["replay", "orders", "queue:billing", "--stop", "--since", "1h"], "--stop --since"),
        (["test-filter"], "subscription --policy"),
        (["test-filter", "orders", "queue:billing", "--policy", "{}"], "subscription --policy"),
        (["test-filter", "orders", "queue:billing", "--scope", "body"], "--scope --policy"),
        (["outbox", "--delete", "x", "--delete-all"], "--delete --delete-all"),
    ],
)
def test_wrong_usage(penstock: CommandLine, arguments: list[str], why: str) -> None:
    result = penstock("topic", *arguments)
    assert result.exit_code == 2, result.output
    says(result.stderr, *why.split())


def test_delete_says_what_it_deletes(penstock: CommandLine) -> None:
    assert "orders with 1 subscription" in penstock("topic", "delete", "orders").stderr
    says(penstock.done("topic", "delete", "orders", "news", "--yes"), "orders with 1 subscription", "news")
    assert penstock.done("topic", "ls", "--names").split() == ["payments.fifo"]


# -- publishing --------------------------------------------------------------------------------------------------


def test_publish(penstock: CommandLine, amazon: CommandLine, tmp_path: Path) -> None:
    for server in (penstock, amazon):
        id = server.done("topic", "publish", "orders", "hello", "--attribute", "kind=invoice").strip()
        assert re.fullmatch(r"[0-9a-f-]{36}", id)
        assert server.json("topic", "publish", "orders", "dropped", "--subject", "s").keys() == {"MessageId"}
    file = tmp_path / "order.json"
    file.write_text("from a file")
    penstock.done("topic", "publish", f"{TOPICS}orders", f"@{file}", "--attribute", "kind=invoice")
    penstock.done("topic", "publish", "orders", "--attribute", "kind=invoice", given="from stdin")
    structured = '{"default": "d", "sqs": "for queues"}'
    penstock.done("topic", "publish", "orders", structured, "--by-protocol", "--attribute", "kind=invoice")
    assert bodies(penstock, "billing") == ["hello", "hello", "from a file", "from stdin", "for queues"]
    answer = penstock.json("topic", "publish", "payments.fifo", "paid", "--group", "a")
    assert answer.keys() == {"MessageId", "SequenceNumber"}


def test_publish_refuses_what_sns_does_not_take(penstock: CommandLine) -> None:
    says(penstock.failed("topic", "publish", "orders", "", code=2), "empty")
    says(penstock.failed("topic", "publish", "orders", "x", "--file", "y", code=2), "either BODY or --file")
    says(penstock.failed("topic", "publish", "payments.fifo", "x"), "MessageGroupId")
    says(penstock.failed("topic", "publish", "orders", "x", "--attribute", "a:Wrong=1", code=2), "a:Wrong=1")


# -- subscriptions -----------------------------------------------------------------------------------------------


def test_subscribe_and_unsubscribe(penstock: CommandLine) -> None:
    penstock.done("topic", "subscribe", "news", "queue:billing")
    penstock.done("topic", "publish", "news", "enveloped")
    assert json.loads(bodies(penstock, "billing")[0])["Message"] == "enveloped"
    says(
        penstock.failed("topic", "subscribe", "news", "queue:billing", "--raw"),
        "different attributes",
        "penstock topic set-subscription news queue:billing",
    )
    says(penstock.failed("topic", "subscribe", "news", "queue:gone"), 'no queue "gone"')
    says(
        penstock("topic", "unsubscribe", "news", "queue:billing").stderr,
        "Unsubscribe",
        "queue:billing",
        "--yes",
    )
    says(
        penstock.done("topic", "unsubscribe", "news", "queue:billing", "--yes"), "unsubscribed queue:billing"
    )
    says(
        penstock.failed("topic", "unsubscribe", "news", "queue:billing", "--yes"),
        "queue:billing is not subscribed",
    )
    arn = penstock.json("topic", "show", "orders")["subscriptions"][0]["arn"]
    penstock.done("topic", "unsubscribe", arn, "--yes")
    assert penstock.json("topic", "show", "orders")["subscriptions"] == []
    says(penstock.failed("topic", "unsubscribe", arn, "--yes"), "no subscription")
    says(
        penstock.failed("topic", "unsubscribe", "orders", "--yes"),
        '"orders" is not the ARN of a subscription',
    )


def test_set_subscription(penstock: CommandLine, tmp_path: Path) -> None:
    def attributes() -> Any:
        return penstock.json("topic", "show", "orders")["subscriptions"][0]["attributes"]

    file = tmp_path / "filter.json"
    file.write_text('{"total": {"net": [1]}}')
    penstock.done(
        "topic", "set-subscription", "orders", "queue:billing", "--filter", f"@{file}", "--filter-scope", "body",
        "--no-raw",
    )  # fmt: skip
    found = attributes()
    assert (found["FilterPolicyScope"], found["RawMessageDelivery"]) == ("MessageBody", "false")
    text = penstock.done("topic", "set-subscription", "orders", "queue:billing", "--no-filter", "--no-dlq")
    assert text.count("removed") == 2
    assert not {"FilterPolicy", "RedrivePolicy"} & attributes().keys()


def test_an_address_confirms_with_the_link_in_the_outbox(penstock: CommandLine) -> None:
    done = penstock("topic", "subscribe", "news", "mailto:oncall@example.com", "--email-json")
    assert done.exit_code == 0
    says(done.stderr, "pending", "no mail server", "penstock topic confirm LINK")
    says(penstock.done("topic", "show", "news"), "mailto:oncall@example.com", "pending")
    says(
        penstock.failed("topic", "unsubscribe", "news", "mailto:oncall@example.com", "--yes"),
        "pending",
        "confirm",
    )
    (entry,) = penstock.json_lines("topic", "outbox")
    assert (entry["protocol"], entry["destination"]) == ("email-json", "oncall@example.com")
    link = re.search(r"http\S+Action=ConfirmSubscription\S+", entry["body"])
    assert link is not None
    assert f"penstock topic outbox {entry['id']}" in done.stderr
    says(penstock.done("topic", "outbox", entry["id"]), link[0], "oncall@example.com (email-json)")
    assert link[0] not in penstock.done("topic", "outbox"), "the table is for an overview"
    assert penstock.json("topic", "outbox", entry["id"]) == entry
    says(penstock.failed("topic", "outbox", "gone"), 'no entry "gone"')
    arn = penstock.done("topic", "confirm", link[0]).strip()
    assert arn.startswith(f"{TOPICS}news:")
    says(penstock.done("topic", "show", "news"), "confirmed")
    penstock.done("topic", "publish", "news", "text of a mail")
    says(penstock.done("topic", "outbox", "-n", "1"), "oncall@example.com", "news")
    assert penstock.json("topic", "outbox", "--delete", entry["id"], "--yes") == {"deleted": 1}
    assert len(penstock.json_lines("topic", "outbox")) == 1
    says(penstock.failed("topic", "outbox", "--delete", entry["id"], "--yes"), "no entry")
    penstock.done("topic", "outbox", "--delete-all", "--yes")
    says(penstock("topic", "outbox").stderr, "empty")


def test_confirm_refuses_what_is_no_link(penstock: CommandLine) -> None:
    says(penstock.failed("topic", "confirm", "http://example.com/", code=2), "SubscribeURL")
    says(penstock.failed("topic", "confirm", "orders", "x"), "Invalid token")


def test_replay(penstock: CommandLine) -> None:
    penstock.done("topic", "publish", "payments.fifo", "before", "--group", "a")
    penstock.done("topic", "subscribe", "payments.fifo", "queue:ledger.fifo", "--raw")
    where = ("topic", "replay", "payments.fifo", "queue:ledger.fifo")
    says(penstock.done(*where), "none")
    penstock.done(*where, "--since", "1h")
    until(lambda: bodies(penstock, "ledger.fifo") == ["before"], "the queue has the message")
    until(lambda: penstock.json(*where)["status"] == "Completed", "the replay ends")
    penstock.done(*where, "--stop")
    assert penstock.json(*where)["status"] == "none"
    says(penstock.failed(*where, "--since", "soon", code=2), *["soon", "--since", "15m"])


# -- filters and deliveries ----------------------------------------------------------------------------------------


def test_a_filter_is_tested(penstock: CommandLine) -> None:
    text = penstock.done("topic", "test-filter", "orders", "queue:billing", "--attribute", "kind=invoice")
    says(text, "passes", "kind", '"invoice"')
    result = penstock("topic", "test-filter", "orders", "queue:billing", "--attribute", "kind=order")
    assert result.exit_code == 1
    says(result.stdout, "does not pass", "kind", '"order" does not match')
    body = penstock(
        "topic",
        "test-filter",
        "--policy",
        '{"a": {"b": [1]}}',
        "--scope",
        "body",
        "--body",
        '{"a": {"b": 2}}',
    )
    assert body.exit_code == 1
    says(body.stdout, "a.b")
    says(penstock.failed("topic", "test-filter", "--policy", '{"a": 1}'), "policy")
    says(
        penstock.failed("topic", "test-filter", f"{TOPICS}orders:x"),
        ["no", "subscription", "does", "not", "exist"][-1],
    )


def test_what_waits_for_an_endpoint_is_listed(penstock: CommandLine) -> None:
    says(penstock("topic", "waiting").stderr, "nothing waits")
    says(penstock.failed("topic", "waiting", "newz"), 'there is no topic "newz"', 'did you mean "news"?')
    with Refusing() as endpoint:
        penstock.done("topic", "subscribe", "news", endpoint.url)
        until(
            lambda: any("last_error" in each for each in penstock.json_lines("topic", "waiting")),
            "the first attempt failed",
        )
        (delivery,) = penstock.json_lines("topic", "waiting", "news")
        assert (delivery["endpoint"], delivery["attempt"]) == (endpoint.url, 1)
        heading, row = rows(penstock.done("topic", "waiting"))
        assert heading == ["TOPIC", "ENDPOINT", "MESSAGE", "ATTEMPTS", "AGE", "NEXT TRY", "LAST ERROR"]
        assert row[:2] == ["news", endpoint.url] and "503" in row[-1]
        assert penstock.json_lines("topic", "waiting", "orders") == []


class Refusing:
    """An HTTP endpoint that is out of order."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_error(503)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> Refusing:
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_what_fails_is_listed_with_the_reason(penstock: CommandLine) -> None:
    says(penstock("topic", "failing").stderr, "all subscriptions got their messages")
    says(penstock.failed("topic", "failing", "newz"), 'there is no topic "newz"', 'did you mean "news"?')
    penstock.done("queue", "create", "goes")
    penstock.done("topic", "subscribe", "news", "queue:goes")
    penstock.done("queue", "delete", "goes", "--yes")
    penstock.done("topic", "publish", "news", "x")
    penstock.done("topic", "publish", "news", "y")
    until(lambda: penstock.json_lines("topic", "failing")[0]["undelivered"]["count"] == 2, "both are lost")
    heading, found = rows(penstock.done("topic", "failing", "news"))
    assert heading == ["TOPIC", "ENDPOINT", "FAILED", "DEAD LETTERS TO", "LAST", "WHY"]
    assert found[:4] == ["news", "queue:goes", "2", "lost"]
    assert found[5] == "the queue does not exist"
    heading, news, *_ = rows(penstock.done("topic", "ls"))
    assert news[0] == "news" and news[heading.index("FAILING")] == "1"
    says(penstock("topic", "show", "news").stderr, "penstock topic failing news")
    assert penstock("topic", "show", "orders").stderr == ""
    assert penstock.json_lines("topic", "failing", "orders") == []


def test_what_needs_penstock_says_so(amazon: CommandLine) -> None:
    for arguments in (["waiting"], ["failing"], ["outbox"], ["test-filter", "--policy", "{}"]):
        says(amazon.failed("topic", *arguments, code=2), "needs Penstock")


# -- a secured server ----------------------------------------------------------------------------------------------


def test_allow_writes_the_policy_of_the_queue(as_root: CommandLine) -> None:
    as_root.done("queue", "create", "guarded")
    as_root.done("topic", "create", "open")
    try:
        done = as_root("topic", "subscribe", "open", "queue:guarded", "--raw")
        says(done.stderr, "guarded", "penstock topic subscribe open queue:guarded --allow")
        as_root.done("topic", "publish", "open", "lost")
        until(lambda: bool(as_root("topic", "failing", "open").stdout.strip()), "it is lost")
        hint = as_root("topic", "failing", "open").stderr
        says(hint, "penstock topic set-subscription open queue:guarded --allow")
        done = as_root("topic", "subscribe", "open", "queue:guarded", "--raw", "--allow")
        assert done.exit_code == 0 and "--allow" not in done.stderr
        as_root.done("topic", "publish", "open", "arrives")
        assert bodies(as_root, "guarded") == ["arrives"]
        assert as_root("topic", "subscribe", "open", "queue:guarded", "--raw").stderr == "", "it is allowed"
    finally:
        as_root.done("topic", "delete", "open", "--yes")
        as_root.done("queue", "delete", "guarded", "--yes")


def test_the_dead_letter_queue_of_a_subscription_needs_a_policy_too(as_root: CommandLine) -> None:
    as_root.done("queue", "create", "guarded")
    as_root.done("queue", "create", "dead")
    as_root.done("topic", "create", "open")
    try:
        as_root.done("topic", "subscribe", "open", "queue:guarded", "--allow")
        change = ("topic", "set-subscription", "open", "queue:guarded", "--dlq", "dead")
        says(
            as_root(*change).stderr,
            "the policy of dead has no statement",
            f"penstock {' '.join(change)} --allow",
        )
        done = as_root(*change, "--allow")
        assert done.exit_code == 0
        assert "dead allows open to send to it" in done.stderr
        assert as_root(*change).stderr == ""

        as_root.done("queue", "set", "dead", "--no-policy")
        done = as_root(*change[:-2], "--allow")
        assert "dead allows open to send to it" in done.stderr, "the one that the subscription has"
    finally:
        as_root.done("topic", "delete", "open", "--yes")
        as_root.done("queue", "delete", "guarded", "dead", "--yes")


@pytest.fixture
def as_partner(secured: Secured) -> CommandLine:
    """A user of another account."""
    if "partner" not in secured.keys:
        secured.add("partner", "sqs-full-access", "sns-subscribe", account=PARTNER)
    partner = signed_in(secured, "partner")
    until(lambda: partner("queue", "ls").exit_code == 0, "the server has the user")
    return partner


def test_a_queue_of_another_account(as_root: CommandLine, as_partner: CommandLine, tmp_path: Path) -> None:
    arn = as_root.done("topic", "create", "shared").strip()
    statement = {
        "Effect": "Allow", "Principal": {"AWS": PARTNER}, "Action": "sns:Subscribe", "Resource": arn
    }  # fmt: skip
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"Statement": [statement]}))
    as_root.done("topic", "set", "shared", "--policy", str(file))
    queues = [f"arn:aws:sqs:us-east-1:{PARTNER}:{name}" for name in ("theirs", "asked")]
    try:
        as_partner.done("queue", "create", "theirs")
        as_partner.done("queue", "create", "asked")
        for arguments in ([], ["--allow"]):
            done = as_partner("topic", "subscribe", arn, "queue:theirs", *arguments)
            assert (done.exit_code, done.stdout.startswith(f"{arn}:")) == (0, True), done.stderr
            assert "pending" not in done.stderr
        done = as_root("topic", "subscribe", "shared", queues[1])
        assert (done.exit_code, done.stdout.startswith(f"{arn}:")) == (0, True), done.stderr
        says(
            done.stderr,
            "the queue gets a message with a link",
            f"cannot see whether the policy of {queues[1]}",
        )
        assert "there is no queue" not in done.stderr
    finally:
        as_root.done("topic", "delete", "shared", "--yes")
        as_partner.done("queue", "delete", "theirs", "asked", "--yes")


def test_a_user_without_permission(as_guest: CommandLine, as_root: CommandLine) -> None:
    says(as_guest.failed("topic", "show", "anything"), "ListTopics", 'ARN of "anything"')
    denied = as_guest("topic", "ls")
    assert denied.exit_code == 1


# -- arguments -----------------------------------------------------------------------------------------------------


@every_row(
    ("text", "read"),
    [
        ("queue:orders", ("sqs", "orders")),
        ("Queue:orders", ("sqs", "orders")),
        (f"{QUEUES}orders", ("sqs", f"{QUEUES}orders")),
        ("https://example.com/a", ("https", "https://example.com/a")),
        ("http://example.com", ("http", "http://example.com")),
        ("mailto:a@example.com", ("email", "a@example.com")),
        ("sms:+491", ("sms", "+491")),
        (
            "arn:aws:lambda:us-east-1:000000000000:function:f",
            ("lambda", "arn:aws:lambda:us-east-1:000000000000:function:f"),
        ),
        ("orders", None),
        ("queue:", None),
        ("https:example.com", None),
        ("ftp://example.com", None),
        ("arn:aws:s3:us-east-1:000000000000:b", None),
    ],
)
def test_endpoints_are_read(text: str, read: tuple[str, str] | None) -> None:
    assert read_subscriber(text) == read
    if read is not None and read[0] != "lambda" and text[0].islower() and not text.startswith("arn:"):
        assert shown_endpoint(*read) == text


def test_names_of_topics() -> None:
    assert [topic_name(text) for text in ("a", f"{TOPICS}a.fifo", f"{TOPICS}a:1-2")] == ["a", "a.fifo", "a"]


def test_completion(penstock: CommandLine) -> None:
    context = click.Context(click.Command("x"))
    context.params = {"endpoint_url": penstock.endpoint}
    parameter = click.Argument(["topic"])

    def offered(kind: TopicArgument | SubscriberArgument, text: str) -> list[str]:
        return [item.value for item in kind.shell_complete(context, parameter, text)]

    assert offered(TOPIC, "") == ["news", "orders", "payments.fifo"]
    assert offered(TOPIC, "o") == ["orders"]
    assert offered(SUBSCRIBER, "m") == ["mailto:"]
    assert offered(SUBSCRIBER, "queue:b") == ["queue:billing"]
